/* Ranks that are bound to cores know who is near whom: all alike, and whatever they then call is
 * right.
 *
 * ctest: timeout=60
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 4 };

struct meeting {
    struct tutti_id id;
    int cpus[2];            /* rank r runs on cpus[r % 2] */
    int free_rank;          /* and this one anywhere; or -1 */
    int deterministic_rank; /* and only this one calls that way; or -1 */
};

/* Nothing here can be seen on fewer than two CPUs. */
static struct meeting new_meeting(void)
{
    struct meeting meeting = {.free_rank = -1, .deterministic_rank = -1};
    cpu_set_t allowed;
    int count = 0;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) skip();
    for (int cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++)
        if (CPU_ISSET((size_t)cpu, &allowed)) meeting.cpus[count++] = cpu;
    if (count < 2) skip();
    assert_int_equal(tutti_id_create(&meeting.id), TUTTI_OK);
    return meeting;
}

static int run(ranks_function *function, struct meeting *meeting)
{
    const struct ranks_options options = {.without_comm = true, .deadline_ms = 20000};
    return ranks_run(RANKS, &options, function, meeting);
}

static int bind_and_create(const struct meeting *meeting, int rank, struct tutti_comm **comm)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = RANKS;
    options.id = &meeting->id;
    options.timeout_ns = options.init_timeout_ns = 10000000000u;
    if (rank != meeting->free_rank) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)meeting->cpus[rank % 2], &one);
        RANKS_EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    }
    RANKS_EXPECT(tutti_comm_create(&options, comm) == TUTTI_OK);
    return 0;
}

/* Whether this rank's order is that one, and everybody else's, too; `order` NULL: as numbered. */
static bool is_ordered(struct tutti_comm *comm, const int *order)
{
    if ((comm->team.members.order == NULL) != (order == NULL)) return false;
    const size_t bytes = sizeof *order * (size_t)comm->team.size;
    return order == NULL || memcmp(comm->team.members.order, order, bytes) == 0;
}

/* One of two: which CPU comes first depends on the packages. */
static bool is_ordered_either_way(struct tutti_comm *comm, const int *one, const int *other)
{
    int32_t first = comm->team.members.order != NULL ? comm->team.members.order[0] : -1, least, most;
    if (tutti_allreduce(&first, &least, 1, TUTTI_INT32, TUTTI_MIN, comm) != TUTTI_OK ||
        tutti_allreduce(&first, &most, 1, TUTTI_INT32, TUTTI_MAX, comm) != TUTTI_OK)
        return false;
    return least == most && (is_ordered(comm, one) || is_ordered(comm, other));
}

/* ---------------------------------------------------------------------------------------- tests */

