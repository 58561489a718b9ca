/* fork.h - what this process holds while it forks, in one order.
 *
 * A child of fork() has all memory of its parent and the forking thread alone. The work that
 * another thread was in the middle of stays half done in the child for ever: a list of the library,
 * a lock of OpenSSL, the allocator of a sanitizer. So fork() waits until the threads that take part
 * are between two steps, and holds them there:
 *
 *     prepare   take MONITOR_LIFE, MONITOR, PROGRESS, PORT ... FAULT_TEXT    the outermost lock first
 *     fork()
 *     parent    let go of FAULT_TEXT ... MONITOR_LIFE                        the innermost first
 *     child     PROCESS, FAULT_TEXT ... MONITOR_LIFE: put in order, then let go
 *
 * Invariants
 *  1. A thread that has a lock of the order waits only for locks behind it.
 *  2. fork() waits for each lock at most FORK_WAIT_NS. Then it goes on without: the child is told
 *     so, and its lock is a new one.
 *  3. Nothing here allocates, and no thread can be cancelled while fork() waits.
 *
 * The handlers are there from when the library was loaded: libraries that use it are loaded later,
 * so their own handlers come before these in prepare, as their locks come before the locks here.
 */
#ifndef TUTTI_OS_FORK_H
#define TUTTI_OS_FORK_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define FORK_WAIT_NS UINT64_C(2000000000)

/* Outermost first. The monitor and the progress thread call communicators, which use all that
 * stands behind them. */
enum fork_rank {
    FORK_MONITOR_LIFE,
    FORK_MONITOR,
    FORK_PROGRESS,
    FORK_PORT,
    FORK_WATCH,
    FORK_STORED_PLANS,
    FORK_KNOWLEDGE,
    FORK_RANKINGS,
    FORK_CHECKPOINTS,
    FORK_EXECUTOR,
    FORK_SHARES,
    FORK_FAULT_WATCH,
    FORK_SEGMENTS,
    FORK_GIVEN,
    FORK_HEAP,
    FORK_UNMAPPED,
    FORK_ORPHANS,
    FORK_PLANS,
    FORK_ENVIRONMENT,
    FORK_LAST_WORD,
    FORK_AT_EXIT,
    FORK_FAULT_TEXT, /* a driver's answer is told with it */
    FORK_PROCESS,    /* the generation: it has changed when the children of all others are called */
    FORK_RANK_COUNT
};

struct fork_participant {
    /* NULL: nothing is held. In the child it is free afterwards, whichever thread had it. */
    pthread_mutex_t *lock;
    /* Whether the calling thread has the lock itself, or the thread that has the lock waits for it:
     * then fork() goes on without. NULL: never. */
    bool (*is_inside)(void);
    /* Asked with the lock held; false: fork() lets go of it, and tries again in a moment. NULL:
     * always. */
    bool (*is_quiet)(void);
    /* In the child, where nobody else runs. Not held: another thread was in the middle of
     * something. NULL: nothing to do. */
    void (*child)(bool is_held);
};

/* A lock of a file, which fork() holds at that rank: it takes part from when the library was
 * loaded. `in_child` as `child` above. A lock is held for moments only: code that reads files or
 * asks drivers and managers takes a turn (os/turn.h) instead, for which no fork() waits. */
#define FORK_LOCK(name, rank, in_child)                                                            \
    static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                       \
    __attribute__((constructor)) static void name##_takes_part(void)                               \
    {                                                                                              \
        static const struct fork_participant participant = {.lock = &(name), .child = (in_child)}; \
        fork_watch(rank, &participant);                                                            \
    }                                                                                              \
    static_assert((rank) < FORK_RANK_COUNT, "it is in the order")

/* From the next fork() on it takes part; `participant` stays where it is. Another one of that rank
 * takes its place. Any thread. */
void fork_watch(enum fork_rank rank, const struct fork_participant *participant);
/* Whether a fork() waits for that lock now: a thread that takes it again and again naps instead
 * until it does not. Any thread; cheap. */
bool fork_awaits(enum fork_rank rank);

#endif
