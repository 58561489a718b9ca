/* A muster goes on without ranks that do not come, and says which of them are sick: stopped ranks and ranks that hang,
 * not ranks that wait for these, nor dead ranks.
 *
 * ctest: label=once timeout=300 waits
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"
#include "tutti/exclude.h"

enum { SIZE = 4, VICTIM = 3, WAITS = 2, TIMEOUT_S = 4 };

enum fate { HEALTHY, STOPPED, HANGS, DIES };

struct setting {
    enum fate fate;
    bool has_chain; /* rank WAITS is in another call, and waits there for the victim */
};

/* Shared by all processes. */
struct endings {
    _Atomic int done, named, others_named, put_out, timed_out;
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
    (void)size, (void)seed;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
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

/* On one host, and where each rank takes itself to be on a host of its own. How many ranks ended badly. */
static void run(struct setting setting, int bad, int named)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .deadline_ms = 100000};
    char seconds[16];
    if (ranks_are_threads()) skip();
    snprintf(seconds, sizeof seconds, "%d", TIMEOUT_S);
    for (int hosts = 1; hosts <= SIZE; hosts += SIZE - 1) {
        memset(endings, 0, sizeof *endings);
        setenv("TUTTI_TIMEOUT", seconds, 1);
        if (hosts > 1) setenv("TUTTI_TEST_HOSTS", "4", 1);
        const int count = ranks_run(SIZE, &options, take_part, &setting);
        unsetenv("TUTTI_TEST_HOSTS");
        unsetenv("TUTTI_TIMEOUT");
        assert_int_equal(count, bad);
        assert_int_equal(atomic_load(&endings->named), named);
        assert_int_equal(atomic_load(&endings->timed_out), named);
        assert_int_equal(atomic_load(&endings->others_named), 0);
        assert_int_equal(atomic_load(&endings->put_out), named > 0);
    }
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

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    endings = ranks_share(sizeof *endings);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come),
        cmocka_unit_test(a_stopped_rank_is_sick),
        cmocka_unit_test(a_rank_that_waits_for_it_is_not),
        cmocka_unit_test(a_rank_that_hangs_is_sick),
        cmocka_unit_test(a_dead_rank_is_not_sick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
