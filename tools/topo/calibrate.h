/* calibrate.h - measures what work costs on this host, and shows what was measured:
 * --calibrate and --calibration. */
#ifndef TUTTI_TOOLS_TOPO_CALIBRATE_H
#define TUTTI_TOOLS_TOPO_CALIBRATE_H

#include <stdbool.h>
#include <stdio.h>

#include "model/calibration.h"

/* Numbers that are not measured are taken from the file, or, if file is NULL, are those that ship;
 * the key is this host's. INVALID_OPTIONS: the file cannot be read, or is of another machine. Takes
 * a few seconds, and shows its progress on a terminal. If calibration->is_loaded is true
 * afterwards, `why` says what others used of the machine. */
enum { CALIBRATE_WHY_SIZE = 256 };
enum tutti_status calibrate_host(const char *file, struct calibration *calibration,
                                 char why[static CALIBRATE_WHY_SIZE]);

/* Reads the calibration from a file, or, if file is NULL, from the place where the calibration of
 * this host belongs. `path` gets the place. */
enum { CALIBRATE_PATH_SIZE = 4096 };
enum tutti_status calibrate_read(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                 struct calibration *calibration);
/* Writes the calibration to such a place. */
enum tutti_status calibrate_write(const char *file, char path[static CALIBRATE_PATH_SIZE],
                                  const struct calibration *calibration);

/* Checks that a calibration is for this host. INVALID_OPTIONS: it is not, and the message says what
 * differs. */
enum tutti_status calibrate_check(const char *path, const struct calibration *calibration);
/* Prints a table for people. */
enum tutti_status calibrate_print(const struct calibration *calibration, FILE *file);

#endif
