/* sparse_reduce.h - the ways of an allreduce of sparse rows.
 *
 *     gather    own rows of all ──allgatherv──► each combines all
 *     owner     own rows ──► owners combine ──allgatherv──► all have all ranges
 *     dense     zeros and own rows ──allreduce──► rows that any rank has, which a bitmap says
 *
 * Each is collective, and fills the result, which is empty. A failure ends the communicator, also
 * that of one rank alone: ranks have agreed before, and count on each other. But if a rank has no
 * memory for the whole matrix (dense), only this call ends, on all ranks.
 */
#ifndef TUTTI_TRAIN_SPARSE_REDUCE_H
#define TUTTI_TRAIN_SPARSE_REDUCE_H

#include "sparse_agree.h"
#include "sparse_owners.h"
#include "sparse_result.h"
#include "sparse_sum.h"

struct sparse_reduction {
    const struct sparse_call *call;
    const struct sparse_hello *hellos; /* [size] */
    const struct sparse_own *own;
    struct sparse_sum sum; /* over ranks */
    tutti_op op;
    uint64_t total; /* rows of all ranks */
};

enum tutti_status sparse_reduce_gather(const struct sparse_reduction *r,
                                       struct tutti_sparse *result);
enum tutti_status sparse_reduce_owner(const struct sparse_reduction *r, struct tutti_sparse *result);
enum tutti_status sparse_reduce_dense(const struct sparse_reduction *r, struct tutti_sparse *result);
/* Only the first half of owner: the result has the rows of this rank's range, as even ranges say
 * it. */
enum tutti_status sparse_reduce_to_owner(const struct sparse_reduction *r,
                                         struct tutti_sparse *result);

#endif
