#include "team/rank_table.h"

#include <string.h>

void rank_table_write(struct rank_table *table, const struct discovery_entry *entries, int size)
{
    memcpy(table->entries, entries, (size_t)size * sizeof *entries);
    atomic_store_explicit(&table->is_written, 1,
                          memory_order_release); /* pairs with rank_table_equals */
}

bool rank_table_equals(const struct rank_table *table, const struct discovery_entry *entries,
                       int size)
{
    return atomic_load_explicit(&table->is_written, memory_order_acquire) != 0 &&
           memcmp(table->entries, entries, (size_t)size * sizeof *entries) == 0;
}

void rank_table_read(const struct rank_table *table, int rank, struct discovery_entry *entry)
{
    memcpy(entry, &table->entries[rank], sizeof *entry);
    if (!discovery_entry_makes_sense(entry))
        *entry = (struct discovery_entry){.core_count = 1, .host_name = "?"};
}
