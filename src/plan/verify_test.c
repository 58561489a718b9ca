/* One thread, so the thread sanitizer has nothing to see.
 *
 * ctest: label=notsan */
/* verify_test.c - plans with one fault each, which the verifier has to name; where the fault shows
 * in results, the search of tests/plans/explore.c has to find it too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "tests/plans/explore.h"
#include "tests/plans/plan_rounds.h"
#include "tests/plans/sample_plans.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static const struct verify_options separate = {0}, in_place = {.in_place = true},
                                   uniform = {.associative_tree_uniform = true},
                                   scratch_outlives = {.scratch_outlives_run = true};

static void expect_proven(const struct plan *plan, const struct verify_options *options)
{
    struct verify_report report;
    if (plan_verify(plan, options, &report) != VERIFY_PROVEN) fail_msg("%s", report.message);
    assert_int_equal(report.rank, -1);
    assert_string_equal(report.message, "");
}

/* Refuted there, with a message that contains `what`. */
static void expect_wrong(const struct plan *plan, const struct verify_options *options, int rank,
                         int lane, int step, const char *what)
{
    struct verify_report report;
    assert_int_equal(plan_verify(plan, options, &report), VERIFY_WRONG);
    if (strstr(report.message, what) == NULL) fail_msg("%s", report.message);
    assert_int_equal(report.rank, rank);
    assert_int_equal(report.lane, lane);
    assert_int_equal(report.step, step);
    assert_false(report.rank_ordered);
}

static enum explore_outcome run_all_orders(const struct plan *plan,
                                           const struct verify_options *options, int capacity)
{
    struct explore_report report;
    const struct explore_options search = {.in_place = options->in_place,
                                           .scratch_outlives_run = options->scratch_outlives_run,
                                           .run_count = 2,
                                           .capacity = capacity,
                                           .events_max = 1000000};
    return explore(plan, &search, &report);
}

static struct plan *algorithm_plan(enum collective collective, const char *name, int rank_count)
{
    const struct algo_params params = {.collective = collective, .rank_count = rank_count};
    return plan_named(name, &params);
}

/* A wrong plan for `separate`, wrong in some order of events too. */
static void expect_wrong_sample(enum collective collective, int rank_count,
                                sample_generate *generate, int rank, int lane, int step,
                                const char *what)
{
    struct plan *plan = sample_plan(collective, rank_count, 0, generate);
    expect_wrong(plan, &separate, rank, lane, step, what);
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_WRONG);
    plan_free(plan);
}

/* ----------------------------------------------------------------------------------- what holds */

static void samples_are_proven(void **state)
{
    (void)state;
    for (int i = 0; i < sample_count; i++) {
        const struct sample *sample = &sample_list[i];
        struct plan *plan =
            sample_plan(sample->collective, sample->rank_count, sample->root, sample->generate);
        expect_proven(plan, &separate);
        if (sample->in_place) expect_proven(plan, &in_place);
        plan_free(plan);
    }
}

static void steps_messages_and_rank_order_are_reported(void **state)
{
    struct verify_report report;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 3, 0, sample_chain);
    (void)state;
    assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_PROVEN);
    assert_true(report.rank_ordered);
    assert_int_equal(report.step_count, 5);
    assert_int_equal(report.message_count, 4);
    plan_free(plan);
    plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange);
    assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_PROVEN);
    assert_false(report.rank_ordered); /* rank 0 adds the peer's first */
    plan_free(plan);
}

static void one_tree_for_all_chunks_is_told_from_many(void **state)
{
    (void)state;
    struct plan *plan = algorithm_plan(COLLECTIVE_ALLREDUCE, "doubling", 6);
    expect_proven(plan, &uniform);
    plan_free(plan);
    plan = algorithm_plan(COLLECTIVE_ALLREDUCE, "ring", 6);
    struct verify_report report;
    expect_proven(plan, &separate);
    assert_int_equal(plan_verify(plan, &uniform, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "in another order"));
    plan_free(plan);
}

static void expect_too_costly(const struct plan *plan, uint64_t work_max, uint64_t bytes_max,
                              const char *what)
{
    struct verify_report report;
    struct plan_budget budget = plan_budget_default();
    budget.work_max = work_max;
    budget.bytes_max = bytes_max;
    const struct verify_options options = {.budget = &budget};
    assert_int_equal(plan_verify(plan, &options, &report), VERIFY_TOO_COSTLY);
    if (strstr(report.message, what) == NULL) fail_msg("%s", report.message);
}

