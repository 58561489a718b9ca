#include "comm/stored_turn.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/futex.h"
#include "os/process.h"

/* How long a thread that waits may not notice that it is to stop. */
#define NAP_NS UINT64_C(50000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t ended; /* turns */

static void watch_forks(void)
{
    static const struct fork_participant kept = {.lock = &lock};
    fork_watch(FORK_PLANS, &kept);
}

void stored_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
}

void stored_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_free(const struct stored_turn *turn)
{
    return !turn->is_taken || turn->generation != process_generation();
}

enum tutti_status stored_turn_take(struct stored_turn *turn, const struct plan_budget *limits,
                                   const char *what)
{
    while (!is_free(turn)) {
        const uint32_t seen = atomic_load(&ended);
        const uint64_t now_ns = clock_now_ns();
        if (limits->is_stopped != NULL && limits->is_stopped(limits->context))
            return error_set(TUTTI_ABORTED, "%.200s: the communicator has failed", what);
        if (now_ns >= limits->deadline_ns)
            return error_set(TUTTI_TIMEOUT,
                             "%.200s: the deadline passed while another thread was reading or "
                             "proving it",
                             what);
        const uint64_t left_ns = limits->deadline_ns - now_ns;
        stored_unlock();
        futex_wait(&ended, seen, left_ns < NAP_NS ? left_ns : NAP_NS);
        stored_lock();
    }
    *turn = (struct stored_turn){true, process_generation()};
    return TUTTI_OK;
}

void stored_turn_end(struct stored_turn *turn)
{
    turn->is_taken = false;
    atomic_fetch_add(&ended, 1);
    futex_wake(&ended);
}
