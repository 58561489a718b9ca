/* Ranks put a sick rank out, against its will: all others have the new communicator, the sick rank is told
 * so and has no part in it, and never are there two teams.
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
#include "tests/worlds/ranks.h"
#include "tutti/exclude.h"

enum { RANKS_MAX = 8, COUNT = 20000 };
static const uint64_t SECOND = 1000000000u;

/* The endings of all ranks; shared by all. */
struct ending {
    _Atomic int size;         /* of its last communicator; 0: none */
    _Atomic uint64_t members; /* by their first numbers */
    _Atomic pid_t pid;
    _Atomic int is_done;
};
static struct ending *endings;

static int run(int size, enum ranks_kind kind, ranks_function *function, void *context)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20 * SECOND;
    comm_options.init_timeout_ns = 20 * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 60000, .comm_options = &comm_options};
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    return ranks_run(size, &options, function, context);
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

/* Notes which ranks, by their first numbers, are in the new communicator, and frees it. */
static int note_team(struct tutti_comm *comm, int rank)
{
    uint64_t members = UINT64_C(1) << rank;
    const int size = tutti_comm_size(comm);
    RANKS_EXPECT(tutti_allreduce(&members, &members, 1, TUTTI_UINT64, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(__builtin_popcountll(members) == size);
    atomic_store(&endings[rank].members, members);
    atomic_store(&endings[rank].size, size);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

/* All that have a team have the same, and it has these ranks. */
static void expect_team(uint64_t members)
{
    for (int r = 0; r < RANKS_MAX; r++) {
        const uint64_t its = atomic_load(&endings[r].members);
        if (its != ((members >> r & 1) ? members : 0))
            fail_msg("rank %d has the team %llx, not %llx", r, (unsigned long long)its,
                     (unsigned long long)members);
    }
}

static enum tutti_status exclude(struct tutti_comm *comm, const int *ranks, int count,
                                 struct tutti_comm **created)
{
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    options.cause = TUTTI_CAUSE_LATE;
    options.reason = "three of four steps";
    return tutti_comm_exclude(comm, ranks, count, &options, created);
}

static bool says(const char *text)
{
    return strstr(tutti_error_message(), text) != NULL;
}

/* -------------------------------------------------------------------------- one is put out */

/* The rank that is put out tries everything. */
static int be_put_out(struct tutti_comm *comm, int rank)
{
    struct tutti_comm *none;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    uint64_t word = 1;
    char name[32];
    snprintf(name, sizeof name, "rank %d", rank);
    RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_EXCLUDED);
    RANKS_EXPECT(says(name));
    RANKS_EXPECT(says("late") && says("three of four steps"));
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_EXCLUDED && failure.culprit == rank);
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &none) == TUTTI_EXCLUDED && none == NULL);
    RANKS_EXPECT(says("put out"));
    RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_EXCLUDED && word == 1);
    RANKS_EXPECT(exclude(comm, &(int){rank == 1 ? 2 : 1}, 1, &none) == TUTTI_EXCLUDED);
    RANKS_EXPECT(tutti_comm_join(NULL, &none) == TUTTI_EXCLUDED && none == NULL);
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &none) == TUTTI_EXCLUDED && none == NULL);
    return 0;
}

static int put_out(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *smaller;
    const int sick = *(const int *)context;
    (void)seed;
    if (rank == sick) return be_put_out(comm, rank);
    if (rank == (sick + 1) % size) ranks_nap_ms(20); /* it waits in a call, and hears of it */
    if (rank != (sick + 1) % size) {
        RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_EXCLUDED);
        struct tutti_failure failure = {.size_bytes = sizeof failure};
        RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.culprit == sick);
    }
    RANKS_EXPECT(exclude(comm, &sick, 1, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_rank(smaller) == rank - (rank > sick));
    return note_team(smaller, rank);
}

static void a_sick_rank_is_put_out_and_told_so(void **state)
{
    (void)state;
    for (int sick = 0; sick < 3; sick++) {
        assert_int_equal(run(4, RANKS_DEFAULT, put_out, &sick), 0);
        expect_team(15u & ~(1u << sick));
    }
}