static int orders_by_core(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)size, (void)seed;
    static const int by_core[] = {0, 2, 1, 3}, other_first[] = {1, 3, 0, 2};
    static const int reversed[] = {1, 3, 0, 2}, reversed_other[] = {0, 2, 1, 3};
    struct tutti_comm *comm, *derived;
    if (bind_and_create(context, rank, &comm) != 0) return 1;
    RANKS_EXPECT(is_ordered_either_way(comm, by_core, other_first));
    RANKS_EXPECT(comm->team.members.oversubscribed);

    /* In the opposite order, rank 3 is rank 0 and on the second CPU. */
    RANKS_EXPECT(tutti_comm_split(comm, 0, -rank, NULL, &derived) == TUTTI_OK);
    RANKS_EXPECT(is_ordered_either_way(derived, reversed, reversed_other));
    RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);

    RANKS_EXPECT(tutti_comm_split(comm, rank % 2, rank, NULL, &derived) == TUTTI_OK);
    RANKS_EXPECT(is_ordered(derived, NULL)); /* both on one core */
    RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);

    RANKS_EXPECT(tutti_comm_split(comm, rank / 2, rank, NULL, &derived) == TUTTI_OK);
    RANKS_EXPECT(is_ordered_either_way(derived, NULL, (const int[]){1, 0}));
    RANKS_EXPECT(!derived->team.members.oversubscribed);
    RANKS_EXPECT(tutti_comm_free(derived) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void bound_ranks_are_ordered_by_core(void **state)
{
    (void)state;
    struct meeting meeting = new_meeting();
    assert_int_equal(run(orders_by_core, &meeting), 0);
}

static int stays_as_numbered(struct tutti_comm *none, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)none, (void)size, (void)seed;
    struct tutti_comm *comm;
    if (bind_and_create(context, rank, &comm) != 0) return 1;
    RANKS_EXPECT(is_ordered(comm, NULL));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void one_rank_that_is_not_bound_leaves_all_as_they_are_numbered(void **state)
{
    (void)state;
    for (int free_rank = 0; free_rank < RANKS; free_rank += RANKS - 1) {
        struct meeting meeting = new_meeting();
        meeting.free_rank = free_rank;
        assert_int_equal(run(stays_as_numbered, &meeting), 0);
    }
}

/* Affine functions, first slope, then offset, in 32 bits each: composed they do not commute. */
static void compose(const void *left, const void *right, void *result, size_t count,
                    enum tutti_dtype dtype, void *context)
{
    (void)dtype, (void)context;
    for (size_t i = 0; i < count; i++) {
        uint32_t f[2], g[2], both[2];
        memcpy(f, (const char *)left + i * sizeof f, sizeof f);
        memcpy(g, (const char *)right + i * sizeof g, sizeof g);
        both[0] = f[0] * g[0];
        both[1] = f[0] * g[1] + f[1];
        memcpy((char *)result + i * sizeof both, both, sizeof both);
    }
}

static void affine(int rank, size_t index, uint32_t function[2])
{
    function[0] = 3 + 2 * (uint32_t)rank;
    function[1] = (uint32_t)index * 7 + (uint32_t)rank * 1000;
}

enum { COUNT = 100000 };

/* Numbers of many magnitudes, so that another order of additions gives other bits. */
static float number(int rank, size_t index)
{
    const uint32_t random = ((uint32_t)index * 4 + (uint32_t)rank) * 2654435761u;
    return (float)(random >> 8) / (float)(1 << (random >> 4) % 16);
}

static int composes_in_rank_order(struct tutti_comm *comm, int rank, tutti_op op,
                                  const struct tutti_call_options *options)
{
    uint32_t(*const functions)[2] = malloc(COUNT * sizeof *functions);
    RANKS_EXPECT(functions != NULL);
    for (size_t i = 0; i < COUNT; i++) affine(rank, i, functions[i]);
    RANKS_EXPECT(tutti_allreduce_with(functions, functions, COUNT, TUTTI_UINT64, op, options,
                                      comm) == TUTTI_OK);
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t expected[2], next[2];
        affine(0, i, expected);
        for (int r = 1; r < RANKS; r++) {
            affine(r, i, next);
            compose(expected, next, expected, 1, TUTTI_UINT64, NULL);
        }
        RANKS_EXPECT(memcmp(functions[i], expected, sizeof expected) == 0);
    }
    free(functions);
    return 0;
}

static int adds_exactly(struct tutti_comm *comm, int rank, const struct tutti_call_options *options)
{
    int32_t *const numbers = malloc(COUNT * sizeof *numbers);
    RANKS_EXPECT(numbers != NULL);
    for (int i = 0; i < COUNT; i++) numbers[i] = i + rank * 1000;
    RANKS_EXPECT(tutti_allreduce_with(numbers, numbers, COUNT, TUTTI_INT32, TUTTI_SUM, options,
                                      comm) == TUTTI_OK);
    for (int i = 0; i < COUNT; i++) RANKS_EXPECT(numbers[i] == RANKS * i + 6000);
    free(numbers);
    return 0;
}

