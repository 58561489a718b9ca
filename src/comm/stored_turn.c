#include "comm/stored_turn.h"

#include <pthread.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/fork.h"

/* How long a thread that waits may not notice that it is to stop. */
#define NAP_NS UINT64_C(50000000)

FORK_LOCK(lock, FORK_STORED_PLANS, NULL);

void stored_lock(void)
{
    pthread_mutex_lock(&lock);
}

void stored_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

enum tutti_status stored_turn_take(struct turn *turn, const struct plan_budget *limits,
                                   const char *what)
{
    for (;;) {
        const uint64_t nap_ns = clock_now_ns() + NAP_NS;
        stored_unlock();
        const enum turn_result result =
            turn_take(turn, nap_ns < limits->deadline_ns ? nap_ns : limits->deadline_ns);
        stored_lock();
        if (result != TURN_LATE) return TUTTI_OK;
        if (limits->is_stopped != NULL && limits->is_stopped(limits->context))
            return error_set(TUTTI_ABORTED, "%.200s: the communicator has failed", what);
        if (clock_now_ns() >= limits->deadline_ns)
            return error_set(TUTTI_TIMEOUT,
                             "%.200s: the deadline passed while another thread was reading or "
                             "proving it",
                             what);
    }
}
