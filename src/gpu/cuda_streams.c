/* cuda_streams.c - streams of the application and of this library, and workers on them. */
#include <sched.h>

#include "base/status.h"
#include "gpu/cuda_state.h"
#include "os/clock.h"

bool cuda_wait_is_over(const struct gpu_wait *wait)
{
    return clock_now_ns() > wait->deadline_ns ||
           (wait->is_pointless != NULL && wait->is_pointless(wait->context));
}

enum tutti_status cuda_finish(const struct cuda_device *device, const char *what,
                              const struct gpu_wait *wait)
{
    int result;
    while ((result = cuda_calls()->stream_query(device->stream)) == CUDA_NOT_READY) {
        if (cuda_wait_is_over(wait))
            return error_set(TUTTI_TIMEOUT, "%s: CUDA device %d has not finished it in time", what,
                             device->gpu.number);
        sched_yield();
    }
    return result == CUDA_OK ? TUTTI_OK : cuda_fail(result, what);
}

enum tutti_status cuda_make_stream(struct gpu_device *device, void **stream)
{
    struct cuda_stream *made = NULL;
    int mode;
    TRY(cuda_enter(cuda_device_of(device), &mode));
    const int result = cuda_calls()->stream_create(&made, CUDA_STREAM_NON_BLOCKING);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : cuda_fail(result, "a stream of this library's");
    cuda_leave(mode);
    if (status == TUTTI_OK) *stream = made;
    return status;
}

void cuda_free_stream(struct gpu_device *device, void *stream)
{
    int mode;
    if (cuda_enter(cuda_device_of(device), &mode) != TUTTI_OK) return;
    cuda_calls()->stream_destroy(stream);
    cuda_leave(mode);
}

/* Finds the number of the device of a context. */
static int number_of(struct cuda_context *context, int *number)
{
    struct cuda_context *popped;
    int device = -1, other;
    int result = cuda_calls()->context_push(context);
    if (result != CUDA_OK) return result;
    result = cuda_calls()->context_device(&device);
    cuda_calls()->context_pop(&popped);
    if (result != CUDA_OK) return result;
    for (*number = 0; *number < cuda_get()->device_count; ++*number)
        if (cuda_calls()->device_get(&other, *number) == CUDA_OK && other == device) return CUDA_OK;
    return CUDA_INVALID_DEVICE;
}

enum tutti_status cuda_stream_device(void *stream, int *number)
{
    struct cuda_context *context = NULL;
    int found = -1;
    if (cuda_is_child()) return cuda_refuse_child();
    int result = cuda_calls()->stream_context(stream, &context);
    if (result == CUDA_OK) result = number_of(context, &found);
    if (result != CUDA_OK) {
        cuda_fail(result,
                  stream == NULL
                      ? "the default stream of the current CUDA device, if this thread has one "
                        "(cudaSetDevice, cuCtxSetCurrent)"
                      : "the device of a CUDA stream");
        return TUTTI_INVALID_OPTIONS;
    }
    *number = found;
    return TUTTI_OK;
}

enum tutti_status cuda_stream_is_done(struct gpu_device *device, void *stream, bool *is_done)
{
    int mode;
    TRY(cuda_enter(cuda_device_of(device), &mode));
    const int result = cuda_calls()->stream_query(stream);
    *is_done = result == CUDA_OK;
    const enum tutti_status status = result == CUDA_OK || result == CUDA_NOT_READY
                                         ? TUTTI_OK
                                         : cuda_fail(result, "work on a CUDA stream");
    cuda_leave(mode);
    return status;
}

/* In the context. */
static enum tutti_status check_stream(const struct cuda_device *device, struct cuda_stream *stream)
{
    int capture = CUDA_CAPTURE_NONE;
    struct cuda_context *context = NULL;
    int result = cuda_calls()->stream_is_capturing(stream, &capture);
    /* CUDA_CAPTURE_IMPLICIT: it is the default stream, and another one is captured. */
    if (result == CUDA_CAPTURE_IMPLICIT || (result == CUDA_OK && capture != CUDA_CAPTURE_NONE))
        return error_set(
            TUTTI_UNSUPPORTED,
            "work on the CUDA stream is being captured into a graph, and a call of this "
            "library cannot be part of one: make it outside of the capture");
    if (result == CUDA_OK) result = cuda_calls()->stream_context(stream, &context);
    if (result != CUDA_OK) return cuda_fail(result, "a CUDA stream");
    if (context == device->context) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "the CUDA stream is of another device, or another context, than device %d",
                     device->gpu.number);
}

enum tutti_status cuda_stream_check(struct gpu_device *device, void *stream)
{
    struct cuda_device *const on = cuda_device_of(device);
    int mode;
    TRY(cuda_enter(on, &mode));
    const enum tutti_status status = check_stream(on, stream);
    cuda_leave(mode);
    return status;
}

enum tutti_status cuda_start_worker(struct gpu_device *device, void *stream, unsigned blocks,
                                    struct worker_home *home)
{
    struct cuda_device *const on = cuda_device_of(device);
    uint64_t address = (uintptr_t)home;
    void *parameters[] = {&address};
    int mode;
    TRY(cuda_enter(on, &mode));
    const int result = cuda_calls()->launch(on->worker, blocks, 1, 1, GPU_THREADS, 1, 1, 0, stream,
                                            parameters, NULL);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : cuda_fail(result, "the start of a kernel on a CUDA stream");
    cuda_leave(mode);
    return status;
}
