/* executor_test.c - kernels go to a device's worker and come back as the CPU computes them,
 * whatever order things happen in.
 *
 * ctest: timeout=120 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/op.h"
#include "gpu/executor.h"
#include "os/clock.h"
#include "tests/gpu/gpu_game.h"
#include "tests/kit/sanitized.h"

enum { GAMES = 370 };

static void games_go_well(void **state)
{
    (void)state;
    const int games = IS_SANITIZED || IS_THREAD_SANITIZED ? GAMES / 4 : GAMES;
    for (int seed = 0; seed < games; seed++) {
        const char *const wrong = gpu_game_play((uint64_t)seed);
        if (wrong != NULL) fail_msg("seed %d: %s", seed, wrong);
    }
}

static struct gpu_run *taken(unsigned device)
{
    struct gpu_run *run = NULL;
    assert_int_equal(gpu_run_take(gpu_game_device(device), &run), TUTTI_OK);
    return run;
}

static void await_gate(struct gpu_run *run)
{
    struct operation_gate *const gate = gpu_run_gate(run);
    const uint64_t deadline_ns = clock_now_ns() + UINT64_C(60000000000);
    while (!gate->ops->is_open(gate)) assert_true(clock_now_ns() < deadline_ns);
}

static void await_group(struct gpu_run *run, uint64_t group)
{
    struct kernel_executor *const executor = gpu_run_executor(run);
    const uint64_t deadline_ns = clock_now_ns() + UINT64_C(60000000000);
    while (!executor->ops->is_finished(executor, group)) assert_true(clock_now_ns() < deadline_ns);
}

static void the_gate_opens_when_the_stream_comes_to_it(void **state)
{
    (void)state;
    struct gpu_run *const run = taken(2);
    struct operation_gate *const gate = gpu_run_gate(run);
    void *const stream = gpu_game_make_stream();
    assert_int_equal(gpu_run_begin(run, true, stream), TUTTI_OK);
    for (int i = 0; i < 1000; i++) assert_false(gate->ops->is_open(gate));
    gpu_game_open_stream(stream);
    await_gate(run);
    gate->ops->end(gate, true);
    gpu_run_give_back(run);
    assert_true(gpu_game_free_stream(stream));
}

static void a_worker_that_was_ended_before_it_began_leaves(void **state)
{
    (void)state;
    struct gpu_run *const run = taken(2);
    void *const stream = gpu_game_make_stream();
    assert_int_equal(gpu_run_begin(run, true, stream), TUTTI_OK);
    gpu_run_gate(run)->ops->end(gpu_run_gate(run), false);
    assert_int_equal(gpu_run_begin(run, true, stream), TUTTI_OK);
    gpu_run_cancel(run);
    assert_true(gpu_game_free_stream(stream));
    gpu_run_give_back(run);
}

/* While the stream does not go on, a run begins only so often; then it says why it does not. */
static void a_run_whose_workers_are_all_out_says_so(void **state)
{
    (void)state;
    struct gpu_run *const run = taken(1);
    void *const stream = gpu_game_make_stream();
    int begun = 0;
    while (begun < 100 && gpu_run_begin(run, true, stream) == TUTTI_OK) {
        gpu_run_cancel(run);
        begun++;
    }
    assert_in_range(begun, 2, 99);
    assert_non_null(strstr(tutti_error_message(), "streams have come to none of them"));
    assert_true(gpu_game_free_stream(stream));
    assert_int_equal(gpu_run_begin(run, false, NULL), TUTTI_OK);
    await_gate(run);
    gpu_run_cancel(run);
    gpu_run_give_back(run);
}

static void runs_are_used_again(void **state)
{
    (void)state;
    struct gpu_run *const first = taken(1), *const second = taken(1);
    assert_ptr_not_equal(first, second);
    gpu_run_give_back(first);
    assert_ptr_equal(taken(1), first);
    gpu_run_give_back(first);
    gpu_run_give_back(second);
}

