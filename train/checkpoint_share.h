/* checkpoint_share.h - decides which rank writes which elements if several ranks have the same
 * ones.
 *
 *     rank 0 has  AAAA BB      a piece that k ranks have is cut into k ranges, one for each of them; a small one is written by one
 *     rank 1 has  AAAA    C    of them alone. Pieces that overlap without being the same are written by all.
 *     writes      AA   BB
 *                   AA    C
 *
 * All ranks compute the same shares from the tables of all ranks. Pure.
 */
#ifndef TUTTI_TRAIN_CHECKPOINT_SHARE_H
#define TUTTI_TRAIN_CHECKPOINT_SHARE_H

#include "checkpoint_table.h"

/* A range of a piece's elements. */
struct share {
    size_t piece; /* of the rank's own table */
    uint64_t begin, count;
};

/* Gives the shares that `rank` writes, in the order of its pieces; the caller frees *shares.
 * MISMATCH (tensors of one name differ in dtype or shape), INVALID_OPTIONS (no rank has some
 * elements of a tensor), NO_MEMORY. */
enum tutti_status share_pieces(const struct table *tables, size_t rank_count, size_t rank,
                               struct share **shares, size_t *share_count);

#endif
