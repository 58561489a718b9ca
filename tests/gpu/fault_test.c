/* fault_test.c - a GPU that fails for good while calls wait for it: its rank notices long before a
 * deadline, and all ranks learn which GPU of which rank it was; nothing hangs or crashes
 * afterwards, and memory of the host goes on. A GPU that only never comes to a call ends it at its
 * deadline.
 *
 * In the suites the driver is the stand-in, which fails as the test wants it. With
 * TUTTI_CUDA_DRIVER=libcuda.so.1 a kernel of the test's touches an address that is no memory, in
 * processes that may share a GPU; tests that need another error, or a GPU of another process, are
 * skipped.
 *
 * ctest: label=once timeout=240
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/executor.h"
#include "os/clock.h"
#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/apart.h"
#include "tests/worlds/ranks.h"

enum { COUNT = 50000, BYTES = COUNT * sizeof(float), RANKS = 3, CULPRIT = 1 };

/* Longer than ranks may take: whatever comes back did not wait for it. */
static const struct tutti_comm_options patient = {
    .size_bytes = sizeof patient, .rank = -1, .size = -1, .timeout_ns = 100000000000u};

enum strikes { IN_KERNEL, IN_EARLIER_WORK, BEFORE_CALL, WHILE_WAITING };
enum form { BLOCKING, STARTED, IN_STREAM };

struct scenario {
    enum strikes strikes;
    enum form form;
    bool are_threads;
    bool others_have_hosts_memory; /* in that call */
    _Atomic int *through; /* shared: ranks that are through with what comes before the last call */
};

