/* table_copy.h - tables as bytes: a snapshot in a file, or a backup on another server that is filled
 * and kept up to date while work goes on.
 *
 *     versions of ranges   3 7 7 2 9          the tables are at version 9
 *     first pass           ■ ■ ■ ■ ■          takes all, piece by piece; meanwhile gradients come
 *     versions then        3 7 12 2 11        version 12
 *     second pass              ■   ■          takes what has changed since the first one began
 *     third pass                              nothing: the copy is current
 *
 * A copy makes *passes*. Each call of tables_copy_next writes as many whole records of the pass as
 * fit, and between two calls the tables may change: a range that changes after it was taken is newer
 * than the beginning of the pass, and so the next pass takes it again. When tables_copy_is_current
 * holds, whoever loaded all records has exactly these tables. It comes about when a pass runs
 * without a change; the caller makes passes until tables_copy_pending is small, and then holds
 * changes back for one pass. Later passes keep a backup up to date: they cost what has changed.
 * Between passes that are current, a copy has each row whole, but rows of different ages.
 *
 * Records are little-endian, checksummed (CRC-32C), and multiples of 4 bytes; each stands for itself
 * (table_record.h):
 *
 *     table    spec and steps; at the beginning of each pass, for tables that have changed
 *     rows     numbers of rows, then values and state, row behind row
 *     dense    first element, values, then state
 *     end      of a pass: version, number of tables
 *
 * A table is known by its index, so whoever loads has tables in the same order.
 *
 * Records come from a file or a network, and are checked before they change anything.
 */
#ifndef TUTTI_SERVER_TABLE_COPY_H
#define TUTTI_SERVER_TABLE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/table.h"

/* Where a copy is. In the caller's memory; one for each copy, any number at once. */
struct tables_copy {
    uint64_t since;     /* what is not newer has been copied by earlier passes */
    uint64_t begun;     /* the version at which this pass began */
    bool in_pass;       /* else the next call begins one */
    bool told;          /* the records of tables are written; those of values follow */
    size_t table_count; /* when the pass began; tables that were added since then wait for the next */
    size_t table; /* where the pass is: a table, a range of it, and a row or an element of that */
    uint64_t range, offset;
};

/* A copy that has nothing yet. */
void tables_copy_init(struct tables_copy *copy);
/* Writes the next records to bytes[capacity] and sets *size; 0 < *size unless the pass that ended
 * last was current. A call writes records of one pass at most. INVALID_COUNT: capacity is below
 * tables_copy_capacity_min; nothing has changed. */
enum tutti_status tables_copy_next(const struct tables *tables, struct tables_copy *copy,
                                   void *bytes, size_t capacity, size_t *size);
size_t tables_copy_capacity_min(const struct tables *tables);
/* Whether the copy has the tables as they are now. */
bool tables_copy_is_current(const struct tables *tables, const struct tables_copy *copy);
/* About the bytes that are still to come, if nothing changes. Looks at every range. */
uint64_t tables_copy_pending(const struct tables *tables, const struct tables_copy *copy);

/* How far a load is. */
struct tables_loaded {
    uint64_t passes;  /* that were loaded to their ends */
    uint64_t version; /* of the tables that were copied, at the beginning of the last of them */
};
/* Loads the whole records at the beginning of bytes[size], and sets *used to their bytes; the rest is
 * the beginning of a record, for which the caller brings more. Tables that are not there are added,
 * but for those with a user's optimizer, which must be there: bytes have no functions. A table that
 * is there must have been added with the same spec, but for its rate, which the records set.
 * CORRUPT: a record is not what tables_copy_next writes; INVALID_OPTIONS: it is of another table, or
 * of one that nobody could add;
 * NO_MEMORY. Records before it are loaded, *used says how many bytes, and nothing of it is.
 * *loaded begins as {0}. */
enum tutti_status tables_load(struct tables *tables, const void *bytes, size_t size, size_t *used,
                              struct tables_loaded *loaded);

#endif
