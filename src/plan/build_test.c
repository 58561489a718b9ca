#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/build.h"

static struct rank_plan *finish(struct plan_builder *builder)
{
    struct rank_plan *plan;
    const char *message;
    const enum tutti_status status = plan_builder_finish(builder, &plan, &message);
    if (status != TUTTI_OK) fail_msg("%s", message);
    assert_string_equal(message, "");
    plan_builder_free(builder);
    return plan;
}

static void refuses(struct plan_builder *builder, const char *why)
{
    struct rank_plan *plan;
    const char *message;
    assert_non_null(plan_builder_error(builder));
    assert_int_equal(plan_builder_finish(builder, &plan, &message), TUTTI_INVALID_ALGORITHM);
    assert_null(plan);
    assert_string_equal(message, why);
    plan_builder_free(builder);
}

static struct plan_builder *allreduce_of_four(uint32_t parts)
{
    struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLREDUCE, 4, 0, 1);
    assert_non_null(builder);
    plan_parts(builder, parts);
    plan_lane(builder);
    return builder;
}

/* ------------------------------------------------------------------------------------- building */

static void a_step_keeps_what_was_said(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(6);
    plan_channel(builder, 3);
    plan_begin(builder, 2);
    plan_receive(builder, 0);
    plan_read(builder, PLAN_INPUT, 4);
    plan_write(builder, PLAN_OUTPUT, 4);
    plan_channel(builder, 5);
    plan_send(builder, 2);
    plan_send(builder, 3);
    plan_final(builder);
    assert_int_equal(plan_end(builder), 0);
    struct rank_plan *plan = finish(builder);
    const struct plan_step *step = plan->steps;
    assert_int_equal(plan->step_count, 1);
    assert_int_equal(plan->rank, 1);
    assert_int_equal(plan->shape.parts, 6);
    assert_int_equal(step->chunk_count, 2);
    assert_true(step->final);
    assert_int_equal(step->source_count, 2);
    assert_true(plan->sources[0].is_link);
    assert_int_equal(plan->sources[0].peer, 0);
    assert_int_equal(plan->sources[0].channel, 3);
    assert_int_equal(plan->sources[0].group, PLAN_NO_GROUP);
    assert_false(plan->sources[1].is_link);
    assert_int_equal(plan->sources[1].location.first, 4);
    assert_true(step->has_destination);
    assert_int_equal(step->destination.buffer, PLAN_OUTPUT);
    assert_int_equal(step->target_count, 2);
    assert_int_equal(plan->targets[1], 3);
    assert_int_equal(step->target_channel, 5);
    assert_int_equal(step->target_group, PLAN_NO_GROUP);
    assert_string_equal(plan_step_kind(plan, step), "recv_reduce_send");
    plan_rank_free(plan);
}

static void steps_are_grouped_by_lane_and_keep_their_order(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(8);
    const uint32_t second = plan_lane(builder);
    uint32_t handles[6];
    for (uint32_t i = 0; i < 6; i++) {
        plan_lane_again(builder, i % 2 == 0 ? second : 0);
        plan_begin(builder, 1);
        plan_read(builder, PLAN_INPUT, i);
        for (uint32_t copy = 0; copy < i; copy++) plan_read(builder, PLAN_OUTPUT, i);
        plan_write(builder, PLAN_OUTPUT, i);
        plan_send(builder, i % 2 == 0 ? 2 : 3);
        if (i > 0) plan_after(builder, handles[i - 1]);
        handles[i] = plan_end(builder);
        assert_int_equal(handles[i], i);
    }
    struct rank_plan *plan = finish(builder);
    static const uint32_t order[] = {1, 3, 5, 0, 2, 4}; /* emission, in the order of the steps */
    static const uint32_t index_of[] = {3, 0, 4, 1, 5, 2};
    assert_int_equal(plan->lanes[0].first_step, 0);
    assert_int_equal(plan->lanes[0].step_count, 3);
    assert_int_equal(plan->lanes[1].first_step, 3);
    assert_int_equal(plan->lanes[1].step_count, 3);
    for (uint32_t i = 0; i < 6; i++) {
        const struct plan_step *step = &plan->steps[i];
        assert_int_equal(step->lane, i / 3);
        assert_int_equal(step->destination.first, order[i]);
        assert_int_equal(step->source_count, order[i] + 1);
        assert_int_equal(plan->sources[step->first_source].location.first, order[i]);
        assert_int_equal(plan->targets[step->first_target], order[i] % 2 == 0 ? 2 : 3);
        assert_int_equal(step->after_count, order[i] > 0);
        if (order[i] > 0) assert_int_equal(plan->afters[step->first_after], index_of[order[i] - 1]);
    }
    plan_rank_free(plan);
}