/* How each strikes, and what the failure says. */
static const struct {
    int result;
    const char *name, *advice;
} faults[] = {
    [IN_KERNEL] = {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
                   "compute-sanitizer finds the kernel"},
    [IN_EARLIER_WORK] = {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED (719)",
                         "compute-sanitizer finds the kernel"},
    [BEFORE_CALL] = {CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN (999)", "see Xid errors in dmesg"},
    [WHILE_WAITING] = {CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE (214)",
                       "see nvidia-smi -q -d ECC"},
};

/* A rank's memory on a device, and a stream. */
struct place {
    int device;
    float *memory, *image;
    float *buffer; /* of calls: one of the two */
    void *stream;
};

static const struct cuda_standin *standin; /* NULL: CUDA's own driver */

static const char *result_name(enum strikes strikes)
{
    return standin != NULL ? faults[strikes].name : faults[IN_KERNEL].name;
}

static const char *advice_of(enum strikes strikes)
{
    return standin != NULL ? faults[strikes].advice : faults[IN_KERNEL].advice;
}

static bool names_gpu(const char *message)
{
    return strstr(message, standin != NULL ? "GPU 1 (stand-in 1) has failed: " : "GPU ") != NULL &&
           strstr(message, ") has failed: ") != NULL;
}

static bool open_place(struct place *place, int rank)
{
    const char *reason;
    if (!device_driver_open(&reason)) return false;
    place->device = rank % 2 % device_driver_count();
    device_driver_use(place->device);
    place->memory = device_driver_allocate(BYTES);
    place->image = device_driver_pinned(BYTES);
    place->buffer = place->memory;
    place->stream = device_driver_stream();
    return true;
}

static void close_place(struct place *place)
{
    device_driver_free_stream(place->stream);
    device_driver_free_pinned(place->image);
    device_driver_free(place->memory);
}

static bool has_failed(struct tutti_comm *comm, struct tutti_failure *failure)
{
    *failure = (struct tutti_failure){.size_bytes = sizeof *failure};
    return tutti_comm_failure(comm, failure) == TUTTI_OK && failure->status != TUTTI_OK;
}

static enum tutti_status sum(struct place *place, enum form form, struct tutti_comm *comm)
{
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_request *request;
    enum tutti_status status;
    options.stream = place->stream;
    options.on_stream = 1;
    switch (form) {
    case BLOCKING:
        return tutti_allreduce(place->buffer, place->buffer, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm);
    case STARTED:
        status = tutti_allreduce_start(place->buffer, place->buffer, COUNT, TUTTI_FLOAT32,
                                       TUTTI_SUM, NULL, comm, &request);
        return status == TUTTI_OK ? tutti_wait(&request) : status;
    case IN_STREAM:
        return tutti_allreduce_with(place->buffer, place->buffer, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                    &options, comm);
    }
    return TUTTI_INTERNAL;
}

/* Ones are there when this returns. */
static void fill(struct place *place)
{
    for (size_t i = 0; i < COUNT; i++) place->image[i] = 1;
    device_driver_put_later(place->memory, place->image, BYTES, place->stream);
    device_driver_finish(place->stream);
}

static bool all_are(struct place *place, float value)
{
    device_driver_get_later(place->image, place->memory, BYTES, place->stream);
    device_driver_finish(place->stream);
    for (size_t i = 0; i < COUNT; i++)
        if (place->image[i] != value) return false;
    return true;
}

/* The culprit's device fails in this call. */
static enum tutti_status sum_and_break(struct place *place, const struct scenario *scenario,
                                       struct tutti_comm *comm)
{
    /* Of the part that its own kernel reduces, whatever the algorithm. */
    const uint64_t middle = (uintptr_t)place->memory + BYTES / 2;
    const int result = faults[scenario->strikes].result;
    if (standin == NULL) { /* long enough for the call to be waiting, or for none to have begun */
        const bool later = scenario->strikes == WHILE_WAITING;
        device_driver_fault_later(later ? 300000000 : 0,
                                  later ? device_driver_stream() : place->stream);
        if (scenario->strikes == BEFORE_CALL) ranks_nap_ms(300);
        return sum(place, scenario->form, comm);
    }
    switch (scenario->strikes) {
    case IN_KERNEL: standin->fault_at(place->device, result, middle); break;
    case BEFORE_CALL: standin->fault(place->device, result, 0); break;
    case WHILE_WAITING: standin->fault(place->device, result, 2); break;
    case IN_EARLIER_WORK: /* which comes when the call is in the stream */
        standin->hold(place->stream, true);
        device_driver_put_later(place->memory, place->image, BYTES, place->stream);
        standin->fault_at(place->device, result, middle);
        const enum tutti_status status = sum(place, scenario->form, comm);
        standin->hold(place->stream, false);
        return status;
    }
    return sum(place, scenario->form, comm);
}

static bool says(const struct tutti_failure *failure, const char *words)
{
    if (strstr(failure->message, words) == NULL)
        fprintf(stderr, "not in the message: %s\n%s\n", words, failure->message);
    return strstr(failure->message, words) != NULL;
}

static int expect_failure(struct tutti_comm *comm, int rank, const struct scenario *scenario)
{
    struct tutti_failure failure;
    RANKS_EXPECT(has_failed(comm, &failure));
    RANKS_EXPECT(failure.status == TUTTI_SYSTEM && failure.culprit == CULPRIT);
    RANKS_EXPECT(says(&failure, "allreduce") && says(&failure, ": rank 1 (host "));
    RANKS_EXPECT(names_gpu(failure.message));
    RANKS_EXPECT(says(&failure, result_name(scenario->strikes)) &&
                 says(&failure, advice_of(scenario->strikes)));
    RANKS_EXPECT(says(&failure, "; start this process again; "));
    /* A call that could not be made has no number. */
    RANKS_EXPECT(scenario->strikes == BEFORE_CALL ||
                 (failure.sequence > 0 && says(&failure, " #")));
    return 0;
}

/* All ranks go on with memory of the host, also the one whose GPU is no more, until that rank uses
 * it. */
static int go_on(struct tutti_comm *comm, struct place *place, int rank, int size,
                 const struct scenario *scenario)
{
    static const float one = 1;
    struct tutti_comm *next;
    float host = 0;
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &next) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(next) == size);
    for (int i = 0; i < 3; i++) {
        RANKS_EXPECT(tutti_allreduce(&one, &host, 1, TUTTI_FLOAT32, TUTTI_SUM, next) == TUTTI_OK);
        RANKS_EXPECT(host == (float)size);
    }
    if (rank == CULPRIT) {
        RANKS_EXPECT(tutti_send(&one, 1, TUTTI_FLOAT32, 0, 0, next) == TUTTI_OK);
    } else if (rank == 0) {
        RANKS_EXPECT(tutti_recv(&host, 1, TUTTI_FLOAT32, CULPRIT, 0, NULL, next) == TUTTI_OK);
    }
    atomic_fetch_add(scenario->through, 1);
    while (rank == CULPRIT && atomic_load(scenario->through) < size) ranks_nap_ms(1);
    RANKS_EXPECT(sum(place, BLOCKING, next) == TUTTI_SYSTEM);
    RANKS_EXPECT(names_gpu(tutti_error_message()));
    RANKS_EXPECT(tutti_comm_free(next) == TUTTI_OK);
    return 0;
}

