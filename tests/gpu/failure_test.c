/* failure_test.c - what cannot work in memory of devices is refused, and changes nothing; what
 * fails in a stream lets the stream go on.
 *
 *     [TUTTI_CUDA_DRIVER=libcuda.so.1] tests_gpu_failure_test
 *
 * ctest: label=once timeout=120
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/elements.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"

enum { COUNT = 50000, BYTES = COUNT * sizeof(float) };

/* A rank's memory on a device, pinned memory with what it puts there and gets from there, and a
 * stream. */
struct place {
    float *memory, *image;
    void *stream;
};

static bool is_all(const float *data, float value)
{
    for (size_t i = 0; i < COUNT; i++)
        if (data[i] != value) return false;
    return true;
}

static void set_all(float *data, float value)
{
    for (size_t i = 0; i < COUNT; i++) data[i] = value;
}

static bool open_place(struct place *place, int device)
{
    const char *reason;
    if (!device_driver_open(&reason)) return false;
    device_driver_use(device % device_driver_count());
    place->memory = device_driver_allocate(BYTES);
    place->image = device_driver_pinned(BYTES);
    place->stream = device_driver_stream();
    return true;
}

static void close_place(struct place *place)
{
    device_driver_free_stream(place->stream);
    device_driver_free_pinned(place->image);
    device_driver_free(place->memory);
}

/* The stream does what comes after. */
static bool goes_on(struct place *place)
{
    device_driver_finish(place->stream);
    set_all(place->image, 5);
    device_driver_put_later(place->memory, place->image, BYTES, place->stream);
    device_driver_finish(place->stream);
    set_all(place->image, 0);
    device_driver_get_later(place->image, place->memory, BYTES, place->stream);
    device_driver_finish(place->stream);
    return is_all(place->image, 5);
}

static struct tutti_call_options in_stream(const struct place *place)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.stream = place->stream;
    options.on_stream = 1;
    return options;
}

/* Each rank's 1 in memory of the device, in the order of the stream. */
static enum tutti_status reduce(struct place *place, const struct tutti_call_options *options,
                                struct tutti_comm *comm, struct tutti_request **request)
{
    set_all(place->image, 1);
    device_driver_put_later(place->memory, place->image, BYTES, place->stream);
    if (request == NULL)
        return tutti_allreduce_with(place->memory, place->memory, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                    options, comm);
    return tutti_allreduce_start(place->memory, place->memory, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                 options, comm, request);
}

static bool has_failed(struct tutti_comm *comm, struct tutti_failure *failure)
{
    *failure = (struct tutti_failure){.size_bytes = sizeof *failure};
    return tutti_comm_failure(comm, failure) == TUTTI_OK && failure->status != TUTTI_OK;
}

/* --------------------------------------------------------------------------------------- deaths */

enum { RANKS = 3, VICTIM = 2 };

static _Atomic int *came; /* see ranks_meet */

/* context: whether the victim calls before it dies. Rank 0 waits for its call, and nobody but its
 * stream for that of rank 1. */
static int one_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const bool *const calls = context;
    struct place place;
    struct tutti_request *request = NULL;
    struct tutti_failure failure;
    (void)seed;
    RANKS_EXPECT(open_place(&place, rank));
    const struct tutti_call_options options = in_stream(&place);
    for (int i = 0; i < 3; i++) { /* workers are out again and again */
        RANKS_EXPECT(reduce(&place, &options, comm, NULL) == TUTTI_OK);
        device_driver_get_later(place.image, place.memory, BYTES, place.stream);
        device_driver_finish(place.stream);
        RANKS_EXPECT(is_all(place.image, (float)size));
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == VICTIM) {
        ranks_meet(came, size);
        if (*calls) RANKS_EXPECT(reduce(&place, &options, comm, NULL) == TUTTI_OK);
        raise(SIGKILL);
    }
    RANKS_EXPECT(reduce(&place, &options, comm, rank == 0 ? &request : NULL) == TUTTI_OK);
    ranks_meet(came, size);
    if (rank == 0) {
        const enum tutti_status status = tutti_wait(&request);
        RANKS_EXPECT(status == TUTTI_PROC_FAILED || (*calls && status == TUTTI_OK));
    }
    RANKS_EXPECT(goes_on(&place));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(has_failed(comm, &failure) && failure.culprit == VICTIM);
    /* In a stream, too; and then nothing was put there. */
    RANKS_EXPECT(reduce(&place, &options, comm, NULL) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(goes_on(&place));
    close_place(&place);
    return 0;
}

