/* own_call.h - blocking collectives that the library makes itself, on communicators that it knows
 * to be good: without the checks of arguments, and not part of the caller's group. They last as
 * long as the communicator's timeout, but for own_allgather.
 *
 * Errors are those of the calls of the same names in tutti.h. */
#ifndef TUTTI_CALL_OWN_CALL_H
#define TUTTI_CALL_OWN_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "health/board.h"
#include "tutti/tutti.h"

enum tutti_status own_barrier(struct tutti_comm *comm);
/* `count` elements from the root to all, in place. */
enum tutti_status own_broadcast(struct tutti_comm *comm, void *data, size_t count,
                                enum tutti_dtype dtype, int root);
/* The sum of all ranks' elements, in place on all. */
enum tutti_status own_sum(struct tutti_comm *comm, void *data, size_t count, enum tutti_dtype dtype);
/* A block of each rank, of `count` elements, to all: in place, blocks in the order of ranks. Users
 * know it by its purpose. */
enum tutti_status own_allgather(struct tutti_comm *comm, enum call_purpose purpose, void *blocks,
                                size_t count, enum tutti_dtype dtype, uint64_t timeout_ns);

#endif
