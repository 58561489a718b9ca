/* ranks.h - runs one function on n ranks, each a process or a thread, and always comes back.
 *
 *     static int sums(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
 *     {
 *         int32_t one = 1;
 *         RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
 *         RANKS_EXPECT(one == size);
 *         return 0;
 *     }
 *     ...
 *     assert_int_equal(ranks_run(4, NULL, sums, NULL), 0);
 *
 * Invariants
 *  1. ranks_run returns within the deadline plus a few seconds.  Stragglers are killed (processes),
 *     or their communicator is aborted and, should that not help, the whole test program aborts
 *     (threads).
 *  2. No rank outlives the test program.
 *  3. A rank that does not return 0, for whatever reason, is counted and its fate is printed.
 *  4. The seed is printed; TUTTI_TEST_SEED repeats a run.
 *
 * cmocka's assertions leave a test with longjmp, which cannot work across processes and threads: in
 * a rank use RANKS_EXPECT.  A cmocka assertion that fails there aborts the rank (of a process) or
 * the test (of a thread).
 *
 * Threads of a rank function share the context; processes have copies of it, so what they write
 * there is lost unless it lies in shared memory.
 */
#ifndef TUTTI_TESTS_WORLDS_RANKS_H
#define TUTTI_TESTS_WORLDS_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "tutti/tutti.h"

enum ranks_kind {
    RANKS_DEFAULT, /* processes, unless the environment has TUTTI_TEST_RANKS=threads */
    RANKS_PROCESSES,
    RANKS_THREADS
};

enum ranks_fate {
    RANKS_GOOD,      /* returned 0 */
    RANKS_REFUSED,   /* could not create its communicator, or free it */
    RANKS_RETURNED,  /* returned another value */
    RANKS_EXITED,    /* left its function by exit(); processes only */
    RANKS_SIGNALLED, /* died of a signal; processes only */
    RANKS_STRAGGLED  /* was still there at the deadline */
};

struct ranks_outcome {
    enum ranks_fate fate;
    int value; /* what the function returned, the exit status or the signal; of a straggler: 1 in its exit, 0 before */
};

struct ranks_options {
    enum ranks_kind kind;
    unsigned deadline_ms; /* for all ranks together; 0: 60 s */
    uint64_t seed;        /* 0: TUTTI_TEST_SEED, or a fresh one */
    bool without_comm;    /* the function gets NULL and does everything itself */
    const struct tutti_comm_options *comm_options; /* or NULL; rank, size and id are overwritten */
    struct ranks_outcome *outcomes;                /* one per rank, filled in; or NULL */
};

/* Runs on each rank.  The harness created comm and frees it afterwards.  seed is the same on all
 * ranks. Returns 0 when all is well. */
typedef int ranks_function(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                           void *context);

/* Runs function on n ranks (n > 0) and waits for them.  Call from the test's one thread.  options
 * may be NULL.  Returns the number of ranks that were not RANKS_GOOD. */
int ranks_run(int n, const struct ranks_options *options, ranks_function *function, void *context);

/* Zeroed memory that a test and the ranks that it starts from then on share, processes and threads;
 * the program ends where there is none. munmap() gives it back, or the end of the program. */
void *ranks_share(size_t bytes);

/* Lets time pass in a rank or its test. */
static inline void ranks_nap_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Waits until `count` ranks have come here. It calls nothing of the library. *come is shared by them (ranks_share), and 0 before.
 *
 * Ranks do this before one of them dies: with a rank, what it has sent last may be lost, so that a call which was good on that rank fails
 * on others. */
static inline void ranks_meet(_Atomic int *come, int count)
{
    atomic_fetch_add(come, 1);
    while (atomic_load(come) < count) ranks_nap_ms(1);
}

/* Whether RANKS_DEFAULT means threads here. */
bool ranks_are_threads(void);

/* For tests that go through both kinds, the default one first: whether this one would be the same
 * ranks again, because both are threads. */
static inline bool ranks_repeat(enum ranks_kind kind)
{
    return kind == RANKS_THREADS && ranks_are_threads();
}

/* Whether data between ranks that share no memory goes beside TCP, over simulated network cards (TUTTI_TEST_REMOTE=card) or the toy's links
 * (toy). */
bool ranks_bypass_tcp(void);

/* Whether processes take themselves to be on several hosts, in turns: TUTTI_TEST_HOSTS. */
bool ranks_are_on_hosts(void);

/* In a ranks_function, which has `rank`: says what did not hold, and fails the rank. */
#define RANKS_EXPECT(condition)                                                                   \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "rank %d: %s:%d: does not hold: %s (%s)\n", rank, __FILE__, __LINE__, \
                    #condition, tutti_error_message());                                           \
            return 1;                                                                             \
        }                                                                                         \
    } while (0)

#endif