static int break_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct scenario *const scenario = context;
    struct place place;
    struct tutti_failure failure;
    (void)seed;
    RANKS_EXPECT(open_place(&place, rank));
    for (int i = 0; i < 3; i++) {
        fill(&place);
        RANKS_EXPECT(sum(&place, IN_STREAM, comm) == TUTTI_OK);
        RANKS_EXPECT(all_are(&place, (float)size));
    }
    fill(&place);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank != CULPRIT && scenario->others_have_hosts_memory) place.buffer = place.image;
    if (rank != 0 || scenario->strikes != WHILE_WAITING) { /* else the others wait for it */
        const enum tutti_status status = rank == CULPRIT ? sum_and_break(&place, scenario, comm)
                                                         : sum(&place, scenario->form, comm);
        RANKS_EXPECT(status == TUTTI_SYSTEM || (status == TUTTI_OK && scenario->form == IN_STREAM));
        /* Further calls stand behind it. */
        for (int i = 0; i < 2 && scenario->form == IN_STREAM; i++)
            (void)sum(&place, IN_STREAM, comm);
    }
    place.buffer = place.memory;
    while (!has_failed(comm, &failure)) ranks_nap_ms(1); /* or the ranks' deadline comes */
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_SYSTEM);
    if (expect_failure(comm, rank, scenario) != 0) return 1;
    if (rank != CULPRIT) { /* its stream goes on */
        fill(&place);
        RANKS_EXPECT(all_are(&place, 1));
    }
    if (go_on(comm, &place, rank, size, scenario) != 0) return 1;
    /* Nothing of a broken device can be freed; and to free waits for the workers of other
     * threads. */
    if (rank != CULPRIT && !scenario->are_threads) close_place(&place);
    return 0;
}

static int run_ranks(enum ranks_kind kind, enum strikes strikes, enum form form,
                     bool others_have_hosts_memory)
{
    const struct ranks_options options = {.kind = kind, .comm_options = &patient};
    struct scenario scenario = {strikes, form, kind == RANKS_THREADS, others_have_hosts_memory,
                                ranks_share(sizeof(int))};
    return ranks_run(RANKS, &options, break_one, &scenario);
}

/* Threads have one GPU, which fails once. So they run in a process of their own, which this program
 * executes: see main. */
static void run_threads(enum strikes strikes, enum form form, bool others_have_hosts_memory)
{
    char words[8], output[4096];
    snprintf(words, sizeof words, "%d %d %d", strikes, form, others_have_hosts_memory);
    const int fate = apart_run("threads", words, output, sizeof output);
    if (fate != 0)
        fail_msg("threads %s: wait status %#x, and they wrote:\n%s", words, fate, output);
}

static void run_forms(enum strikes strikes)
{
    const bool takes_all = getenv("TUTTI_LONG") != NULL || (strikes == IN_KERNEL && !is_sparse());
    const int first = takes_all && strikes != IN_EARLIER_WORK ? BLOCKING : IN_STREAM;
    for (int form = first; form <= IN_STREAM; form++) {
        if (standin != NULL) run_threads(strikes, (enum form)form, false);
        if (IS_THREAD_SANITIZED) continue; /* a child of fork() can start no threads there */
        assert_int_equal(run_ranks(RANKS_PROCESSES, strikes, (enum form)form, false), 0);
    }
}

