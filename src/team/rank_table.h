/* rank_table.h - where all ranks of a communicator over several hosts are: one table for the ranks
 * of a host, in their shared segment.
 *
 *     rank discovery: a table for each rank ──► the first rank of the host writes its table into the segment
 *                                          └──► each rank compares it with its own, and gives up its own
 *
 * The contents of the segment are foreign: an entry is read into a local and checked before it is
 * used.
 */
#ifndef TUTTI_TEAM_RANK_TABLE_H
#define TUTTI_TEAM_RANK_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "connect/discovery_message.h"

struct rank_table {
    _Alignas(64) _Atomic uint32_t is_written;
    _Alignas(64) struct discovery_entry entries[]; /* one per rank */
};

static inline size_t rank_table_bytes(int size)
{
    return sizeof(struct rank_table) + (size_t)size * sizeof(struct discovery_entry);
}
/* One rank of the host does that, once; the table is zeroed. */
void rank_table_write(struct rank_table *table, const struct discovery_entry *entries, int size);
/* Whether it has been written, and says the same. */
bool rank_table_equals(const struct rank_table *table, const struct discovery_entry *entries,
                       int size);
/* An entry that makes no sense is one of no port, of pid 0 and of host "?". */
void rank_table_read(const struct rank_table *table, int rank, struct discovery_entry *entry);

#endif