static void a_proof_ends_with_its_budget(void **state)
{
    (void)state;
    static const struct {
        enum collective collective;
        const char *name;
        int rank_count;
    } cases[] = {{COLLECTIVE_ALLREDUCE, "halving_doubling", 16},
                 {COLLECTIVE_ALLREDUCE, "twoshot", 9},
                 {COLLECTIVE_ALLREDUCE, "relay", 6},
                 {COLLECTIVE_ALLTOALL, "bruck", 12},
                 {COLLECTIVE_BARRIER, "mesh", 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *const plan =
            algorithm_plan(cases[i].collective, cases[i].name, cases[i].rank_count);
        const struct verify_cost cost = verify_cost_of(plan);
        struct plan_budget budget = plan_budget_default();
        expect_proven(plan, &(struct verify_options){.budget = &budget});
        assert_int_equal(budget.bytes, 0);
        assert_in_range(cost.work, budget.work / 8, budget.work);
        const uint64_t all = budget.bytes_max;
        struct plan_budget enough = plan_budget_default();
        enough.work_max = budget.work;
        expect_proven(plan, &(struct verify_options){.budget = &enough});
        for (uint64_t work = 0; work < budget.work; work += budget.work / 40 + 1)
            expect_too_costly(plan, work, all, "too costly to be proven: it takes at least");
        expect_too_costly(plan, budget.work - 1, all, "looks at chunks");
        expect_too_costly(plan, budget.work, cost.bytes, "MiB of memory");
        plan_free(plan);
    }
}

/* One rank that has everything in place: both runs of it are proven, and paid for, though it does
 * nothing. */
static void a_rank_without_steps_runs_twice_too(void **state)
{
    (void)state;
    static const char text[] = "plan allreduce ranks 1 parts 1\nrank 0\n";
    struct plan *plan;
    char message[200];
    assert_int_equal(plan_parse(text, sizeof text - 1, &plan, message, sizeof message), TUTTI_OK);
    struct plan_budget budget = plan_budget_default();
    expect_proven(plan, &(struct verify_options){.in_place = true, .budget = &budget});
    assert_in_range(verify_cost_of(plan).work, 1, budget.work);
    plan_free(plan);
}

/* Few bytes that name many chunks: no array of them is made. */
static void what_chunks_would_take_is_said_before(void **state)
{
    (void)state;
    struct plan *const plan = plan_named(
        "oneshot", &(struct algo_params){.collective = COLLECTIVE_ALLREDUCE, .rank_count = 2});
    for (int rank = 0; rank < 2; rank++) plan->ranks[rank]->shape.parts = UINT32_MAX;
    plan->shape.parts = UINT32_MAX;
    const struct verify_cost cost = verify_cost_of(plan);
    assert_true(cost.chunk_count >= 4 * (uint64_t)UINT32_MAX);
    assert_true(cost.bytes >= 8 * cost.chunk_count);
    struct verify_report report;
    assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_TOO_COSTLY);
    assert_non_null(strstr(report.message, "MiB of memory, and 8192 are allowed"));
    plan_free(plan);
}

static void a_thousand_ranks_are_verified(void **state)
{
    (void)state;
    static const char *const names[] = {"doubling", "tree", "chain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct plan *plan = algorithm_plan(COLLECTIVE_ALLREDUCE, names[i], 1000);
        expect_proven(plan, &separate);
        plan_free(plan);
    }
    struct plan *plan = algorithm_plan(COLLECTIVE_ALLREDUCE, "ring", 200);
    expect_proven(plan, &in_place);
    plan_free(plan);
}

/* ---------------------------------------------------------------------------------------- races */

static void a_send_reads_until_the_receiver_has_it(void **state)
{
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange);
    struct verify_report report;
    assert_int_equal(plan_verify(plan, &in_place, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "may still be sending"));
    assert_int_equal(report.step, 1);
    assert_int_equal(run_all_orders(plan, &in_place, 1), EXPLORE_WRONG);
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_RIGHT);
    plan_free(plan);
}

static void messages_order_the_same_position_only(void **state)
{
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, sample_echo);
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_RIGHT);
    plan_free(plan);
    expect_wrong_sample(COLLECTIVE_ALLREDUCE, 2, sample_echo_shifted, 0, 0, 4,
                        "nothing orders them");
}

static void overwrite_unordered(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_receive_to(b, 1 - rank, PLAN_OUTPUT, 0, 1);
    plan_lane(b);
    plan_channel(b, 1);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

static void two_writes_need_an_order(void **state)
{
    struct verify_report report;
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, overwrite_unordered);
    assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "overwrites output chunk 0"));
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_WRONG);
    plan_free(plan);
}

