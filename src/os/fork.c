#include "os/fork.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "os/clock.h"

enum { YIELDS = 16, NAP_NS = 50000 };
static_assert(FORK_RANK_COUNT <= 32, "`held` has a bit for each");

static const struct fork_participant *_Atomic participants[FORK_RANK_COUNT];
static _Atomic unsigned awaited[FORK_RANK_COUNT]; /* how many forks wait for each */
/* By the fork() of this thread: several may be under way. */
static _Thread_local uint32_t held;

/* Acquire: pairs with fork_watch. */
static const struct fork_participant *participant_of(int rank)
{
    return atomic_load_explicit(&participants[rank], memory_order_acquire);
}

static bool is_held(int rank)
{
    return (held >> rank & 1) != 0;
}

static bool try_to_hold(const struct fork_participant *participant)
{
    if (pthread_mutex_trylock(participant->lock) != 0) return false;
    if (participant->is_quiet == NULL || participant->is_quiet()) return true;
    pthread_mutex_unlock(participant->lock);
    return false;
}

static void pause_before(unsigned turn)
{
    if (turn < YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

/* Tries, rather than waits with a deadline: a lock with a deadline goes by a clock that people
 * set. */
static bool hold(const struct fork_participant *participant)
{
    if (participant->is_inside != NULL && participant->is_inside()) return false;
    const uint64_t begin_ns = clock_now_ns();
    bool is_held_now = try_to_hold(participant);
    for (unsigned turn = 0; !is_held_now && clock_now_ns() - begin_ns < FORK_WAIT_NS; turn++) {
        pause_before(turn);
        is_held_now = try_to_hold(participant);
    }
    return is_held_now;
}

static void prepare(void)
{
    int cancelling;
    held = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    for (int rank = 0; rank < FORK_RANK_COUNT; rank++) {
        const struct fork_participant *const participant = participant_of(rank);
        if (participant == NULL || participant->lock == NULL) continue;
        atomic_fetch_add_explicit(&awaited[rank], 1, memory_order_relaxed);
        if (hold(participant)) held |= UINT32_C(1) << rank;
        atomic_fetch_sub_explicit(&awaited[rank], 1, memory_order_relaxed);
    }
    pthread_setcancelstate(cancelling, NULL);
}

static void go_on(void)
{
    for (int rank = FORK_RANK_COUNT - 1; rank >= 0; rank--)
        if (is_held(rank)) pthread_mutex_unlock(participant_of(rank)->lock);
    held = 0;
}

/* Includes participants that another thread has added since prepare. */
static void begin_anew(void)
{
    for (int rank = FORK_RANK_COUNT - 1; rank >= 0; rank--) {
        const struct fork_participant *const participant = participant_of(rank);
        atomic_store_explicit(&awaited[rank], 0, memory_order_relaxed);
        if (participant == NULL) continue;
        if (participant->child != NULL) participant->child(is_held(rank));
        if (participant->lock == NULL) continue;
        if (is_held(rank))
            pthread_mutex_unlock(participant->lock);
        else
            *participant->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    }
    held = 0;
}

/* It fails only for want of a few bytes; then a child is not told from its parent, and may find
 * locks that nobody opens. */
__attribute__((constructor)) static void watch(void)
{
    pthread_atfork(prepare, go_on, begin_anew);
}

void fork_watch(enum fork_rank rank, const struct fork_participant *participant)
{
    atomic_store_explicit(&participants[rank], participant, memory_order_release);
}

bool fork_awaits(enum fork_rank rank)
{
    return atomic_load_explicit(&awaited[rank], memory_order_relaxed) > 0;
}
