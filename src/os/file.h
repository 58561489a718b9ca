/* file.h - files as a whole. */
#ifndef TUTTI_OS_FILE_H
#define TUTTI_OS_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti/tutti.h"

enum { FILE_MARK_SIZE = 96 };

/* A part of a file's name that no other process chooses, on this host or any other:
 * "HOST-PID-0123456789abcdef". Processes in containers have few pids, and may have one folder.
 * Another one each time; prompt. */
void file_make_mark(char mark[static FILE_MARK_SIZE]);

/* All that can be read from here on, and a zero byte behind it, which *size does not count; the
 * caller frees it. NULL and errno: EFBIG when it is more than size_max. Blocks as long as the file
 * does. */
char *file_read_all(FILE *file, size_t size_max, size_t *size);
/* Makes the file `path` have this content. A reader meanwhile finds the old content or all of the
 * new content, and the old content stays on failure. The content is first written beside the file,
 * as "PATH.MARK.new". Blocks as long as the file system does. */
enum tutti_status file_replace(const char *path, const char *text, size_t size);
/* The same for a file in a folder that may not exist yet, and is made then; for callers that cannot
 * wait for a file system that hangs. A thread writes; after timeout_ns it is left to itself, and
 * goes on when the file system does. As long as such a thread exists, this fails at once. Takes
 * over `text`, from malloc. Failures besides those of file_replace: SYSTEM (no answer in time),
 * NO_MEMORY. */
enum tutti_status file_replace_within(const char *folder, const char *path, char *text, size_t size,
                                      uint64_t timeout_ns);

#endif