static void a_channel_belongs_to_its_lane(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_channel(builder, 7);
    plan_lane(builder);
    plan_send_from(builder, 0, PLAN_INPUT, 0, 1);
    plan_lane_again(builder, 0);
    plan_send_from(builder, 0, PLAN_INPUT, 0, 1);
    struct rank_plan *plan = finish(builder);
    assert_int_equal(plan->steps[0].target_channel, 7);
    assert_int_equal(plan->steps[1].target_channel, 0);
    plan_rank_free(plan);
}

static void a_step_may_wait_for_a_later_one_of_another_lane(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_read(builder, PLAN_INPUT, 0);
    plan_send(builder, 0);
    plan_after(builder, 1);
    plan_after(builder, 1);
    plan_end(builder);
    plan_lane(builder);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
    struct rank_plan *plan = finish(builder);
    assert_int_equal(plan->after_count, 1);
    assert_int_equal(plan->afters[0], 1);
    plan_rank_free(plan);
}

static void equal_groups_are_one(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    static const int some[] = {1, 3}, all[] = {0, 1, 2, 3};
    assert_int_equal(plan_group(builder, some, 2), 0);
    assert_int_equal(plan_group(builder, all, 4), 1);
    assert_int_equal(plan_group_all(builder), 1);
    assert_int_equal(plan_group(builder, some, 2), 0);
    plan_begin(builder, 1);
    plan_read(builder, PLAN_INPUT, 0);
    plan_send_group(builder, 0);
    plan_end(builder);
    struct rank_plan *plan = finish(builder);
    assert_int_equal(plan->group_count, 2);
    assert_int_equal(plan->member_count, 6);
    assert_int_equal(plan->steps[0].target_group, 0);
    assert_int_equal(plan->steps[0].target_count, 0);
    plan_rank_free(plan);
}

static void a_finished_builder_is_empty(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(3);
    plan_group_all(builder);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 3);
    struct rank_plan *plan;
    const char *message;
    assert_int_equal(plan_builder_finish(builder, &plan, &message), TUTTI_OK);
    plan_rank_free(plan);
    plan = finish(builder);
    assert_int_equal(plan->step_count + plan->lane_count + plan->group_count, 0);
    assert_int_equal(plan->shape.parts, 1);
    assert_int_equal(plan->shape.rank_count, 4);
    assert_int_equal(plan->rank, 1);
    plan_rank_free(plan);
}

static void many_steps_fit(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1000);
    for (uint32_t i = 0; i < 100000; i++)
        plan_copy(builder, PLAN_INPUT, i % 1000, PLAN_OUTPUT, i % 1000, 1);
    struct rank_plan *plan = finish(builder);
    assert_int_equal(plan->step_count, 100000);
    assert_int_equal(plan->sources[99999].location.first, 999);
    plan_rank_free(plan);
}

/* --------------------------------------------------------------------------- chunks and classes */