/* Far more than the arena holds, all of it in the host's memory, in one call. */
static void what_is_larger_than_the_arena_goes_through_it(void **state)
{
    (void)state;
    enum { COUNT = 3 << 20 };
    int32_t *const a = malloc(COUNT * sizeof *a), *const b = malloc(COUNT * sizeof *b),
                   *const sum = malloc(COUNT * sizeof *sum);
    assert_true(a != NULL && b != NULL && sum != NULL);
    for (int i = 0; i < COUNT; i++) a[i] = i, b[i] = 7 * i;
    struct gpu_run *const run = taken(2);
    assert_int_equal(gpu_run_begin(run, false, NULL), TUTTI_OK);
    await_gate(run);
    struct kernel_executor *const executor = gpu_run_executor(run);
    const void *const sources[] = {a, b};
    void *const others[] = {a};
    const struct kernel_call call = {.destination = sum,
                                     .others = others,
                                     .other_count = 1,
                                     .sources = sources,
                                     .source_count = 2,
                                     .count = COUNT,
                                     .operation = op_builtin(OP_SUM),
                                     .dtype = TUTTI_INT32};
    executor->ops->start(executor, gpu_kernels.reduce, &call);
    await_group(run, executor->ops->flush(executor));
    for (int i = 0; i < COUNT; i++)
        if (sum[i] != 8 * i || a[i] != 8 * i) fail_msg("element %d", i);
    gpu_run_gate(run)->ops->end(gpu_run_gate(run), true);
    gpu_run_give_back(run);
    free(a);
    free(b);
    free(sum);
}

/* As many operands as a kernel may have: they fill the arena in small pieces. */
static void a_kernel_may_have_thousands_of_sources(void **state)
{
    (void)state;
    enum { SOURCES = 8191, COUNT = 40 };
    static int16_t memory[COUNT], result[COUNT];
    const void **const sources = malloc(SOURCES * sizeof *sources);
    assert_non_null(sources);
    for (int i = 0; i < COUNT; i++) memory[i] = (int16_t)i;
    for (int s = 0; s < SOURCES; s++) sources[s] = memory;
    struct gpu_run *const run = taken(2);
    assert_int_equal(gpu_run_begin(run, false, NULL), TUTTI_OK);
    await_gate(run);
    struct kernel_executor *const executor = gpu_run_executor(run);
    const struct kernel_call call = {.destination = result,
                                     .sources = sources,
                                     .source_count = SOURCES,
                                     .count = COUNT,
                                     .operation = op_builtin(OP_SUM),
                                     .dtype = TUTTI_INT16};
    executor->ops->start(executor, gpu_kernels.reduce, &call);
    await_group(run, executor->ops->flush(executor));
    for (int i = 0; i < COUNT; i++) assert_int_equal(result[i], (int16_t)(SOURCES * i));
    gpu_run_gate(run)->ops->end(gpu_run_gate(run), true);
    gpu_run_give_back(run);
    free(sources);
}

static unsigned blocks_of_a_run(void)
{
    struct gpu_run *const run = taken(2);
    assert_int_equal(gpu_run_begin(run, false, NULL), TUTTI_OK);
    await_gate(run);
    gpu_run_cancel(run);
    gpu_run_give_back(run);
    return gpu_game_blocks();
}

struct reader {
    _Atomic unsigned good;
    _Atomic bool is_over;
};

