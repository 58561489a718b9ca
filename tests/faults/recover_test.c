/* After failures the ranks that are left agree, shrink, and go on: in the old order, with right
 * results, all of them or none.
 *
 * ctest: label=once timeout=300 waits first
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/process.h"
#include "tests/kit/cases.h"
#include "tests/kit/connections.h"
#include "tests/kit/elements.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

enum { RANKS_MAX = 8, COUNT = 100000 };
static const uint64_t SECOND = 1000000000u;

/* What each rank had in the end, by its number in the beginning; shared by all. */
struct ending {
    _Atomic int size, rank;    /* of its last communicator */
    _Atomic uint64_t ended_ns; /* when it had it; of a second victim: when it died */
    _Atomic int deaths;        /* it is about to live through so many */
    _Atomic pid_t pid;         /* of one that stops for good, when it is about to */
};
static struct ending *endings;

static int run(int size, enum ranks_kind kind, ranks_function *function, void *context,
               struct ranks_outcome *outcomes)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20 * SECOND;
    comm_options.init_timeout_ns = 20 * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 60000, .comm_options = &comm_options, .outcomes = outcomes};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    return ranks_run(size, &options, function, context);
}

/* An allreduce of the numbers that the ranks had in the beginning, exact. */
static int expect_sum(struct tutti_comm *comm, int rank, int64_t wanted)
{
    int64_t *const data = malloc(COUNT * sizeof *data);
    RANKS_EXPECT(data != NULL);
    for (int i = 0; i < COUNT; i++) data[i] = (int64_t)(rank + 1) * (i + 1);
    const enum tutti_status status =
        tutti_allreduce(data, data, COUNT, TUTTI_INT64, TUTTI_SUM, comm);
    bool is_right = status == TUTTI_OK;
    for (int i = 0; i < COUNT && is_right; i++) is_right = data[i] == wanted * (i + 1);
    free(data);
    RANKS_EXPECT(status == TUTTI_OK);
    RANKS_EXPECT(is_right);
    return 0;
}

static enum tutti_status reduce_until_it_fails(struct tutti_comm *comm)
{
    float *const data = calloc(COUNT, sizeof *data);
    enum tutti_status status = data != NULL ? TUTTI_OK : TUTTI_NO_MEMORY;
    while (status == TUTTI_OK)
        status = tutti_allreduce(data, data, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm);
    free(data);
    return status;
}

static int64_t sum_of(uint64_t ranks)
{
    int64_t sum = 0;
    for (int r = 0; r < RANKS_MAX; r++)
        if (ranks >> r & 1) sum += r + 1;
    return sum;
}

/* Dies in the middle of the survivors' next allreduces, not before all of them are through with
 * what came before: what they still wait for may die with a rank. */
struct death {
    int number, size;   /* of this death; of ranks in the beginning */
    uint64_t survivors; /* of the deaths before, this one included */
};

static bool all_are_ready(const struct death *death)
{
    for (int r = 0; r < death->size; r++)
        if ((death->survivors >> r & 1) && atomic_load(&endings[r].deaths) < death->number)
            return false;
    return true;
}

static void *die_soon(void *us)
{
    usleep(*(const useconds_t *)us);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void *die_when_all_are_ready(void *context)
{
    static useconds_t soon_us = 20000;
    for (int looks = 0; !all_are_ready(context); looks++) {
        if (looks == 60000) {
            fprintf(stderr, "after a minute some rank has not come to the next death\n");
            _exit(3); /* which is no death that the test expects */
        }
        usleep(1000);
    }
    return die_soon(&soon_us);
}

/* --------------------------------------------------------------------------------- nobody fails */

static int agree_and_shrink(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context;
    for (int round = 0; round < 5; round++) {
        uint64_t word = ~(UINT64_C(1) << (rank + round));
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_OK);
        RANKS_EXPECT(word == ~(((UINT64_C(1) << size) - 1) << round));
    }
    struct tutti_comm *same;
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &same) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(same) == size && tutti_comm_rank(same) == rank);
    if (expect_sum(same, rank, sum_of((UINT64_C(1) << size) - 1)) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(same) == TUTTI_OK);
    return expect_sum(comm, rank, sum_of((UINT64_C(1) << size) - 1)); /* which is as it was */
}

