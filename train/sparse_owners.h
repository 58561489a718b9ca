/* sparse_owners.h - rows on their way to the ranks that own them, and back.
 *
 *     own rows   1 4 │ 7 9 │ 12           cut where the ranges of the owners begin
 *                 │     │     └──► rank 2
 *                 │     └────────► rank 1 (this one: stays where it is)
 *                 └──────────────► rank 0
 *
 * First all ranks tell each other how many, then go the indices (sparse_index.h), then the values.
 */
#ifndef TUTTI_TRAIN_SPARSE_OWNERS_H
#define TUTTI_TRAIN_SPARSE_OWNERS_H

#include <stddef.h>
#include <stdint.h>

#include "sparse_call.h"
#include "sparse_merge.h"
#include "sparse_own.h"

struct sparse_owners {
    const struct sparse_call *call;
    int64_t *firsts; /* [size + 1]: rank r owns firsts[r] to firsts[r + 1] - 1 */
    /* Of this rank's indices, begins[r] to begins[r + 1] - 1 are rank r's. */
    size_t *begins;
    /* Other ranks' rows of this rank's range; own rows where they are. values is NULL until
     * they come. */
    struct sparse_list *lists; /* [size] */
    size_t received_count;     /* rows of other ranks */
    int64_t *indices;          /* of those, rank by rank */
    void *values;
    uint64_t index_bytes, sent_rows; /* for other ranks */
    size_t *numbers;                 /* memory of counts and displacements */
};

/* Makes the table of ranges for the caller to fill. NO_MEMORY: *owners is empty. Local. */
enum tutti_status sparse_owners_init(struct sparse_owners *owners, const struct sparse_call *call);
void sparse_owners_release(struct sparse_owners *owners);

/* Brings the indices to their owners: afterwards lists[r].indices and .count are there. All ranks
 * together have `total` indices, whose rows fit into memory. Collective. A failure ends the
 * communicator, also that of one rank alone. */
enum tutti_status sparse_owners_tell(struct sparse_owners *owners, const struct sparse_own *own,
                                     uint64_t total);
/* Brings the rows to where their indices went. Collective; as above. */
enum tutti_status sparse_owners_push(struct sparse_owners *owners, const struct sparse_own *own,
                                     enum tutti_dtype dtype, size_t width);
/* The other way: to each rank go the rows that it told its indices of, from `rows`, which begins
 * with the first row of this rank's range. found[own->count] receives the rows of this rank's
 * indices. Collective; as above. */
enum tutti_status sparse_owners_pull(struct sparse_owners *owners, const void *rows, void *found,
                                     enum tutti_dtype dtype, size_t width);

#endif