static void hosts_put_a_rank_of_another_host_out(void **state)
{
    (void)state;
    if (ranks_are_threads() || ranks_are_on_hosts()) skip();
    setenv("TUTTI_TEST_HOSTS", "4", 1);
    for (int sick = 0; sick < 2; sick++) {
        assert_int_equal(run(4, RANKS_PROCESSES, put_out, &sick), 0);
        expect_team(15u & ~(1u << sick));
    }
    unsetenv("TUTTI_TEST_HOSTS");
}

/* Rank 1 is stopped while the others put it out, and goes on when they have left. */
static int stopped(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *smaller;
    (void)size, (void)seed, (void)context;
    if (rank == 1) {
        atomic_store(&endings[1].pid, getpid());
        raise(SIGSTOP);
        RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_EXCLUDED);
        RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_EXCLUDED);
        return 0;
    }
    while (atomic_load(&endings[1].pid) == 0) ranks_nap_ms(1);
    RANKS_EXPECT(exclude(comm, &(int){1}, 1, &smaller) == TUTTI_OK);
    const int result = note_team(smaller, rank);
    atomic_store(&endings[rank].is_done, 1);
    while (rank == 0 && atomic_load(&endings[2].is_done) == 0) ranks_nap_ms(1);
    if (rank == 0) ranks_nap_ms(100); /* so that the other one leaves */
    if (rank == 0) kill(atomic_load(&endings[1].pid), SIGCONT);
    return result;
}

static void a_stopped_rank_is_put_out_and_cannot_go_on_alone(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(run(3, RANKS_PROCESSES, stopped, NULL), 0);
    expect_team(5);
}

/* ---------------------------------------------------------------------------- several at once */

/* The work of each rank: the rank that it puts out, or -1: it shrinks. */
struct votes {
    int sick[RANKS_MAX];
    uint64_t team;  /* that comes of it */
    bool goes_on;   /* those that lose shrink, too */
    bool may_retry; /* nobody has a majority, and all agree afterwards to put out the last rank */
};

static int vote(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct votes *const votes = context;
    struct tutti_comm *smaller, *none;
    const int sick = votes->sick[rank], last = size - 1;
    (void)seed;
    enum tutti_status status =
        sick < 0 ? tutti_comm_shrink(comm, NULL, &smaller) : exclude(comm, &sick, 1, &smaller);
    if (votes->team >> rank & 1 && !votes->may_retry) {
        RANKS_EXPECT(status == TUTTI_OK);
        return note_team(smaller, rank);
    }
    /* MINORITY: it came when the others had left already. */
    RANKS_EXPECT(status == TUTTI_DESYNC ||
                 (!votes->may_retry && (status == TUTTI_EXCLUDED || status == TUTTI_MINORITY)));
    RANKS_EXPECT(smaller == NULL);
    if (votes->goes_on) RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) != TUTTI_OK);
    if (!votes->may_retry) return 0;
    atomic_store(&endings[rank].is_done, 1); /* a rank that leaves at once says less than MINORITY */
    for (int r = 0; r < size; r++)
        while (atomic_load(&endings[r].is_done) == 0) ranks_nap_ms(1);
    if (rank == last) return 0;
    RANKS_EXPECT(exclude(comm, &last, 1, &smaller) == TUTTI_OK);
    /* A wish of others that came to nothing keeps no process out; what is missing are options. */
    if (!ranks_are_threads())
        RANKS_EXPECT(tutti_comm_join(NULL, &none) == TUTTI_INVALID_OPTIONS && none == NULL);
    return note_team(smaller, rank);
}