static void without_failures_all_agree_and_nobody_is_left_out(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(run(sizes[i], RANKS_DEFAULT, agree_and_shrink, NULL, NULL), 0);
        if (!ranks_repeat(RANKS_THREADS))
            assert_int_equal(run(sizes[i], RANKS_THREADS, agree_and_shrink, NULL, NULL), 0);
    }
}

static int revoke_and_shrink(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    if (rank == size / 2) {
        ranks_nap_ms(100);
        RANKS_EXPECT(tutti_comm_revoke_because(comm, "the loss is NaN") == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_revoke(comm) == TUTTI_OK); /* the first one counts */
    }
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_REVOKED);
    RANKS_EXPECT(strstr(tutti_error_message(), " revoked the communicator: the loss is NaN") != NULL);
    uint64_t word = (uint64_t)rank | 8;
    RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_OK && word == 8);
    struct tutti_comm *same;
    if (rank == 0) ranks_nap_ms(300); /* who is late is waited for */
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &same) == TUTTI_OK);
    const int result = expect_sum(same, rank, sum_of((UINT64_C(1) << size) - 1));
    RANKS_EXPECT(tutti_comm_free(same) == TUTTI_OK);
    return result;
}

static void a_revoked_communicator_ends_all_calls_and_can_be_replaced(void **state)
{
    (void)state;
    assert_int_equal(run(4, RANKS_DEFAULT, revoke_and_shrink, NULL, NULL), 0);
    assert_int_equal(run(3, RANKS_THREADS, revoke_and_shrink, NULL, NULL), 0);
}

/* ---------------------------------------------------------------------------- one after another */

/* Victims die in an allreduce, one after the other, each on the communicator that the one before it
 * left. */
struct plan_of_deaths {
    const int *victims; /* by their first numbers */
    int count;
};

static int survive_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct plan_of_deaths *deaths = context;
    struct tutti_comm *mine = comm;
    uint64_t left = (UINT64_C(1) << size) - 1;
    for (int d = 0; d < deaths->count; d++) {
        const int victim = deaths->victims[d];
        struct death death = {.number = d + 1, .size = size, .survivors = left};
        pthread_t thread;
        atomic_store(&endings[rank].deaths, d + 1);
        if (rank == victim)
            RANKS_EXPECT(pthread_create(&thread, NULL, die_when_all_are_ready, &death) == 0);
        RANKS_EXPECT(reduce_until_it_fails(mine) == TUTTI_PROC_FAILED);
        left &= ~(UINT64_C(1) << victim);
        uint64_t word = ~(UINT64_C(1) << (rank + 20));
        RANKS_EXPECT(tutti_comm_agree(mine, &word) == TUTTI_PROC_FAILED);
        RANKS_EXPECT(word == ~(left << 20));
        struct tutti_comm *smaller;
        RANKS_EXPECT(tutti_comm_shrink(mine, NULL, &smaller) == TUTTI_OK);
        if (mine != comm) RANKS_EXPECT(tutti_comm_free(mine) == TUTTI_OK);
        mine = smaller;
        RANKS_EXPECT(tutti_comm_size(mine) == __builtin_popcountll(left));
        RANKS_EXPECT(tutti_comm_rank(mine) ==
                     __builtin_popcountll(left & ((UINT64_C(1) << rank) - 1)));
        if (expect_sum(mine, rank, sum_of(left)) != 0) return 1;
    }
    RANKS_EXPECT(tutti_comm_free(mine) == TUTTI_OK);
    return 0;
}

static void expect_only_these_died(int size, const struct plan_of_deaths *deaths)
{
    struct ranks_outcome outcomes[RANKS_MAX];
    assert_int_equal(run(size, RANKS_PROCESSES, survive_all, (void *)(uintptr_t)deaths, outcomes),
                     deaths->count);
    for (int d = 0; d < deaths->count; d++)
        assert_int_equal(outcomes[deaths->victims[d]].fate, RANKS_SIGNALLED);
}

static void survivors_shrink_again_and_again(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    static const int one[] = {1}, root[] = {0}, last[] = {3}, half[] = {4, 0, 7, 2},
                     most[] = {0, 1, 2, 3, 4, 5, 6};
    expect_only_these_died(2, &(struct plan_of_deaths){root, 1});
    expect_only_these_died(3, &(struct plan_of_deaths){one, 1});
    expect_only_these_died(4, &(struct plan_of_deaths){last, 1});
    expect_only_these_died(8, &(struct plan_of_deaths){half, 4});
    expect_only_these_died(8, &(struct plan_of_deaths){most, 7});
}

