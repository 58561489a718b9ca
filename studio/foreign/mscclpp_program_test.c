#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "studio/foreign/mscclpp_program.h"

static const struct plan_shape shape = {COLLECTIVE_REDUCE_SCATTER, 4, 0, 1};
static char message[200];

static void begin(struct mscclpp_program *program, bool in_place)
{
    mscclpp_program_init(program, &shape, 2, in_place, message, sizeof message);
    mscclpp_program_next_lane(program);
}

static struct plan_location at(enum plan_buffer buffer, uint32_t first)
{
    return (struct plan_location){buffer, first};
}

/* "wait nop copy ..." */
static void assert_block(const struct mscclpp_program *program, int block, const char *expected)
{
    char text[1000] = "";
    struct mscclpp_operation operation;
    size_t used = 0;
    for (int k = 0; mscclpp_program_operation(program, &program->blocks[block], k, &operation); k++)
        used += (size_t)snprintf(&text[used], sizeof text - used, "%s%s", k > 0 ? " " : "",
                                 mscclpp_type_names[operation.type]);
    assert_string_equal(text, expected);
}

static void end(struct mscclpp_program *program)
{
    assert_int_equal(program->status, TUTTI_OK);
    mscclpp_program_release(program);
}

/* -------------------------------------------------------------------------------- within blocks */

static void threads_join_between_a_wait_and_work_and_before_a_signal(void **state)
{
    struct mscclpp_program program;
    const int channel = 7;
    const bool announces = true;
    (void)state;
    begin(&program, false);
    mscclpp_program_wait(&program, &channel, &announces, 1);
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 0), at(PLAN_OUTPUT, 0), 1);
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 0), at(PLAN_SCRATCH, 1),
                         1); /* both only read 0 */
    mscclpp_program_signal(&program, &channel, 1);
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 1), at(PLAN_SCRATCH, 2), 1); /* the nop joined */
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 2), at(PLAN_SCRATCH, 3),
                         1); /* reads what it stored */
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 4), at(PLAN_SCRATCH, 2),
                         1); /* stores what it read */
    mscclpp_program_release_all(&program, &channel, 1);
    assert_int_equal(program.block_count, 1);
    assert_int_equal(program.blocks[0].channel_count[MSCCLPP_MEMORY], 1);
    assert_block(&program, 0,
                 "signal wait nop copy copy nop signal copy nop copy nop copy nop sem_release");
    end(&program);
}

static void in_place_input_and_output_are_one_memory(void **state)
{
    struct mscclpp_program program;
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        begin(&program, in_place != 0);
        mscclpp_program_copy(&program, at(PLAN_INPUT, 2), at(PLAN_OUTPUT, 0),
                             1); /* rank 2's own block */
        mscclpp_program_copy(&program, at(PLAN_INPUT, 2), at(PLAN_SCRATCH, 0), 1);
        mscclpp_program_copy(&program, at(PLAN_SCRATCH, 1), at(PLAN_OUTPUT, 0), 1);
        assert_block(&program, 0, in_place ? "copy nop copy" : "copy copy nop copy");
        end(&program);
    }
}

static void many_targets_and_channels_take_several_operations(void **state)
{
    struct mscclpp_program program;
    struct mscclpp_target targets[9];
    int channels[9];
    (void)state;
    for (int i = 0; i < 9; i++) {
        targets[i] = (struct mscclpp_target){.remote = i, .first = 1};
        channels[i] = i;
    }
    begin(&program, false);
    mscclpp_program_put(&program, at(PLAN_INPUT, 0), targets, 9, 1);
    mscclpp_program_signal(&program, channels, 9);
    assert_block(&program, 0, "put put nop signal signal");
    assert_int_equal(program.operations[0].source_count, 8);
    assert_int_equal(program.operations[1].source_count, 1);
    end(&program);
}

/* ------------------------------------------------------------------------------- between blocks */

static int length(const struct mscclpp_program *program, int block)
{
    struct mscclpp_operation operation;
    int k = 0;
    while (mscclpp_program_operation(program, &program->blocks[block], k, &operation)) k++;
    return k;
}

static void a_full_block_is_followed_by_another(void **state)
{
    struct mscclpp_program program;
    (void)state;
    begin(&program, false);
    for (int i = 0; i < 100; i++) /* a nop lies between any two */
        mscclpp_program_copy(&program, at(PLAN_SCRATCH, (uint32_t)i),
                             at(PLAN_SCRATCH, (uint32_t)i + 1), 1);
    assert_true(program.block_count > 1);
    assert_int_equal(program.semaphore_count, program.block_count - 1);
    for (int i = 0; i < program.block_count; i++) {
        const struct mscclpp_block *block = &program.blocks[i];
        assert_true(length(&program, i) <= MSCCLPP_OPERATIONS_MAX);
        assert_int_equal(block->after, i + 1 < program.block_count ? i : -1);
        assert_int_equal(block->before, i - 1);
    }
    mscclpp_program_next_lane(&program);
    mscclpp_program_copy(&program, at(PLAN_INPUT, 0), at(PLAN_OUTPUT, 0), 1);
    assert_block(&program, program.block_count - 1, "copy");
    end(&program);
}

