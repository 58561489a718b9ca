#include "base/option_mistake.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"

/* The options have names of fewer than 32 letters, and longer ones are like none of them. */
enum { LETTERS_MAX = 48, LINES_MAX = 8 };

static const char PREFIX[] = OPTION_PREFIX;
/* A test may have variables of its own, which say so. */
static const char PREFIX_OF_TESTS[] = OPTION_PREFIX "TEST_";

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int least_of(int a, int b, int c)
{
    const int least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many letters have to be put in, taken out or replaced to make one name of the other
 * (Levenshtein's distance). */
static int distance(const char *one, size_t one_length, const char *other, size_t other_length)
{
    int row[LETTERS_MAX + 1]; /* of the names' beginnings: so far of `one`, j letters of `other` */
    for (size_t j = 0; j <= other_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= one_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= other_length; j++) {
            const int replaced = diagonal + (one[i - 1] != other[j - 1]);
            diagonal = row[j];
            row[j] = least_of(row[j] + 1, row[j - 1] + 1, replaced);
        }
    }
    return row[other_length];
}

const char *option_mistake_nearest(const char *name)
{
    const char *const letters = name + strlen(PREFIX);
    const size_t length = strcspn(letters, "=");
    const char *nearest = NULL;
    int least = LETTERS_MAX;
    if (length > LETTERS_MAX) return NULL;
    for (int i = 0; i < OPTION_COUNT; i++) {
        if (!option_is_for_users((enum option_id)i)) continue;
        const char *const known = option_name((enum option_id)i);
        const size_t known_length = strlen(known) - strlen(PREFIX);
        const int far = distance(letters, length, known + strlen(PREFIX), known_length);
        if (far >= least || 3 * far > (int)known_length) continue;
        nearest = known;
        least = far;
    }
    return nearest;
}

void option_mistake_print(const char *variable, char text[static OPTION_MISTAKE_SIZE])
{
    const char *const nearest = option_mistake_nearest(variable);
    const int length = (int)strcspn(variable, "=");
    const int shown = length < 2 * LETTERS_MAX ? length : 2 * LETTERS_MAX;
    snprintf(text, OPTION_MISTAKE_SIZE, "%.*s is set, but there is no such option%s%s%s", shown,
             variable, nearest != NULL ? ": is " : "", nearest != NULL ? nearest : "",
             nearest != NULL ? " meant?" : "");
}

static void tell_unknown(const char *variable)
{
    char text[OPTION_MISTAKE_SIZE];
    option_mistake_print(variable, text);
    log_write(LOG_WARN, "%s", text);
}

bool option_mistake_is_unknown(const char *variable)
{
    return begins_with(variable, PREFIX) && !begins_with(variable, PREFIX_OF_TESTS) &&
           option_find(variable) == OPTION_COUNT;
}

/* Whether there was something to tell. */
static bool look_at(const char *variable, bool tells)
{
    char needs[OPTION_NEEDS_BYTES];
    const enum option_id option = option_find(variable);
    if (option == OPTION_COUNT) {
        const bool is_unknown = option_mistake_is_unknown(variable);
        if (is_unknown && tells) tell_unknown(variable);
        return is_unknown;
    }
    if (!option_is_ignored(option, needs)) return false;
    if (tells) log_write(LOG_WARN, "%.80s counts as not set: %s is needed", variable, needs);
    return true;
}

void option_mistake_tell(void)
{
    static atomic_flag has_looked = ATOMIC_FLAG_INIT;
    /* Relaxed: the first caller looks, and nothing else depends on it. */
    if (atomic_flag_test_and_set_explicit(&has_looked, memory_order_relaxed)) return;
    int count = 0;
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        if (look_at(*variable, count < LINES_MAX)) count++;
    if (count > LINES_MAX)
        log_write(LOG_WARN, "%d more variables %s... are not known", count - LINES_MAX, PREFIX);
}