/* With one message a link, rank 0 can post the second one only when the first one was taken; only
 * then does it receive over what the first one was sent from. */
static void ordered_by_room(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    const uint32_t s = plan_scratch(b, 0), t = plan_scratch(b, 0);
    plan_lane(b);
    if (rank == 0) {
        plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, s, 1);
        plan_send_from(b, 1, PLAN_SCRATCH, s, 1);
        plan_send_from(b, 1, PLAN_INPUT, 0, 1);
        plan_receive_to(b, 1, PLAN_SCRATCH, s, 1);
    } else {
        plan_send_from(b, 0, PLAN_INPUT, 0, 1);
        plan_receive_to(b, 0, PLAN_SCRATCH, s, 1);
        plan_receive_to(b, 0, PLAN_SCRATCH, t, 1);
    }
    plan_begin(b, 1);
    plan_read(b, PLAN_SCRATCH, s);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

static void back_pressure_orders_nothing(void **state)
{
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, ordered_by_room);
    expect_wrong(plan, &separate, 0, 0, 3, "may still be sending");
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_RIGHT);
    assert_int_equal(run_all_orders(plan, &separate, 2), EXPLORE_WRONG);
    plan_free(plan);
}

static void scratch_that_outlives_a_run_is_not_reused(void **state)
{
    struct verify_report report;
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange_copied);
    assert_int_equal(plan_verify(plan, &scratch_outlives, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "of the second run"));
    assert_int_equal(run_all_orders(plan, &scratch_outlives, 2), EXPLORE_WRONG);
    assert_int_equal(run_all_orders(plan, &separate, 2), EXPLORE_RIGHT);
    plan_free(plan);
}

static void two_copies(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank, (void)rank_count;
    const uint32_t s = plan_scratch(b, 0);
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, s, 1);
    plan_copy(b, PLAN_SCRATCH, s, PLAN_OUTPUT, 0, 1);
}

/* The data of rank 1 comes back, as if the root had not had it: right, but not for memory that can
 * only be read. */
static void send_back(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    if (rank == 0) {
        plan_send_from(b, 1, PLAN_INPUT, 0, 1);
        plan_receive_to(b, 1, PLAN_OUTPUT, 0, 1);
        return;
    }
    plan_begin(b, 1);
    plan_receive(b, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_send(b, 0);
    plan_end(b);
}

static void send_on_while_copying(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    if (rank == 1) {
        plan_receive_to(b, 0, PLAN_OUTPUT, 0, 1);
        plan_receive_to(b, 0, PLAN_OUTPUT, 0, 1);
        return;
    }
    for (int k = 0; k < 2; k++) { /* in place, nothing is stored over what is still being sent */
        plan_begin(b, 1);
        plan_read(b, PLAN_INPUT, 0);
        plan_write(b, PLAN_OUTPUT, 0);
        plan_send(b, 1);
        plan_end(b);
    }
}

/* The block of the root of a scatter, by way of scratch. */
static void copy_own_block_twice(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    if (rank == 1) {
        plan_receive_to(b, 0, PLAN_OUTPUT, 0, 1);
        return;
    }
    plan_send_from(b, 1, PLAN_INPUT, 1, 1);
    const uint32_t copy = plan_scratch(b, 0);
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, copy, 1);
    plan_copy(b, PLAN_SCRATCH, copy, PLAN_OUTPUT, 0, 1);
}

static void a_root_in_place_stores_nothing(void **state)
{
    (void)state;
    static const char what[] = "which in place is the root's input: a root only reads";
    struct plan *plan = sample_plan(COLLECTIVE_BROADCAST, 2, 0, send_back);
    expect_proven(plan, &separate);
    expect_wrong(plan, &in_place, 0, 0, 1, what);
    plan_free(plan);
    plan = sample_plan(COLLECTIVE_SCATTER, 2, 0, copy_own_block_twice);
    expect_proven(plan, &separate);
    expect_wrong(plan, &in_place, 0, 0, 2, what);
    plan_free(plan);
    plan = sample_plan(COLLECTIVE_BROADCAST, 2, 0, send_on_while_copying);
    expect_proven(plan, &in_place);
    assert_int_equal(run_all_orders(plan, &in_place, 1), EXPLORE_RIGHT);
    plan_free(plan);
}

