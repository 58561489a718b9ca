/* The message about calls that disagree, in cases where it is easily wrong: it does not confuse the
 * rank that called with the rank that left, and it names the difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

static int run(int size, ranks_function *function)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = 20 * SECOND;
    const struct ranks_options options = {.deadline_ms = 60000, .comm_options = &comm_options};
    return ranks_run(size, &options, function, NULL);
}

static bool says(const struct tutti_comm *comm, const char *text)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    return tutti_comm_failure(comm, &failure) == TUTTI_OK && strstr(failure.message, text) != NULL;
}

/* ---------------------------------------------------------------------------- counts of v forms */

enum { BLOCK = 3 };

/* The root has called it, is through with it and leaves, while the last rank waits for more than
 * the root has for it. */
static int receive_too_much(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context;
    int32_t send[4 * BLOCK] = {0}, recv[2 * BLOCK] = {0};
    size_t counts[4];
    for (int r = 0; r < size; r++) counts[r] = BLOCK;
    struct tutti_comm *copy;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    const bool is_greedy = rank == size - 1;
    const enum tutti_status status = tutti_scatterv(
        send, counts, NULL, recv, is_greedy ? 2 * BLOCK : BLOCK, TUTTI_INT32, 0, copy);
    if (is_greedy) {
        RANKS_EXPECT(status == TUTTI_MISMATCH);
        RANKS_EXPECT(says(copy, "scatterv(") && says(copy, "counts differ"));
    }
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static void a_sender_that_called_and_left_had_other_counts(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) assert_int_equal(run(2 + round, receive_too_much), 0);
}

static int disagree_about_counts(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context;
    int32_t mine[4] = {0}, all[64];
    size_t counts[8];
    for (int r = 0; r < size; r++) counts[r] = 2 + (size_t)r;
    if (rank == 1) counts[0]++;
    const enum tutti_status status = tutti_allgatherv(mine, all, counts, NULL, TUTTI_INT32, comm);
    RANKS_EXPECT(status == TUTTI_MISMATCH);
    RANKS_EXPECT(says(comm, "with other counts"));
    return 0;
}

static void what_differs_in_an_allgatherv_is_its_counts(void **state)
{
    (void)state;
    assert_int_equal(run(2, disagree_about_counts), 0);
    assert_int_equal(run(3, disagree_about_counts), 0);
}

/* ---------------------------------------------------------------------------------------- roots */

/* Two roots of one small broadcast have nobody to wait for. The next call in which one waits for
 * the other tells. */
static int disagree_about_the_root(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)seed, (void)context;
    int32_t value = rank, sum = rank;
    enum tutti_status status = tutti_broadcast(&value, &value, 1, TUTTI_INT32, rank, comm);
    if (status == TUTTI_OK) status = tutti_allreduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm);
    RANKS_EXPECT(status == TUTTI_MISMATCH || status == TUTTI_DESYNC);
    RANKS_EXPECT(says(comm, "broadcast(") && says(comm, "root 0") + says(comm, "root 1") > 0);
    (void)size;
    return 0;
}

static void two_roots_of_a_broadcast_are_found_by_the_next_call(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) assert_int_equal(run(2, disagree_about_the_root), 0);
}

/* ----------------------------------------------------------------------------------- no failure */

/* A step that was tried again, and worked in the end, leaves no error message. */
static int succeed(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context, (void)seed, (void)size;
    struct tutti_comm *half;
    int32_t value = 1;
    RANKS_EXPECT(tutti_error_message()[0] == '\0');
    RANKS_EXPECT(tutti_allreduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_error_message()[0] == '\0');
    RANKS_EXPECT(tutti_comm_split(comm, rank % 2, 0, NULL, &half) == TUTTI_OK);
    RANKS_EXPECT(tutti_error_message()[0] == '\0');
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(half) == TUTTI_OK);
    RANKS_EXPECT(tutti_error_message()[0] == '\0');
    return 0;
}

static void where_nothing_failed_there_is_no_message(void **state)
{
    (void)state;
    assert_int_equal(run(5, succeed), 0);
    assert_int_equal(setenv("TUTTI_TRANSPORT", "tcp", 1), 0);
    const int refused = run(5, succeed);
    unsetenv("TUTTI_TRANSPORT");
    assert_int_equal(refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_that_called_and_left_had_other_counts),
        cmocka_unit_test(what_differs_in_an_allgatherv_is_its_counts),
        cmocka_unit_test(two_roots_of_a_broadcast_are_found_by_the_next_call),
        cmocka_unit_test(where_nothing_failed_there_is_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
