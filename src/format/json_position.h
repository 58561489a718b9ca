/* json_position.h - in which line of a JSON text a value stands. jansson tells the line of text
 * that it cannot read, but not that of a value which it has read and its caller finds wrong.
 */
#ifndef TUTTI_FORMAT_JSON_POSITION_H
#define TUTTI_FORMAT_JSON_POSITION_H

#include <stddef.h>

/* A value within another one: the member `key` of an object, or, where key is NULL, element `index`
 * of an array. */
struct json_position {
    const struct json_position *up; /* NULL: this is the whole text; the rest says nothing */
    const char *key;
    size_t index;
};

/* The line, from 1, in which the value begins; where it cannot be found, that of the nearest one
 * around it. The text is valid JSON. */
int json_position_line(const struct json_position *place, const char *text, size_t text_bytes);

#endif
