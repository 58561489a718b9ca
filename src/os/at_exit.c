#include "os/at_exit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "os/clock.h"
#include "os/fork.h"

static const uint64_t LIMIT_NS = 2000000000u;

static _Atomic bool has_begun;
static _Atomic unsigned inside;
static struct at_exit_kept *_Atomic all_kept;

static void end(void)
{
    const uint64_t begin_ns = clock_now_ns();
    atomic_store(&has_begun, true);
    while (atomic_load(&inside) > 0 && clock_now_ns() - begin_ns < LIMIT_NS) sched_yield();
}

/* In a child of fork() are none of the threads that were inside. */
static void begin_anew(bool is_held)
{
    (void)is_held;
    atomic_store(&inside, 0);
}

static void watch(void)
{
    static const struct fork_participant uses = {.child = begin_anew};
    fork_watch(FORK_AT_EXIT, &uses);
    (void)atexit(end); /* without memory for that the process ends as if nobody had looked */
}

void at_exit_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

bool at_exit_enter(void)
{
    /* Sequentially consistent, here and in end(): one of the two sees the other. */
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&has_begun)) return true;
    at_exit_leave();
    return false;
}

void at_exit_leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

void at_exit_keep(struct at_exit_kept *kept)
{
    kept->next = atomic_load(&all_kept);
    while (!atomic_compare_exchange_weak(&all_kept, &kept->next, kept)) {
    }
}

bool at_exit_has_begun(void)
{
    return atomic_load(&has_begun);
}