/* ------------------------------------------------------------------- a second failure meanwhile */

struct second_death {
    int first, second;
    useconds_t after_us; /* from the second's call of shrink on */
};

static void *die_second(void *context)
{
    const struct second_death *death = context;
    usleep(death->after_us);
    atomic_store(&endings[death->second].ended_ns, clock_now_ns());
    kill(getpid(), SIGKILL);
    return NULL;
}

static int survive_both(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    struct second_death *death = context;
    pthread_t thread;
    struct death first = {.number = 1, .size = size, .survivors = (UINT64_C(1) << size) - 1};
    atomic_store(&endings[rank].deaths, 1);
    if (rank == death->first)
        RANKS_EXPECT(pthread_create(&thread, NULL, die_when_all_are_ready, &first) == 0);
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_PROC_FAILED);
    if (rank == death->second) RANKS_EXPECT(pthread_create(&thread, NULL, die_second, death) == 0);
    struct tutti_comm *smaller;
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    if (rank == death->second) pause();
    atomic_store(&endings[rank].ended_ns, clock_now_ns());
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND); /* not the start-up deadline */
    /* The second one died before it was made, or after. */
    uint64_t left = ((UINT64_C(1) << size) - 1) & ~(UINT64_C(1) << death->first);
    const int members = tutti_comm_size(smaller);
    if (members == size - 2) left &= ~(UINT64_C(1) << death->second);
    RANKS_EXPECT(members == __builtin_popcountll(left));
    atomic_store(&endings[rank].size, members);
    atomic_store(&endings[rank].rank, tutti_comm_rank(smaller));
    RANKS_EXPECT(tutti_comm_rank(smaller) ==
                 __builtin_popcountll(left & ((UINT64_C(1) << rank) - 1)));
    if (members == size - 2) {
        if (expect_sum(smaller, rank, sum_of(left)) != 0) return 1;
    } else {
        RANKS_EXPECT(reduce_until_it_fails(smaller) == TUTTI_PROC_FAILED);
    }
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void expect_second_deaths_are_absorbed(int rounds)
{
    static const int pairs[][2] = {{1, 0}, {0, 1}, {2, 3}, {3, 0}};
    const uint64_t random = 20260101;
    int absorbed = 0;
    for (int round = 0; round < rounds; round++) {
        struct second_death death = {
            pairs[round % 4][0], pairs[round % 4][1],
            (useconds_t)(elements_mixed(random, (uint64_t)round) % (round % 8 < 4 ? 500 : 8000))};
        assert_int_equal(run(5, RANKS_PROCESSES, survive_both, &death, NULL), 2);
        int size = 0;
        _Atomic uint64_t slowest_ns = 0;
        for (int r = 0; r < 5; r++) {
            if (r == death.first || r == death.second) continue;
            fault_time_raise(&slowest_ns, endings[r].ended_ns - endings[death.second].ended_ns);
            if (size == 0) size = atomic_load(&endings[r].size);
            assert_int_equal(atomic_load(&endings[r].size), size);
        }
        absorbed += size == 3;
        if (size != 3) continue;
        fault_time_print(ranks_are_on_hosts() ? "second_far" : "second", slowest_ns);
        assert_true(slowest_ns < 10 * SECOND);
    }
    assert_in_range(absorbed, 1, rounds); /* so it did happen meanwhile */
}

static void a_second_death_while_shrinking_is_absorbed(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    expect_second_deaths_are_absorbed(
        ranks_are_on_hosts() ? 8 : 24); /* where deaths are found less quickly */
}

/* Nobody of its host is left who could tell, and to the new communicator it never had a
 * connection. */
static void a_second_death_is_absorbed_where_every_rank_has_its_own_host(void **state)
{
    (void)state;
    if (ranks_are_threads() || ranks_are_on_hosts()) skip();
    setenv("TUTTI_TEST_HOSTS", "5", 1);
    expect_second_deaths_are_absorbed(8);
    unsetenv("TUTTI_TEST_HOSTS");
}

