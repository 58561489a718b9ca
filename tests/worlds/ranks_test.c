/* The harness itself: whatever a rank does, ranks_run comes back and says so. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

static const enum ranks_kind both_kinds[] = {RANKS_PROCESSES, RANKS_THREADS};
enum { KIND_COUNT = sizeof both_kinds / sizeof both_kinds[0] };

static struct ranks_options bare(enum ranks_kind kind, struct ranks_outcome *outcomes)
{
    return (struct ranks_options){
        .kind = kind, .deadline_ms = 20000, .without_comm = true, .outcomes = outcomes};
}

static int expects_arguments(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    RANKS_EXPECT(comm == NULL);
    RANKS_EXPECT(rank >= 0 && rank < size);
    RANKS_EXPECT(size == *(const int *)context);
    RANKS_EXPECT(seed == 42);
    return 0;
}

static void every_rank_gets_its_arguments(void **state)
{
    (void)state;
    for (int k = 0; k < KIND_COUNT; k++) {
        for (int n = 1; n <= 5; n++) {
            struct ranks_options options = bare(both_kinds[k], NULL);
            options.seed = 42;
            assert_int_equal(ranks_run(n, &options, expects_arguments, &n), 0);
        }
    }
}

static int odd_ranks_return_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)comm, (void)size, (void)seed, (void)context;
    return rank % 2 == 1 ? rank : 0;
}

static void failed_ranks_are_counted_and_named(void **state)
{
    (void)state;
    for (int k = 0; k < KIND_COUNT; k++) {
        struct ranks_outcome outcomes[5];
        const struct ranks_options options = bare(both_kinds[k], outcomes);
        assert_int_equal(ranks_run(5, &options, odd_ranks_return_rank, NULL), 2);
        for (int rank = 0; rank < 5; rank++) {
            assert_int_equal(outcomes[rank].fate, rank % 2 == 1 ? RANKS_RETURNED : RANKS_GOOD);
            assert_int_equal(outcomes[rank].value, rank % 2 == 1 ? rank : 0);
        }
    }
}

static int rank_1_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)comm, (void)size, (void)seed, (void)context;
    if (rank == 1) raise(SIGKILL);
    if (rank == 2) exit(7);
    return 0;
}

static void deaths_are_told_apart_from_returns(void **state)
{
    (void)state;
    struct ranks_outcome outcomes[3];
    const struct ranks_options options = bare(RANKS_PROCESSES, outcomes);
    assert_int_equal(ranks_run(3, &options, rank_1_dies, NULL), 2);
    assert_int_equal(outcomes[0].fate, RANKS_GOOD);
    assert_int_equal(outcomes[1].fate, RANKS_SIGNALLED);
    assert_int_equal(outcomes[1].value, SIGKILL);
    assert_int_equal(outcomes[2].fate, RANKS_EXITED);
    assert_int_equal(outcomes[2].value, 7);
}

static int rank_1_sleeps(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)comm, (void)size, (void)seed;
    while (rank == 1 && context == NULL) pause();
    if (rank == 1) usleep(600000); /* a thread that comes back before the grace is over */
    return 0;
}

static void stragglers_are_ended_at_the_deadline(void **state)
{
    (void)state;
    for (int k = 0; k < KIND_COUNT; k++) {
        struct ranks_outcome outcomes[3];
        struct ranks_options options = bare(both_kinds[k], outcomes);
        options.deadline_ms = 300;
        int comes_back = 1;
        const time_t began = time(NULL);
        assert_int_equal(ranks_run(3, &options, rank_1_sleeps,
                                   both_kinds[k] == RANKS_THREADS ? &comes_back : NULL),
                         1);
        assert_true(time(NULL) - began < 15);
        assert_int_equal(outcomes[0].fate, RANKS_GOOD);
        assert_int_equal(outcomes[1].fate, RANKS_STRAGGLED);
        assert_int_equal(outcomes[2].fate, RANKS_GOOD);
    }
}

static int rank_0_asserts(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)comm, (void)size, (void)seed, (void)context;
    if (rank == 0) signal(SIGABRT, SIG_DFL); /* cmocka or a sanitizer may have its own idea of it */
    assert_int_not_equal(rank, 0);
    return 0;
}

static void an_assertion_ends_its_process_only(void **state)
{
    (void)state;
    struct ranks_outcome outcomes[2];
    const struct ranks_options options = bare(RANKS_PROCESSES, outcomes);
    assert_int_equal(ranks_run(2, &options, rank_0_asserts, NULL), 1);
    assert_int_equal(outcomes[0].fate, RANKS_SIGNALLED);
    assert_int_equal(outcomes[0].value, SIGABRT);
    assert_int_equal(outcomes[1].fate, RANKS_GOOD);
}

static int comm_knows_its_place(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    RANKS_EXPECT(tutti_comm_rank(comm) == rank);
    RANKS_EXPECT(tutti_comm_size(comm) == size);
    return 0;
}

static void every_rank_gets_its_communicator(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(3, NULL, comm_knows_its_place, NULL), 0);
    const struct ranks_options options = {.kind = RANKS_THREADS};
    assert_int_equal(ranks_run(3, &options, comm_knows_its_place, NULL), 0);
}

static int rank_1_misses_the_barrier(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                     void *context)
{
    (void)size, (void)seed, (void)context;
    if (rank == 1) return 0;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return 0;
}

static void a_hanging_collective_does_not_hang_the_test(void **state)
{
    (void)state;
    for (int k = 0; k < KIND_COUNT; k++) {
        const struct ranks_options options = {.kind = both_kinds[k], .deadline_ms = 3000};
        assert_true(ranks_run(3, &options, rank_1_misses_the_barrier, NULL) >= 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_its_arguments),
        cmocka_unit_test(failed_ranks_are_counted_and_named),
        cmocka_unit_test(deaths_are_told_apart_from_returns),
        cmocka_unit_test(stragglers_are_ended_at_the_deadline),
        cmocka_unit_test(an_assertion_ends_its_process_only),
        cmocka_unit_test(every_rank_gets_its_communicator),
        cmocka_unit_test(a_hanging_collective_does_not_hang_the_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
