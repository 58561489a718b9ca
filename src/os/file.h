/* file.h - files as a whole. */
#ifndef TUTTI_OS_FILE_H
#define TUTTI_OS_FILE_H

#include <stddef.h>
#include <stdio.h>

/* All that can be read from here on, and a zero byte behind it, which *size does not count; the caller frees it. NULL and
 * errno: EFBIG when it is much more than size_max. Blocks as long as the file does. */
char *file_read_all(FILE *file, size_t size_max, size_t *size);

#endif