static void a_kernel_of_a_reduction_that_faults_fails_all_ranks(void **state)
{
    (void)state;
    if (standin == NULL) skip();
    run_forms(IN_KERNEL);
}

static void earlier_work_that_faults_fails_the_call_behind_it(void **state)
{
    (void)state;
    run_forms(IN_EARLIER_WORK);
}

static void a_fault_before_a_call_fails_all_ranks(void **state)
{
    (void)state;
    run_forms(BEFORE_CALL);
}

static void memory_that_fails_while_a_call_waits_for_others_fails_it(void **state)
{
    (void)state;
    run_forms(WHILE_WAITING);
}

/* They read it by the culprit's kernel, or by its driver, and wait for neither. */
static void ranks_that_read_its_memory_learn_of_it(void **state)
{
    (void)state;
    if (standin == NULL) skip();
    run_threads(IN_KERNEL, BLOCKING, true);
    run_threads(WHILE_WAITING, STARTED, true);
    if (IS_THREAD_SANITIZED) return;
    assert_int_equal(run_ranks(RANKS_PROCESSES, IN_KERNEL, BLOCKING, true), 0);
}

static void other_hosts_learn_of_it(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int failed = run_ranks(RANKS_PROCESSES, IN_KERNEL, STARTED, false);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 0);
}

/* Where the culprit's GPU fails in the life of a message; or while it prepares a call, for which it
 * needs memory; or before Tutti has ever used the GPU. */
enum moment {
    BEFORE_SEND,
    BEFORE_START,
    BEFORE_RECV,
    BEFORE_UNLOAD,
    WHILE_PREPARING,
    BEFORE_FIRST_CALL,
    MOMENT_COUNT
};

/* Each other rank is at the other end of such a message. It waits for the culprit in vain, except
 * for a message that the culprit has received and then loses. */
static enum tutti_status be_peer(struct place *place, enum moment moment, int rank,
                                 struct tutti_comm *comm)
{
    struct tutti_request *request;
    enum tutti_status status;
    switch (moment) {
    case BEFORE_RECV: /* waits for its receive with its sender */
        return tutti_send(place->memory, COUNT, TUTTI_FLOAT32, CULPRIT, 0, comm);
    case BEFORE_UNLOAD:
        status = tutti_send(place->memory, 1, TUTTI_FLOAT32, CULPRIT, 0, comm);
        return status == TUTTI_OK ? tutti_barrier(comm) : status;
    case BEFORE_FIRST_CALL: return sum(place, BLOCKING, comm);
    case WHILE_PREPARING:
        status = tutti_reduce_scatter_start(place->memory, place->image, COUNT / RANKS,
                                            TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, &request);
        return status == TUTTI_OK ? tutti_wait(&request) : status;
    default:
        if (rank == 0)
            return tutti_recv(place->image, COUNT, TUTTI_FLOAT32, CULPRIT, 0, NULL, comm);
        status = tutti_recv_start(place->memory, COUNT, TUTTI_FLOAT32, TUTTI_ANY_RANK,
                                  TUTTI_ANY_TAG, NULL, NULL, comm, &request);
        return status == TUTTI_OK ? tutti_wait(&request) : status;
    }
}

