/* json_part.h - an object of a JSON text, and where it stands: a reader of its members can name the
 * line of a mistake. */
#ifndef TUTTI_FORMAT_JSON_PART_H
#define TUTTI_FORMAT_JSON_PART_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "format/json_position.h"
#include "tutti/tutti.h"

struct json_part {
    const char *text; /* the whole text */
    size_t text_bytes;
    struct json_position place;
    json_t *object;
};

/* INVALID_OPTIONS, with the line of the member `key`; with that of the object where key is NULL or
 * there is no such member. */
enum tutti_status json_part_fail(const struct json_part *part, const char *key, const char *format,
                                 ...) __attribute__((format(printf, 3, 4)));
/* A whole number of these bounds; *to stays as it is where there is no such member. */
enum tutti_status json_part_integer(const struct json_part *part, const char *key, uint64_t least,
                                    uint64_t most, uint64_t *to);

#endif
