/* cuda_open.c - describes a device, and makes all that this library needs on it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu/cuda_state.h"
#include "gpu/kernels.h"
#include "gpu/shares.h"

enum { LOG_BYTES = 400 };

/* The driver's answers about a device. */
struct description {
    int processor_count, is_unified;
    size_t bytes;
};

static int ask(int device, struct gpu_device *gpu, struct description *description)
{
    const struct cuda_library *const calls = cuda_calls();
    int result = calls->device_name(gpu->name, sizeof gpu->name, device);
    if (result != CUDA_OK) return result;
    result = calls->device_bus(gpu->bus, sizeof gpu->bus, device);
    if (result != CUDA_OK) return result;
    result = calls->device_memory(&description->bytes, device);
    if (result != CUDA_OK) return result;
    result = calls->device_attribute(&description->processor_count,
                                     CUDA_DEVICE_MULTIPROCESSOR_COUNT, device);
    if (result != CUDA_OK) return result;
    return calls->device_attribute(&description->is_unified, CUDA_DEVICE_UNIFIED_ADDRESSING, device);
}

static enum tutti_status describe(struct cuda_device *device)
{
    struct gpu_device *const gpu = &device->gpu;
    struct description description = {0};
    const int result = ask(device->device, gpu, &description);
    if (result != CUDA_OK) return cuda_fail(result, "what a CUDA device is");
    gpu->name[sizeof gpu->name - 1] = gpu->bus[sizeof gpu->bus - 1] = '\0';
    for (char *letter = gpu->bus; *letter != '\0'; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    if (!description.is_unified || description.processor_count < 1)
        return error_set(TUTTI_UNSUPPORTED,
                         "CUDA device %d (%s) has no address space in common with the host",
                         gpu->number, gpu->name);
    gpu->processor_count = (unsigned)description.processor_count;
    gpu->memory_bytes = description.bytes;
    return TUTTI_OK;
}

enum tutti_status cuda_check_number(int number)
{
    if (cuda_is_child()) return cuda_refuse_child();
    if (number >= 0 && number < cuda_get()->device_count) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "there is no CUDA device %d: they are 0 to %d", number,
                     cuda_get()->device_count - 1);
}

enum tutti_status cuda_describe_device(int number, struct gpu_device *described)
{
    struct cuda_device device = {.gpu = {.number = number}};
    TRY(cuda_check_number(number));
    const int result = cuda_calls()->device_get(&device.device, number);
    if (result != CUDA_OK) return cuda_fail(result, "a CUDA device");
    TRY(describe(&device));
    *described = device.gpu;
    return TUTTI_OK;
}

/* In the context. After a failure the module may be loaded. */
static enum tutti_status load_kernels(struct cuda_device *device)
{
    char log[LOG_BYTES] = "", what[LOG_BYTES + 80];
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int threads = 0;
    int result = cuda_calls()->module_load(&device->module, gpu_kernels_ptx,
                                           sizeof options / sizeof *options, options, values);
    if (result != CUDA_OK) {
        device->module = NULL;
        log[sizeof log - 1] = '\0';
        snprintf(what, sizeof what, "this library's kernels on CUDA device %d%s%s",
                 device->gpu.number, log[0] != '\0' ? ": " : "", log);
        return cuda_fail(result, what);
    }
    result = cuda_calls()->module_function(&device->worker, device->module, GPU_KERNEL_WORKER);
    if (result != CUDA_OK) return cuda_fail(result, "the kernel " GPU_KERNEL_WORKER);
    /* The question also loads the kernel, so that even the first launch is prompt. */
    result = cuda_calls()->function_attribute(&threads, CUDA_FUNCTION_MAX_THREADS, device->worker);
    if (result != CUDA_OK) return cuda_fail(result, "the kernel " GPU_KERNEL_WORKER);
    if (threads < GPU_THREADS)
        return error_set(
            TUTTI_UNSUPPORTED,
            "CUDA device %d (%s) runs at most %d threads of a block of ours, %d are needed",
            device->gpu.number, device->gpu.name, threads, GPU_THREADS);
    return TUTTI_OK;
}

/* In the context. */
static enum tutti_status make_bounce(struct cuda_device *device)
{
    void *made = NULL;
    const int result = cuda_calls()->host_allocate(&made, (size_t)3 * CUDA_BOUNCE_BYTES,
                                                   CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
    if (result != CUDA_OK) return cuda_fail(result, "pinned memory");
    device->bounce[0] = made;
    device->bounce[1] = device->bounce[0] + CUDA_BOUNCE_BYTES;
    device->read_place = device->bounce[1] + CUDA_BOUNCE_BYTES;
    return TUTTI_OK;
}

/* In the context. */
static enum tutti_status make_streams(struct cuda_device *device)
{
    int result = cuda_calls()->stream_create(&device->stream, CUDA_STREAM_NON_BLOCKING);
    if (result != CUDA_OK) return cuda_fail(result, "a stream of this library's");
    result = cuda_calls()->stream_create(&device->read_stream, CUDA_STREAM_NON_BLOCKING);
    if (result == CUDA_OK) return TUTTI_OK;
    cuda_calls()->stream_destroy(device->stream);
    return cuda_fail(result, "a stream of this library's");
}

static enum tutti_status load(struct cuda_device *device)
{
    int mode;
    TRY(describe(device));
    TRY(cuda_enter(device, &mode));
    enum tutti_status status = load_kernels(device);
    if (status != TUTTI_OK) goto unload_kernels;
    status = make_bounce(device);
    if (status != TUTTI_OK) goto unload_kernels;
    status = make_streams(device);
    if (status != TUTTI_OK) goto release_bounce;
    cuda_leave(mode);
    return TUTTI_OK;
release_bounce:
    cuda_calls()->host_release(device->bounce[0]);
unload_kernels:
    if (device->module != NULL) cuda_calls()->module_unload(device->module);
    cuda_leave(mode);
    return status;
}

enum tutti_status cuda_make_device(int number, struct cuda_device **made)
{
    struct cuda_device *const device = calloc(1, sizeof *device);
    if (device == NULL) return error_system("what is known of a CUDA device");
    device->gpu.number = number;
    device->gpu.kind = (struct memory_kind){.name = "cuda",
                                            .allocate = cuda_allocate_memory,
                                            .release = cuda_release_memory,
                                            .copy = cuda_copy_memory,
                                            .share = gpu_shares_share,
                                            .map = gpu_shares_map,
                                            .read = cuda_read_memory};
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->bounce_lock, NULL);
    pthread_mutex_init(&device->read_lock, NULL);
    enum tutti_status status;
    int result = cuda_calls()->device_get(&device->device, number);
    if (result == CUDA_OK) result = cuda_calls()->primary_retain(&device->context, device->device);
    if (result != CUDA_OK) {
        status = cuda_fail(result, "a CUDA device");
        goto free_device;
    }
    status = load(device);
    if (status != TUTTI_OK) goto release_context;
    *made = device;
    return TUTTI_OK;
release_context:
    cuda_calls()->primary_release(device->device);
free_device:
    free(device);
    return status;
}