static int is_right_by_any_algorithm(struct tutti_comm *none, int rank, int size, uint64_t seed,
                                     void *context)
{
    (void)none, (void)size, (void)seed;
    struct tutti_comm *comm;
    struct tutti_op_options op_options = TUTTI_OP_OPTIONS_INIT;
    tutti_op op;
    op_options.combine = compose;
    RANKS_EXPECT(tutti_op_create(&op_options, &op) == TUTTI_OK);
    if (bind_and_create(context, rank, &comm) != 0) return 1;
    RANKS_EXPECT(comm->team.members.order != NULL);
    for (int i = 0; i < algo_count; i++) {
        const struct algorithm *algorithm = &algo_list[i];
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.algorithm = algorithm->name;
        if (algorithm->collective != COLLECTIVE_ALLREDUCE || algorithm->needs_levels) continue;
        if (adds_exactly(comm, rank, &options) != 0 ||
            (!algorithm->needs_commutative && composes_in_rank_order(comm, rank, op, &options) != 0)) {
            fprintf(stderr, "rank %d: by %s\n", rank, algorithm->name);
            return 1;
        }
    }
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_op_free(op) == TUTTI_OK);
    return 0;
}

static void bound_ranks_get_right_results_by_any_algorithm(void **state)
{
    (void)state;
    struct meeting meeting = new_meeting();
    assert_int_equal(run(is_right_by_any_algorithm, &meeting), 0);
}

/* A deterministic sum by that algorithm, of the same numbers each time. */
static int add(struct tutti_comm *comm, int rank, const char *algorithm, float *numbers)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = algorithm;
    options.deterministic = 1;
    for (size_t i = 0; i < COUNT; i++) numbers[i] = number(rank, i);
    RANKS_EXPECT(tutti_allreduce_with(numbers, numbers, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                      comm) == TUTTI_OK);
    return 0;
}

static int gets_the_bits_of_free_ranks(struct tutti_comm *free_comm, int rank, int size,
                                       uint64_t seed, void *context)
{
    (void)size, (void)seed;
    struct tutti_comm *comm;
    float *const here = malloc(COUNT * sizeof *here), *const there = malloc(COUNT * sizeof *there);
    RANKS_EXPECT(here != NULL && there != NULL && is_ordered(free_comm, NULL));
    if (bind_and_create(context, rank, &comm) != 0) return 1;
    RANKS_EXPECT(comm->team.members.order != NULL);
    for (int i = 0; i < algo_count; i++) {
        if (algo_list[i].collective != COLLECTIVE_ALLREDUCE || !algo_list[i].deterministic ||
            algo_list[i].needs_levels)
            continue;
        if (add(free_comm, rank, algo_list[i].name, here) != 0) return 1;
        if (add(comm, rank, algo_list[i].name, there) != 0) return 1;
        RANKS_EXPECT(memcmp(here, there, COUNT * sizeof *here) == 0);
    }
    free(here);
    free(there);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void deterministic_bits_do_not_depend_on_where_ranks_are_bound(void **state)
{
    (void)state;
    struct meeting meeting = new_meeting();
    const struct ranks_options options = {.deadline_ms = 20000};
    assert_int_equal(ranks_run(RANKS, &options, gets_the_bits_of_free_ranks, &meeting), 0);
}

/* Plans of different orders do not fit each other: that is said, and nobody waits for ever. */
static int disagrees(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    (void)none, (void)size, (void)seed;
    const struct meeting *meeting = context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_comm *comm;
    float one = 1;
    options.algorithm = "oneshot";
    options.deterministic = rank == meeting->deterministic_rank;
    if (bind_and_create(meeting, rank, &comm) != 0) return 1;
    RANKS_EXPECT(tutti_allreduce_with(&one, &one, 1, TUTTI_FLOAT32, TUTTI_SUM, &options, comm) ==
                 TUTTI_MISMATCH);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void ranks_that_disagree_on_the_order_are_told(void **state)
{
    (void)state;
    struct meeting meeting = new_meeting();
    meeting.deterministic_rank = 2;
    assert_int_equal(run(disagrees, &meeting), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_ranks_are_ordered_by_core),
        cmocka_unit_test(one_rank_that_is_not_bound_leaves_all_as_they_are_numbered),
        cmocka_unit_test(bound_ranks_get_right_results_by_any_algorithm),
        cmocka_unit_test(deterministic_bits_do_not_depend_on_where_ranks_are_bound),
        cmocka_unit_test(ranks_that_disagree_on_the_order_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
