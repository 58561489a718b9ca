/* lock.h - the lock of what moves. */
#ifndef TUTTI_COMM_LOCK_H
#define TUTTI_COMM_LOCK_H

#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/network.h"

static inline bool comm_try_lock(struct tutti_comm *comm)
{
    return atomic_load_explicit(&comm->domain.lock, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&comm->domain.lock, 1, memory_order_acquire) == 0;
}
/* For a thread that comes back soon, and moves then whatever is left. */
static inline void comm_unlock_for_now(struct tutti_comm *comm)
{
    atomic_store_explicit(&comm->domain.lock, 0, memory_order_release); /* pairs with comm_try_lock */
}
/* For all others: a thread that leaves may not be back before the peers need what it leaves. */
static inline void comm_unlock(struct tutti_comm *comm)
{
    if (__builtin_expect(comm_has_network(comm), 0)) comm_network_leave_rest(comm);
    comm_unlock_for_now(comm);
}
/* Until it is this thread's, at most until the deadline of a call. */
enum tutti_status comm_lock(struct tutti_comm *comm, uint64_t timeout_ns);
/* The same for what is still done when the communicator has failed, where comm_lock does not wait. */
enum tutti_status comm_lock_failed(struct tutti_comm *comm, uint64_t timeout_ns);

#endif