static int be_culprit(struct place *place, enum moment moment, int rank, struct tutti_comm *comm)
{
    struct tutti_prepared *prepared;
    struct tutti_request *request;
    switch (moment) {
    case BEFORE_START:
        RANKS_EXPECT(tutti_send_prepare(place->memory, COUNT, TUTTI_FLOAT32, 0, 0, NULL, comm,
                                        &prepared) == TUTTI_OK);
        standin->fault(place->device, CUDA_ECC_UNCORRECTABLE, 0);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_SYSTEM && request == NULL);
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
        return 0;
    case BEFORE_UNLOAD:
        for (int peer = 0; peer < RANKS; peer += 2) {
            RANKS_EXPECT(tutti_recv_start(place->memory, COUNT, TUTTI_FLOAT32, peer, 0, NULL, NULL,
                                          comm, &request) == TUTTI_OK);
            if (peer == 0) RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        }
        standin->fault(place->device, CUDA_ECC_UNCORRECTABLE, 0);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_SYSTEM && request == NULL);
        return 0;
    case BEFORE_FIRST_CALL:
        standin->fault(place->device, CUDA_ECC_UNCORRECTABLE, 0);
        RANKS_EXPECT(sum(place, BLOCKING, comm) == TUTTI_SYSTEM);
        return 0;
    case WHILE_PREPARING:
        standin->fault(place->device, CUDA_ECC_UNCORRECTABLE, 1);
        RANKS_EXPECT(tutti_reduce_scatter_prepare(place->memory, place->image, COUNT / RANKS,
                                                  TUTTI_FLOAT32, TUTTI_SUM, NULL, comm,
                                                  &prepared) == TUTTI_SYSTEM);
        RANKS_EXPECT(prepared == NULL);
        return 0;
    default:
        standin->fault(place->device, CUDA_ECC_UNCORRECTABLE, 0);
        RANKS_EXPECT((moment == BEFORE_SEND
                          ? tutti_send(place->memory, COUNT, TUTTI_FLOAT32, 0, 0, comm)
                          : tutti_recv(place->memory, COUNT, TUTTI_FLOAT32, 0, 0, NULL, comm)) ==
                     TUTTI_SYSTEM);
        return 0;
    }
}

struct message_scenario {
    enum moment moment;
    _Atomic int *ready; /* shared: ranks that have made a call on their GPUs */
};

static int break_message(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct message_scenario *const scenario = context;
    const enum moment moment = scenario->moment;
    struct place place;
    struct tutti_failure failure;
    (void)seed;
    RANKS_EXPECT(open_place(&place, rank));
    fill(&place);
    if (moment != BEFORE_FIRST_CALL) RANKS_EXPECT(sum(&place, BLOCKING, comm) == TUTTI_OK);
    atomic_fetch_add(scenario->ready, 1);
    while (atomic_load(scenario->ready) < size) ranks_nap_ms(1);
    if (rank == CULPRIT) {
        if (be_culprit(&place, moment, rank, comm) != 0) return 1;
    } else {
        RANKS_EXPECT(be_peer(&place, moment, rank, comm) == TUTTI_SYSTEM);
    }
    RANKS_EXPECT(has_failed(comm, &failure));
    RANKS_EXPECT(failure.status == TUTTI_SYSTEM && failure.culprit == CULPRIT);
    static const char *const names[MOMENT_COUNT] = {
        [BEFORE_SEND] = "send(count ",       [BEFORE_START] = "send(count ",
        [BEFORE_RECV] = "recv(count ",       [BEFORE_UNLOAD] = "recv(count ",
        [WHILE_PREPARING] = "_start(count ", [BEFORE_FIRST_CALL] = "allreduce(count "};
    RANKS_EXPECT(says(&failure, names[moment]) && says(&failure, ": rank 1 (host "));
    RANKS_EXPECT(says(&failure, moment == BEFORE_FIRST_CALL ? "): a GPU has failed: "
                                                            : ": GPU 1 (stand-in 1) has failed: "));
    RANKS_EXPECT(says(&failure, " has failed: CUDA_ERROR_ECC_UNCORRECTABLE (214); start this"));
    if (rank != CULPRIT) close_place(&place);
    return 0;
}

static void ranks_learn_of_it_outside_of_calls(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    for (int moment = 0; moment < MOMENT_COUNT; moment++) {
        struct message_scenario scenario = {(enum moment)moment, ranks_share(sizeof(int))};
        if (moment == BEFORE_START) setenv("TUTTI_TEST_HOSTS", "2", 1);
        const int failed = ranks_run(RANKS, &options, break_message, &scenario);
        unsetenv("TUTTI_TEST_HOSTS");
        assert_int_equal(failed, 0);
    }
}