static void classes_follow_the_table(void **state)
{
    (void)state;
    struct plan_shape shape = {.rank_count = 3, .root = 1, .parts = 2};
    static const struct {
        enum collective collective;
        int rank;
        uint32_t input_count, output_count, input_class_of_1, output_class_of_1;
    } rows[] = {
        {COLLECTIVE_ALLREDUCE, 2, 2, 2, 1, 1},      {COLLECTIVE_REDUCE, 1, 2, 2, 1, 1},
        {COLLECTIVE_REDUCE, 2, 2, 0, 1, 1},         {COLLECTIVE_BROADCAST, 1, 2, 2, 1, 1},
        {COLLECTIVE_BROADCAST, 0, 0, 2, 1, 1},      {COLLECTIVE_GATHER, 1, 2, 6, 3, 1},
        {COLLECTIVE_GATHER, 2, 2, 0, 5, 1},         {COLLECTIVE_SCATTER, 1, 6, 2, 1, 3},
        {COLLECTIVE_SCATTER, 0, 0, 2, 1, 1},        {COLLECTIVE_ALLGATHER, 2, 2, 6, 5, 1},
        {COLLECTIVE_REDUCE_SCATTER, 2, 6, 2, 1, 5}, {COLLECTIVE_ALLTOALL, 2, 6, 6, 13, 5},
        {COLLECTIVE_BARRIER, 2, 0, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shape.collective = rows[i].collective;
        const int rank = rows[i].rank;
        assert_int_equal(plan_chunk_count(&shape, rank, PLAN_INPUT), rows[i].input_count);
        assert_int_equal(plan_chunk_count(&shape, rank, PLAN_OUTPUT), rows[i].output_count);
        assert_int_equal(plan_chunk_class(&shape, rank, PLAN_INPUT, 1), rows[i].input_class_of_1);
        assert_int_equal(plan_chunk_class(&shape, rank, PLAN_OUTPUT, 1), rows[i].output_class_of_1);
    }
}

static void alltoall_input_and_output_meet_in_one_class(void **state)
{
    (void)state;
    const struct plan_shape shape = {COLLECTIVE_ALLTOALL, 5, 0, 3};
    for (int from = 0; from < 5; from++)
        for (int to = 0; to < 5; to++)
            for (uint32_t part = 0; part < 3; part++)
                assert_int_equal(
                    plan_chunk_class(&shape, from, PLAN_INPUT, (uint32_t)to * 3 + part),
                    plan_chunk_class(&shape, to, PLAN_OUTPUT, (uint32_t)from * 3 + part));
}

static void scratch_has_the_class_it_is_like(void **state)
{
    (void)state;
    struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLGATHER, 4, 0, 2);
    plan_parts(builder, 2);
    plan_lane(builder);
    assert_int_equal(plan_scratch(builder, 5), 0);
    assert_int_equal(plan_scratch(builder, 4), 1);
    assert_int_equal(plan_scratch(builder, 5), 2);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_SCRATCH, 1, 2); /* classes 4, 5 */
    struct rank_plan *plan = finish(builder);
    assert_int_equal(plan->scratch_count, 3);
    assert_int_equal(plan_location_class(plan, PLAN_SCRATCH, 1), 4);
    assert_int_equal(plan_location_class(plan, PLAN_OUTPUT, 7), 7);
    plan_rank_free(plan);
}