/* While a worker is there, all that is read is right; while none is, nothing is read. */
static void *keep_reading(void *context)
{
    enum { BYTES = 700000 };
    struct reader *const reader = context;
    char *const from = (char *)gpu_game_memory() + GPU_GAME_MEMORY - BYTES, *const back =
                                                                                calloc(1, BYTES);
    for (size_t i = 1; back != NULL && !atomic_load(&reader->is_over); i++) {
        const size_t first = i * 13 % 100, bytes = i % 4 == 0 ? BYTES - 200 : 1 + i * 977 % 9000;
        if (!gpu_run_read(gpu_game_device(2), back, from + first, bytes)) continue;
        if (memcmp(back, gpu_game_place(from + first), bytes) != 0) break;
        memset(back, 0, bytes);
        atomic_fetch_add(&reader->good, 1);
    }
    if (!atomic_load(&reader->is_over)) atomic_store(&reader->good, UINT32_MAX / 2);
    free(back);
    return NULL;
}

static void others_read_through_a_worker(void **state)
{
    (void)state;
    enum { READERS = 2, TURNS = 20, COUNT = 1000, BYTES = 700000 };
    struct reader readers[READERS] = {{0}};
    pthread_t threads[READERS];
    static int32_t a[COUNT], b[COUNT];
    struct gpu_run *const run = taken(2);
    struct kernel_executor *const executor = gpu_run_executor(run);
    unsigned char *const place = gpu_game_place((char *)gpu_game_memory() + GPU_GAME_MEMORY - BYTES);
    for (size_t i = 0; i < BYTES; i++) place[i] = (unsigned char)(i * 7 + i / 4093);
    char nothing[100];
    assert_false(gpu_run_read(gpu_game_device(2), nothing, gpu_game_memory(), sizeof nothing));
    for (int r = 0; r < READERS; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, keep_reading, &readers[r]), 0);
    for (int turn = 0; turn < TURNS; turn++) {
        const void *const sources[] = {a};
        const struct kernel_call call = {.destination = b,
                                         .sources = sources,
                                         .source_count = 1,
                                         .count = COUNT,
                                         .operation = op_builtin(OP_SUM),
                                         .dtype = TUTTI_INT32};
        const unsigned good[READERS] = {atomic_load(&readers[0].good),
                                        atomic_load(&readers[1].good)};
        assert_int_equal(gpu_run_begin(run, false, NULL), TUTTI_OK);
        await_gate(run);
        for (int i = 0; i < COUNT; i++) a[i] = i + turn;
        executor->ops->start(executor, gpu_kernels.reduce, &call);
        await_group(run, executor->ops->flush(executor));
        assert_memory_equal(a, b, sizeof a);
        for (int r = 0; r < READERS; r++) /* the worker does nothing else meanwhile */
            while (atomic_load(&readers[r].good) == good[r]) sched_yield();
        gpu_run_gate(run)->ops->end(gpu_run_gate(run), true);
    }
    for (int r = 0; r < READERS; r++) {
        atomic_store(&readers[r].is_over, true);
        pthread_join(threads[r], NULL);
        assert_in_range(atomic_load(&readers[r].good), TURNS, UINT32_MAX / 2 - 1);
    }
    assert_false(gpu_run_read(gpu_game_device(2), nothing, gpu_game_memory(), sizeof nothing));
    gpu_run_give_back(run);
}

/* The last test: it stays so. */
static void more_ranks_have_fewer_blocks(void **state)
{
    (void)state;
    assert_int_equal(blocks_of_a_run(), 6);
    gpu_share(3);
    assert_int_equal(blocks_of_a_run(), 4);
    gpu_share(1);
    assert_int_equal(blocks_of_a_run(), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(games_go_well),
        cmocka_unit_test(the_gate_opens_when_the_stream_comes_to_it),
        cmocka_unit_test(a_worker_that_was_ended_before_it_began_leaves),
        cmocka_unit_test(a_run_whose_workers_are_all_out_says_so),
        cmocka_unit_test(runs_are_used_again),
        cmocka_unit_test(what_is_larger_than_the_arena_goes_through_it),
        cmocka_unit_test(a_kernel_may_have_thousands_of_sources),
        cmocka_unit_test(others_read_through_a_worker),
        cmocka_unit_test(more_ranks_have_fewer_blocks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