static void of_several_wishes_one_with_a_majority_comes_true(void **state)
{
    static const struct {
        int size;
        struct votes votes;
    } cases[] = {
        {3, {{1, 0, 1}, .team = 5}}, /* two put each other out, and one takes sides */
        {3, {{1, 0, 0}, .team = 6}}, /* also against rank 0 */
        {5, {{-1, -1, -1, 0, 0}, .team = 7, .goes_on = true}}, /* most just shrink */
        {5, {{4, 4, 4, 0, 0}, .team = 7}}, /* a rank of another opinion is left out, too */
        {4, {{3, 3, 1, 1}, .team = 3}},    /* half with rank 0 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct votes votes = cases[i].votes;
        assert_int_equal(run(cases[i].size, RANKS_DEFAULT, vote, &votes), 0);
        expect_team(votes.team);
    }
}

/* Nobody is put out: no rank is told so, neither those that are on a list nor the others. */
static void without_a_majority_all_get_desync_and_may_try_again(void **state)
{
    struct votes votes = {.sick = {1, 2, 0, 0}, .team = 7, .may_retry = true};
    (void)state;
    assert_int_equal(run(4, RANKS_DEFAULT, vote, &votes), 0);
    expect_team(votes.team);
    if (ranks_are_threads() || ranks_are_on_hosts()) return;
    setenv("TUTTI_TEST_HOSTS", "4", 1);
    const int result = run(4, RANKS_PROCESSES, vote, &votes);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(result, 0);
    expect_team(votes.team);
}

static int be_few(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm *none;
    struct tutti_exclude_options options = TUTTI_EXCLUDE_OPTIONS_INIT;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(exclude(comm, (int[]){0, 1, 2}, 3, &none) == TUTTI_INVALID_RANK && none == NULL);
    RANKS_EXPECT(exclude(comm, NULL, 1, &none) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(exclude(comm, &(int){4}, 1, &none) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(exclude(comm, &(int){-1}, 1, &none) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(exclude(comm, &rank, 1, &none) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(exclude(comm, (int[]){(rank + 1) % 4, (rank + 1) % 4}, 2, &none) ==
                 TUTTI_INVALID_RANK);
    if (rank > 1) RANKS_EXPECT(exclude(comm, (int[]){0, 1}, 2, &none) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(tutti_comm_exclude(NULL, &(int){1}, 1, NULL, &none) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(exclude(comm, &(int){1}, 1, NULL) == TUTTI_INVALID_COMM);
    options.cause = (enum tutti_cause)9;
    RANKS_EXPECT(tutti_comm_exclude(comm, &(int){(rank + 1) % 4}, 1, &options, &none) ==
                 TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* which is as it was */
    return 0;
}

static void mistakes_and_too_few_ranks_are_refused_before_anybody_is_told(void **state)
{
    (void)state;
    assert_int_equal(run(4, RANKS_DEFAULT, be_few, NULL), 0);
}

/* ------------------------------------------------------------------- meshes and splits */

/* How an allreduce on a communicator ends that was made before. */
static enum tutti_status try_older(struct tutti_comm *comm)
{
    int sum = 1;
    const enum tutti_status status = tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm);
    return status == TUTTI_OK && sum != tutti_comm_size(comm) ? TUTTI_INTERNAL : status;
}

/* Rank 3 of four is put out. The ranks have two halves, and a mesh of two rows and two columns. */
static int keep_older(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct tutti_axis axes[] = {{"row", 2, NULL}, {"column", 2, NULL}}, all = {"all", 3, NULL};
    /* whether it has rank 3: along rows ranks differ by 2, along columns by 1 */
    const bool has_it[] = {rank == 1, rank == 2};
    struct tutti_comm *half, *same, *smaller = NULL;
    struct tutti_mesh *mesh;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_comm_split(comm, rank / 2, rank, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT(tutti_mesh_create(comm, axes, 2, &mesh) == TUTTI_OK);
    /* All are through with comm before rank 3 is put out of it. */
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &same) == TUTTI_OK && tutti_barrier(same) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(same) == TUTTI_OK);
    if (rank == 3)
        RANKS_EXPECT(reduce_until_it_fails(comm) == TUTTI_EXCLUDED);
    else
        RANKS_EXPECT(exclude(comm, &(int){3}, 1, &smaller) == TUTTI_OK);
    for (int a = 0; a < 2; a++) /* all work on, as long as the excluded rank calls, too */
        RANKS_EXPECT(try_older(tutti_mesh_axis(mesh, axes[a].name)) == TUTTI_OK);
    RANKS_EXPECT(try_older(half) == TUTTI_OK);
    if (rank != 3) {
        RANKS_EXPECT(try_older(half) == (rank < 2 ? TUTTI_OK : TUTTI_PROC_FAILED));
        for (int a = 0; a < 2; a++)
            RANKS_EXPECT(try_older(tutti_mesh_axis(mesh, axes[a].name)) ==
                         (has_it[a] ? TUTTI_PROC_FAILED : TUTTI_OK));
    }
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK && tutti_mesh_free(mesh) == TUTTI_OK);
    if (rank == 3) return 0;
    RANKS_EXPECT(tutti_mesh_create(smaller, &all, 1, &mesh) == TUTTI_OK);
    RANKS_EXPECT(try_older(tutti_mesh_axis(mesh, "all")) == TUTTI_OK);
    RANKS_EXPECT(tutti_mesh_free(mesh) == TUTTI_OK);
    return note_team(smaller, rank);
}

static void meshes_and_splits_work_until_the_excluded_rank_goes(void **state)
{
    (void)state;
    assert_int_equal(run(4, RANKS_DEFAULT, keep_older, NULL), 0);
    expect_team(7);
}

/* ---------------------------------------------------------------------------------- leaving */

/* A rank that gives an agreement up and leaves has decided nothing, so the others need not fear that it
 * has gone on without them. */
static int leave_undecided(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    (void)seed;
    uint64_t word = 5;
    options.rank = rank;
    options.size = size;
    options.id = context;
    options.timeout_ns = rank == 0 ? SECOND / 2 : 20 * SECOND;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    if (rank == 0) {
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_TIMEOUT);
        atomic_store(&endings[0].is_done, 1);
    } else {
        while (atomic_load(&endings[0].is_done) == 0) ranks_nap_ms(1);
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_PROC_FAILED);
        RANKS_EXPECT(word == 5);
    }
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void a_rank_that_left_without_a_decision_is_as_if_dead(void **state)
{
    const struct ranks_options options = {.deadline_ms = 60000, .without_comm = true};
    struct tutti_id id;
    (void)state;
    memset(endings, 0, RANKS_MAX * sizeof *endings);
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    assert_int_equal(ranks_run(2, &options, leave_undecided, &id), 0);
}

/* ---------------------------------------------------------------------------------- two threads */

struct attempt {
    struct tutti_comm *comm;
    enum tutti_status status;
    bool is_named; /* the other thread's call is */
};

static void *try_to_agree(void *context)
{
    struct attempt *const attempt = context;
    uint64_t word = 3;
    attempt->status = tutti_comm_agree(attempt->comm, &word);
    attempt->is_named = says("another thread") && says("tutti_comm_agree on this");
    if (attempt->status == TUTTI_DESYNC) atomic_store(&endings[0].is_done, 1);
    return NULL;
}

/* Two threads of rank 0 call at once: the later one is told so, and the other one is not disturbed. */
static int call_twice(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    uint64_t word = 1;
    struct attempt attempts[2] = {{.comm = comm}, {.comm = comm}};
    pthread_t thread;
    if (rank == 1) {
        while (atomic_load(&endings[0].is_done) == 0) ranks_nap_ms(1);
        RANKS_EXPECT(tutti_comm_agree(comm, &word) == TUTTI_OK && word == 1);
        return 0;
    }
    RANKS_EXPECT(pthread_create(&thread, NULL, try_to_agree, &attempts[1]) == 0);
    (void)try_to_agree(&attempts[0]);
    RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    const int refused = attempts[0].status == TUTTI_DESYNC ? 0 : 1;
    RANKS_EXPECT(attempts[refused].status == TUTTI_DESYNC && attempts[refused].is_named);
    RANKS_EXPECT(attempts[1 - refused].status == TUTTI_OK);
    return 0;
}

static void a_second_thread_is_told_that_another_one_recovers(void **state)
{
    (void)state;
    assert_int_equal(run(2, RANKS_DEFAULT, call_twice, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sick_rank_is_put_out_and_told_so),
        cmocka_unit_test(hosts_put_a_rank_of_another_host_out),
        cmocka_unit_test(a_stopped_rank_is_put_out_and_cannot_go_on_alone),
        cmocka_unit_test(of_several_wishes_one_with_a_majority_comes_true),
        cmocka_unit_test(without_a_majority_all_get_desync_and_may_try_again),
        cmocka_unit_test(mistakes_and_too_few_ranks_are_refused_before_anybody_is_told),
        cmocka_unit_test(meshes_and_splits_work_until_the_excluded_rank_goes),
        cmocka_unit_test(a_rank_that_left_without_a_decision_is_as_if_dead),
        cmocka_unit_test(a_second_thread_is_told_that_another_one_recovers),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    endings = ranks_share(RANKS_MAX * sizeof *endings);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
