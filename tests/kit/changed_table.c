#include "tests/kit/changed_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "transport/card/paths.h"
#include "transport/local/paths.h"
#include "transport/tcp/paths.h"

enum { ELEMENT_BYTES = 4 }; /* of the tests' messages: sizes are multiples of that */

const struct path_table *table_numbered(enum table_number number)
{
    switch (number) {
    case TABLE_LOCAL: return local_paths(false);
    case TABLE_LOCAL_CHECKED: return local_paths(true);
    case TABLE_TCP: return tcp_paths();
    case TABLE_CARD: return card_paths();
    case TABLE_COUNT: break;
    }
    return NULL;
}

const char *table_change_text(enum table_change change)
{
    static const char *const texts[] = {
#define X(enumerator, text) [enumerator] = text,
        TABLE_CHANGE_LIST(X)
#undef X
    };
    return texts[change];
}

static size_t rounded_up(size_t bytes)
{
    return (bytes + ELEMENT_BYTES - 1) / ELEMENT_BYTES * ELEMENT_BYTES;
}

static void copy(const struct path_table *table, struct changed_table *changed)
{
    assert_true(table->rule_count < sizeof changed->rules / sizeof *changed->rules);
    memcpy(changed->rules, table->rules, table->rule_count * sizeof *changed->rules);
    changed->table = *table;
    changed->table.rules = changed->rules;
}

void table_repeat(const struct path_table *table, unsigned rule, struct changed_table *changed)
{
    copy(table, changed);
    changed->rules[changed->table.rule_count++] = table->rules[rule];
}

bool table_change(const struct path_table *table, unsigned rule, enum table_change change,
                  struct changed_table *changed, size_t *bytes)
{
    copy(table, changed);
    struct path_rule *const own = &changed->rules[rule];
    *bytes = own->bytes_min > 1 ? rounded_up(own->bytes_min) : ELEMENT_BYTES;
    switch (change) {
    case RULE_WITHOUT:
        changed->table.rule_count--;
        memmove(own, own + 1, (table->rule_count - rule - 1) * sizeof *own);
        return true;
    case RULE_LATER: own->bytes_min = *bytes + 1; return table->rules[rule].bytes_min > 1;
    case RULE_EARLIER:
        *bytes = own->bytes_max / ELEMENT_BYTES * ELEMENT_BYTES;
        own->bytes_max = *bytes - 1;
        return table->rules[rule].bytes_max < SIZE_MAX;
    case RULE_FOR_LESS:
        own->all_bytes_max = *bytes - 1;
        return table->rules[rule].all_bytes_max > 0;
    case ROW_LACKING: changed->table.lacks |= path_bit(own->path); return true;
    case TABLE_CHANGE_COUNT: break;
    }
    return false;
}