/* A thread that reads for a rank of the same process, through a worker that is gone. */
static int break_under_reader(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    struct place place;
    struct gpu_device *device;
    struct gpu_run *run;
    char back[64];
    (void)comm, (void)size, (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, CULPRIT));
    RANKS_EXPECT(gpu_find(place.memory, &device) == TUTTI_OK && device != NULL);
    RANKS_EXPECT(gpu_run_take(device, &run) == TUTTI_OK);
    RANKS_EXPECT(gpu_run_begin(run, false, NULL) == TUTTI_OK);
    while (!gpu_run_gate(run)->ops->is_open(gpu_run_gate(run))) ranks_nap_ms(1);
    standin->fault(place.device, CUDA_ECC_UNCORRECTABLE, 0);
    RANKS_EXPECT(gpu_fault_look(device) != NULL);
    RANKS_EXPECT(!gpu_run_read(device, back, place.memory, sizeof back)); /* at once */
    return 0;
}

static void a_reader_does_not_wait_for_a_worker_that_is_gone(void **state)
{
    (void)state;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .comm_options = &patient, .deadline_ms = 40000};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    assert_int_equal(ranks_run(1, &options, break_under_reader, NULL), 0);
}

/* The only hardware queue stands still, so that the worker of a blocking call does not begin. */
static int break_at_gate(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct place place;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, CULPRIT));
    fill(&place);
    RANKS_EXPECT(sum(&place, BLOCKING, comm) == TUTTI_OK);
    standin->hold(place.stream, true);
    device_driver_put_later(place.memory, place.image, BYTES, place.stream);
    standin->fault(place.device, CUDA_ECC_UNCORRECTABLE, 2);
    RANKS_EXPECT(sum(&place, BLOCKING, comm) == TUTTI_SYSTEM);
    RANKS_EXPECT(strstr(tutti_error_message(), "GPU 1 (stand-in 1) has failed: ") != NULL);
    return 0;
}

static void a_gate_that_never_opens_tells_a_rank_alone(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    setenv("TUTTI_STANDIN_QUEUES", "1", 1);
    const int failed = ranks_run(1, &options, break_at_gate, NULL);
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    assert_int_equal(failed, 0);
}

/* The same on every rank, and nothing fails: no rank is there to say that another one is late.
 * context: the form. */
static int wait_at_gates(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const enum form *const form = context;
    struct place place;
    struct tutti_failure failure;
    (void)seed;
    RANKS_EXPECT(open_place(&place, rank));
    fill(&place);
    RANKS_EXPECT(sum(&place, *form, comm) == TUTTI_OK);
    standin->hold(place.stream, true);
    device_driver_put_later(place.memory, place.image, BYTES, place.stream);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(sum(&place, *form, comm) == TUTTI_TIMEOUT);
    RANKS_EXPECT(clock_now_ns() - begin_ns < UINT64_C(20000000000));
    RANKS_EXPECT(strstr(tutti_error_message(), " has not come to it: other work fills the GPU") !=
                 NULL);
    RANKS_EXPECT(size == 1 || has_failed(comm, &failure));
    standin->hold(place.stream, false);
    close_place(&place);
    return 0;
}

static void a_gate_that_never_opens_ends_the_call_at_its_deadline(void **state)
{
    static const struct tutti_comm_options hasty = {
        .size_bytes = sizeof hasty, .rank = -1, .size = -1, .timeout_ns = 2000000000u};
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &hasty};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    setenv("TUTTI_STANDIN_QUEUES", "1", 1);
    int failed = 0;
    for (int size = 1; size <= 2; size++)
        for (int form = BLOCKING; form <= STARTED; form++)
            failed |= ranks_run(size, &options, wait_at_gates, &(enum form){(enum form)form});
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    assert_int_equal(failed, 0);
}

/* Rank 1 has the driver to itself until its call is over, and so waits for a late rank 0; the
 * library's own question waits, too. */
static int free_in_a_call(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct place place;
    (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, rank));
    fill(&place);
    float *const other = device_driver_allocate(BYTES);
    RANKS_EXPECT(sum(&place, IN_STREAM, comm) == TUTTI_OK && all_are(&place, (float)size));
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) ranks_nap_ms(500);
    RANKS_EXPECT(sum(&place, IN_STREAM, comm) == TUTTI_OK);
    device_driver_free(other);
    RANKS_EXPECT(all_are(&place, (float)(size * size)));
    close_place(&place);
    return 0;
}