static void a_step_does_not_store_over_what_it_reads_later(void **state)
{
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_BROADCAST, 1, 0, two_copies);
    expect_proven(plan, &separate);
    struct rank_plan *rank_plan = plan->ranks[0];
    uint32_t like[4] = {0, 0, 0, 0};
    free(rank_plan->scratch_like);
    rank_plan->scratch_like = malloc(sizeof like);
    assert_non_null(rank_plan->scratch_like);
    memcpy(rank_plan->scratch_like, like, sizeof like);
    rank_plan->scratch_count = 4;
    rank_plan->steps[1].chunk_count = 2; /* scratch 0..1 to scratch 1..2 */
    rank_plan->steps[1].destination = (struct plan_location){PLAN_SCRATCH, 1};
    expect_wrong(plan, &separate, 0, 0, 1, "stores over scratch chunk 1");
    plan_free(plan);
}

/* ------------------------------------------------------------------------- messages and waiting */

static void receive_first(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
}

static void circles_of_waiting_are_named(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_ALLREDUCE, 2, receive_first, 0, 0, 0,
                        "deadlock: waits for a message from rank 1");
}

static void send_two_first(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_parts(b, 2);
    plan_lane(b);
    for (uint32_t i = 0; i < 2; i++) plan_send_from(b, 1 - rank, PLAN_INPUT, i, 1);
    for (uint32_t i = 0; i < 2; i++) {
        plan_begin(b, 1);
        plan_receive(b, 1 - rank);
        plan_read(b, PLAN_INPUT, i);
        plan_write(b, PLAN_OUTPUT, i);
        plan_final(b);
        plan_end(b);
    }
}

static void a_link_takes_one_message(void **state)
{
    struct verify_report report;
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, send_two_first);
    assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_WRONG);
    assert_non_null(strstr(report.message, "deadlock: waits until rank"));
    assert_int_equal(report.step, 1);
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_WRONG);
    assert_int_equal(run_all_orders(plan, &separate, 2), EXPLORE_RIGHT);
    plan_free(plan);
}

static void wait_in_a_circle(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank, (void)rank_count;
    plan_parts(b, 2);
    const uint32_t first = plan_lane(b), second = plan_lane(b);
    plan_lane_again(b, first);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_after(b, 1); /* which comes next */
    plan_end(b);
    plan_lane_again(b, second);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 1);
    plan_write(b, PLAN_OUTPUT, 1);
    plan_after(b, 0);
    plan_end(b);
}

static void circles_of_dependencies_are_named(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BROADCAST, 1, wait_in_a_circle, 0, 0, 0,
                        "deadlock: waits for lane 1 step 0");
}

/* Rank 0 sends `sent` messages and rank 1 takes `received`. */
static void unequal(struct plan_builder *b, int rank, int sent, int received)
{
    const uint32_t s = plan_scratch(b, 0);
    plan_lane(b);
    if (rank == 0) plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
    for (int i = 0; rank == 0 && i < sent; i++) plan_send_from(b, 1, PLAN_INPUT, 0, 1);
    if (rank == 1) plan_receive_to(b, 0, PLAN_OUTPUT, 0, 1);
    for (int i = 1; rank == 1 && i < received; i++) plan_receive_to(b, 0, PLAN_SCRATCH, s, 1);
}

static void two_for_one(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    unequal(b, rank, 2, 1);
}

static void one_for_two(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    unequal(b, rank, 1, 2);
}

static void messages_are_sent_and_received(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BROADCAST, 2, two_for_one, 0, 0, 2, "rank 1 never receives");
    expect_wrong_sample(COLLECTIVE_BROADCAST, 2, one_for_two, 1, 0, 1, "rank 0 never sends");
}

static void other_length(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_parts(b, 2);
    plan_lane(b);
    if (rank == 0) {
        plan_send_from(b, 1, PLAN_INPUT, 0, 2);
        plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 2);
    } else {
        plan_receive_to(b, 0, PLAN_OUTPUT, 0, 1);
    }
}

static void lengths_agree(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BROADCAST, 2, other_length, 1, 0, 0, "another number of chunks");
}

static void other_class(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_parts(b, 2);
    plan_lane(b);
    for (uint32_t i = 0; i < 2; i++) {
        if (rank == 0)
            plan_send_from(b, 1, PLAN_INPUT, i, 1);
        else
            plan_receive_to(b, 0, PLAN_OUTPUT, 1 - i, 1);
    }
    if (rank == 0) plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 2);
}

static void classes_agree(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BROADCAST, 2, other_class, 1, 0, 0,
                        "stores chunk 0 in output chunk 1");
}

