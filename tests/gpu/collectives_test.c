/* Conformance in memory of devices: every collective gives the right elements, wherever each rank
 * has its buffers, and in the order of streams.
 *
 * Ranks are threads and processes, on one host or two, on one device or several. What they call is
 * drawn (device_case.h). The driver is what TUTTI_CUDA_DRIVER names: in the suites the stand-in,
 * whose device memory faults when anything but copies and kernels touches it, and whose streams run
 * late; with a device, CUDA's own.
 *
 *     [TUTTI_CUDA_DRIVER=libcuda.so.1] tests_gpu_collectives_test [--rounds N] [--seed N]
 *     tests_gpu_collectives_test --seeds N [--first-seed N] [--for SECONDS]      a part of very many seeds, one sweep for each
 *
 * ctest: timeout=240
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/gpu/device_sweep.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"

static unsigned rounds = 1;

static void run_crowded(int size, int devices)
{
    const struct device_sweep sweep = {.kind = RANKS_PROCESSES,
                                       .size = size,
                                       .devices = devices,
                                       .calls = DEVICE_PAIRS,
                                       .crowded = true,
                                       .rounds = rounds};
    assert_int_equal(device_sweep_run(&sweep), 0);
}

static void run_checked(enum ranks_kind kind, int size, int hosts)
{
    const struct device_sweep sweep = {.kind = kind,
                                       .size = size,
                                       .devices = 1,
                                       .calls = DEVICE_COLLECTIVES,
                                       .hosts = hosts,
                                       .checked = true,
                                       .rounds = rounds};
    assert_int_equal(device_sweep_run(&sweep), 0);
}

static void run(enum ranks_kind kind, int size, int devices, enum device_calls calls, int hosts)
{
    const struct device_sweep sweep = {.kind = kind,
                                       .size = size,
                                       .devices = devices,
                                       .calls = calls,
                                       .hosts = hosts,
                                       .rounds = rounds};
    assert_int_equal(device_sweep_run(&sweep), 0);
}

/* ------------------------------------------------------------------------------------ processes */

/* Each process has hidden queues of its own, of which one is enough. All processes come before
 * threads: a child of who has used a driver cannot use it. */
static void have_few_queues(void)
{
    if (IS_THREAD_SANITIZED) skip(); /* a child of fork() can start no threads there */
    setenv("TUTTI_STANDIN_QUEUES", "1", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
}

static void one_rank_has_device_memory(void **state)
{
    (void)state;
    have_few_queues();
    run(RANKS_PROCESSES, 1, 1, DEVICE_COLLECTIVES, 0);
    run(RANKS_PROCESSES, 1, 1, DEVICE_PAIRS, 0);
}

static void processes_have_device_memory(void **state)
{
    (void)state;
    have_few_queues();
    run(RANKS_PROCESSES, 2, 1, DEVICE_COLLECTIVES, 0);
    run(RANKS_PROCESSES, 4, 2, DEVICE_ALGORITHMS, 0);
    run(RANKS_PROCESSES, 8, 4, DEVICE_COLLECTIVES, 0);
}

static void processes_have_two_calls_in_two_streams(void **state)
{
    (void)state;
    have_few_queues();
    run(RANKS_PROCESSES, 2, 1, DEVICE_PAIRS, 0);
    run(RANKS_PROCESSES, 3, 2, DEVICE_PAIRS, 0);
    run_crowded(2, 1);
}

static void processes_of_two_hosts_have_device_memory(void **state)
{
    (void)state;
    have_few_queues();
    run(RANKS_PROCESSES, 2, 1, DEVICE_COLLECTIVES, 2);
    run(RANKS_PROCESSES, 4, 2, DEVICE_COLLECTIVES, 2);
    run_checked(RANKS_PROCESSES, 2, 2);
}

/* One of the two buffers of each rank lies on a device, and what goes between hosts is large enough
 * to be sent from where it lies. */
static int gather_across(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 50000, BYTES = COUNT * sizeof(int32_t), SIZE = 2 };
    static int32_t own[COUNT], all[SIZE * COUNT];
    const char *reason;
    (void)seed, (void)context;
    RANKS_EXPECT(size == SIZE && device_driver_open(&reason));
    device_driver_use(0);
    void *const memory = device_driver_allocate(SIZE * BYTES);
    for (int i = 0; i < COUNT; i++) own[i] = rank * COUNT + i;
    for (int turn = 0; turn < 4; turn++) {
        const bool sends_from_device = (turn + rank) % 2 == 0;
        memset(all, 0, sizeof all);
        device_driver_put(memory, sends_from_device ? own : all,
                          sends_from_device ? BYTES : sizeof all);
        RANKS_EXPECT(tutti_allgather(sends_from_device ? memory : own,
                                     sends_from_device ? (void *)all : memory, COUNT, TUTTI_INT32,
                                     comm) == TUTTI_OK);
        if (!sends_from_device) device_driver_get(all, memory, sizeof all);
        for (int i = 0; i < SIZE * COUNT; i++) RANKS_EXPECT(all[i] == i);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    device_driver_free(memory);
    return 0;
}

static void a_result_lies_elsewhere_than_the_input(void **state)
{
    (void)state;
    const struct tutti_comm_options patient = {
        .size_bytes = sizeof patient, .rank = -1, .size = -1, .timeout_ns = 20000000000u};
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    have_few_queues();
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int failed = ranks_run(2, &options, gather_across, NULL);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 0);
}

/* -------------------------------------------------------------------------------------- threads */

