#include "format/json_part.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"

enum tutti_status json_part_fail(const struct json_part *part, const char *key, const char *format,
                                 ...)
{
    char why[400];
    const struct json_position member = {&part->place, key, 0};
    const bool is_there = key != NULL && json_object_get(part->object, key) != NULL;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return error_set(
        TUTTI_INVALID_OPTIONS, "line %d: %s",
        json_position_line(is_there ? &member : &part->place, part->text, part->text_bytes), why);
}

enum tutti_status json_part_integer(const struct json_part *part, const char *key, uint64_t least,
                                    uint64_t most, uint64_t *to)
{
    json_t *value = json_object_get(part->object, key);
    if (value == NULL) return TUTTI_OK;
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number < least || (uint64_t)number > most)
        return json_part_fail(part, key,
                              "\"%s\": a whole number from %" PRIu64 " to %" PRIu64 " is expected",
                              key, least, most);
    *to = (uint64_t)number;
    return TUTTI_OK;
}