static void two_writers(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_parts(b, 2);
    for (uint32_t i = 0; i < 2; i++) {
        if (rank == 0 || i == 0) plan_lane(b);
        if (rank == 0)
            plan_send_from(b, 1, PLAN_INPUT, i, 1);
        else
            plan_receive_to(b, 0, PLAN_OUTPUT, i, 1);
    }
}

static void two_readers(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_parts(b, 2);
    for (uint32_t i = 0; i < 2; i++) {
        if (rank == 1 || i == 0) plan_lane(b);
        if (rank == 0)
            plan_send_from(b, 1, PLAN_INPUT, i, 1);
        else
            plan_receive_to(b, 0, PLAN_OUTPUT, i, 1);
    }
}

static void to_one_and_to_all(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    const int all = plan_group_all(b);
    const uint32_t s = plan_scratch(b, 0);
    plan_lane(b);
    if (rank == 0) {
        plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
        plan_send_from(b, 1, PLAN_INPUT, 0, 1);
        plan_begin(b, 1);
        plan_read(b, PLAN_INPUT, 0);
        plan_send_group(b, all);
        plan_end(b);
        return;
    }
    if (rank == 1) plan_receive_to(b, 0, PLAN_SCRATCH, s, 1);
    plan_begin(b, 1);
    plan_receive_group(b, 0, all);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
}

static void links_have_one_writer_and_one_reader(void **state)
{
    static const struct {
        sample_generate *generate;
        int rank, lane, step;
        const char *what;
    } cases[] = {{two_writers, 0, 1, 0, "sends on a link that lane 0 writes"},
                 {two_readers, 1, 1, 0, "receives on a link that lane 0 reads"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *plan = sample_plan(COLLECTIVE_BROADCAST, 2, 0, cases[i].generate);
        expect_wrong(plan, &separate, cases[i].rank, cases[i].lane, cases[i].step, cases[i].what);
        assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_MALFORMED);
        plan_free(plan);
    }
    struct plan *plan = sample_plan(COLLECTIVE_BROADCAST, 3, 0, to_one_and_to_all);
    expect_wrong(plan, &separate, 0, 0, 2, "lead to rank 1 on one channel");
    plan_free(plan);
}

/* --------------------------------------------------------------------------------------- values */

static void add_twice(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    if (rank == 1) plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

static void not_scaled(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank_count;
    plan_lane(b);
    plan_send_from(b, 1 - rank, PLAN_INPUT, 0, 1);
    plan_begin(b, 1);
    plan_receive(b, 1 - rank);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
}

static void scaled_early(struct plan_builder *b, int rank, int rank_count)
{
    plan_lane(b);
    if (rank + 1 < rank_count) {
        plan_begin(b, 1);
        if (rank > 0) plan_receive(b, rank - 1);
        plan_read(b, PLAN_INPUT, 0);
        if (rank > 0) plan_final(b);
        plan_send(b, rank + 1);
        plan_end(b);
        return;
    }
    plan_begin(b, 1);
    plan_receive(b, rank - 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_end(b);
}

static void contributions_come_once_and_averages_are_scaled_once(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_ALLREDUCE, 2, add_twice, 1, 0, 1, "adds rank 1 twice to chunk 0");
    expect_wrong_sample(COLLECTIVE_ALLREDUCE, 2, not_scaled, 1, 0, 1, "not marked final");
    struct plan *plan = sample_plan(COLLECTIVE_REDUCE, 3, 2, scaled_early);
    expect_wrong(plan, &separate, 1, 0, 0, "marked final with 2 of 3 ranks");
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_WRONG);
    plan_free(plan);
}

static void undefined(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank, (void)rank_count;
    const uint32_t s = plan_scratch(b, 0);
    plan_lane(b);
    plan_copy(b, PLAN_SCRATCH, s, PLAN_OUTPUT, 0, 1);
    plan_copy(b, PLAN_INPUT, 0, PLAN_SCRATCH, s, 1);
}

static void nothing(struct plan_builder *b, int rank, int rank_count)
{
    (void)rank, (void)rank_count;
    plan_lane(b);
}

static void what_is_read_and_returned_was_written(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BROADCAST, 1, undefined, 0, 0, 0, "which nobody wrote");
    expect_wrong_sample(COLLECTIVE_BROADCAST, 1, nothing, 0, -1, -1,
                        "output chunk 0 is never written");
}