/* Threads share hidden queues. What is behind one rank's operation in its stream must not be before
 * another rank's in such a queue: so there are more queues than streams. */
static void have_many_queues(void)
{
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
}

static void threads_have_device_memory(void **state)
{
    (void)state;
    have_many_queues();
    run(RANKS_THREADS, 1, 1, DEVICE_COLLECTIVES, 0);
    run(RANKS_THREADS, 2, 1, DEVICE_ALGORITHMS, 0);
    run(RANKS_THREADS, 3, 2, DEVICE_ALGORITHMS, 0);
    run(RANKS_THREADS, 4, 1, DEVICE_COLLECTIVES, 0);
    run(RANKS_THREADS, 8, 4, DEVICE_COLLECTIVES, 0);
    run_checked(RANKS_THREADS, 2, 0);
}

static void every_type_is_reduced_by_every_operation(void **state)
{
    (void)state;
    have_many_queues();
    run(RANKS_THREADS, 2, 1, DEVICE_TYPES, 0);
}

/* In its stream, each rank shows the round that it is in, comes to the barrier, and copies what all
 * others have shown by then. */
enum { SHOWN_ROUNDS = 12, SHOWN_RANKS = 3 };
struct shown {
    int *now;               /* pinned: the round of each rank */
    int *rounds;            /* pinned: 0, 1, ... */
    int *seen[SHOWN_RANKS]; /* pinned, of each rank: [round][rank] */
};

static int show(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct shown *const shown = context;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    (void)seed;
    device_driver_use(0);
    options.stream = device_driver_stream();
    options.on_stream = 1;
    for (int round = 1; round < SHOWN_ROUNDS; round++) {
        int *const seen = shown->seen[rank] + round * size;
        device_driver_move_later(&shown->now[rank], &shown->rounds[round], sizeof(int),
                                 options.stream);
        RANKS_EXPECT(tutti_barrier_with(&options, comm) == TUTTI_OK);
        device_driver_move_later(seen, shown->now, (size_t)size * sizeof(int), options.stream);
    }
    device_driver_finish(options.stream);
    for (int round = 1; round < SHOWN_ROUNDS; round++)
        for (int r = 0; r < size; r++) RANKS_EXPECT(shown->seen[rank][round * size + r] >= round);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    device_driver_free_stream(options.stream);
    return 0;
}

/* The last test: the stand-in stays as it sets it. */
static void a_barrier_in_streams_holds_them_up(void **state)
{
    (void)state;
    const char *reason;
    const struct ranks_options options = {.kind = RANKS_THREADS};
    struct shown shown;
    have_many_queues();
    assert_true(device_driver_open(&reason));
    /* Far more calls are under way than there is memory for in advance (gpu/executor.c): not with a
     * driver that waits to allocate it. */
    void *const driver = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    const struct cuda_standin *const standin = driver != NULL ? dlsym(driver, "cuda_standin") : NULL;
    if (standin != NULL) standin->set_wait(false);
    device_driver_use(0);
    shown.now = device_driver_pinned(SHOWN_RANKS * sizeof(int));
    shown.rounds = device_driver_pinned(SHOWN_ROUNDS * sizeof(int));
    memset(shown.now, 0, SHOWN_RANKS * sizeof(int));
    for (int round = 0; round < SHOWN_ROUNDS; round++) shown.rounds[round] = round;
    for (int r = 0; r < SHOWN_RANKS; r++)
        shown.seen[r] = device_driver_pinned(SHOWN_ROUNDS * SHOWN_RANKS * sizeof(int));
    assert_int_equal(ranks_run(SHOWN_RANKS, &options, show, &shown), 0);
    for (int r = 0; r < SHOWN_RANKS; r++) device_driver_free_pinned(shown.seen[r]);
    device_driver_free_pinned(shown.rounds);
    device_driver_free_pinned(shown.now);
}

int main(int argument_count, char **arguments)
{
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 0);
    setenv("TUTTI_STANDIN_WAIT", "1", 0);
    setenv("TUTTI_STANDIN_DEVICES", "4", 1);
    unsigned seeds = 0, seconds = 0;
    uint64_t first_seed = 1;
    for (int i = 1; i + 1 < argument_count; i += 2) {
        if (strcmp(arguments[i], "--seeds") == 0) seeds = (unsigned)atoi(arguments[i + 1]);
        if (strcmp(arguments[i], "--for") == 0) seconds = (unsigned)atoi(arguments[i + 1]);
        if (strcmp(arguments[i], "--first-seed") == 0)
            first_seed = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--rounds") == 0) rounds = (unsigned)atoi(arguments[i + 1]);
        if (strcmp(arguments[i], "--seed") == 0) setenv("TUTTI_TEST_SEED", arguments[i + 1], 1);
    }
    if (seeds > 0) return device_sweep_seeds(first_seed, seeds, seconds) != 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_has_device_memory),
        cmocka_unit_test(processes_have_device_memory),
        cmocka_unit_test(processes_have_two_calls_in_two_streams),
        cmocka_unit_test(processes_of_two_hosts_have_device_memory),
        cmocka_unit_test(a_result_lies_elsewhere_than_the_input),
        cmocka_unit_test(threads_have_device_memory),
        cmocka_unit_test(every_type_is_reduced_by_every_operation),
        cmocka_unit_test(a_barrier_in_streams_holds_them_up),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unsigned calls, in_streams;
    device_sweep_count(&calls, &in_streams);
    fprintf(stderr, "%u calls, %u of them in streams\n", calls, in_streams);
    return failed;
}
