/* option.h - the options of option_list.h, read from the environment and checked.
 *
 *  1. Each function reads the variable anew. Callers read at start-up, not where data moves.
 *  2. A variable that is not set, or set to nothing, gives the default of the table.
 *  3. A value that does not fit its kind gives INVALID_OPTIONS, with one form of text for all:
 *     "TUTTI_RAILS=9: a number from 1 to 4 is needed". Then the result is unchanged.
 *  4. The function has to fit the kind in the table, and but for text, choices and wishes the table
 *     has to have a default: both are asserted.
 *
 * Any thread, while none changes the environment. Nothing blocks.
 */
#ifndef TUTTI_BASE_OPTION_H
#define TUTTI_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option_list.h"
#include "tutti/tutti.h"

#define OPTION_PREFIX "TUTTI_"

#define OPTION_ONE(group, name, kind, default_value, documentation) OPTION_##name,
enum option_id { OPTION_LIST(OPTION_ONE) OPTION_COUNT };
#undef OPTION_ONE

/* option_names.RANK is "TUTTI_RANK": for messages, for what passes a variable on, and for tables
 * that need a constant. */
#define OPTION_ONE(group, name, kind, default_value, documentation) \
    char name[sizeof OPTION_PREFIX #name];
struct option_names {
    OPTION_LIST(OPTION_ONE)
};
#undef OPTION_ONE
extern const struct option_names option_names;

/* The value, or NULL where there is none. It lies in the environment, or in the table. */
const char *option_text(enum option_id option);
enum tutti_status option_boolean(enum option_id option, bool *value);
enum tutti_status option_count(enum option_id option, int *count);
enum tutti_status option_bytes(enum option_id option, size_t *bytes);
/* The value of an option of kind DURATION (at least 1, and the default if the value that is set is
 * refused), SECONDS, or MILLISECONDS (where 0 is 0). */
enum tutti_status option_duration(enum option_id option, uint64_t *duration_ns);
/* The place of the word in the table, from 0; -1: the option is not set and has no default. */
enum tutti_status option_choice(enum option_id option, int *choice);
/* The same for callers that must not fail: a word that is not in the table counts as not set, and
 * option_mistake_tell tells of it. */
int option_wish(enum option_id option);

/* For readers of TEXT: INVALID_OPTIONS, with a message that has the name, the value and what is
 * needed. */
enum tutti_status option_refuse(enum option_id option, const char *value);

/* Whether what is set fits the kind in the table; of a wish, too. OK where nothing is set, and for
 * every TEXT, of which only its reader knows. */
enum tutti_status option_check(enum option_id option);

/* The same of all options of the job and the network together, whoever will read them, but for
 * wishes, which option_mistake_tell tells of. The message names the first that does not fit. */
enum tutti_status option_check_job(void);

/* TUTTI_ and the name. */
const char *option_name(enum option_id option);
/* The option that has this name, which ends at '=' or with the text; OPTION_COUNT: there is
 * none. */
enum option_id option_find(const char *name);
/* Whether the option is a wish that is set to a word that is not in the table. If so, `needs` says
 * what would be. */
enum { OPTION_NEEDS_BYTES = 128 };
bool option_is_ignored(enum option_id option, char needs[static OPTION_NEEDS_BYTES]);
/* Whether users set the option, in contrast to tests. */
bool option_is_for_users(enum option_id option);
/* The default as the table has it: a value, or words in parentheses, or nothing. */
const char *option_default(enum option_id option);
/* Whether anybody who knows the value can join the job: then nobody is shown it. */
bool option_is_secret(enum option_id option);

#endif