/* Every rank gets all vectors and adds them in its own way. */
static void add_all(struct plan_builder *b, int rank, int rank_count, const int *order,
                    bool pairwise)
{
    const int all = plan_group_all(b);
    const uint32_t s = plan_scratch(b, 0);
    for (int i = 1; i < rank_count; i++) plan_scratch(b, 0);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_send_group(b, all);
    plan_end(b);
    for (int peer = 0; peer < rank_count; peer++) {
        plan_begin(b, 1);
        if (peer == rank)
            plan_read(b, PLAN_INPUT, 0);
        else
            plan_receive_group(b, peer, all);
        plan_write(b, PLAN_SCRATCH, s + (uint32_t)peer);
        plan_end(b);
    }
    for (int i = 1; pairwise && i < rank_count - 1; i++) {
        plan_begin(b, 1);
        plan_read(b, PLAN_SCRATCH, s + (uint32_t)order[0]);
        plan_read(b, PLAN_SCRATCH, s + (uint32_t)order[i]);
        plan_write(b, PLAN_SCRATCH, s + (uint32_t)order[0]);
        plan_end(b);
    }
    plan_begin(b, 1);
    plan_read(b, PLAN_SCRATCH, s + (uint32_t)order[0]);
    for (int i = pairwise ? rank_count - 1 : 1; i < rank_count; i++)
        plan_read(b, PLAN_SCRATCH, s + (uint32_t)order[i]);
    plan_write(b, PLAN_OUTPUT, 0);
    plan_final(b);
    plan_end(b);
}

static void commuted(struct plan_builder *b, int rank, int rank_count)
{
    static const int orders[2][3] = {{0, 1, 2}, {1, 0, 2}};
    add_all(b, rank, rank_count, orders[rank == 1], false);
}

static void reassociated(struct plan_builder *b, int rank, int rank_count)
{
    static const int orders[2][3] = {{0, 1, 2}, {0, 2, 1}};
    add_all(b, rank, rank_count, orders[rank == 1], false);
}

static void rounded_between(struct plan_builder *b, int rank, int rank_count)
{
    static const int order[3] = {0, 1, 2};
    add_all(b, rank, rank_count, order, rank == 1);
}

static void replicas_are_bit_identical(void **state)
{
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 3, 0, commuted);
    expect_proven(plan, &separate);
    assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_RIGHT);
    plan_free(plan);
    struct verify_report report;
    sample_generate *const differing[] = {reassociated, rounded_between};
    for (int i = 0; i < 2; i++) {
        plan = sample_plan(COLLECTIVE_ALLREDUCE, 3, 0, differing[i]);
        assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_WRONG);
        assert_non_null(strstr(report.message, "added up in another order"));
        assert_int_equal(run_all_orders(plan, &separate, 1), EXPLORE_WRONG);
        plan_free(plan);
    }
}

static void half_a_barrier(struct plan_builder *b, int rank, int rank_count)
{
    plan_lane(b);
    if (rank > 0) {
        plan_begin(b, 0);
        plan_receive(b, rank - 1);
        plan_write(b, PLAN_OUTPUT, 0);
        plan_end(b);
    }
    if (rank + 1 == rank_count) return;
    plan_begin(b, 0);
    plan_read(b, PLAN_INPUT, 0);
    plan_send(b, rank + 1);
    plan_end(b);
}

static void nobody_leaves_a_barrier_early(void **state)
{
    (void)state;
    expect_wrong_sample(COLLECTIVE_BARRIER, 3, half_a_barrier, 0, 0, 0,
                        "may end here before rank 1 has begun");
}

static void ranks_beyond_exact_sets_are_counted(void **state)
{
    (void)state;
    const int rank_count = VERIFY_EXACT_RANKS + 90;
    struct plan *plan = algorithm_plan(COLLECTIVE_ALLREDUCE, "tree", rank_count);
    expect_proven(plan, &separate);
    plan_free(plan);
    plan = algorithm_plan(COLLECTIVE_REDUCE, "direct", rank_count);
    expect_proven(plan, &separate);
    struct rank_plan *root = plan->ranks[0];
    struct verify_report report;
    for (uint32_t i = 0; i < root->step_count; i++) {
        struct plan_step *step = &root->steps[i];
        if (!step->final) continue;
        step->source_count--; /* the last rank's message is left over */
        assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_WRONG);
        assert_int_equal(report.rank, rank_count - 1);
        step->source_count++;
    }
    expect_proven(plan, &separate);
    plan_free(plan);
}

/* Ranks add their vectors up along a chain, except the last but one, which adds that of rank 0
 * again. */
