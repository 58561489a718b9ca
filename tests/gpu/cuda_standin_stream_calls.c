/* cuda_standin_stream_calls.c - copies, streams, events. */
#include "tests/gpu/cuda_standin_state.h"

/* Copies. */

int standin_copy(uint64_t destination, uint64_t source, size_t bytes, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuMemcpyAsync");
    work_copy(standin_device_of(stream), stream, destination, source, bytes);
    return standin_current_fault();
}

int standin_copy_to_device(uint64_t destination, const void *source, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyHtoD_v2");
    work_copy_now(standin_current()->device, destination, (uintptr_t)source, bytes);
    return standin_current_fault();
}

int standin_copy_to_host(void *destination, uint64_t source, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemcpyDtoH_v2");
    work_copy_now(standin_current()->device, (uintptr_t)destination, source, bytes);
    return standin_current_fault();
}

/* Streams and events. */

int standin_stream_create(struct cuda_stream **stream, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuStreamCreate");
    if (flags > CUDA_STREAM_NON_BLOCKING) return CUDA_INVALID_VALUE;
    *stream = work_stream_create(standin_current()->device, flags != CUDA_STREAM_NON_BLOCKING);
    return CUDA_OK;
}

int standin_stream_destroy(struct cuda_stream *stream)
{
    BEGIN_ANYWHERE("cuStreamDestroy_v2");
    work_stream_destroy(stream);
    return CUDA_OK;
}

int standin_stream_context(struct cuda_stream *stream, struct cuda_context **context)
{
    BEGIN_ANYWHERE("cuStreamGetCtx");
    const int device = work_stream_device(stream);
    *context = device >= 0 ? &standin_state.contexts[device] : standin_current();
    return *context != NULL ? CUDA_OK : CUDA_INVALID_CONTEXT;
}

int standin_stream_is_capturing(struct cuda_stream *stream, int *status)
{
    BEGIN_IN_CONTEXT("cuStreamIsCapturing");
    const int device = standin_device_of(stream);
    *status = work_stream_capture(device, stream);
    return *status == CUDA_CAPTURE_NONE && work_stream_device(stream) < 0 &&
                   work_is_capturing(device)
               ? CUDA_CAPTURE_IMPLICIT
               : CUDA_OK;
}

/* A question about a stream that is being captured, or a wait for it, spoils the capture. The
 * default stream allows neither while any blocking stream is captured. */
static int refuse_captured(struct cuda_stream *stream)
{
    const int device = standin_device_of(stream);
    if (work_stream_capture(device, stream) != CUDA_CAPTURE_NONE) {
        work_stream_set_capture(device, stream, CUDA_CAPTURE_INVALIDATED);
        return CUDA_CAPTURE_UNSUPPORTED;
    }
    return work_stream_device(stream) < 0 && work_is_capturing(device) ? CUDA_CAPTURE_IMPLICIT
                                                                       : CUDA_OK;
}

int standin_stream_synchronize(struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuStreamSynchronize");
    RETURN_UNLESS_OK(refuse_captured(stream));
    work_synchronize_stream("cuStreamSynchronize", standin_device_of(stream), stream);
    return standin_current_fault();
}

int standin_stream_query(struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuStreamQuery");
    RETURN_UNLESS_OK(refuse_captured(stream));
    const bool is_idle = work_stream_is_idle(standin_device_of(stream), stream);
    RETURN_UNLESS_OK(standin_current_fault());
    return is_idle ? CUDA_OK : CUDA_NOT_READY;
}

int standin_stream_wait(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuStreamWaitEvent");
    if (flags != 0) return CUDA_INVALID_VALUE;
    work_event_wait(standin_device_of(stream), event, stream);
    return CUDA_OK;
}

/* The function must not call the driver: it has no context here in which it could. */
int standin_call_host(struct cuda_stream *stream, void (*run)(void *context), void *context)
{
    BEGIN_IN_CONTEXT("cuLaunchHostFunc");
    if (run == NULL) return CUDA_INVALID_VALUE;
    work_call_host(standin_device_of(stream), stream, run, context);
    return CUDA_OK;
}

int standin_event_create(struct cuda_event **event, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuEventCreate");
    *event = work_event_create();
    return CUDA_OK;
}

int standin_event_record(struct cuda_event *event, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuEventRecord");
    work_event_record(standin_device_of(stream), event, stream);
    return CUDA_OK;
}

int standin_event_query(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventQuery");
    return work_event_has_come(event) ? CUDA_OK : CUDA_NOT_READY;
}

int standin_event_synchronize(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventSynchronize");
    work_event_synchronize(event);
    return standin_current_fault();
}

int standin_event_destroy(struct cuda_event *event)
{
    BEGIN_ANYWHERE("cuEventDestroy_v2");
    work_event_destroy(event);
    return CUDA_OK;
}
