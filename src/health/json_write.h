/* json_write.h - texts from outside as JSON: any bytes come, and what is written is valid. */
#ifndef TUTTI_HEALTH_JSON_WRITE_H
#define TUTTI_HEALTH_JSON_WRITE_H

#include <stdio.h>

/* In quotes. Bytes that are not UTF-8 become U+FFFD: host names and reasons may be cut anywhere. */
void json_write_text(FILE *file, const char *text);

/* The name of an algorithm, which may be the path of a plan ("file:PATH"): at most so many bytes,
 * all of them printable. Of a longer one the end is written, behind "...". */
enum { JSON_NAME_BYTES_MAX = 120 };
void json_write_name(FILE *file, const char *name);

#endif