static void borrowed(struct plan_builder *b, int rank, int rank_count)
{
    const uint32_t kept = plan_scratch(b, 0);
    plan_lane(b);
    if (rank == 0) {
        plan_send_from(b, 1, PLAN_INPUT, 0, 1);
        plan_send_from(b, rank_count - 2, PLAN_INPUT, 0, 1);
        return;
    }
    const bool borrows = rank == rank_count - 2;
    if (borrows) plan_receive_to(b, 0, PLAN_SCRATCH, kept, 1);
    plan_begin(b, 1);
    plan_receive(b, rank - 1);
    plan_read(b, borrows ? PLAN_SCRATCH : PLAN_INPUT, borrows ? kept : 0);
    if (rank + 1 < rank_count) plan_send(b, rank + 1);
    if (rank + 1 == rank_count) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    }
    plan_end(b);
}

static void fingerprints_find_a_rank_added_twice(void **state)
{
    (void)state;
    for (int rank_count = 200; rank_count <= 600; rank_count += 400) {
        struct plan *plan = sample_plan(COLLECTIVE_REDUCE, rank_count, rank_count - 1, borrowed);
        const bool exact = rank_count <= VERIFY_EXACT_RANKS;
        expect_wrong(plan, &separate, exact ? rank_count - 2 : rank_count - 1, 0, exact ? 1 : 0,
                     exact ? "adds rank 0 twice" : "adds some rank twice");
        plan_free(plan);
    }
}

/* ---------------------------------------------------------------------------- damage and memory */

static uint64_t random_state = 88172645463325252u;

static uint32_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20);
}

static uint32_t odd_number(void)
{
    static const uint32_t odd[] = {
        0, 1, 2, 3, 16, 17, 255, 65536, INT32_MAX, UINT32_MAX, UINT32_MAX - 1};
    return odd[random_bits() % (sizeof odd / sizeof *odd)];
}

/* The bytes of an array are made of 32-bit numbers, and of booleans that must stay booleans. */
static void damage(struct rank_plan *p)
{
    const uint32_t number = odd_number();
    struct plan_step *step = &p->steps[random_bits() % p->step_count];
    struct plan_source *source = &p->sources[random_bits() % p->source_count];
    switch (random_bits() % 24) {
    case 0: step->chunk_count = number; break;
    case 1: step->first_source = number; break;
    case 2: step->source_count = number; break;
    case 3: step->destination.buffer = (enum plan_buffer)number; break;
    case 4: step->destination.first = number; break;
    case 5: step->first_target = number; break;
    case 6: step->target_count = number; break;
    case 7: step->target_group = (int)number; break;
    case 8: step->target_channel = (int)number; break;
    case 9: step->first_after = number; break;
    case 10: step->after_count = number; break;
    case 11: step->lane = number; break;
    case 12: source->location.buffer = (enum plan_buffer)number; break;
    case 13: source->location.first = number; break;
    case 14: source->peer = (int)number; break;
    case 15: source->group = (int)number; break;
    case 16: source->channel = (int)number; break;
    case 17: source->is_link = !source->is_link; break;
    case 18: p->lanes[0].first_step = number; break;
    case 19: p->lanes[0].step_count = number; break;
    case 20: p->shape.parts = number; break;
    case 21: p->rank = (int)number; break;
    case 22:
        if (p->scratch_count > 0) p->scratch_like[0] = number;
        break;
    default:
        if (p->member_count > 0) p->members[random_bits() % p->member_count] = (int)number;
    }
}

static void damaged_plans_are_refused_not_followed(void **state)
{
    (void)state;
    int refused = 0;
    const int tries = 3000;
    for (int i = 0; i < tries; i++) {
        struct verify_report report;
        const int rank_count = 2 + i % 3;
        struct plan *plan = i % 2 ? algorithm_plan(COLLECTIVE_ALLREDUCE, "twoshot", rank_count)
                                  : sample_plan(COLLECTIVE_BROADCAST, 3, 0, sample_lanes);
        for (uint32_t k = random_bits() % 3 + 1; k > 0; k--)
            damage(plan->ranks[random_bits() % (uint32_t)plan->shape.rank_count]);
        refused += plan_verify(plan, i % 4 < 2 ? &separate : &in_place, &report) == VERIFY_WRONG;
        plan_free(plan);
    }
    assert_in_range(refused, tries / 2, tries - 1);
}