static void channels_and_remote_buffers_beyond_a_block_are_in_the_next(void **state)
{
    struct mscclpp_program program;
    (void)state;
    begin(&program, false);
    for (int i = 0; i <= MSCCLPP_CHANNELS_MAX; i++) {
        const bool announces = true;
        mscclpp_program_wait(&program, &i, &announces, 1);
    }
    assert_int_equal(program.block_count, 2);
    assert_int_equal(program.blocks[0].channel_count[MSCCLPP_MEMORY], MSCCLPP_CHANNELS_MAX);
    assert_int_equal(program.blocks[1].channel_count[MSCCLPP_MEMORY], 1);
    assert_int_equal(program.blocks[1].channels[MSCCLPP_MEMORY][0], MSCCLPP_CHANNELS_MAX);
    assert_block(&program, 1, "signal sem_acquire nop wait"); /* announced before it waits */
    mscclpp_program_next_lane(&program);
    for (int i = 0; i <= MSCCLPP_REMOTES_MAX; i++) {
        const struct mscclpp_target target = {.remote = i, .first = 0};
        mscclpp_program_put(&program, at(PLAN_INPUT, 0), &target, 1, 1);
    }
    assert_int_equal(program.block_count, 4);
    assert_int_equal(program.blocks[3].remotes[MSCCLPP_MEMORY][0], MSCCLPP_REMOTES_MAX);
    end(&program);
}

/* Operations over ports and over memory are kept apart, for messages that come and for messages
 * that go. A send is joined like a signal, and its source is not overwritten before the send. */
static void ports_and_memory_take_operations_of_their_own(void **state)
{
    struct mscclpp_program program;
    static const bool is_port[] = {false, true, false, true};
    static const int channels[] = {0, 1, 2, 3};
    static const bool announces[] = {true, true, true, true};
    const struct mscclpp_target target = {.remote = 5, .first = 9, .channel = 3};
    struct mscclpp_operation operation;
    (void)state;
    begin(&program, false);
    program.is_port = is_port;
    mscclpp_program_wait(&program, channels, announces, 4);
    mscclpp_program_copy(&program, at(PLAN_INPUT, 0), at(PLAN_OUTPUT, 0), 1);
    mscclpp_program_send(&program, at(PLAN_INPUT, 0), &target, 1, 1);
    mscclpp_program_copy(&program, at(PLAN_SCRATCH, 0), at(PLAN_SCRATCH, 1), 1);
    assert_block(&program, 0, "signal signal wait wait nop copy nop pwsf copy");
    for (int k = 0; k < 4; k++) {
        assert_true(mscclpp_program_operation(&program, &program.blocks[0], k, &operation));
        assert_int_equal(operation.link, k % 2);
        assert_int_equal(operation.id_count, 2);
    }
    assert_true(mscclpp_program_operation(&program, &program.blocks[0], 7, &operation));
    assert_int_equal(operation.link, MSCCLPP_PORT);
    assert_int_equal(operation.id_count, 1);
    assert_int_equal(program.blocks[0].channels[MSCCLPP_PORT][operation.ids[0]], 3);
    assert_int_equal(program.blocks[0].remotes[MSCCLPP_PORT][operation.targets[0].remote], 5);
    assert_int_equal(program.blocks[0].remote_count[MSCCLPP_MEMORY], 0);
    end(&program);
}

static void blocks_that_cannot_all_run_at_once_are_refused(void **state)
{
    struct mscclpp_program program;
    (void)state;
    begin(&program, false);
    for (int i = 0; i <= MSCCLPP_BLOCKS_MAX; i++) {
        assert_int_equal(program.status, TUTTI_OK);
        mscclpp_program_next_lane(&program);
        mscclpp_program_copy(&program, at(PLAN_INPUT, 0), at(PLAN_OUTPUT, 0), 1);
    }
    assert_int_equal(program.status, TUTTI_INVALID_ALGORITHM);
    assert_string_equal(message, "rank 2: more than 108 thread blocks, which must all run at once");
    mscclpp_program_release(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_join_between_a_wait_and_work_and_before_a_signal),
        cmocka_unit_test(in_place_input_and_output_are_one_memory),
        cmocka_unit_test(many_targets_and_channels_take_several_operations),
        cmocka_unit_test(a_full_block_is_followed_by_another),
        cmocka_unit_test(channels_and_remote_buffers_beyond_a_block_are_in_the_next),
        cmocka_unit_test(ports_and_memory_take_operations_of_their_own),
        cmocka_unit_test(blocks_that_cannot_all_run_at_once_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