static void run_deaths(bool calls, int hosts)
{
    struct ranks_outcome outcomes[RANKS];
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .outcomes = outcomes};
    if (IS_THREAD_SANITIZED) skip(); /* a child of fork() can start no threads there */
    if (hosts > 1) setenv("TUTTI_TEST_HOSTS", "2", 1);
    came = ranks_share(sizeof *came);
    const int failed = ranks_run(RANKS, &options, one_dies, &calls);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 1);
    assert_int_equal(outcomes[VICTIM].fate, RANKS_SIGNALLED);
}

static void a_death_before_its_call_releases_the_streams(void **state)
{
    (void)state;
    run_deaths(false, 1);
}

static void a_death_in_its_call_releases_the_streams(void **state)
{
    (void)state;
    run_deaths(true, 1);
}

static void so_does_a_death_on_another_host(void **state)
{
    (void)state;
    run_deaths(false, 2);
}

/* ------------------------------------------------------------------------------------ deadlines */

/* context: whether rank 0 waits for its call. Rank 1 does not call until that has failed. */
static int one_is_missing(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const bool *const waits = context;
    struct place place;
    struct tutti_request *request = NULL;
    struct tutti_failure failure;
    (void)size, (void)seed;
    RANKS_EXPECT(open_place(&place, 0));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 1) {
        for (int naps = 0; naps < 4000 && !has_failed(comm, &failure); naps++) ranks_nap_ms(5);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_TIMEOUT);
    } else {
        struct tutti_call_options options = in_stream(&place);
        options.timeout_ns = 200000000;
        RANKS_EXPECT(reduce(&place, &options, comm, *waits ? &request : NULL) == TUTTI_OK);
        if (*waits) {
            RANKS_EXPECT(tutti_wait(&request) == TUTTI_TIMEOUT);
            RANKS_EXPECT(strstr(tutti_error_message(), "has not called it") != NULL);
        }
        RANKS_EXPECT(goes_on(&place));
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_TIMEOUT);
        RANKS_EXPECT(has_failed(comm, &failure) && failure.culprit == 1);
    }
    close_place(&place);
    return 0;
}

static void run_missing(enum ranks_kind kind)
{
    const struct ranks_options options = {.kind = kind};
    for (int waits = 0; waits < 2; waits++)
        assert_int_equal(ranks_run(2, &options, one_is_missing, &(bool){waits != 0}), 0);
}

static void a_deadline_releases_the_stream_of_a_process(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip();
    run_missing(RANKS_PROCESSES);
}

static void a_deadline_releases_the_stream_of_a_thread(void **state)
{
    (void)state;
    run_missing(RANKS_THREADS);
}

/* An abort is a failure of this rank's own. */
static int abort_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct place place;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, 0));
    const struct tutti_call_options options = in_stream(&place);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) {
        RANKS_EXPECT(reduce(&place, &options, comm, NULL) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_abort(comm, "enough") == TUTTI_OK);
        RANKS_EXPECT(goes_on(&place));
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_ABORTED);
    close_place(&place);
    return 0;
}

static void an_abort_releases_the_stream(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_THREADS};
    assert_int_equal(ranks_run(2, &options, abort_one, NULL), 0);
}

/* ---------------------------------------------------------------------------------------- forms */

/* Nobody waits for the call of rank 0 but its stream, and rank 1 blocks in the same call: they do
 * not meet, and both are told so long before a deadline. */