static void a_driver_that_keeps_others_out_holds_up_no_call(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    if (IS_THREAD_SANITIZED) skip();
    assert_int_equal(ranks_run(2, &options, free_in_a_call, NULL), 0);
}

/* The watch asks once in 50 ms at most, however many calls there are. */
static int count_questions(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct place place;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(open_place(&place, rank));
    fill(&place);
    for (int i = 0; i < 20; i++) RANKS_EXPECT(sum(&place, BLOCKING, comm) == TUTTI_OK);
    const unsigned before = standin->count().questions;
    const uint64_t begin_ns = clock_now_ns();
    for (int i = 0; i < 40; i++) RANKS_EXPECT(sum(&place, BLOCKING, comm) == TUTTI_OK);
    const uint64_t periods = (clock_now_ns() - begin_ns) / 50000000 + 1;
    RANKS_EXPECT(standin->count().questions - before <= periods);
    close_place(&place);
    return 0;
}

static void healthy_calls_ask_the_driver_nothing(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    assert_int_equal(ranks_run(2, &options, count_questions, NULL), 0);
}

/* A communicator of one; context: the form. */
static int break_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const enum form *const form = context;
    struct place place;
    (void)size, (void)seed;
    RANKS_EXPECT(open_place(&place, CULPRIT));
    float *const result = device_driver_allocate(BYTES);
    fill(&place);
    RANKS_EXPECT(sum(&place, *form, comm) == TUTTI_OK);
    device_driver_finish(place.stream);
    standin->fault_at(place.device, CUDA_ILLEGAL_ADDRESS, (uintptr_t)place.memory);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_request *request;
    enum tutti_status status;
    if (*form == BLOCKING) {
        status = tutti_allreduce(place.memory, result, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm);
    } else {
        options.stream = place.stream;
        options.on_stream = *form == IN_STREAM;
        status = tutti_allreduce_start(place.memory, result, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                       &options, comm, &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
    }
    RANKS_EXPECT(status == TUTTI_SYSTEM);
    RANKS_EXPECT(strstr(tutti_error_message(), "GPU 1 (stand-in 1) has failed: ") != NULL);
    return 0;
}

static void a_rank_alone_is_told_too(void **state)
{
    (void)state;
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .comm_options = &patient};
    if (IS_THREAD_SANITIZED || standin == NULL) skip();
    for (int form = BLOCKING; form <= IN_STREAM; form++)
        assert_int_equal(ranks_run(1, &options, break_alone, &(enum form){(enum form)form}), 0);
}

int main(int argc, char **argv)
{
    const char *const driver = getenv("TUTTI_CUDA_DRIVER");
    if (driver == NULL || strstr(driver, "standin") != NULL) standin = cuda_standin_use();
    setenv("TUTTI_STANDIN_QUEUES", "64", 1);
    if (argc == 3 && strcmp(argv[1], "threads") == 0)
        return run_ranks(RANKS_THREADS, (enum strikes)(argv[2][0] - '0'),
                         (enum form)(argv[2][2] - '0'), argv[2][4] == '1');
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_of_a_reduction_that_faults_fails_all_ranks),
        cmocka_unit_test(earlier_work_that_faults_fails_the_call_behind_it),
        cmocka_unit_test(a_fault_before_a_call_fails_all_ranks),
        cmocka_unit_test(memory_that_fails_while_a_call_waits_for_others_fails_it),
        cmocka_unit_test(ranks_that_read_its_memory_learn_of_it),
        cmocka_unit_test(other_hosts_learn_of_it),
        cmocka_unit_test(ranks_learn_of_it_outside_of_calls),
        cmocka_unit_test(a_reader_does_not_wait_for_a_worker_that_is_gone),
        cmocka_unit_test(a_rank_alone_is_told_too),
        cmocka_unit_test(a_gate_that_never_opens_tells_a_rank_alone),
        cmocka_unit_test(a_gate_that_never_opens_ends_the_call_at_its_deadline),
        cmocka_unit_test(a_driver_that_keeps_others_out_holds_up_no_call),
        cmocka_unit_test(healthy_calls_ask_the_driver_nothing),
    };
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