/* A rank that was there when all agreed stops before they meet, and its connections are gone: for
 * the others it vanishes, though its process has not ended. */
enum { VANISHES = 2 };

static void *cut_it_off(void *unused)
{
    (void)unused;
    pid_t pid;
    while ((pid = atomic_load(&endings[VANISHES].pid)) == 0 || !process_is_stopped(pid))
        usleep(1000);
    connections_cut_all();
    return NULL;
}

static int meet_without_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    pthread_t thread;
    struct tutti_comm *smaller;
    uint64_t word = 0;
    ranks_nap_ms(900); /* until all have been heard */
    if (rank == 0) RANKS_EXPECT(tutti_comm_revoke(comm) == TUTTI_OK);
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_REVOKED);
    if (rank == VANISHES) {
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_OK);
        atomic_store(&endings[rank].pid, getpid());
        raise(SIGSTOP);
        return 1;
    }
    RANKS_EXPECT(pthread_create(&thread, NULL, cut_it_off, NULL) == 0);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 90 * SECOND); /* not the start-up deadline */
    RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    RANKS_EXPECT(tutti_comm_size(smaller) == size - 1);
    const uint64_t all = (UINT64_C(1) << size) - 1;
    if (expect_sum(smaller, rank, sum_of(all & ~(UINT64_C(1) << VANISHES))) != 0) return 1;
    if (rank == 0) kill(atomic_load(&endings[VANISHES].pid), SIGKILL);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void a_rank_that_vanishes_while_survivors_meet_is_left_out(void **state)
{
    (void)state;
    if (ranks_are_threads() || ranks_are_on_hosts()) skip();
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    struct ranks_outcome outcomes[RANKS_MAX];
    comm_options.timeout_ns = comm_options.init_timeout_ns = 100 * SECOND;
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 150000,
                                          .comm_options = &comm_options,
                                          .outcomes = outcomes};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    setenv("TUTTI_TEST_HOSTS", "5", 1);
    setenv("TUTTI_HEARTBEAT", "50", 1);
    const int failed = ranks_run(5, &options, meet_without_it, NULL);
    unsetenv("TUTTI_HEARTBEAT");
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 1);
    assert_int_equal(outcomes[VANISHES].fate, RANKS_SIGNALLED);
}

/* That rank is only stopped, for longer than whoever is silent is waited for: its kernel
 * answers. */
static void *let_it_go_on(void *unused)
{
    (void)unused;
    pid_t pid;
    while ((pid = atomic_load(&endings[VANISHES].pid)) == 0 || !process_is_stopped(pid))
        usleep(1000);
    ranks_nap_ms(7000);
    kill(pid, SIGCONT);
    return NULL;
}

static int meet_with_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    pthread_t thread;
    struct tutti_comm *smaller;
    ranks_nap_ms(900); /* until all have been heard */
    if (rank == 0) RANKS_EXPECT(tutti_comm_revoke(comm) == TUTTI_OK);
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_REVOKED);
    if (rank == 0) RANKS_EXPECT(pthread_create(&thread, NULL, let_it_go_on, NULL) == 0);
    if (rank == VANISHES) {
        atomic_store(&endings[rank].pid, getpid());
        raise(SIGSTOP);
    }
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    if (rank == 0) RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    RANKS_EXPECT(tutti_comm_size(smaller) == size);
    if (expect_sum(smaller, rank, sum_of((UINT64_C(1) << size) - 1)) != 0) return 1;
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void a_rank_that_is_stopped_while_survivors_agree_is_waited_for(void **state)
{
    (void)state;
    if (ranks_are_threads() || ranks_are_on_hosts()) skip();
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = comm_options.init_timeout_ns = 60 * SECOND;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 100000, .comm_options = &comm_options};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    setenv("TUTTI_TEST_HOSTS", "3", 1);
    const int failed = ranks_run(3, &options, meet_with_it, NULL);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 0);
}

/* ---------------------------------------------------------------------------- leaving meanwhile */

enum { DIES = 1, LEAVES = 2 };

static int leave_while_another_dies(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)unused, (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    uint64_t word = 0;
    options.timeout_ns = options.init_timeout_ns = 20 * SECOND;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    const enum tutti_status status = tutti_barrier(comm); /* some may still be in it */
    RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_PROC_FAILED);
    const uint64_t begin_ns = clock_now_ns();
    if (rank == DIES) kill(getpid(), SIGKILL);
    if (rank != LEAVES) {
        RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_PROC_FAILED);
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_PROC_FAILED);
    }
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND); /* not the deadline of calls */
    return 0;
}

