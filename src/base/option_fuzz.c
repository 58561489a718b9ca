/* Whatever the environment says, NAME=value a line: every option is refused with INVALID_OPTIONS,
 * or what it means is within bounds; and names that are not known are compared with those that
 * are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option.h"
#include "base/option_fuzz.h"
#include "base/option_mistake.h"
#include "bootstrap/environment_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_option(enum option_id option)
{
    struct option_result result = {.number = -1};
    const char *const said = getenv(option_name(option));
    if (!option_has_default(option) && (said == NULL || *said == '\0') &&
        !option_is_of(option, "CHOICE") && !option_is_of(option, "WISH") &&
        !option_is_of(option, "TEXT"))
        return; /* nobody reads it with a function that needs a value */
    const enum tutti_status status = option_read_any(option, &result);
    if (status != TUTTI_OK && status != TUTTI_INVALID_OPTIONS) abort();
    if (status != TUTTI_OK && strstr(tutti_error_message(), option_name(option)) == NULL) abort();
    if (result.number < -1 || result.number > 65536) abort();
    if (result.duration_ns > UINT64_C(1000000000000000000)) abort();
    if (result.bytes > SIZE_MAX / 2) abort();
    char needs[OPTION_NEEDS_BYTES];
    const bool is_ignored = option_is_ignored(option, needs);
    if (is_ignored && (!option_is_of(option, "WISH") || memchr(needs, 0, sizeof needs) == NULL))
        abort();
}

/* A known name is nearest to itself, unless it is the tests'. */
static void check_name(const char *variable)
{
    if (strncmp(variable, OPTION_PREFIX, strlen(OPTION_PREFIX)) != 0) return;
    const char *const nearest = option_mistake_nearest(variable);
    const enum option_id option = option_find(variable);
    if (nearest != NULL && option_find(nearest) == OPTION_COUNT) abort();
    if (option != OPTION_COUNT && option_is_for_users(option) && nearest != option_name(option))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct environment environment;
    environment_replace(&environment, data, size);
    for (int i = 0; i < OPTION_COUNT; i++) check_option((enum option_id)i);
    for (char **variable = environ; *variable != NULL; variable++) check_name(*variable);
    environment_restore(&environment);
    return 0;
}