static void shapes_are_checked(void **state)
{
    struct verify_report report;
    (void)state;
    struct plan *plan = sample_plan(COLLECTIVE_ALLREDUCE, 2, 0, sample_exchange);
    const struct plan_shape shape = plan->shape;
    const struct plan_shape wrong[] = {
        {COLLECTIVE_COUNT, 2, 0, 1},         {COLLECTIVE_ALLREDUCE, 0, 0, 1},
        {COLLECTIVE_ALLREDUCE, -1, 0, 1},    {COLLECTIVE_ALLREDUCE, 2, 1, 1},
        {COLLECTIVE_ALLREDUCE, 2, 0, 0},     {COLLECTIVE_ALLREDUCE, PLAN_RANKS_MAX + 1, 0, 1},
        {COLLECTIVE_BROADCAST, 2, 2, 1},     {COLLECTIVE_ALLGATHER, 2, 0, UINT32_MAX},
        {COLLECTIVE_ALLTOALL, 65536, 0, 65}, {COLLECTIVE_REDUCE, 2, 0, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        plan->shape = wrong[i];
        assert_int_equal(plan_verify(plan, &separate, &report), VERIFY_WRONG);
        assert_int_equal(report.rank, -1);
    }
    plan->shape = shape;
    expect_proven(plan, &separate);
    plan_free(plan);
}

/* If the C library lets the test replace malloc, the test makes each allocation fail once. */
#if defined(__GLIBC__) && !defined(SANITIZED)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

static long allocations_left = -1, live; /* -1: all succeed, and none is counted */

static bool denied(void)
{
    if (allocations_left < 0) return false;
    if (allocations_left == 0) return true;
    allocations_left--;
    return false;
}

static void *counted(void *memory)
{
    if (allocations_left >= 0 && memory != NULL) live++;
    return memory;
}

void *malloc(size_t size)
{
    return denied() ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return denied() ? NULL : counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    if (denied()) return NULL;
    return memory == NULL ? counted(__libc_realloc(NULL, size)) : __libc_realloc(memory, size);
}

void free(void *memory)
{
    if (allocations_left >= 0 && memory != NULL) live--;
    __libc_free(memory);
}

static void lack_of_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    struct plan *plans[] = {algorithm_plan(COLLECTIVE_ALLREDUCE, "twoshot", 5),
                            sample_plan(COLLECTIVE_BROADCAST, 4, 0, sample_lanes),
                            algorithm_plan(COLLECTIVE_ALLREDUCE, "ring", 12)};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct verify_report report;
        enum verify_verdict verdict = VERIFY_NO_MEMORY;
        for (long allowed = 0; verdict != VERIFY_PROVEN; allowed++) {
            live = 0;
            allocations_left = allowed;
            verdict = plan_verify(plans[i], &separate, &report);
            const long left = allocations_left;
            allocations_left = -1;
            assert_int_equal(live, 0);
            assert_true(verdict ==
                        (left == 0 && verdict != VERIFY_PROVEN ? VERIFY_NO_MEMORY : VERIFY_PROVEN));
            assert_in_range(allowed, 0, 1000000);
        }
        plan_free(plans[i]);
    }
}
#else
static void lack_of_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_proven),
        cmocka_unit_test(steps_messages_and_rank_order_are_reported),
        cmocka_unit_test(one_tree_for_all_chunks_is_told_from_many),
        cmocka_unit_test(a_proof_ends_with_its_budget),
        cmocka_unit_test(a_rank_without_steps_runs_twice_too),
        cmocka_unit_test(what_chunks_would_take_is_said_before),
        cmocka_unit_test(a_thousand_ranks_are_verified),
        cmocka_unit_test(a_send_reads_until_the_receiver_has_it),
        cmocka_unit_test(messages_order_the_same_position_only),
        cmocka_unit_test(two_writes_need_an_order),
        cmocka_unit_test(back_pressure_orders_nothing),
        cmocka_unit_test(scratch_that_outlives_a_run_is_not_reused),
        cmocka_unit_test(a_root_in_place_stores_nothing),
        cmocka_unit_test(a_step_does_not_store_over_what_it_reads_later),
        cmocka_unit_test(circles_of_waiting_are_named),
        cmocka_unit_test(a_link_takes_one_message),
        cmocka_unit_test(circles_of_dependencies_are_named),
        cmocka_unit_test(messages_are_sent_and_received),
        cmocka_unit_test(lengths_agree),
        cmocka_unit_test(classes_agree),
        cmocka_unit_test(links_have_one_writer_and_one_reader),
        cmocka_unit_test(contributions_come_once_and_averages_are_scaled_once),
        cmocka_unit_test(what_is_read_and_returned_was_written),
        cmocka_unit_test(replicas_are_bit_identical),
        cmocka_unit_test(nobody_leaves_a_barrier_early),
        cmocka_unit_test(ranks_beyond_exact_sets_are_counted),
        cmocka_unit_test(fingerprints_find_a_rank_added_twice),
        cmocka_unit_test(damaged_plans_are_refused_not_followed),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(lack_of_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
