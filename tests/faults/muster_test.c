/* A muster goes on without ranks that do not come, and says which of them are sick: stopped ranks and ranks that hang,
 * not ranks that wait for these, nor dead ranks. After it, survivors meet without ranks that stop, too.
 *
 * ctest: label=once timeout=300 waits
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/cases.h"
#include "tests/worlds/ranks.h"
#include "tests/worlds/ways.h"
#include "tutti/exclude.h"

enum { SIZE = 4, VICTIM = 3, WAITS = 2, TIMEOUT_S = 4 };

enum fate { HEALTHY, STOPPED, HANGS, DIES };

struct setting {
    enum fate fate;
    bool has_chain; /* rank WAITS is in another call, and waits there for the victim */
};

/* Shared by all processes. */
struct endings {
    _Atomic int met, done, named, others_named, put_out, timed_out;
    _Atomic pid_t victim;
};
static struct endings *endings;

static enum tutti_status fail_in_call(struct tutti_comm *comm, const struct setting *setting,
                                      int rank)
{
    int32_t one = 1;
    if (setting->has_chain && rank == WAITS)
        return tutti_recv(&one, 1, TUTTI_INT32, VICTIM, 7, NULL, comm);
    return tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm);
}

/* Until the others are done. */
static void hang(void)
{
    while (atomic_load(&endings->done) < SIZE - 1) ranks_nap_ms(20);
}

static void strike(const struct setting *setting)
{
    atomic_store(&endings->victim, getpid());
    if (setting->fate == STOPPED) raise(SIGSTOP);
    if (setting->fate == HANGS) hang();
    if (setting->fate == DIES) raise(SIGKILL);
}

static void note(enum tutti_status status, const int *sick, int sick_count)
{
    atomic_fetch_add(&endings->timed_out, status == TUTTI_TIMEOUT);
    for (int i = 0; i < sick_count; i++)
        atomic_fetch_add(sick[i] == VICTIM ? &endings->named : &endings->others_named, 1);
}

/* Those that are left have a communicator that works. */
static int go_on(struct tutti_comm *comm, int rank, const int *sick, int sick_count,
                 enum tutti_cause cause)
{
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    struct tutti_comm *smaller;
    int32_t one = 1;
    options.cause = cause;
    RANKS_EXPECT(tutti_comm_exclude(comm, sick, sick_count, &options, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, smaller) == TUTTI_OK);
    RANKS_EXPECT(one == SIZE - 1);
    tutti_comm_free(smaller);
    return 0;
}

static int take_part(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct setting *const setting = context;
    int sick[SIZE], sick_count = 0, bad = 0;
    enum tutti_cause cause;
    uint64_t word = 1;
    (void)seed;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_meet(&endings->met, size);
    if (rank == VICTIM) strike(setting);
    if (setting->fate != HEALTHY && rank != VICTIM)
        RANKS_EXPECT(fail_in_call(comm, setting, rank) != TUTTI_OK);
    const enum tutti_status status = tutti_comm_muster(comm, &word, sick, &sick_count, &cause);
    if (rank != VICTIM) {
        note(status, sick, sick_count);
        if (sick_count > 0) bad = go_on(comm, rank, sick, sick_count, cause);
        if (sick_count > 0)
            RANKS_EXPECT(cause == (setting->fate == HANGS ? TUTTI_CAUSE_LATE : TUTTI_CAUSE_STALLED));
        if (setting->fate == DIES) RANKS_EXPECT(status == TUTTI_PROC_FAILED);
        if (atomic_fetch_add(&endings->done, 1) + 1 == SIZE - 1 && setting->fate == STOPPED)
            kill(atomic_load(&endings->victim), SIGCONT);
    } else {
        atomic_fetch_add(&endings->put_out, status == TUTTI_EXCLUDED);
    }
    if (setting->fate == HEALTHY) RANKS_EXPECT(status == TUTTI_OK && word == 1 && sick_count == 0);
    return bad;
}

/* How many ranks ended badly. */
static int run_ranks(ranks_function *function, void *context)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 100000};
    char seconds[16];
    snprintf(seconds, sizeof seconds, "%d", TIMEOUT_S);
    memset(endings, 0, sizeof *endings);
    setenv("TUTTI_TIMEOUT", seconds, 1);
    const int count = ranks_run(SIZE, &options, function, context);
    unsetenv("TUTTI_TIMEOUT");
    return count;
}

static void run(struct setting setting, int bad, int named)
{
    if (ranks_are_threads()) skip();
    assert_int_equal(run_ranks(take_part, &setting), bad);
    assert_int_equal(atomic_load(&endings->named), named);
    assert_int_equal(atomic_load(&endings->timed_out), named);
    assert_int_equal(atomic_load(&endings->others_named), 0);
    assert_int_equal(atomic_load(&endings->put_out), named > 0);
}

static void all_come(void **state)
{
    (void)state;
    run((struct setting){HEALTHY, false}, 0, 0);
}

static void a_stopped_rank_is_sick(void **state)
{
    (void)state;
    run((struct setting){STOPPED, false}, 0, SIZE - 1);
}

static void a_rank_that_waits_for_it_is_not(void **state)
{
    (void)state;
    run((struct setting){STOPPED, true}, 0, SIZE - 1);
}

