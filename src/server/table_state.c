#include "server/table_state.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/status.h"

enum tutti_status table_check_kind(const struct table *table, enum table_kind wanted)
{
    if (table->spec.kind == wanted) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "table \"%s\" %s", table->name,
                     wanted == TABLE_ROWS ? "is dense, and has no rows"
                                          : "has rows, and is not dense");
}

enum tutti_status table_no_memory(const struct table *table, const char *what)
{
    return error_set(TUTTI_NO_MEMORY,
                     "table \"%s\" has no memory for %s: it has %" PRIu64
                     " MiB, and all tables %" PRIu64 " MiB%s",
                     table->name, what, table->memory.used >> 20, table->tables->budget.used >> 20,
                     table->tables->budget.max < UINT64_MAX ? ", which are limited" : "");
}

uint64_t table_number_step(struct table *table, uint64_t step)
{
    return step > 0 ? step : table_begin_step(table);
}

uint64_t table_begin_step(struct table *table)
{
    table_changes(table);
    return ++table->steps;
}

uint64_t table_steps(const struct table *table)
{
    return table->steps;
}
