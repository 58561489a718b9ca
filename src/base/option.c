#include "base/option.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_size.h"
#include "base/status.h"

enum { CHOICES_MAX = 4 };

enum kind {
    IS_DURATION,
    IS_SECONDS,
    IS_MILLISECONDS,
    IS_BYTES,
    IS_COUNT,
    IS_BOOLEAN,
    IS_CHOICE,
    IS_WISH,
    IS_TEXT
};

enum group { GROUP_LAUNCH, GROUP_JOB, GROUP_NETWORK, GROUP_PYTHON, GROUP_TEST };

struct row {
    const char *name; /* with its prefix */
    enum group group;
    enum kind kind;
    int least, most;                  /* of numbers */
    const char *choices[CHOICES_MAX]; /* NULL behind the last */
    const char *should_be;            /* of texts */
    const char *default_value;
};

#define OPTION_ONE(group, name, kind, default_value, documentation) OPTION_PREFIX #name,
const struct option_names option_names = {OPTION_LIST(OPTION_ONE)};
#undef OPTION_ONE

/* A kind of option_list.h, as fields of its row. */
#define KIND_DURATION .kind = IS_DURATION
#define KIND_SECONDS(from, to) .kind = IS_SECONDS, .least = (from), .most = (to)
#define KIND_MILLISECONDS(from, to) .kind = IS_MILLISECONDS, .least = (from), .most = (to)
#define KIND_BYTES .kind = IS_BYTES
#define KIND_COUNT(from, to) .kind = IS_COUNT, .least = (from), .most = (to)
#define KIND_BOOLEAN .kind = IS_BOOLEAN, .choices = {"0", "1"}
#define KIND_CHOICE(...) .kind = IS_CHOICE, .choices = {__VA_ARGS__}
#define KIND_WISH(...) .kind = IS_WISH, .choices = {__VA_ARGS__}
#define KIND_TEXT(words) .kind = IS_TEXT, .should_be = (words)

static const struct row rows[] = {
#define OPTION_ONE(group_name, id, kind_of_it, default_text, documentation) \
    [OPTION_##id] = {.name = option_names.id,                               \
                     .group = GROUP_##group_name,                           \
                     KIND_##kind_of_it,                                     \
                     .default_value = (default_text)},
    OPTION_LIST(OPTION_ONE)
#undef OPTION_ONE
};

static const struct row *row_of(enum option_id option)
{
    assert((unsigned)option < OPTION_COUNT);
    return &rows[option];
}

/* The value that somebody has set, or NULL. */
static const char *value_set(const struct row *row)
{
    const char *const text = getenv(row->name);
    return text != NULL && *text != '\0' ? text : NULL;
}

static const char *value_default(const struct row *row)
{
    const bool is_value = *row->default_value != '\0' && *row->default_value != '(';
    return is_value ? row->default_value : NULL;
}

static const char *value_of(const struct row *row)
{
    const char *const text = value_set(row);
    return text != NULL ? text : value_default(row);
}

/* --------------------------------------------------------------------------------------- errors */

/* "off, network or on" */
static void print_choices(const struct row *row, char text[static OPTION_NEEDS_BYTES])
{
    size_t used = 0;
    *text = '\0';
    for (int i = 0; i < CHOICES_MAX && row->choices[i] != NULL; i++) {
        const bool is_last = i + 1 == CHOICES_MAX || row->choices[i + 1] == NULL;
        const char *const before = i == 0 ? "" : is_last ? " or " : ", ";
        const int more =
            snprintf(text + used, OPTION_NEEDS_BYTES - used, "%s%s", before, row->choices[i]);
        used += (size_t)more;
        assert(used < OPTION_NEEDS_BYTES);
    }
}

static void print_needs(const struct row *row, char text[static OPTION_NEEDS_BYTES])
{
    switch (row->kind) {
    case IS_DURATION:
        snprintf(text, OPTION_NEEDS_BYTES, "a duration such as 30s, 500ms or 10m");
        return;
    case IS_SECONDS:
        snprintf(text, OPTION_NEEDS_BYTES, "a number of seconds from %d to %d", row->least,
                 row->most);
        return;
    case IS_MILLISECONDS:
        snprintf(text, OPTION_NEEDS_BYTES, "0 or a number of milliseconds from %d to %d",
                 row->least, row->most);
        return;
    case IS_BYTES: snprintf(text, OPTION_NEEDS_BYTES, "a size such as 16m"); return;
    case IS_COUNT:
        snprintf(text, OPTION_NEEDS_BYTES, "a number from %d to %d", row->least, row->most);
        return;
    case IS_BOOLEAN:
    case IS_CHOICE:
    case IS_WISH: print_choices(row, text); return;
    case IS_TEXT: snprintf(text, OPTION_NEEDS_BYTES, "%s", row->should_be); return;
    }
}

enum tutti_status option_refuse(enum option_id option, const char *value)
{
    const struct row *const row = row_of(option);
    char needs[OPTION_NEEDS_BYTES];
    print_needs(row, needs);
    return error_set(TUTTI_INVALID_OPTIONS, "%s=%.40s: %s is needed", row->name, value, needs);
}

/* -------------------------------------------------------------------------------------- reading */

/* Digits and then `unit`, or nothing else. More than fits into the result is the largest number. */
static bool read_number(const char *text, const char *unit, unsigned long long *number)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    *number = strtoull(text, &end, 10);
    return *end == '\0' || strcmp(end, unit) == 0;
}

static bool read_within(const struct row *row, const char *text, const char *unit,
                        unsigned long long *number)
{
    return read_number(text, unit, number) && *number >= (unsigned long long)row->least &&
           *number <= (unsigned long long)row->most;
}