static void a_rank_that_hangs_is_sick(void **state)
{
    (void)state;
    run((struct setting){HANGS, true}, 0, SIZE - 1);
}

static void a_dead_rank_is_not_sick(void **state)
{
    (void)state;
    run((struct setting){DIES, false}, 1, 0);
}

/* ---------------------------------------------------------------------------- several at once */

struct twin {
    struct tutti_comm *comm;
    enum tutti_status status;
    int sick[SIZE], sick_count;
};

static void *muster_twin(void *of)
{
    struct twin *const twin = of;
    enum tutti_cause cause;
    uint64_t word = 1;
    twin->status = tutti_comm_muster(twin->comm, &word, twin->sick, &twin->sick_count, &cause);
    return NULL;
}

/* Two threads of each rank muster a communicator and one that was made from it, whose ranks have other numbers. */
static int muster_both(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct twin twins[2] = {{.comm = comm}, {0}};
    pthread_t threads[2];
    (void)seed, (void)context;
    RANKS_EXPECT(tutti_comm_split(comm, 0, size - rank, NULL, &twins[1].comm) == TUTTI_OK);
    if (rank == VICTIM) {
        atomic_store(&endings->victim, getpid());
        raise(SIGSTOP);
        RANKS_EXPECT(tutti_comm_free(twins[1].comm) == TUTTI_OK);
        return 0;
    }
    for (int i = 0; i < 2; i++)
        RANKS_EXPECT(pthread_create(&threads[i], NULL, muster_twin, &twins[i]) == 0);
    for (int i = 0; i < 2; i++) RANKS_EXPECT(pthread_join(threads[i], NULL) == 0);
    if (atomic_fetch_add(&endings->done, 1) + 1 == SIZE - 1)
        kill(atomic_load(&endings->victim), SIGCONT);
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(twins[i].status == TUTTI_TIMEOUT && twins[i].sick_count == 1);
        RANKS_EXPECT(twins[i].sick[0] == (i == 0 ? VICTIM : size - 1 - VICTIM));
    }
    RANKS_EXPECT(tutti_comm_free(twins[1].comm) == TUTTI_OK);
    return 0;
}

static void two_musters_at_once_find_the_same_rank(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run_ranks(muster_both, NULL), 0);
}

/* ------------------------------------------------------------------------------------ what follows */

/* Rank 1 dies. The victim stops when the others have noticed that, before it meets them. */
static int meet_without_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const bool musters = *(const bool *)context;
    struct tutti_comm *smaller = NULL;
    int sick[SIZE], sick_count;
    enum tutti_cause cause;
    uint64_t word = 1;
    int32_t one = 1;
    (void)seed;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_meet(&endings->met, size);
    if (rank == 1) raise(SIGKILL);
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_PROC_FAILED);
    RANKS_EXPECT((musters ? tutti_comm_muster(comm, &word, sick, &sick_count, &cause)
                          : tutti_comm_agree(comm, &word)) == TUTTI_PROC_FAILED);
    if (rank == VICTIM) {
        atomic_store(&endings->victim, getpid());
        raise(SIGSTOP);
        const enum tutti_status late = tutti_comm_shrink(comm, NULL, &smaller);
        if (musters) RANKS_EXPECT(late == TUTTI_PROC_FAILED || late == TUTTI_MINORITY);
        return late == TUTTI_OK ? tutti_comm_free(smaller) != TUTTI_OK : 0;
    }
    const enum tutti_status status = tutti_comm_shrink(comm, NULL, &smaller);
    if (atomic_fetch_add(&endings->done, 1) + 1 == SIZE - 2)
        kill(atomic_load(&endings->victim), SIGCONT);
    RANKS_EXPECT(status == (musters ? TUTTI_OK : TUTTI_TIMEOUT));
    if (!musters) return 0;
    one = 1;
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, smaller) == TUTTI_OK);
    RANKS_EXPECT(one == SIZE - 2);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void after_a_muster_survivors_meet_without_a_rank_that_stops(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run_ranks(meet_without_it, &(bool){true}), 1); /* the rank that died */
}

static void without_a_muster_it_is_waited_for(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run_ranks(meet_without_it, &(bool){false}), 1);
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    endings = ranks_share(sizeof *endings);
/* On one host, and where each rank takes itself to be on a host of its own. */
#define IN_BOTH_PLACES(function) \
    CASE_OF(function, in_shared_memory), CASE_OF(function, on_four_hosts)
    const struct CMUnitTest tests[] = {
        IN_BOTH_PLACES(a_rank_that_hangs_is_sick),
        IN_BOTH_PLACES(after_a_muster_survivors_meet_without_a_rank_that_stops),
        IN_BOTH_PLACES(a_stopped_rank_is_sick),
        IN_BOTH_PLACES(a_rank_that_waits_for_it_is_not),
        IN_BOTH_PLACES(two_musters_at_once_find_the_same_rank),
        IN_BOTH_PLACES(a_dead_rank_is_not_sick),
        IN_BOTH_PLACES(all_come),
        CASE_OF(without_a_muster_it_is_waited_for, in_shared_memory),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
