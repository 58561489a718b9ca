/* sparse_call.h - a sparse collective on its way: a sequence of ordinary collectives with one
 * deadline, whose failures say which sparse call they are part of.
 */
#ifndef TUTTI_TRAIN_SPARSE_CALL_H
#define TUTTI_TRAIN_SPARSE_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/sparse.h"
#include "tutti/tutti.h"

struct sparse_call {
    const char *function; /* of the interface, as messages begin; static */
    struct tutti_comm *comm;
    int rank, size;
    uint64_t deadline_ns; /* of clock_now_ns; 0: each exchange has the communicator's */
};

/* INVALID_COMM; INVALID_REQUEST: a group is open. The call has no deadline yet. */
enum tutti_status sparse_call_init(struct sparse_call *call, const char *function,
                                   struct tutti_comm *comm);

/* The collectives, with what is left of the deadline. They count in bytes where no dtype is
 * given. Those that have one buffer are in place. */
enum tutti_status sparse_allgather(const struct sparse_call *call, const void *send, void *recv,
                                   size_t bytes);
enum tutti_status sparse_allgatherv(const struct sparse_call *call, void *blocks,
                                    const size_t *counts, enum tutti_dtype dtype);
enum tutti_status sparse_alltoall(const struct sparse_call *call, const void *send, void *recv,
                                  size_t bytes);
/* Blocks of a buffer that goes to all ranks, or comes from them: counts[r] elements of dtype from
 * element displs[r] on. */
struct sparse_blocks {
    const size_t *counts, *displs;
};
enum tutti_status sparse_alltoallv(const struct sparse_call *call, const void *send,
                                   const struct sparse_blocks *sent, void *recv,
                                   const struct sparse_blocks *received, enum tutti_dtype dtype);
enum tutti_status sparse_allreduce_dense(const struct sparse_call *call, void *elements,
                                         size_t count, enum tutti_dtype dtype, tutti_op op);

/* For a rank that cannot go on while the others count on it: revokes the communicator with this
 * thread's error message, so that no rank waits. Returns the status, with the message. */
enum tutti_status sparse_give_up(const struct sparse_call *call, enum tutti_status status);
/* The same for lack of memory. */
enum tutti_status sparse_lacks_memory(const struct sparse_call *call);
/* The number of the communicator's last collective that this rank began; 0: none is known. */
uint64_t sparse_last_sequence(const struct sparse_call *call);

#endif
