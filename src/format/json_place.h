/* json_place.h - in which line of a JSON text a value stands. jansson tells the line of text that
 * it cannot read, but not that of a value which it has read and its caller finds wrong.
 */
#ifndef TUTTI_FORMAT_JSON_PLACE_H
#define TUTTI_FORMAT_JSON_PLACE_H

#include <stddef.h>

/* A value within another one: the member `key` of an object, or, where key is NULL, element `index` of an array. */
struct json_place {
    const struct json_place *up; /* NULL: this is the whole text; the rest says nothing */
    const char *key;
    size_t index;
};

/* The line, from 1, in which the value begins; where it cannot be found, that of the nearest one around it. The text is
 * valid JSON. */
int json_place_line(const struct json_place *place, const char *text, size_t text_bytes);

#endif
