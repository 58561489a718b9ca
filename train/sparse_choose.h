/* sparse_choose.h - which way an allreduce of sparse rows takes: estimates from the counts of all
 * ranks.
 *
 * Pure, and without floating point, so that all ranks come to the same. T rows of all ranks
 * together, of which U are different, r bytes a row and i bytes of its index, n ranks:
 *
 *              exchanges   bytes that a rank receives            rows that it combines
 *     GATHER       2       (n-1)/n T (r + i)                     T
 *     OWNER        6       (n-1)/n (T / n + U) (r + i)           T / n
 *     DENSE        2       2 (n-1)/n (all rows, and a bit each)  the rows of the matrix, as bytes
 *
 * (Renggli, Ashkboos, Aghagolzadeh, Alistarh, Hoefler: SparCML, SC 2019, has the same crossovers
 * for a sum by recursive doubling in place of GATHER.) U is not known before rows are combined, and
 * is estimated as if each rank had drawn its rows at random: U = N (1 - prod(1 - k / N)) of N rows.
 */
#ifndef TUTTI_TRAIN_SPARSE_CHOOSE_H
#define TUTTI_TRAIN_SPARSE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/sparse.h"

struct sparse_load {
    int size;
    uint64_t row_count;
    size_t row_bytes;
    uint64_t total;    /* rows of all ranks together */
    uint64_t expected; /* different ones: sparse_expect */
    bool may_be_dense; /* the operation, and whether the bits may depend on the way, allow it */
};

enum { SPARSE_WAYS = TUTTI_SPARSE_DENSE + 1 };

struct sparse_estimate {
    uint64_t bytes, ns;
};
struct sparse_choice {
    enum tutti_sparse_way way; /* never CHOSEN */
    bool is_given;             /* by the caller */
    struct sparse_load load;
    struct sparse_estimate of[SPARSE_WAYS]; /* CHOSEN's means nothing, nor does DENSE's if it may not be */
};

/* How many different rows ranks have, if each has drawn counts[r] of row_count at random. */
uint64_t sparse_expect(const uint64_t *counts, int size, uint64_t row_count);
/* `wanted` is CHOSEN, or a way that the load allows. */
void sparse_choose(const struct sparse_load *load, enum tutti_sparse_way wanted,
                   struct sparse_choice *choice);
/* "gather" and so on. */
const char *sparse_way_name(enum tutti_sparse_way way);
/* The lines of tutti_sparse_explain, as far as they fit. */
void sparse_explain(const struct sparse_choice *choice, char *text, size_t text_bytes);

#endif
