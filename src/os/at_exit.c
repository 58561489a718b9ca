#include "os/at_exit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "os/clock.h"
#include "os/fork.h"

static const uint64_t LIMIT_NS = 2000000000u;

/* How long a thread stands back from entering, so that fork() finds nobody inside: 5 ms at most. */
enum { NAP_NS = 50000, NAPS_MAX = 100 };

static _Atomic bool has_begun;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held to enter, and by fork() */
static _Atomic unsigned inside;                          /* uses of all threads */
static _Thread_local unsigned own_inside;                /* of this one */
static struct at_exit_kept *_Atomic all_kept;

static void end(void)
{
    const uint64_t begin_ns = clock_now_ns();
    atomic_store(&has_begun, true);
    while (atomic_load(&inside) > 0 && clock_now_ns() - begin_ns < LIMIT_NS) sched_yield();
}

/* A thread that forks while it is inside cannot wait for itself. */
static bool is_inside(void)
{
    return own_inside > 0;
}

static bool is_empty(void)
{
    return atomic_load(&inside) == 0;
}

/* In a child of fork() are none of the other threads that were inside. */
static void begin_anew(bool is_held)
{
    (void)is_held;
    atomic_store(&inside, own_inside);
}

__attribute__((constructor)) static void watch_forks(void)
{
    static const struct fork_participant uses = {
        .lock = &gate, .is_inside = is_inside, .is_quiet = is_empty, .child = begin_anew};
    fork_watch(FORK_AT_EXIT, &uses);
}

static void watch(void)
{
    (void)atexit(end); /* without memory for that the process ends as if nobody had looked */
}

void at_exit_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

/* Not while a fork() waits or is under way, unless the thread is inside already. */
static void come_in(void)
{
    const bool was_outside = own_inside++ == 0;
    for (int naps = 0; was_outside && naps < NAPS_MAX && fork_awaits(FORK_AT_EXIT); naps++)
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    if (was_outside) pthread_mutex_lock(&gate);
    /* Sequentially consistent, here and in end(): one of the two sees the other. */
    atomic_fetch_add(&inside, 1);
    if (was_outside) pthread_mutex_unlock(&gate);
}

bool at_exit_enter(void)
{
    come_in();
    if (!atomic_load(&has_begun)) return true;
    at_exit_leave();
    return false;
}

void at_exit_leave(void)
{
    own_inside--;
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