/* "90", "90s", "500ms", "10m", "2h": seconds where no unit is said. */
static bool read_duration(const char *text, uint64_t *duration_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"m", 60e9}, {"h", 3600e9}};
    char *end;
    const double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0 || !(value > 0) || !(value * units[i].ns < 1e18))
            continue;
        *duration_ns = (uint64_t)(value * units[i].ns);
        if (*duration_ns == 0) *duration_ns = 1;
        return true;
    }
    return false;
}

/* -1: it is none of them. */
static int find_choice(const struct row *row, const char *text)
{
    for (int i = 0; text != NULL && i < CHOICES_MAX && row->choices[i] != NULL; i++)
        if (strcmp(text, row->choices[i]) == 0) return i;
    return -1;
}

const char *option_text(enum option_id option)
{
    return value_of(row_of(option));
}

enum tutti_status option_boolean(enum option_id option, bool *value)
{
    const struct row *const row = row_of(option);
    const char *const text = value_of(row);
    const int choice = find_choice(row, text);
    assert(row->kind == IS_BOOLEAN);
    assert(text != NULL);
    if (choice < 0) return option_refuse(option, text);
    *value = choice == 1;
    return TUTTI_OK;
}

enum tutti_status option_count(enum option_id option, int *count)
{
    const struct row *const row = row_of(option);
    const char *const text = value_of(row);
    unsigned long long number;
    assert(row->kind == IS_COUNT);
    assert(text != NULL);
    if (!read_within(row, text, "", &number) || (text[0] == '0' && text[1] != '\0'))
        return option_refuse(option, text);
    *count = (int)number;
    return TUTTI_OK;
}

enum tutti_status option_bytes(enum option_id option, size_t *bytes)
{
    const struct row *const row = row_of(option);
    const char *const text = value_of(row);
    assert(row->kind == IS_BYTES);
    assert(text != NULL);
    uint64_t read;
    if (!byte_size_read(text, NULL, SIZE_MAX >> 1, &read)) return option_refuse(option, text);
    *bytes = (size_t)read;
    return TUTTI_OK;
}

enum tutti_status option_duration(enum option_id option, uint64_t *duration_ns)
{
    const struct row *const row = row_of(option);
    const char *const text = value_of(row);
    const bool is_seconds = row->kind == IS_SECONDS, is_milliseconds = row->kind == IS_MILLISECONDS;
    unsigned long long number;
    assert(is_seconds || is_milliseconds || row->kind == IS_DURATION);
    assert(text != NULL);
    if (row->kind == IS_DURATION) {
        if (read_duration(text, duration_ns)) return TUTTI_OK;
        (void)read_duration(value_default(row), duration_ns);
        return option_refuse(option, text);
    }
    const char *const unit = is_milliseconds ? "ms" : "";
    const bool is_within = read_within(row, text, unit, &number);
    const bool is_none = is_milliseconds && read_number(text, unit, &number) && number == 0;
    if (!is_within && !is_none) return option_refuse(option, text);
    *duration_ns = number * (is_seconds ? UINT64_C(1000000000) : UINT64_C(1000000));
    return TUTTI_OK;
}

enum tutti_status option_choice(enum option_id option, int *choice)
{
    const struct row *const row = row_of(option);
    const char *const text = value_of(row);
    const int found = find_choice(row, text);
    assert(row->kind == IS_CHOICE);
    if (text != NULL && found < 0) return option_refuse(option, text);
    *choice = found;
    return TUTTI_OK;
}

int option_wish(enum option_id option)
{
    const struct row *const row = row_of(option);
    const int found = find_choice(row, value_set(row));
    assert(row->kind == IS_WISH);
    return found >= 0 ? found : find_choice(row, value_default(row));
}

enum tutti_status option_check(enum option_id option)
{
    const struct row *const row = row_of(option);
    bool is_on;
    int number;
    size_t bytes;
    uint64_t duration_ns;
    if (value_set(row) == NULL) return TUTTI_OK;
    switch (row->kind) {
    case IS_DURATION:
    case IS_SECONDS:
    case IS_MILLISECONDS: return option_duration(option, &duration_ns);
    case IS_BYTES: return option_bytes(option, &bytes);
    case IS_COUNT: return option_count(option, &number);
    case IS_BOOLEAN: return option_boolean(option, &is_on);
    case IS_CHOICE: return option_choice(option, &number);
    case IS_WISH:
        return find_choice(row, value_set(row)) >= 0 ? TUTTI_OK
                                                     : option_refuse(option, value_set(row));
    case IS_TEXT: return TUTTI_OK;
    }
    return TUTTI_OK;
}

enum tutti_status option_check_job(void)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const enum group group = rows[i].group;
        if ((group == GROUP_JOB || group == GROUP_NETWORK) && rows[i].kind != IS_WISH)
            TRY(option_check((enum option_id)i));
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------ the table */

const char *option_name(enum option_id option)
{
    return row_of(option)->name;
}

enum option_id option_find(const char *name)
{
    const size_t length = strcspn(name, "=");
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0)
            return (enum option_id)i;
    return OPTION_COUNT;
}

bool option_is_ignored(enum option_id option, char needs[static OPTION_NEEDS_BYTES])
{
    const struct row *const row = row_of(option);
    const char *const text = value_set(row);
    if (row->kind != IS_WISH || text == NULL || find_choice(row, text) >= 0) return false;
    print_needs(row, needs);
    return true;
}

bool option_is_for_users(enum option_id option)
{
    return row_of(option)->group != GROUP_TEST;
}

const char *option_default(enum option_id option)
{
    return row_of(option)->default_value;
}

bool option_is_secret(enum option_id option)
{
    /* Without a secret, the key of the job follows from its id (bootstrap/secret.h). */
    return option == OPTION_SECRET || option == OPTION_JOB_ID;
}
