/* json_text.h - foreign text becomes JSON: bounded, without members of one name, and with the line
 * of the first mistake. */
#ifndef TUTTI_FORMAT_JSON_TEXT_H
#define TUTTI_FORMAT_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "tutti/tutti.h"

/* *json is the caller's; NULL on failure. `what` begins messages that have no line: UNSUPPORTED:
 * more than bytes_max; NO_MEMORY; INVALID_OPTIONS: "line 3: ...", it is no JSON. Any thread. */
enum tutti_status json_text_load(const char *what, const char *text, size_t text_bytes,
                                 size_t bytes_max, json_t **json);

#endif