static void kinds_have_their_names(void **state)
{
    (void)state;
    static const struct {
        int receives, reads;
        bool stores, sends;
        const char *name;
    } kinds[] = {
        {0, 1, false, true, "send"},
        {1, 0, true, false, "recv"},
        {0, 1, true, false, "copy"},
        {0, 1, true, true, "copy_send"},
        {0, 2, true, false, "reduce"},
        {0, 2, false, true, "reduce_send"},
        {1, 1, true, false, "recv_reduce"},
        {2, 0, true, false, "recv_reduce"},
        {1, 0, true, true, "recv_send"},
        {1, 0, false, true, "recv_send"},
        {1, 1, true, true, "recv_reduce_send"},
        {2, 1, false, true, "recv_reduce_send"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct plan_builder *builder = allreduce_of_four(1);
        plan_begin(builder, 1);
        for (int k = 0; k < kinds[i].receives; k++) plan_receive(builder, k == 0 ? 0 : 2);
        for (int k = 0; k < kinds[i].reads; k++) plan_read(builder, PLAN_INPUT, 0);
        if (kinds[i].stores) plan_write(builder, PLAN_OUTPUT, 0);
        if (kinds[i].sends) plan_send(builder, 3);
        plan_end(builder);
        struct rank_plan *plan = finish(builder);
        assert_string_equal(plan_step_kind(plan, plan->steps), kinds[i].name);
        plan_rank_free(plan);
    }
}

/* ------------------------------------------------------------------------------------- refusing */

static void refuses_places_outside_of_their_buffer(void **state)
{
    (void)state;
    static const char why[] = "chunks outside of their buffer";
    struct plan_builder *builder = allreduce_of_four(4);
    plan_copy(builder, PLAN_INPUT, 2, PLAN_OUTPUT, 2, 3);
    refuses(builder, why);
    builder = allreduce_of_four(4);
    plan_copy(builder, PLAN_INPUT, UINT32_MAX, PLAN_OUTPUT, 0, 1);
    refuses(builder, why);
    builder = allreduce_of_four(4);
    plan_copy(builder, PLAN_INPUT, 1, PLAN_OUTPUT, 1, UINT32_MAX);
    refuses(builder, why);
    builder = allreduce_of_four(4);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_SCRATCH, 0, 1);
    refuses(builder, why);
    builder = plan_builder_create(COLLECTIVE_BROADCAST, 2, 1, 0); /* no input here */
    plan_lane(builder);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_OUTPUT, 0, 1);
    refuses(builder, why);
}

static void refuses_peers_that_are_none(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_send_from(builder, 4, PLAN_INPUT, 0, 1);
    refuses(builder, "peer out of range");
    builder = allreduce_of_four(1);
    plan_receive_to(builder, -1, PLAN_OUTPUT, 0, 1);
    refuses(builder, "peer out of range");
    builder = allreduce_of_four(1);
    plan_send_from(builder, 1, PLAN_INPUT, 0, 1);
    refuses(builder, "a rank is its own peer");
}

static void refuses_incomplete_steps(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_write(builder, PLAN_OUTPUT, 0);
    plan_end(builder);
    refuses(builder, "a step without a source");
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_receive(builder, 0);
    plan_end(builder);
    refuses(builder, "a step without destination or target");
    struct rank_plan *plan;
    const char *message;
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    assert_int_equal(plan_builder_finish(builder, &plan, &message), TUTTI_INVALID_ALGORITHM);
    assert_string_equal(message, "the last step was not ended");
    plan_builder_free(builder);
}

static void refuses_chunks_of_different_classes(void **state)
{
    (void)state;
    static const char why[] = "a step joins chunks of different classes";
    struct plan_builder *builder = allreduce_of_four(4);
    plan_copy(builder, PLAN_INPUT, 1, PLAN_OUTPUT, 2, 1);
    refuses(builder, why);
    builder = allreduce_of_four(4);
    plan_begin(builder, 1);
    plan_read(builder, PLAN_INPUT, 1);
    plan_read(builder, PLAN_INPUT, 2);
    plan_send(builder, 0);
    plan_end(builder);
    refuses(builder, why);
    builder = allreduce_of_four(4);
    plan_scratch(builder, 0);
    plan_scratch(builder, 2);
    plan_copy(builder, PLAN_INPUT, 0, PLAN_SCRATCH, 0, 2); /* the second chunk differs */
    refuses(builder, why);
    builder = plan_builder_create(COLLECTIVE_ALLTOALL, 4, 0, 1);
    plan_parts(builder, 2);
    plan_lane(builder);
    plan_copy(builder, PLAN_INPUT, 2, PLAN_OUTPUT, 2, 2); /* the own block */
    assert_null(plan_builder_error(builder));
    plan_copy(builder, PLAN_INPUT, 2, PLAN_OUTPUT, 2, 4); /* and another */
    refuses(builder, why);
}

