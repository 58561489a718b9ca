/* table_file.h - a table of measured choices in a file. It decides which algorithms a job uses, so
 * only a file that belongs to this user or to root, and that no other user can write, will do.
 */
#ifndef TUTTI_FORMAT_TABLE_FILE_H
#define TUTTI_FORMAT_TABLE_FILE_H

#include "tune/table.h"

/* Reads the file into *table, as table_json_load does. Failures besides those: INVALID_OPTIONS:
 * there is no such file, or it is no regular file, belongs to another user, or can be written by
 * others; the message has the path. Blocks as long as the file system does. */
enum tutti_status table_file_load(const char *path, struct tune_table *table);

/* Writes it, all or nothing, for its owner alone to change; makes the folders that are missing.
 * Blocks as long as the file system does. */
enum tutti_status table_file_save(const char *path, const struct tune_table *table);

#endif
