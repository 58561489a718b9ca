/* trusted_file.h - reads a file whose writer decides how a job computes: only a file that belongs
 * to this user or to root, and that no other user can write, will do.
 */
#ifndef TUTTI_FORMAT_TRUSTED_FILE_H
#define TUTTI_FORMAT_TRUSTED_FILE_H

#include <stddef.h>

#include "tutti/tutti.h"

/* *text is the caller's, with a zero byte behind it that *size does not count. INVALID_OPTIONS:
 * there is no such file, or it is no regular file, belongs to another user, or can be written by
 * others; the message has the path. On failure *text is NULL. Blocks as long as the file system
 * does. */
enum tutti_status trusted_file_read(const char *path, size_t bytes_max, char **text, size_t *size);

/* For what a reader says of such a file: puts the path before this thread's message. Returns the
 * status. */
enum tutti_status trusted_file_blame(const char *path, enum tutti_status status);

/* Makes the folders of that file that are missing, for this user alone. If one cannot be made, that
 * shows when the file is written. */
void trusted_file_make_folders(const char *path);
/* Makes the file have this content, all or nothing, for its owner alone to change; makes the
 * folders that are missing. Blocks as long as the file system does. */
enum tutti_status trusted_file_write(const char *path, const char *text, size_t size);

#endif