static void refuses_to_store_over_what_it_reads(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    for (int i = 0; i < 3; i++) plan_scratch(builder, 0);
    plan_copy(builder, PLAN_SCRATCH, 0, PLAN_SCRATCH, 1, 2);
    refuses(builder, "a step stores over chunks that it still reads");
    builder = allreduce_of_four(1);
    plan_copy(builder, PLAN_OUTPUT, 0, PLAN_INPUT, 0, 1);
    refuses(builder, "the input is only read");
}

static void refuses_chunk_counts_that_do_not_fit(void **state)
{
    (void)state;
    static const char why[] = "steps act on no chunks in barriers, and only there";
    struct plan_builder *builder = allreduce_of_four(1);
    plan_send_from(builder, 0, PLAN_INPUT, 0, 0);
    refuses(builder, why);
    builder = plan_builder_create(COLLECTIVE_BARRIER, 2, 0, 0);
    plan_lane(builder);
    plan_send_from(builder, 1, PLAN_INPUT, 0, 0);
    plan_receive_to(builder, 1, PLAN_OUTPUT, 0, 0);
    assert_null(plan_builder_error(builder));
    plan_send_from(builder, 1, PLAN_INPUT, 0, 1);
    refuses(builder, why);
}

static void refuses_more_classes_than_32_bits_count(void **state)
{
    (void)state;
    static const char why[] = "more chunks, over all ranks, than 32 bits can count";
    struct plan_builder *builder = plan_builder_create(COLLECTIVE_ALLTOALL, PLAN_RANKS_MAX, 0, 0);
    refuses(builder, why);
    builder = plan_builder_create(COLLECTIVE_ALLTOALL, 1 << 15, 0, 0);
    plan_parts(builder, 3);
    assert_null(plan_builder_error(builder));
    plan_parts(builder, 4);
    refuses(builder, why);
    builder = plan_builder_create(COLLECTIVE_ALLGATHER, PLAN_RANKS_MAX, 0, 0);
    plan_parts(builder, 1 << 16);
    refuses(builder, why);
    builder = allreduce_of_four(1);
    plan_parts(builder, 0);
    refuses(builder, "no parts");
}

static void refuses_groups_that_are_none(void **state)
{
    (void)state;
    static const int descending[] = {3, 1}, others[] = {0, 2}, beyond[] = {1, 4}, one[] = {1},
                     some[] = {1, 3};
    static const char why[] = "a group is not made of ascending ranks with this one among them";
    struct plan_builder *builder = allreduce_of_four(1);
    plan_group(builder, descending, 2);
    refuses(builder, why);
    builder = allreduce_of_four(1);
    plan_group(builder, others, 2);
    refuses(builder, why);
    builder = allreduce_of_four(1);
    plan_group(builder, beyond, 2);
    refuses(builder, why);
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_receive_group(builder, 2, plan_group(builder, some, 2));
    refuses(builder, "a message to a group from a rank outside of it");
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_send_group(builder, 0);
    refuses(builder, "no such group");
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_send_group(builder, plan_group(builder, one, 1));
    refuses(builder, "a message to a group of one");
}

static void refuses_targets_that_clash(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_send(builder, 2);
    plan_send(builder, 2);
    refuses(builder, "a step that sends to one peer twice");
    builder = allreduce_of_four(1);
    plan_begin(builder, 1);
    plan_send(builder, 2);
    plan_channel(builder, 1);
    plan_send(builder, 3);
    refuses(builder, "a step that sends on two channels");
    builder = allreduce_of_four(1);
    plan_group_all(builder);
    plan_begin(builder, 1);
    plan_send_group(builder, 0);
    plan_send(builder, 3);
    refuses(builder, "a step that sends to a group sends to nobody else");
}

