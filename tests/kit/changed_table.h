/* changed_table.h - the tables of paths of all transports, and copies of them in which one thing is
 * another one: for tests that show what each rule and each row decides. */
#ifndef TUTTI_TESTS_KIT_CHANGED_TABLE_H
#define TUTTI_TESTS_KIT_CHANGED_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "path/path.h"

enum table_number { TABLE_LOCAL, TABLE_LOCAL_CHECKED, TABLE_TCP, TABLE_CARD, TABLE_COUNT };
const struct path_table *table_numbered(enum table_number number);

/* X(enumerator, what it is) */
#define TABLE_CHANGE_LIST(X)                                               \
    X(RULE_WITHOUT, "without the rule")                                    \
    X(RULE_LATER, "with the rule for larger messages only")                \
    X(RULE_EARLIER, "with the rule for smaller messages only")             \
    X(RULE_FOR_LESS, "with the rule for less bytes of all ranks together") \
    X(ROW_LACKING, "without the way of the rule")

enum table_change {
#define X(enumerator, text) enumerator,
    TABLE_CHANGE_LIST(X)
#undef X
        TABLE_CHANGE_COUNT
};
const char *table_change_text(enum table_change change);

struct changed_table {
    struct path_table table;
    struct path_rule rules[32];
};

/* A copy with one of its rules changed. The change touches messages of *bytes bytes: at the bound
 * that moves, or, where none does, the least that the rule is for. False: the rule has no such
 * bound. */
bool table_change(const struct path_table *table, unsigned rule, enum table_change change,
                  struct changed_table *changed, size_t *bytes);

/* A copy that says one of its rules twice: then neither of both decides anything. */
void table_repeat(const struct path_table *table, unsigned rule, struct changed_table *changed);

#endif
