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

size_t table_find_nan(size_t count, const float *numbers)
{
    enum { PIECE = 256 };
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t here = count - first < PIECE ? count - first : PIECE;
        uint32_t exponent_max = 0;
        for (size_t i = 0; i < here; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[first + i], sizeof bits);
            bits &= 0x7f800000;
            exponent_max = bits > exponent_max ? bits : exponent_max;
        }
        if (exponent_max < 0x7f800000) continue;
        for (size_t i = first;; i++)
            if (!isfinite(numbers[i])) return i;
    }
    return count;
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
