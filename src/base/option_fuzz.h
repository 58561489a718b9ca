/* option_fuzz.h - for tests and fuzzers: reads any option with the function that fits its kind. */
#ifndef TUTTI_BASE_OPTION_FUZZ_H
#define TUTTI_BASE_OPTION_FUZZ_H

#include <stdlib.h>
#include <string.h>

#include "base/option.h"

struct option_description {
    const char *kind, *default_value; /* as in the table */
};

static const struct option_description option_descriptions[] = {
#define OPTION_ONE(group, name, kind, default_value, documentation) {#kind, default_value},
    OPTION_LIST(OPTION_ONE)
#undef OPTION_ONE
};

/* The value that was read, in the field of the option's kind; the other fields are as before. */
struct option_result {
    bool is_on;
    int number;
    size_t bytes;
    uint64_t duration_ns;
    const char *text;
};

static inline bool option_is_of(enum option_id option, const char *kind)
{
    return strncmp(option_descriptions[option].kind, kind, strlen(kind)) == 0;
}

static inline bool option_has_default(enum option_id option)
{
    const char *const value = option_descriptions[option].default_value;
    return *value != '\0' && *value != '(';
}

static inline enum tutti_status option_read_any(enum option_id option, struct option_result *result)
{
    if (option_is_of(option, "DURATION") || option_is_of(option, "SECONDS") ||
        option_is_of(option, "MILLISECONDS"))
        return option_duration(option, &result->duration_ns);
    if (option_is_of(option, "BYTES")) return option_bytes(option, &result->bytes);
    if (option_is_of(option, "COUNT")) return option_count(option, &result->number);
    if (option_is_of(option, "BOOLEAN")) return option_boolean(option, &result->is_on);
    if (option_is_of(option, "CHOICE")) return option_choice(option, &result->number);
    if (!option_is_of(option, "WISH") && !option_is_of(option, "TEXT")) abort();
    if (option_is_of(option, "WISH")) result->number = option_wish(option);
    result->text = option_text(option);
    return TUTTI_OK;
}

#endif
