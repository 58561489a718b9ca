/* tutti-topo_calibrate.h - measures what work costs on this host, and shows what was measured: --calibrate and --calibration. */
#ifndef TUTTI_TOOLS_TOPO_CALIBRATE_H
#define TUTTI_TOOLS_TOPO_CALIBRATE_H

#include <stdbool.h>
#include <stdio.h>

#include "model/calibration.h"

/* Numbers that are not measured are those of the file, or as they ship: NULL; the key is this
 * host's. INVALID_OPTIONS: the file cannot be read, or is of another machine. Takes a few seconds,
 * and says on a terminal what it is at. If calibration->is_loaded is true afterwards, `why` says
 * what others used of the machine. */
enum { CALIBRATE_WHY_SIZE = 256 };
enum tutti_status calibrate_host(const char *file, struct calibration *calibration,
                                 char why[static CALIBRATE_WHY_SIZE]);

/* A file's, or of the place where the calibration of this host belongs: NULL. `path` gets that place. */
enum { CALIBRATE_PATH_SIZE = 4096 };
enum tutti_status calibrate_read(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                 struct calibration *calibration);
/* Writes it there, in the same way. */
enum tutti_status calibrate_write(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                  const struct calibration *calibration);

/* Whether it is for this host; INVALID_OPTIONS: the message says what differs. */
enum tutti_status calibrate_check(const char *path, const struct calibration *calibration);
/* A table for people. */
enum tutti_status calibrate_print(const struct calibration *calibration, FILE *file);

#endif
