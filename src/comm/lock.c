/* lock.c - the lock of what moves, for a thread that has to wait for it. */
#include <sched.h>
#include <time.h>

#include "base/status.h"
#include "comm/comm.h"
#include "comm/failure.h"
#include "comm/lock.h"
#include "os/clock.h"

enum { NAP_NS = 20000 };

static enum tutti_status lock_slowly(struct tutti_comm *comm, uint64_t timeout_ns,
                                     bool heeds_failure)
{
    const uint64_t begin_ns = clock_now_ns();
    for (unsigned looks = 0; !comm_try_lock(comm); looks++) {
        if (heeds_failure && board_has_failed(comm->health.board)) return comm_check(comm);
        if (clock_now_ns() - begin_ns > timeout_ns)
            return error_set(TUTTI_TIMEOUT,
                             "rank %d: another thread of this process kept the communicator busy "
                             "until the deadline of %.1f s",
                             comm->rank, (double)timeout_ns * 1e-9);
        if (looks < 1000)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return TUTTI_OK;
}

static enum tutti_status lock(struct tutti_comm *comm, uint64_t timeout_ns, bool heeds_failure)
{
    if (comm_try_lock(comm)) return TUTTI_OK;
    atomic_fetch_add_explicit(&comm->domain.wanted, 1, memory_order_relaxed);
    if (comm->transports.set.all != NULL)
        comm->transports.set.all->ops->wake(comm->transports.set.all); /* it may sleep with it */
    const enum tutti_status status = lock_slowly(comm, timeout_ns, heeds_failure);
    atomic_fetch_sub_explicit(&comm->domain.wanted, 1, memory_order_relaxed);
    return status;
}

enum tutti_status comm_lock(struct tutti_comm *comm, uint64_t timeout_ns)
{
    return lock(comm, timeout_ns, true);
}

enum tutti_status comm_lock_failed(struct tutti_comm *comm, uint64_t timeout_ns)
{
    return lock(comm, timeout_ns, false);
}
