/* cuda_standin.c - the start of the stand-in, and its functions for tests. */
#include "tests/gpu/cuda_standin.h"

#include <stdlib.h>
#include <unistd.h>

#include "gpu/device_code.h"
#include "tests/gpu/cuda_standin_mapped.h"
#include "tests/gpu/cuda_standin_state.h"

/* With standin_state.lock. */
static void start(void)
{
    const char *const own_queues = getenv("TUTTI_STANDIN_QUEUES"),
                      *const queues =
                          own_queues != NULL ? own_queues : getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const struct work_options options = {
        .device_count =
            (int)standin_number_from(getenv("TUTTI_STANDIN_DEVICES"), 0, STANDIN_DEVICES_MAX, 2),
        .queue_count = (unsigned)standin_number_from(queues, 1, 64, 8),
        .processor_count =
            (unsigned)standin_number_from(getenv("TUTTI_STANDIN_PROCESSORS"), 1, 256, 8),
        .seed = (uint64_t)standin_number_from(getenv("TUTTI_STANDIN_SEED"), 0, INT32_MAX, 1),
        .copy_queue_count =
            (unsigned)standin_number_from(getenv("TUTTI_STANDIN_COPY_QUEUES"), 0, 64, 0),
        .keeps_others_out = standin_number_from(getenv("TUTTI_STANDIN_LOCK"), 0, 1, 1) != 0};
    standin_state.waits_to_allocate =
        standin_number_from(getenv("TUTTI_STANDIN_WAIT"), 0, 1, 0) != 0;
    standin_state.device_count = options.device_count;
    standin_state.are_peers = standin_number_from(getenv("TUTTI_STANDIN_PEERS"), 0, 1, 1) != 0;
    for (int d = 0; d < standin_state.device_count; d++) standin_state.contexts[d].device = d;
    memory_init(standin_state.device_count);
    mapped_init((enum mapped_manner)standin_number_from(getenv("TUTTI_STANDIN_MAPPED"), 0,
                                                        MAPPED_MANNERS - 1, 0));
    work_init(&options);
    gpu_twin_reach = work_reach;
    atomic_store(&standin_state.owner, getpid());
}

/* With standin_state.lock. */
static int start_once(unsigned flags)
{
    const pid_t owner = atomic_load(&standin_state.owner);
    if (owner != 0 && owner != getpid()) return CUDA_NOT_INITIALIZED;
    if (flags != 0) return CUDA_INVALID_VALUE;
    if (owner == 0) start();
    return standin_state.device_count > 0 ? CUDA_OK : CUDA_NO_DEVICE;
}

int standin_init(unsigned flags)
{
    pthread_mutex_lock(&standin_state.lock);
    const int result = start_once(flags);
    pthread_mutex_unlock(&standin_state.lock);
    return result != CUDA_OK ? result : standin_fails("cuInit");
}

/* Functions for tests. */

static void fault(int device, int result, unsigned questions)
{
    if (!standin_is_device(device) || result == CUDA_OK)
        standin_die("no fault of device %d", device);
    work_fault(device, result, questions);
}

static void fault_at(int device, int result, uint64_t address)
{
    if (!standin_is_device(device) || result == CUDA_OK)
        standin_die("no fault of device %d", device);
    work_fault_at(device, result, address);
}

static int device_of_test(struct cuda_stream *stream)
{
    if (work_stream_device(stream) < 0 && standin_current() == NULL)
        standin_die("the default stream of no context");
    return standin_device_of(stream);
}

static void set_capture(struct cuda_stream *stream, enum cuda_capture_status status)
{
    work_stream_set_capture(device_of_test(stream), stream, status);
}

static void set_wait(bool waits)
{
    atomic_store(&standin_state.waits_to_allocate, waits);
}

static void hold(struct cuda_stream *stream, bool is_held)
{
    work_hold(device_of_test(stream), stream, is_held);
}

static int allocate_for_test(int device, size_t bytes, enum cuda_standin_memory kind,
                             uint64_t *address)
{
    static const enum memory_sort sorts[] = {
        [STANDIN_ORDINARY] = MEMORY_DEVICE, [STANDIN_BARE] = MEMORY_BARE, [STANDIN_FOREIGN] = MEMORY_FOREIGN};
    return standin_is_device(device) ? memory_allocate(sorts[kind], device, bytes, address)
                                     : CUDA_INVALID_DEVICE;
}

static struct cuda_standin_counts count(void)
{
    struct cuda_standin_counts counts;
    work_count(&counts);
    counts.modules = standin_module_count();
    counts.allocations = memory_count(MEMORY_DEVICE) + memory_count(MEMORY_BARE) +
                         memory_count(MEMORY_FOREIGN) + memory_count(MEMORY_MANAGED);
    counts.pinned = memory_count(MEMORY_PINNED);
    counts.registered = memory_count(MEMORY_REGISTERED);
    counts.imported = memory_count(MEMORY_IMPORTED);
    return counts;
}

EXPORTED const struct cuda_standin cuda_standin = {.add_kernel = standin_add_kernel,
                                                   .reach = work_reach,
                                                   .fail = standin_fail,
                                                   .fault = fault,
                                                   .fault_at = fault_at,
                                                   .set_capture = set_capture,
                                                   .hold = hold,
                                                   .allocate = allocate_for_test,
                                                   .count = count,
                                                   .set_wait = set_wait,
                                                   .set_deadline = work_set_deadline};
