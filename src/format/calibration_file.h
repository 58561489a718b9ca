/* calibration_file.h - where the calibration of a host lies: in the user's cache folder, for a
 * measurement can be repeated.
 *
 *     $XDG_CACHE_HOME/tutti/calibration-HOST.json, or ~/.cache/tutti/calibration-HOST.json
 *
 * Home folders are often shared by many hosts, so the name has the host's in it. The writer of the
 * file decides which algorithms a job uses, so only a file that belongs to this user or to root,
 * and that no other user can write, will do.
 */
#ifndef TUTTI_FORMAT_CALIBRATION_FILE_H
#define TUTTI_FORMAT_CALIBRATION_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "model/calibration.h"

/* The path of the file: TUTTI_CALIBRATION, otherwise as above. INVALID_OPTIONS: neither
 * XDG_CACHE_HOME nor HOME is the path of a directory, or the path is too long. Any thread, while no
 * thread changes the environment. */
enum tutti_status calibration_file_path(char *path, size_t path_bytes);

/* Reads the file into *calibration, as calibration_json_load does. Failures besides those:
 * INVALID_OPTIONS: there is no such file, or it is no regular file, belongs to another user, or can
 * be written by others; the message has the path. Blocks as long as the file system does. */
enum tutti_status calibration_file_load(const char *path, struct calibration *calibration);

/* Writes it, all or nothing, for its owner alone to change; makes the folders that are missing.
 * Blocks as long as the file system does. */
enum tutti_status calibration_file_save(const char *path, const struct calibration *calibration);

#endif
