/* update.h - what a worker pushed and set in one clock, on one server, until a step applies it.
 *
 *     pushes, sets  ──►  update: one list for each table  ──step──►  tables
 *                                                         ──dropped──►
 *
 * A step applies the updates of its members in the order of workers: first what they set, then,
 * as one step of each table's optimizer, the gradients, added from left to right. So with one
 * push of each worker, a dense gradient has the bits of (g0 + g1) + g2, the sum in the order of
 * ranks. Several pushes of a worker to one dense tensor are added first.
 *
 * Parts that are added here have been checked (server_message.h), so a step can fail for lack of memory
 * alone. One thread.
 */
#ifndef TUTTI_SERVER_UPDATE_H
#define TUTTI_SERVER_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/block.h"
#include "server/table.h"

struct update_entry; /* one part of a push or set */

struct update {
    struct update_entry *first, **end;
    uint64_t bytes; /* of memory */
};

void update_init(struct update *update);
/* Drops what it has; it is empty then. */
void update_clear(struct update *update);
/* Moves all from one update to another, which is empty. */
void update_move(struct update *from, struct update *to);

/* A part, `count` rows of `width` elements, or a dense share of `width` (count 0), in a block that becomes the
 * entry's: rows, and then values. NULL: no memory, and the block stays the caller's. The caller adds it, or frees
 * it. */
struct update_entry *update_entry_create(size_t table, bool is_set, bool is_rows, size_t count,
                                         size_t width, struct block *block);
void update_entry_free(struct update_entry *entry);
int64_t *update_entry_rows(struct update_entry *entry);
float *update_entry_values(struct update_entry *entry);
/* By how many bytes the update would grow: 0 if the gradient of a dense tensor is there already. */
uint64_t update_growth(const struct update *update, const struct update_entry *entry);
/* The update owns it from now on. */
void update_add(struct update *update, struct update_entry *entry);

/* Applies updates in their order. firsts[t]: the first element of the dense share of table t.
 * factor: by which sums are multiplied; 1 leaves their bits. NO_MEMORY or a status of a table:
 * the tables are then spoiled. */
enum tutti_status update_apply(struct tables *tables, const uint64_t *firsts,
                               struct update *const *updates, size_t count, float factor);

#endif