static void refuses_what_is_out_of_limits(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    for (int i = 1; i < PLAN_LANES_MAX; i++) plan_lane(builder);
    assert_null(plan_builder_error(builder));
    plan_lane(builder);
    refuses(builder, "too many lanes");
    builder = allreduce_of_four(1);
    plan_channel(builder, PLAN_CHANNELS_MAX - 1);
    assert_null(plan_builder_error(builder));
    plan_channel(builder, PLAN_CHANNELS_MAX);
    refuses(builder, "channel out of range");
    refuses(plan_builder_create(COLLECTIVE_BARRIER, PLAN_RANKS_MAX + 1, 0, 0),
            "rank count out of range");
    refuses(plan_builder_create(COLLECTIVE_BARRIER, 0, 0, 0), "rank count out of range");
    refuses(plan_builder_create(COLLECTIVE_GATHER, 4, 4, 0), "root out of range");
    refuses(plan_builder_create(COLLECTIVE_GATHER, 4, 0, 4), "rank out of range");
    refuses(plan_builder_create(COLLECTIVE_ALLREDUCE, 4, 1, 0),
            "a root other than 0 in a collective without root");
    refuses(plan_builder_create(COLLECTIVE_COUNT, 4, 0, 0), "not a collective");
}

static void refuses_to_wait_in_vain(void **state)
{
    (void)state;
    struct rank_plan *plan;
    const char *message;
    static const struct {
        uint32_t after;
        const char *why;
    } cases[] = {{0, "a step waits for itself or for a later one of its lane"},
                 {1, "a step waits for itself or for a later one of its lane"},
                 {2, "a step comes after one that does not exist"}};
    for (int i = 0; i < 3; i++) {
        struct plan_builder *builder = allreduce_of_four(1);
        plan_begin(builder, 1);
        plan_read(builder, PLAN_INPUT, 0);
        plan_send(builder, 0);
        plan_after(builder, cases[i].after);
        plan_end(builder);
        plan_send_from(builder, 2, PLAN_INPUT, 0, 1);
        assert_int_equal(plan_builder_finish(builder, &plan, &message), TUTTI_INVALID_ALGORITHM);
        assert_null(plan);
        assert_string_equal(message, cases[i].why);
        plan_builder_free(builder);
    }
}

static void the_first_error_is_the_one_reported(void **state)
{
    (void)state;
    struct plan_builder *builder = allreduce_of_four(1);
    plan_send_from(builder, 9, PLAN_INPUT, 0, 1);
    plan_lane_again(builder, 12);
    plan_copy(builder, PLAN_INPUT, 7, PLAN_OUTPUT, 0, 1);
    plan_end(builder);
    refuses(builder, "peer out of range");
    builder = allreduce_of_four(1);
    plan_read(builder, PLAN_INPUT, 0);
    refuses(builder, "said outside of a step");
    builder = plan_builder_create(COLLECTIVE_ALLREDUCE, 4, 0, 1);
    plan_begin(builder, 1);
    refuses(builder, "a step before the first lane");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_keeps_what_was_said),
        cmocka_unit_test(steps_are_grouped_by_lane_and_keep_their_order),
        cmocka_unit_test(a_channel_belongs_to_its_lane),
        cmocka_unit_test(a_step_may_wait_for_a_later_one_of_another_lane),
        cmocka_unit_test(equal_groups_are_one),
        cmocka_unit_test(a_finished_builder_is_empty),
        cmocka_unit_test(many_steps_fit),
        cmocka_unit_test(classes_follow_the_table),
        cmocka_unit_test(alltoall_input_and_output_meet_in_one_class),
        cmocka_unit_test(scratch_has_the_class_it_is_like),
        cmocka_unit_test(kinds_have_their_names),
        cmocka_unit_test(refuses_places_outside_of_their_buffer),
        cmocka_unit_test(refuses_peers_that_are_none),
        cmocka_unit_test(refuses_incomplete_steps),
        cmocka_unit_test(refuses_chunks_of_different_classes),
        cmocka_unit_test(refuses_to_store_over_what_it_reads),
        cmocka_unit_test(refuses_chunk_counts_that_do_not_fit),
        cmocka_unit_test(refuses_more_classes_than_32_bits_count),
        cmocka_unit_test(refuses_groups_that_are_none),
        cmocka_unit_test(refuses_targets_that_clash),
        cmocka_unit_test(refuses_what_is_out_of_limits),
        cmocka_unit_test(refuses_to_wait_in_vain),
        cmocka_unit_test(the_first_error_is_the_one_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