static void who_leaves_does_not_wait_for_the_dead_of_another_host(void **state)
{
    (void)state;
    if (ranks_are_threads() || ranks_are_on_hosts()) skip();
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 60000, .without_comm = true};
    setenv("TUTTI_TEST_HOSTS", "4", 1);
    for (int round = 0; round < 6; round++)
        assert_int_equal(ranks_run(8, &options, leave_while_another_dies, NULL), 1);
    unsetenv("TUTTI_TEST_HOSTS");
}

/* ----------------------------------------------------------------------- long after the failure */

/* The first rank of the second host, which beat for it, dies. */
static int shrink_late(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static useconds_t heard_us = 900000;
    pthread_t thread;
    if (rank == 1) RANKS_EXPECT(pthread_create(&thread, NULL, die_soon, &heard_us) == 0);
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_PROC_FAILED);
    ranks_nap_ms(3000); /* its host is silent for so long that it is given up */
    struct tutti_comm *smaller;
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(smaller) == 3);
    RANKS_EXPECT(tutti_comm_free(smaller) == TUTTI_OK);
    return 0;
}

static void ranks_of_a_host_whose_first_rank_died_stay(void **state)
{
    (void)state;
    if (ranks_are_threads() || !ranks_are_on_hosts()) skip();
    setenv("TUTTI_HEARTBEAT", "50", 1);
    const int failed = run(4, RANKS_PROCESSES, shrink_late, NULL, NULL);
    unsetenv("TUTTI_HEARTBEAT");
    assert_int_equal(failed, 1);
}

/* ------------------------------------------------------------------------------ what is refused */

static int misuse(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm *none = comm;
    uint64_t word = 5;
    RANKS_EXPECT(tutti_comm_agree(comm, NULL) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(tutti_comm_agree(NULL, &word) == TUTTI_INVALID_COMM && word == 5);
    RANKS_EXPECT(tutti_comm_shrink(NULL, NULL, &none) == TUTTI_INVALID_COMM && none == NULL);
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, NULL) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_comm_revoke(NULL) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_comm_revoke_because(NULL, "") == TUTTI_INVALID_COMM);
    return 0;
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run(2, RANKS_DEFAULT, misuse, NULL, NULL), 0);
}

static int come_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    uint64_t word = 5;
    if (rank != 0) { /* it is late, and has not left */
        while (atomic_load(&endings[0].ended_ns) == 0) ranks_nap_ms(1);
        return 0;
    }
    const enum tutti_status status = tutti_comm_agree(comm, &word);
    atomic_store(&endings[0].ended_ns, clock_now_ns());
    RANKS_EXPECT(status == TUTTI_TIMEOUT);
    RANKS_EXPECT(word == 5);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1") != NULL);
    return 0;
}

static void who_does_not_come_is_named_at_the_deadline(void **state)
{
    (void)state;
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = SECOND / 2;
    const struct ranks_options options = {.deadline_ms = 60000, .comm_options = &comm_options};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    assert_int_equal(ranks_run(2, &options, come_alone, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_failures_all_agree_and_nobody_is_left_out),
        cmocka_unit_test(a_revoked_communicator_ends_all_calls_and_can_be_replaced),
        cmocka_unit_test(survivors_shrink_again_and_again),
        cmocka_unit_test(a_second_death_while_shrinking_is_absorbed),
        cmocka_unit_test(ranks_of_a_host_whose_first_rank_died_stay),
        cmocka_unit_test(a_second_death_is_absorbed_where_every_rank_has_its_own_host),
        cmocka_unit_test(a_rank_that_vanishes_while_survivors_meet_is_left_out),
        cmocka_unit_test(a_rank_that_is_stopped_while_survivors_agree_is_waited_for),
        cmocka_unit_test(who_leaves_does_not_wait_for_the_dead_of_another_host),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(who_does_not_come_is_named_at_the_deadline),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    endings = ranks_share(RANKS_MAX * sizeof *endings);
    return CASES_RUN_AT_ONCE(tests, 4);
}
