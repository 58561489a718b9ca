/* Communicators from communicators: split, dup, group and mesh, what they inherit, how they fail,
 * what they cost.
 *
 * ctest: timeout=180
 */
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "os/clock.h"
#include "tests/kit/belongings.h"
#include "tests/kit/patient.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND_NS = 1000000000u;

/* The sum of the numbers that its ranks give; -1 on failure. */
static int64_t sum_of(int64_t number, struct tutti_comm *comm)
{
    int64_t sum = 0;
    return tutti_allreduce(&number, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK ? sum : -1;
}

/* Whether the communicator's ranks are those of the parent, in that order. */
static bool consists_of(struct tutti_comm *comm, int parent_rank, const int *ranks, int rank_count)
{
    int32_t mine = parent_rank, all[64];
    if (tutti_comm_size(comm) != rank_count || ranks[tutti_comm_rank(comm)] != parent_rank ||
        tutti_allgather(&mine, all, 1, TUTTI_INT32, comm) != TUTTI_OK)
        return false;
    for (int i = 0; i < rank_count; i++)
        if (all[i] != ranks[i]) return false;
    return true;
}

/* ---------------------------------------------------------------------------------------- split */

static int split_backwards(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int ranks[2][3] = {{4, 2, 0}, {5, 3, 1}};
    struct tutti_comm *half;
    RANKS_EXPECT(tutti_comm_split(comm, rank % 2, -rank, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT(consists_of(half, rank, ranks[rank % 2], 3));
    RANKS_EXPECT(sum_of(rank, half) == (rank % 2 == 0 ? 6 : 9));
    RANKS_EXPECT(sum_of(rank, comm) == 15);
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    return 0;
}

static void ranks_of_one_color_are_ordered_by_key(void **state)
{
    (void)state;
    expect_good_both(6, split_backwards, NULL);
}

static int split_with_ties(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int keys[] = {INT_MAX, 0, INT_MIN, 0, -1};
    static const int ranks[] = {2, 4, 1, 3, 0};
    struct tutti_comm *sorted;
    RANKS_EXPECT(tutti_comm_split(comm, INT_MAX, keys[rank], NULL, &sorted) == TUTTI_OK);
    RANKS_EXPECT(consists_of(sorted, rank, ranks, 5));
    RANKS_EXPECT(tutti_comm_free(sorted) == TUTTI_OK);
    return 0;
}

static void equal_keys_keep_the_order_of_ranks(void **state)
{
    (void)state;
    expect_good_both(5, split_with_ties, NULL);
}

static int split_without_some(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm *some = comm, *alone;
    const int color = rank == 1 ? TUTTI_NO_COLOR : 7;
    RANKS_EXPECT(tutti_comm_split(comm, color, 0, NULL, &some) == TUTTI_OK);
    RANKS_EXPECT((some == NULL) == (rank == 1));
    RANKS_EXPECT(some == NULL || consists_of(some, rank, (const int[]){0, 2}, 2));
    /* The one without counts like the others. */
    RANKS_EXPECT(tutti_comm_split(comm, rank, 0, NULL, &alone) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(alone) == 1 && tutti_comm_rank(alone) == 0);
    RANKS_EXPECT(sum_of(rank, alone) == rank);
    RANKS_EXPECT(tutti_comm_free(alone) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(some) == TUTTI_OK);
    return 0;
}

static void who_has_no_color_gets_none(void **state)
{
    (void)state;
    expect_good_both(3, split_without_some, NULL);
}

/* All at once on one parent: their messages do not mix. */
static int use_many(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { MANY = 6, COUNT = 3000 };
    struct tutti_comm *made[MANY];
    struct tutti_request *requests[MANY];
    int32_t *const data = calloc(MANY * COUNT, sizeof *data);
    RANKS_EXPECT(data != NULL);
    for (int i = 0; i < MANY; i++) {
        if (i % 2 == 0)
            RANKS_EXPECT(tutti_comm_dup(comm, NULL, &made[i]) == TUTTI_OK);
        else
            RANKS_EXPECT(tutti_comm_split(comm, 0, -rank, NULL, &made[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_rank(made[i]) == (i % 2 == 0 ? rank : size - 1 - rank));
    }
    /* Started in another order on each rank: these are independent. */
    for (int n = 0; n < MANY; n++) {
        const int i = (n + rank) % MANY;
        for (int k = 0; k < COUNT; k++) data[i * COUNT + k] = i * 100 + k % 50;
        RANKS_EXPECT(tutti_allreduce_start(data + i * COUNT, data + i * COUNT, COUNT, TUTTI_INT32,
                                           TUTTI_SUM, NULL, made[i], &requests[i]) == TUTTI_OK);
    }
    for (int i = 0; i < MANY; i++) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
    for (int i = 0; i < MANY * COUNT; i++)
        RANKS_EXPECT(data[i] == size * (i / COUNT * 100 + i % COUNT % 50));
    for (int i = 0; i < MANY; i++) RANKS_EXPECT(sum_of(i, made[i]) == size * i);
    for (int i = MANY - 1; i >= 0; i--) RANKS_EXPECT(tutti_comm_free(made[i]) == TUTTI_OK);
    free(data);
    return 0;
}

static void many_are_used_beside_each_other(void **state)
{
    (void)state;
    expect_good_both(3, use_many, NULL);
}

/* Between begin and end blocking calls are only started; a derivation is none of them. */
static int derive_in_a_group(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    struct tutti_comm *copy;
    int32_t before = rank, after = rank;
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&before, &before, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_split(comm, 0, -rank, NULL, &copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_rank(copy) == size - 1 - rank);
    RANKS_EXPECT(tutti_allreduce(&after, &after, 1, TUTTI_INT32, TUTTI_SUM, copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(before == size * (size - 1) / 2 && after == before);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static void a_split_may_lie_in_a_group_of_calls(void **state)
{
    (void)state;
    expect_good_both(3, derive_in_a_group, NULL);
}

static int derive_again(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm *half, *copy, *pair;
    RANKS_EXPECT(tutti_comm_split(comm, rank / 4, 0, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(half, NULL, &copy) == TUTTI_OK);
    const int own = tutti_comm_rank(copy);
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK); /* who comes from it does not need it */
    RANKS_EXPECT(tutti_comm_split(copy, own / 2, own, NULL, &pair) == TUTTI_OK);
    RANKS_EXPECT(consists_of(pair, rank, (const int[]){rank / 2 * 2, rank / 2 * 2 + 1}, 2));
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(sum_of(1, pair) == 2);
    RANKS_EXPECT(tutti_comm_free(pair) == TUTTI_OK);
    return 0;
}

static void what_was_derived_can_be_derived_from(void **state)
{
    (void)state;
    expect_good_both(8, derive_again, NULL);
}

/* ---------------------------------------------------------------------------------------- group */

static int group_some(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int some[] = {3, 0, 2}, pair[] = {1, 3};
    struct tutti_comm *group, *other, *again, *alone;
    if (rank != 1) {
        RANKS_EXPECT(tutti_comm_group(comm, some, 3, NULL, &group) == TUTTI_OK);
        RANKS_EXPECT(consists_of(group, rank, some, 3));
        RANKS_EXPECT(tutti_comm_group(comm, some, 3, NULL, &again) == TUTTI_OK);
        RANKS_EXPECT(sum_of(rank, again) == 5);
        RANKS_EXPECT(sum_of(rank, group) == 5);
        RANKS_EXPECT(tutti_comm_free(group) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(again) == TUTTI_OK);
    }
    if (rank % 2 == 1) {
        RANKS_EXPECT(tutti_comm_group(comm, pair, 2, NULL, &other) == TUTTI_OK);
        RANKS_EXPECT(consists_of(other, rank, pair, 2));
        RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_group(comm, &rank, 1, NULL, &alone) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(alone) == 1);
    RANKS_EXPECT(tutti_comm_free(alone) == TUTTI_OK);
    RANKS_EXPECT(sum_of(1, comm) == 4);
    return 0;
}

static void a_group_has_the_listed_ranks_in_that_order(void **state)
{
    (void)state;
    expect_good_both(4, group_some, NULL);
}

/* --------------------------------------------------------------------------------- independence */

static int fail_apart(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct tutti_comm *first, *second;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &first) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &second) == TUTTI_OK);
    RANKS_EXPECT(rank != 0 || tutti_comm_abort(first, "one of them") == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(first) == TUTTI_ABORTED);
    RANKS_EXPECT(sum_of(1, comm) == size);           /* the parent does not care */
    RANKS_EXPECT(tutti_barrier(second) == TUTTI_OK); /* now all are through with that */
    RANKS_EXPECT(rank != 1 || tutti_comm_abort(comm, "the parent") == TUTTI_OK);
    while (tutti_barrier(comm) == TUTTI_OK) continue;
    RANKS_EXPECT(sum_of(1, second) == size); /* nor do its other children */
    RANKS_EXPECT(tutti_comm_free(first) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(second) == TUTTI_OK);
    return 0;
}

static void they_fail_alone(void **state)
{
    (void)state;
    expect_good_both(3, fail_apart, NULL);
}

static bool has_rule(const struct tutti_comm *comm, enum collective collective)
{
    const struct algorithm *algorithm;
    unsigned radix;
    return rules_wanted(comm->team.settings.rules, collective, 8, &algorithm, &radix);
}

static int inherit(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.timeout_ns = 11 * SECOND_NS;
    options.init_timeout_ns = 12 * SECOND_NS;
    options.deterministic = 1;
    options.algorithms = "reduce=tree";
    options.rank = 77; /* ignored */
    options.size = 1;
    struct tutti_comm *same, *other, *third;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &same) == TUTTI_OK);
    RANKS_EXPECT(same->team.settings.timeout_ns == patient.timeout_ns &&
                 same->team.settings.init_timeout_ns == patient.timeout_ns);
    RANKS_EXPECT(!same->team.settings.deterministic &&
                 strcmp(same->team.settings.algorithms, "broadcast=tree") == 0);
    RANKS_EXPECT(has_rule(same, COLLECTIVE_BROADCAST));
    RANKS_EXPECT(tutti_comm_dup(same, &options, &other) == TUTTI_OK);
    RANKS_EXPECT(other->team.settings.timeout_ns == 11 * SECOND_NS &&
                 other->team.settings.init_timeout_ns == 12 * SECOND_NS);
    RANKS_EXPECT(other->team.settings.deterministic &&
                 strcmp(other->team.settings.algorithms, "reduce=tree") == 0);
    RANKS_EXPECT(!has_rule(other, COLLECTIVE_BROADCAST));
    options = (struct tutti_comm_options)TUTTI_COMM_OPTIONS_INIT;
    options.algorithms = "";
    RANKS_EXPECT(tutti_comm_dup(other, &options, &third) == TUTTI_OK);
    RANKS_EXPECT(third->team.settings.timeout_ns == 11 * SECOND_NS &&
                 third->team.settings.deterministic);
    RANKS_EXPECT(!has_rule(third, COLLECTIVE_REDUCE));
    RANKS_EXPECT(tutti_comm_free(same) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(third) == TUTTI_OK);
    return 0;
}

static void options_are_inherited_where_they_are_left_open(void **state)
{
    (void)state;
    struct tutti_comm_options with_rules = patient;
    with_rules.algorithms = "broadcast=tree";
    const struct ranks_options options = {.deadline_ms = 30000, .comm_options = &with_rules};
    assert_int_equal(ranks_run(2, &options, inherit, NULL), 0);
}

/* Which algorithm a communicator uses shows without a look inside: ranks must agree on it, so
 * naming it on one rank is right, and naming another one is a mismatch. */
static enum tutti_status allreduce_as(const char *algorithm, struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = algorithm;
    int64_t one = 1, sum;
    return tutti_allreduce_with(&one, &sum, 1, TUTTI_INT64, TUTTI_SUM, &options, comm);
}

/* The same with a look inside: what made the one program that was run. */
static bool was_made_by(const struct tutti_comm *comm, const char *algorithm)
{
    for (int i = 0; i < PROGRAM_CACHE_SIZE; i++) {
        const struct cached_program *cached = &comm->programs.cached[i];
        if (cached->program != NULL && (cached->shape & 0xff) == COLLECTIVE_ALLREDUCE)
            return strcmp(cached->program->algorithm, algorithm) == 0;
    }
    return false;
}

static int use_rules(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.algorithms = "allreduce=tree";
    struct tutti_comm *half, *wrong;
    RANKS_EXPECT(tutti_comm_split(comm, rank / 3, 0, &options, &half) == TUTTI_OK);
    const bool names = tutti_comm_rank(half) == 1;
    for (int turn = 0; turn < 3; turn++) {
        RANKS_EXPECT(allreduce_as(names ? "ring" : NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(allreduce_as(names ? "tree" : NULL, half) == TUTTI_OK);
    }
    RANKS_EXPECT(was_made_by(comm, "ring") && was_made_by(half, "tree"));
    RANKS_EXPECT(allreduce_as(names ? "ring" : NULL, half) == TUTTI_MISMATCH);
    RANKS_EXPECT(allreduce_as(names ? "tree" : NULL, comm) == TUTTI_MISMATCH);
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    options.algorithms = "allreduce=nosuch";
    RANKS_EXPECT(tutti_comm_group(comm, &rank, 1, &options, &wrong) == TUTTI_MISMATCH);
    return 0;
}

static void a_ring_here_and_a_tree_on_its_split(void **state)
{
    (void)state;
    struct tutti_comm_options with_rules = patient;
    with_rules.algorithms = "allreduce=ring";
    const struct ranks_options options = {.deadline_ms = 40000, .comm_options = &with_rules};
    assert_int_equal(ranks_run(6, &options, use_rules, NULL), 0);
}

/* --------------------------------------------------------------------------------------- errors */

static int call_wrongly(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct tutti_comm *made = comm;
    RANKS_EXPECT(tutti_comm_split(NULL, 0, 0, NULL, &made) == TUTTI_INVALID_COMM && made == NULL);
    RANKS_EXPECT(tutti_comm_split(comm, 0, 0, NULL, NULL) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_comm_split(comm, -2, 0, NULL, &made) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(
        strstr(tutti_error_message(), "color must be 0 or more, or TUTTI_NO_COLOR, is -2") != NULL);
    RANKS_EXPECT(tutti_comm_split(comm, INT_MIN, 0, NULL, &made) == TUTTI_INVALID_OPTIONS);
    struct tutti_comm_options options = {0};
    RANKS_EXPECT(tutti_comm_split(comm, 0, 0, &options, &made) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &made) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, NULL) == TUTTI_INVALID_COMM);
    const int others[] = {(rank + 1) % size}, doubled[] = {rank, (rank + 1) % size, rank},
              beyond[] = {rank, size}, below[] = {-1, rank};
    RANKS_EXPECT(tutti_comm_group(comm, others, 1, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(strstr(tutti_error_message(), "not in its own list") != NULL);
    RANKS_EXPECT(tutti_comm_group(comm, doubled, 3, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(strstr(tutti_error_message(), "ranks[0] and ranks[2]") != NULL);
    RANKS_EXPECT(tutti_comm_group(comm, beyond, 2, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(tutti_comm_group(comm, below, 2, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(tutti_comm_group(comm, NULL, 1, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(tutti_comm_group(comm, &rank, 0, NULL, &made) == TUTTI_INVALID_RANK);
    RANKS_EXPECT(tutti_comm_group(comm, doubled, size + 1, NULL, &made) == TUTTI_INVALID_RANK);
    options = (struct tutti_comm_options)TUTTI_COMM_OPTIONS_INIT;
    options.algorithms = "allreduce=nosuch";
    RANKS_EXPECT(tutti_comm_group(comm, &rank, 1, &options, &made) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "nosuch") != NULL);
    RANKS_EXPECT(tutti_comm_dup(comm, &options, &made) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(made == NULL);
    RANKS_EXPECT(sum_of(1, comm) == size); /* nothing happened to it */
    return 0;
}

static void wrong_arguments_change_nothing(void **state)
{
    (void)state;
    expect_good_both(3, call_wrongly, NULL);
}

static int call_differently(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm *made;
    const enum tutti_status status =
        rank == 2 ? tutti_comm_dup(comm, NULL, &made) : tutti_comm_split(comm, 0, 0, NULL, &made);
    RANKS_EXPECT(status == TUTTI_DESYNC && made == NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 2 called tutti_comm_dup") != NULL);
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_DESYNC && failure.culprit == 2);
    return 0;
}

static void different_derivations_do_not_meet(void **state)
{
    (void)state;
    expect_good_both(3, call_differently, NULL);
}

static int miss_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int all[] = {2, 0, 1};
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.init_timeout_ns = SECOND_NS / 4;
    struct tutti_comm *made;
    if (rank != 0) {
        RANKS_EXPECT(tutti_comm_group(comm, all, 3, &options, &made) == TUTTI_INIT_TIMEOUT);
        RANKS_EXPECT(made == NULL);
        /* The new rank 1 is rank 0. */
        RANKS_EXPECT(strstr(tutti_error_message(), "1 of 3 ranks are missing: 1") != NULL);
        RANKS_EXPECT(strstr(tutti_error_message(), "are ranks 2 0 1") != NULL);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    /* Next time all come, and meet. */
    RANKS_EXPECT(tutti_comm_group(comm, all, 3, NULL, &made) == TUTTI_OK);
    RANKS_EXPECT(sum_of(1, made) == 3);
    RANKS_EXPECT(tutti_comm_free(made) == TUTTI_OK);
    return 0;
}

static void who_does_not_come_to_a_group_is_named(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* each host names its own */
    expect_good_both(3, miss_one, NULL);
}

static int stay_away_from_a_split(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.init_timeout_ns = SECOND_NS / 2;
    struct tutti_comm *made;
    if (rank == 1) {
        struct tutti_failure failure = {.size_bytes = sizeof failure};
        const uint64_t begin_ns = clock_now_ns();
        while (failure.status == TUTTI_OK && clock_now_ns() - begin_ns < 15 * SECOND_NS)
            RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
        RANKS_EXPECT(failure.status == TUTTI_TIMEOUT && failure.culprit == 1);
        return 0;
    }
    RANKS_EXPECT(tutti_comm_split(comm, 0, 0, &options, &made) == TUTTI_TIMEOUT);
    RANKS_EXPECT(made == NULL && strstr(tutti_error_message(), "rank 1") != NULL);
    return 0;
}

static void who_does_not_come_to_a_split_is_named(void **state)
{
    (void)state;
    expect_good_both(3, stay_away_from_a_split, NULL);
}

/* Rank 1 dies or leaves while the others wait for it; `context`: how. */
static int lose_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    static const int all[] = {0, 1, 2}, backwards[] = {1, 2, 0};
    const bool dies = *(const bool *)context;
    struct tutti_comm *copy, *made;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    if (rank == 1) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        if (dies) _exit(0);
        RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
        return 0;
    }
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_group(copy, all, 3, NULL, &made) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 ") != NULL);
    RANKS_EXPECT(made == NULL);
    /* Also where the missing one is the host of the meeting. */
    RANKS_EXPECT(tutti_comm_group(copy, backwards, 3, NULL, &made) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 ") != NULL);
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND_NS); /* its deadline is 20 */
    RANKS_EXPECT(tutti_comm_split(copy, 0, 0, NULL, &made) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static void who_cannot_come_any_more_is_not_waited_for(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* only its own host knows at once */
    bool dies = false;
    expect_good_both(3, lose_one, &dies);
    if (ranks_are_threads()) return;
    dies = true;
    struct ranks_outcome outcomes[3];
    const struct ranks_options options = {
        .deadline_ms = 40000, .comm_options = &patient, .outcomes = outcomes};
    ranks_run(3, &options, lose_one, &dies);
    assert_int_equal(outcomes[0].fate, RANKS_GOOD);
    assert_int_equal(outcomes[1].fate, RANKS_EXITED);
    assert_int_equal(outcomes[2].fate, RANKS_GOOD);
}

static int abort_a_derivation(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed;
    const bool is_group = *(const bool *)context;
    struct tutti_comm *made;
    const uint64_t begin_ns = clock_now_ns();
    if (rank == 2) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        RANKS_EXPECT(tutti_comm_abort(comm, "enough") == TUTTI_OK);
    } else if (is_group) {
        RANKS_EXPECT(tutti_comm_group(comm, (const int[]){0, 1, 2}, 3, NULL, &made) == TUTTI_ABORTED);
    } else {
        RANKS_EXPECT(tutti_comm_split(comm, 0, 0, NULL, &made) == TUTTI_ABORTED);
    }
    RANKS_EXPECT(clock_now_ns() - begin_ns < 10 * SECOND_NS);
    return 0;
}

static void an_abort_ends_a_derivation_under_way(void **state)
{
    (void)state;
    for (int is_group = 0; is_group < 2; is_group++)
        expect_good_both(3, abort_a_derivation, &(bool){is_group != 0});
}

static int use_after_abort(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    RANKS_EXPECT(tutti_comm_abort(comm, "over") == TUTTI_OK);
    struct tutti_comm *made = comm;
    struct tutti_mesh *mesh;
    struct tutti_request *request;
    float data[16] = {0};
    for (int turn = 0; turn < 2; turn++) {
        RANKS_EXPECT(tutti_comm_split(comm, 0, 0, NULL, &made) == TUTTI_ABORTED && made == NULL);
        RANKS_EXPECT(tutti_comm_split(comm, TUTTI_NO_COLOR, 0, NULL, &made) == TUTTI_ABORTED);
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &made) == TUTTI_ABORTED && made == NULL);
        RANKS_EXPECT(tutti_comm_group(comm, &rank, 1, NULL, &made) == TUTTI_ABORTED);
        RANKS_EXPECT(tutti_comm_group(comm, (const int[]){0, 1}, size, NULL, &made) == TUTTI_ABORTED);
        const struct tutti_axis axis = {"all", size, NULL};
        RANKS_EXPECT(tutti_mesh_create(comm, &axis, 1, &mesh) == TUTTI_ABORTED && mesh == NULL);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_ABORTED);
        RANKS_EXPECT(tutti_allreduce(data, data, 4, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_ABORTED);
        RANKS_EXPECT(tutti_allgather(data, data + 4, 1, TUTTI_FLOAT32, comm) == TUTTI_ABORTED);
        RANKS_EXPECT(tutti_alltoall_start(data, data, 1, TUTTI_FLOAT32, NULL, comm, &request) ==
                     TUTTI_ABORTED);
    }
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    RANKS_EXPECT(tutti_comm_footprint(comm, &footprint) == TUTTI_OK);
    return 0;
}

static void nothing_hangs_after_an_abort(void **state)
{
    (void)state;
    expect_good_both(2, use_after_abort, NULL);
    expect_good(1, RANKS_DEFAULT, use_after_abort, NULL);
}

/* ------------------------------------------------------------------------------ again and again */

static int derive_once(struct tutti_comm *comm, int rank, int size, int turn)
{
    struct tutti_comm *split, *copy, *group;
    RANKS_EXPECT(tutti_comm_split(comm, rank % 2, rank, NULL, &split) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    RANKS_EXPECT(sum_of(turn, copy) == turn * size);
    if (rank < 2) {
        RANKS_EXPECT(tutti_comm_group(comm, (const int[]){1, 0}, 2, NULL, &group) == TUTTI_OK);
        RANKS_EXPECT(sum_of(turn, group) == turn * 2);
        RANKS_EXPECT(tutti_comm_free(group) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(split) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(split) == TUTTI_OK);
    return 0;
}

static int derive_often(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const int turns = *(const int *)context;
    int descriptors = 0, maps = 0;
    size_t bytes = 0;
    for (int turn = 0; turn < turns; turn++) {
        if (derive_once(comm, rank, size, turn) != 0) return 1;
        if (turn == 4) {
            descriptors = belongings_descriptors();
            maps = belongings_mappings();
            bytes = mallinfo2().uordblks;
        }
    }
    /* Over hosts connections are closed on both sides when both have come to it. */
    const bool is_settled = !ranks_are_on_hosts();
    RANKS_EXPECT(!is_settled || belongings_descriptors() == descriptors);
    RANKS_EXPECT(belongings_descriptors() <= descriptors + 20);
    RANKS_EXPECT(belongings_mappings() <= maps + (is_settled ? 0 : 4));
    /* What malloc keeps at hand counts as used, so this finds only what grows with every turn. */
    RANKS_EXPECT(mallinfo2().uordblks <= bytes + 50000);
    return 0;
}

static void hundreds_come_and_go_without_a_trace(void **state)
{
    (void)state;
    if (!ranks_are_threads()) expect_good(3, RANKS_PROCESSES, derive_often, &(int){100});
}

static int derive_some(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    for (int turn = 0; turn < 20; turn++)
        if (derive_once(comm, rank, size, turn) != 0) return 1;
    return 0;
}

static void threads_leave_nothing_either(void **state)
{
    (void)state;
    const int descriptors = belongings_descriptors();
    expect_good(4, RANKS_THREADS, derive_some, NULL);
    assert_int_equal(belongings_descriptors(), descriptors);
}

struct worker {
    struct tutti_comm *comm;
    int rank, size, result;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct worker *const worker = argument;
    for (int turn = 0; turn < 8 && worker->result == 0; turn++)
        worker->result = derive_once(worker->comm, worker->rank, worker->size, turn);
    return NULL;
}

/* Each rank has threads of its own, which derive at the same time from communicators of their
 * own. */
static int derive_from_threads(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed, (void)context;
    struct worker workers[3];
    for (int i = 0; i < 3; i++) {
        workers[i] = (struct worker){.rank = rank, .size = size};
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &workers[i].comm) == TUTTI_OK);
    }
    for (int i = 0; i < 3; i++)
        RANKS_EXPECT(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(workers[i].thread, NULL);
        RANKS_EXPECT(workers[i].result == 0);
        RANKS_EXPECT(tutti_comm_free(workers[i].comm) == TUTTI_OK);
    }
    return 0;
}

static void threads_derive_at_the_same_time(void **state)
{
    (void)state;
    expect_good_both(2, derive_from_threads, NULL);
}

/* ----------------------------------------------------------------------------------------- mesh */

struct shape {
    struct tutti_axis axes[3];
    int axis_count;
};

static int use_mesh(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct shape *shape = context;
    struct tutti_mesh *mesh;
    RANKS_EXPECT(tutti_mesh_create(comm, shape->axes, shape->axis_count, &mesh) == TUTTI_OK);
    int stride = size;
    for (int i = 0; i < shape->axis_count; i++) {
        const struct tutti_axis *axis = &shape->axes[i];
        stride /= axis->size;
        const int coordinate = rank / stride % axis->size, first = rank - coordinate * stride;
        int ranks[8];
        for (int k = 0; k < axis->size; k++) ranks[k] = first + k * stride;
        struct tutti_comm *const along = tutti_mesh_axis(mesh, axis->name);
        RANKS_EXPECT(along != NULL && tutti_comm_rank(along) == coordinate);
        RANKS_EXPECT(consists_of(along, rank, ranks, axis->size));
        RANKS_EXPECT(sum_of(rank, along) ==
                     axis->size * first + stride * axis->size * (axis->size - 1) / 2);
    }
    RANKS_EXPECT(tutti_mesh_axis(mesh, "none") == NULL && tutti_mesh_axis(mesh, NULL) == NULL);
    RANKS_EXPECT(tutti_mesh_free(mesh) == TUTTI_OK);
    return 0;
}

static void each_axis_of_a_mesh_joins_who_differs_only_there(void **state)
{
    (void)state;
    struct shape cube = {{{"dp", 2, NULL}, {"pp", 2, NULL}, {"tp", 2, NULL}}, 3};
    expect_good_both(8, use_mesh, &cube);
    struct shape flat = {{{"rows", 3, NULL}, {"columns", 2, NULL}}, 2};
    expect_good_both(6, use_mesh, &flat);
    struct shape thin = {{{"x", 2, NULL}, {"one", 1, NULL}, {"y", 2, NULL}}, 3};
    expect_good_both(4, use_mesh, &thin);
    struct shape line = {{{"all", 3, NULL}}, 1};
    expect_good(3, RANKS_DEFAULT, use_mesh, &line);
}

static int mesh_wrongly(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)seed, (void)context;
    struct tutti_comm_options old = {0};
    const struct {
        struct tutti_axis axes[2];
        int axis_count;
        const char *says;
    } wrong[] = {
        {{{"a", 2, NULL}, {"b", 3, NULL}}, 2, "product"},
        {{{"a", INT_MAX, NULL}, {"b", INT_MAX, NULL}}, 2, "product"},
        {{{"a", 1, NULL}, {"b", 3, NULL}}, 2, "product"},
        {{{"a", 2, NULL}, {"a", 2, NULL}}, 2, "both \"a\""},
        {{{"a", 4, NULL}, {"", 1, NULL}}, 2, "axis 1 must have a name"},
        {{{NULL, 4, NULL}, {"b", 1, NULL}}, 2, "axis 0 must have a name"},
        {{{"a", 4, NULL}, {"b", 0, NULL}}, 2, "\"b\" must be 1 or more, is 0"},
        {{{"a", -2, NULL}, {"b", -2, NULL}}, 2, "\"a\" must be 1 or more, is -2"},
        {{{"a", 4, NULL}, {"b", 1, &old}}, 2, "size_bytes"},
        {{{"a", 4, NULL}, {"b", 1, NULL}}, 0, "1 axis or more, are 0"},
        {{{"a", 4, NULL}, {"b", 1, NULL}}, -1, "1 axis or more, are -1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tutti_mesh *mesh = (struct tutti_mesh *)comm;
        RANKS_EXPECT(tutti_mesh_create(comm, wrong[i].axes, wrong[i].axis_count, &mesh) ==
                     TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(mesh == NULL && strstr(tutti_error_message(), wrong[i].says) != NULL);
    }
    struct tutti_mesh *mesh;
    const struct tutti_axis axis = {"all", size, NULL};
    RANKS_EXPECT(tutti_mesh_create(NULL, &axis, 1, &mesh) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_mesh_create(comm, NULL, 1, &mesh) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_mesh_create(comm, &axis, 1, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_mesh_free(NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_mesh_axis(NULL, "all") == NULL);
    RANKS_EXPECT(sum_of(1, comm) == size);
    return 0;
}

static void axes_that_make_no_mesh_are_refused(void **state)
{
    (void)state;
    expect_good_both(4, mesh_wrongly, NULL);
}

static int mesh_differently(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)size, (void)seed, (void)context;
    const struct tutti_axis axes[2][2] = {{{"a", 2, NULL}, {"b", 2, NULL}},
                                          {{"a", 4, NULL}, {"b", 1, NULL}}};
    struct tutti_mesh *mesh;
    RANKS_EXPECT(tutti_mesh_create(comm, axes[rank == 3], 2, &mesh) == TUTTI_MISMATCH);
    RANKS_EXPECT(mesh == NULL && strstr(tutti_error_message(), "ranks 0 and 3") != NULL);
    return 0;
}

static void meshes_of_different_axes_do_not_meet(void **state)
{
    (void)state;
    expect_good_both(4, mesh_differently, NULL);
}

static int mesh_with_options(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.algorithms = "allreduce=tree";
    const struct tutti_axis axes[] = {{"ring", 2, NULL}, {"tree", 2, &options}};
    struct tutti_mesh *mesh;
    RANKS_EXPECT(tutti_mesh_create(comm, axes, 2, &mesh) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        struct tutti_comm *const along = tutti_mesh_axis(mesh, axes[i].name);
        const bool names = tutti_comm_rank(along) == 0;
        RANKS_EXPECT(allreduce_as(names ? axes[i].name : NULL, along) == TUTTI_OK);
        RANKS_EXPECT(allreduce_as(names ? axes[1 - i].name : NULL, along) == TUTTI_MISMATCH);
    }
    RANKS_EXPECT(tutti_mesh_free(mesh) == TUTTI_OK);
    RANKS_EXPECT(sum_of(rank, comm) == 6);
    return 0;
}

static void each_axis_has_options_of_its_own(void **state)
{
    (void)state;
    struct tutti_comm_options with_rules = patient;
    with_rules.algorithms = "allreduce=ring";
    const struct ranks_options options = {.deadline_ms = 40000, .comm_options = &with_rules};
    assert_int_equal(ranks_run(4, &options, mesh_with_options, NULL), 0);
}

/* ------------------------------------------------------------------------------------ footprint */

static struct tutti_footprint footprint_of(const struct tutti_comm *comm)
{
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    if (tutti_comm_footprint(comm, &footprint) != TUTTI_OK) footprint.size_bytes = 0;
    return footprint;
}

/* What lies behind all shared memory segments of this process. */
static size_t segment_bytes(void)
{
    size_t bytes = 0;
    for (int fd = 3; fd < 256; fd++) {
        char path[32], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        struct stat stat;
        if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "tutti-segment") != NULL &&
            fstat(fd, &stat) == 0)
            bytes += (size_t)stat.st_blocks * 512;
    }
    return bytes;
}

static int grow(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_footprint fresh = footprint_of(comm);
    RANKS_EXPECT(fresh.size_bytes > 0 && fresh.program_count == 0 && fresh.link_count == 0);
    RANKS_EXPECT(fresh.private_bytes >= sizeof(struct tutti_comm));
    RANKS_EXPECT(fresh.private_bytes < 200000 && fresh.shared_bytes < 100000);
    RANKS_EXPECT(fresh.shared_bytes >= board_bytes(size, size) / (size_t)size);
    RANKS_EXPECT(fresh.descriptor_count >= 1);

    RANKS_EXPECT(sum_of(1, comm) == size);
    const struct tutti_footprint used = footprint_of(comm);
    RANKS_EXPECT(used.program_count == 1 && used.link_count > 0);
    RANKS_EXPECT(used.private_bytes > fresh.private_bytes);
    RANKS_EXPECT(used.shared_bytes > fresh.shared_bytes);

    RANKS_EXPECT(sum_of(1, comm) == size); /* the same once more costs nothing */
    const struct tutti_footprint again = footprint_of(comm);
    RANKS_EXPECT(memcmp(&again, &used, sizeof used) == 0);

    float *const data = calloc(1 << 16, sizeof *data);
    RANKS_EXPECT(data != NULL);
    RANKS_EXPECT(tutti_allreduce(data, data, 1 << 16, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_alltoall(data, data + (1 << 15), 1 << 12, TUTTI_FLOAT32, comm) == TUTTI_OK);
    free(data);
    const struct tutti_footprint more = footprint_of(comm);
    RANKS_EXPECT(more.program_count == 3 && more.private_bytes > used.private_bytes);
    RANKS_EXPECT(more.shared_bytes > used.shared_bytes);

    /* What all ranks together say they have is what there is. */
    int64_t shared = (int64_t)more.shared_bytes, sum = 0;
    struct tutti_comm *other;
    const size_t before = segment_bytes();
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    shared = (int64_t)footprint_of(comm).shared_bytes;
    RANKS_EXPECT(tutti_allreduce(&shared, &sum, 1, TUTTI_INT64, TUTTI_SUM, other) == TUTTI_OK);
    if (!ranks_are_threads() && !comm->team.members.has_threads) {
        RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
        other = NULL;
        const int64_t found = (int64_t)segment_bytes();
        RANKS_EXPECT(before > 0 && sum <= found && sum > found - size);
    }
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    (void)rank;
    return 0;
}

static void a_footprint_grows_with_use(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* ranks alone on a host share nothing */
    expect_good_both(2, grow, NULL);
    expect_good_both(4, grow, NULL);
}

static int be_small(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)seed, (void)context;
    struct tutti_footprint footprint = {0};
    RANKS_EXPECT(tutti_comm_footprint(comm, &footprint) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_footprint(comm, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_footprint(NULL, &footprint) == TUTTI_INVALID_COMM);
    footprint = footprint_of(comm);
    RANKS_EXPECT(footprint.private_bytes > sizeof(struct tutti_comm));
    RANKS_EXPECT(footprint.shared_bytes == 0 && footprint.descriptor_count == 0);
    RANKS_EXPECT(sum_of(1, comm) == size);
    RANKS_EXPECT(footprint_of(comm).private_bytes == footprint.private_bytes);
    return 0;
}

static void a_communicator_of_one_has_nothing_shared(void **state)
{
    (void)state;
    expect_good(1, RANKS_DEFAULT, be_small, NULL);
}

static int count_descriptors(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    enum { MANY = 10 };
    struct tutti_comm *made[MANY];
    const int before = belongings_descriptors();
    size_t counted = 0;
    for (int i = 0; i < MANY; i++) {
        RANKS_EXPECT(tutti_comm_dup(comm, NULL, &made[i]) == TUTTI_OK);
        counted += footprint_of(made[i]).descriptor_count;
        RANKS_EXPECT(sum_of(1, made[i]) == size);
    }
    /* A segment each; everything else is there already. */
    RANKS_EXPECT(belongings_descriptors() - before == MANY);
    RANKS_EXPECT(size == 3 && counted == MANY * (1 + 2)); /* and those of two other processes */
    for (int i = 0; i < MANY; i++) RANKS_EXPECT(tutti_comm_free(made[i]) == TUTTI_OK);
    RANKS_EXPECT(belongings_descriptors() == before);
    (void)rank;
    return 0;
}

static void freeing_gives_all_descriptors_back(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* counts what one host needs */
    if (!ranks_are_threads()) expect_good(3, RANKS_PROCESSES, count_descriptors, NULL);
}

static int ask_for_overlap(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)rank, (void)seed, (void)context;
    cpu_set_t all, one;
    RANKS_EXPECT(tutti_comm_overlaps(NULL) == -1);
    RANKS_EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    const int is_far = ranks_are_on_hosts() && size > 1;
    RANKS_EXPECT(tutti_comm_overlaps(comm) == (is_far || CPU_COUNT(&all) > size));
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    RANKS_EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    RANKS_EXPECT(tutti_comm_overlaps(comm) == is_far);
    return sched_setaffinity(0, sizeof all, &all) != 0;
}

static void what_is_started_overlaps_where_there_is_a_cpu_for_it(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, ask_for_overlap, NULL);
    expect_good(1, RANKS_DEFAULT, ask_for_overlap, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_color_are_ordered_by_key),
        cmocka_unit_test(equal_keys_keep_the_order_of_ranks),
        cmocka_unit_test(who_has_no_color_gets_none),
        cmocka_unit_test(many_are_used_beside_each_other),
        cmocka_unit_test(a_split_may_lie_in_a_group_of_calls),
        cmocka_unit_test(what_was_derived_can_be_derived_from),
        cmocka_unit_test(a_group_has_the_listed_ranks_in_that_order),
        cmocka_unit_test(they_fail_alone),
        cmocka_unit_test(options_are_inherited_where_they_are_left_open),
        cmocka_unit_test(a_ring_here_and_a_tree_on_its_split),
        cmocka_unit_test(wrong_arguments_change_nothing),
        cmocka_unit_test(different_derivations_do_not_meet),
        cmocka_unit_test(who_does_not_come_to_a_group_is_named),
        cmocka_unit_test(who_does_not_come_to_a_split_is_named),
        cmocka_unit_test(who_cannot_come_any_more_is_not_waited_for),
        cmocka_unit_test(an_abort_ends_a_derivation_under_way),
        cmocka_unit_test(nothing_hangs_after_an_abort),
        cmocka_unit_test(hundreds_come_and_go_without_a_trace),
        cmocka_unit_test(threads_leave_nothing_either),
        cmocka_unit_test(threads_derive_at_the_same_time),
        cmocka_unit_test(each_axis_of_a_mesh_joins_who_differs_only_there),
        cmocka_unit_test(axes_that_make_no_mesh_are_refused),
        cmocka_unit_test(meshes_of_different_axes_do_not_meet),
        cmocka_unit_test(each_axis_has_options_of_its_own),
        cmocka_unit_test(a_footprint_grows_with_use),
        cmocka_unit_test(a_communicator_of_one_has_nothing_shared),
        cmocka_unit_test(freeing_gives_all_descriptors_back),
        cmocka_unit_test(what_is_started_overlaps_where_there_is_a_cpu_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
