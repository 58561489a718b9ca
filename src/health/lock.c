
#include <sched.h>
#include <time.h>

#include "base/status.h"
#include "health/failure.h"
#include "health/health.h"
#include "health/lock.h"
#include "os/clock.h"

enum { NAP_NS = 20000 };

static enum tutti_status lock_slowly(struct health *health, uint64_t timeout_ns, bool heeds_failure)
{
    const uint64_t begin_ns = clock_now_ns();
    for (unsigned looks = 0; !domain_try_lock(&health->team->domain); looks++) {
        if (heeds_failure && board_has_failed(health->board)) return health_check(health);
        if (clock_now_ns() - begin_ns > timeout_ns)
            return error_set(TUTTI_TIMEOUT,
                             "rank %d: another thread of this process kept the communicator busy "
                             "until the deadline of %.1f s",
                             health->team->rank, (double)timeout_ns * 1e-9);
        if (looks < 1000)
            sched_yield();
        else
            nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return TUTTI_OK;
}

static enum tutti_status lock(struct health *health, uint64_t timeout_ns, bool heeds_failure)
{
    if (domain_try_lock(&health->team->domain)) return TUTTI_OK;
    domain_want(&health->team->domain);
    if (health->team->transports.set.all != NULL)
        health->team->transports.set.all->ops->wake(
            health->team->transports.set.all); /* it may sleep with it */
    const enum tutti_status status = lock_slowly(health, timeout_ns, heeds_failure);
    domain_want_no_more(&health->team->domain);
    return status;
}

enum tutti_status health_lock(struct health *health, uint64_t timeout_ns)
{
    return lock(health, timeout_ns, true);
}

enum tutti_status health_lock_failed(struct health *health, uint64_t timeout_ns)
{
    return lock(health, timeout_ns, false);
}