static int one_blocks(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static float host[COUNT];
    struct place place;
    struct tutti_failure failure;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, 0));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    if (rank == 0) {
        const struct tutti_call_options options = in_stream(&place);
        RANKS_EXPECT(reduce(&place, &options, comm, NULL) == TUTTI_OK);
        RANKS_EXPECT(goes_on(&place));
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_MISMATCH);
    } else {
        RANKS_EXPECT(tutti_allreduce(host, host, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_MISMATCH);
    }
    RANKS_EXPECT(clock_now_ns() - begin_ns < UINT64_C(20000000000));
    RANKS_EXPECT(has_failed(comm, &failure) && failure.culprit == 0);
    RANKS_EXPECT(strstr(failure.message, "blocking calls meet only blocking ones") != NULL);
    close_place(&place);
    return 0;
}

static void a_blocking_call_that_meets_one_in_a_stream_is_refused(void **state)
{
    (void)state;
    const struct tutti_comm_options patient = {
        .size_bytes = sizeof patient, .rank = -1, .size = -1, .timeout_ns = 40000000000u};
    const struct ranks_options options = {
        .kind = IS_THREAD_SANITIZED ? RANKS_THREADS : RANKS_PROCESSES, .comm_options = &patient};
    assert_int_equal(ranks_run(2, &options, one_blocks, NULL), 0);
}

/* ------------------------------------------------------------------------------------- refusals */

static bool says(const char *words)
{
    const char *const text = tutti_error_message();
    if (strstr(text, words) == NULL) fprintf(stderr, "the message is: %s\n", text);
    return strstr(text, words) != NULL;
}

static enum tutti_status sum(const void *send, void *recv, const struct tutti_call_options *options,
                             struct tutti_comm *comm)
{
    return tutti_allreduce_with(send, recv, COUNT, TUTTI_FLOAT32, TUTTI_SUM, options, comm);
}

static int refuse_mixtures(struct tutti_comm *comm, int rank, const struct place *here,
                           const struct place *there)
{
    static float host[COUNT];
    struct tutti_call_options options = in_stream(there);
    RANKS_EXPECT(sum(here->memory, there->memory, NULL, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("must be of one device, but are: send of device 0, recv of device 1"));
    RANKS_EXPECT(sum(here->memory, here->memory, &options, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("send of device 0, recv of device 0, options.stream of device 1"));
    RANKS_EXPECT(sum(host, here->memory, &options, comm) == TUTTI_INVALID_BUFFER);
    void *const others[] = {host, there->memory};
    for (int i = 0; i < 2; i++) {
        const struct tutti_tensor tensors[] = {{here->memory, COUNT}, {others[i], COUNT}};
        const struct tutti_list list = {tensors, 2};
        RANKS_EXPECT(tutti_allreduce_list(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_INVALID_BUFFER);
        RANKS_EXPECT(says("must lie in memory of one kind"));
    }
    return 0;
}

static int refuse_functions(struct tutti_comm *comm, int rank, const struct place *here)
{
    static float host[COUNT];
    const tutti_op op = elements_op(OP_USER);
    struct tutti_prepared *prepared = NULL;
    RANKS_EXPECT(op != NULL);
    RANKS_EXPECT(tutti_allreduce(host, here->memory, COUNT, TUTTI_FLOAT32, op, comm) ==
                 TUTTI_UNSUPPORTED);
    RANKS_EXPECT(says("run on the CPU"));
    RANKS_EXPECT(tutti_allreduce_prepare(here->memory, host, COUNT, TUTTI_FLOAT32, op, NULL, comm,
                                         &prepared) == TUTTI_UNSUPPORTED);
    RANKS_EXPECT(prepared == NULL);
    tutti_op_free(op);
    return 0;
}

static int refuse_messages(struct tutti_comm *comm, int rank, const struct place *here)
{
    static float host[COUNT];
    const struct tutti_call_options options = in_stream(here);
    RANKS_EXPECT(tutti_send_with(host, COUNT, TUTTI_FLOAT32, rank, 0, &options, comm) ==
                 TUTTI_UNSUPPORTED);
    RANKS_EXPECT(says("no stream's order") || says("in no stream"));
    return 0;
}

/* The driver's own function where there is a driver, and the stand-in's. */
static int refuse_managed(struct tutti_comm *comm, int rank, const struct place *here)
{
    void *const driver = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    int (*allocate)(uint64_t *, size_t, unsigned) = NULL;
    uint64_t managed = 0;
    RANKS_EXPECT(driver != NULL);
    *(void **)&allocate = dlsym(driver, "cuMemAllocManaged");
    RANKS_EXPECT(allocate != NULL && allocate(&managed, BYTES, 1) == 0);
    void *const memory = (void *)(uintptr_t)managed;
    RANKS_EXPECT(sum(memory, memory, NULL, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("tutti_allreduce: send: ") && says("managed memory"));
    RANKS_EXPECT(sum(here->memory, memory, NULL, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("tutti_allreduce: recv: "));
    device_driver_free(memory);
    return 0;
}

/* Where a driver leaves freed memory out of the CPU's reach, as the stand-in does. */
static int refuse_freed(struct tutti_comm *comm, int rank, const struct place *here)
{
    void *const driver = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    const struct tutti_call_options options = in_stream(here);
    if (dlsym(driver, "cuda_standin") == NULL) return 0;
    float *const freed = device_driver_allocate(BYTES);
    device_driver_free(freed);
    RANKS_EXPECT(sum(freed, freed, &options, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("tutti_allreduce: send: ") && says("was it freed?"));
    RANKS_EXPECT(sum(here->memory, freed, NULL, comm) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(says("tutti_allreduce: recv: ") && says("was it freed?"));
    return 0;
}

/* A buffer that a collective does not look at on a rank may be anything. */
static int ignore_managed(struct tutti_comm *comm, int rank, const struct place *here)
{
    void *const driver = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    int (*allocate)(uint64_t *, size_t, unsigned) = NULL;
    uint64_t managed = 0;
    *(void **)&allocate = dlsym(driver, "cuMemAllocManaged");
    RANKS_EXPECT(allocate != NULL && allocate(&managed, BYTES, 1) == 0);
    void *const memory = (void *)(uintptr_t)managed;
    set_all(here->image, (float)(rank + 1));
    device_driver_put_later(here->memory, here->image, BYTES, here->stream);
    device_driver_finish(here->stream);
    RANKS_EXPECT(tutti_broadcast(rank == 0 ? here->memory : memory, here->memory, COUNT,
                                 TUTTI_FLOAT32, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_reduce(here->memory, rank == 0 ? here->memory : memory, COUNT, TUTTI_FLOAT32,
                              TUTTI_MAX, 0, comm) == TUTTI_OK);
    device_driver_get_later(here->image, here->memory, BYTES, here->stream);
    device_driver_finish(here->stream);
    RANKS_EXPECT(is_all(here->image, 1));
    device_driver_free(memory);
    return 0;
}

static int refuse_capture(struct tutti_comm *comm, int rank, const struct place *here)
{
    void *const driver = dlopen(getenv("TUTTI_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    const struct cuda_standin *const standin = dlsym(driver, "cuda_standin");
    const struct tutti_call_options options = in_stream(here);
    struct tutti_prepared *prepared;
    struct tutti_request *request;
    if (standin == NULL) return 0;
    RANKS_EXPECT(tutti_allreduce_prepare(here->memory, here->memory, COUNT, TUTTI_FLOAT32,
                                         TUTTI_SUM, &options, comm, &prepared) == TUTTI_OK);
    standin->set_capture(here->stream, CUDA_CAPTURE_ACTIVE);
    const enum tutti_status called = sum(here->memory, here->memory, &options, comm);
    const bool says_why = says("is being captured into a graph");
    const enum tutti_status started = tutti_start(prepared, &request);
    standin->set_capture(here->stream, CUDA_CAPTURE_NONE);
    RANKS_EXPECT(called == TUTTI_UNSUPPORTED && says_why && started == TUTTI_UNSUPPORTED);
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    return 0;
}

static int refuse_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct place here, there;
    (void)seed, (void)context;
    RANKS_EXPECT(open_place(&there, 1));
    RANKS_EXPECT(open_place(&here, 0));
    const struct tutti_call_options options = in_stream(&here);
    if (device_driver_count() > 1 && refuse_mixtures(comm, rank, &here, &there) != 0) return 1;
    if (refuse_functions(comm, rank, &here) != 0) return 1;
    if (refuse_messages(comm, rank, &here) != 0) return 1;
    if (refuse_managed(comm, rank, &here) != 0) return 1;
    if (refuse_freed(comm, rank, &here) != 0) return 1;
    if (ignore_managed(comm, rank, &here) != 0) return 1;
    if (refuse_capture(comm, rank, &here) != 0) return 1;
    RANKS_EXPECT(reduce(&here, &options, comm, NULL) == TUTTI_OK); /* as if nothing had been */
    device_driver_get_later(here.image, here.memory, BYTES, here.stream);
    device_driver_finish(here.stream);
    RANKS_EXPECT(is_all(here.image, (float)size));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    close_place(&here);
    close_place(&there);
    return 0;
}

static void run_refusals(enum ranks_kind kind, int size)
{
    const struct ranks_options options = {.kind = kind};
    assert_int_equal(ranks_run(size, &options, refuse_all, NULL), 0);
}

static void what_cannot_work_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip();
    run_refusals(RANKS_PROCESSES, 1);
    run_refusals(RANKS_PROCESSES, 2);
}

/* One thread, as another one would see what is captured. */
static void a_thread_is_refused_it_too(void **state)
{
    (void)state;
    run_refusals(RANKS_THREADS, 1);
}

static int call_without_driver(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    static float host[COUNT];
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    (void)size, (void)seed, (void)context;
    options.on_stream = 1;
    RANKS_EXPECT(sum(host, host, &options, comm) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(says("CUDA is not initialised in this process"));
    RANKS_EXPECT(sum(host, host, NULL, comm) == TUTTI_OK);
    return 0;
}

/* Processes that begin without a driver. The body's context is the driver's file. */
static void expect_good_without_driver(int count, ranks_function *body)
{
    char driver[4096];
    const struct ranks_options options = {.kind = RANKS_PROCESSES};
    if (IS_THREAD_SANITIZED) skip();
    snprintf(driver, sizeof driver, "%s", getenv("TUTTI_CUDA_DRIVER"));
    unsetenv("TUTTI_CUDA_DRIVER");
    const int failed = ranks_run(count, &options, body, driver);
    setenv("TUTTI_CUDA_DRIVER", driver, 1);
    assert_int_equal(failed, 0);
}

static void a_stream_without_a_driver_is_refused(void **state)
{
    (void)state;
    expect_good_without_driver(1, call_without_driver);
}

/* The communicator was made without a driver; the program has a driver only now. */
static int call_with_late_driver(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    struct place place;
    struct tutti_request *request;
    (void)seed;
    setenv("TUTTI_CUDA_DRIVER", context, 1);
    RANKS_EXPECT(open_place(&place, rank));
    const struct tutti_call_options options = in_stream(&place);
    RANKS_EXPECT(reduce(&place, &options, comm, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    device_driver_get_later(place.image, place.memory, BYTES, place.stream);
    device_driver_finish(place.stream);
    RANKS_EXPECT(is_all(place.image, (float)size));
    close_place(&place);
    return 0;
}

static void the_first_call_in_a_stream_finds_a_late_driver(void **state)
{
    (void)state;
    expect_good_without_driver(2, call_with_late_driver);
}

int main(void)
{
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 0);
    setenv("TUTTI_STANDIN_WAIT", "1", 0);
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    /* Processes first: a child of who has used a driver cannot use it. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_without_a_driver_is_refused),
        cmocka_unit_test(the_first_call_in_a_stream_finds_a_late_driver),
        cmocka_unit_test(what_cannot_work_is_refused_and_changes_nothing),
        cmocka_unit_test(a_death_before_its_call_releases_the_streams),
        cmocka_unit_test(a_death_in_its_call_releases_the_streams),
        cmocka_unit_test(so_does_a_death_on_another_host),
        cmocka_unit_test(a_deadline_releases_the_stream_of_a_process),
        cmocka_unit_test(a_blocking_call_that_meets_one_in_a_stream_is_refused),
        cmocka_unit_test(a_deadline_releases_the_stream_of_a_thread),
        cmocka_unit_test(an_abort_releases_the_stream),
        cmocka_unit_test(a_thread_is_refused_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
