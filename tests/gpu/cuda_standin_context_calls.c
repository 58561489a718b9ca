/* cuda_standin_context_calls.c - contexts: which one is current, and waiting for its device. */
#include "tests/gpu/cuda_standin_state.h"

enum { CONTEXTS_DEEP = 16 };

static _Thread_local struct {
    struct cuda_context *stack[CONTEXTS_DEEP];
    unsigned depth;
    int capture_mode;
} mine;

struct cuda_context *standin_current(void)
{
    return mine.depth > 0 ? mine.stack[mine.depth - 1] : NULL;
}

int standin_current_fault(void)
{
    return standin_current() != NULL ? work_fault_of(standin_current()->device) : CUDA_OK;
}

int standin_refuse_in_capture(void)
{
    bool is_capturing = false;
    for (int d = 0; d < standin_state.device_count; d++) is_capturing |= work_is_capturing(d);
    return is_capturing && mine.capture_mode != CUDA_CAPTURE_RELAXED ? CUDA_CAPTURE_UNSUPPORTED
                                                                     : CUDA_OK;
}

void standin_finish_device(const char *what, int device)
{
    work_hold_driver(what, device);
    work_synchronize_device(what, device);
    work_let_go(device);
}

void standin_finish_devices(const char *what)
{
    for (int d = 0; d < standin_state.device_count; d++) standin_finish_device(what, d);
}

void standin_finish_device_if_asked(const char *what, int device)
{
    if (standin_state.waits_to_allocate) standin_finish_device(what, device);
}

void standin_finish_if_asked(const char *what)
{
    standin_finish_device_if_asked(what, standin_current()->device);
}

int standin_device_of(struct cuda_stream *stream)
{
    const int of_stream = work_stream_device(stream);
    return of_stream >= 0 ? of_stream : standin_current()->device;
}

static bool is_context(const struct cuda_context *context)
{
    for (int d = 0; d < standin_state.device_count; d++)
        if (context == &standin_state.contexts[d])
            return atomic_load(&standin_state.contexts[d].retained) > 0;
    return false;
}

int standin_primary_retain(struct cuda_context **context, int device)
{
    BEGIN("cuDevicePrimaryCtxRetain");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    atomic_fetch_add(&standin_state.contexts[device].retained, 1);
    *context = &standin_state.contexts[device];
    return CUDA_OK;
}

int standin_primary_release(int device)
{
    BEGIN("cuDevicePrimaryCtxRelease_v2");
    if (!standin_is_device(device)) return CUDA_INVALID_DEVICE;
    if (atomic_fetch_sub(&standin_state.contexts[device].retained, 1) <= 0)
        standin_die("the primary context of device %d is released more often than retained", device);
    return CUDA_OK;
}

int standin_context_push(struct cuda_context *context)
{
    BEGIN("cuCtxPushCurrent_v2");
    if (!is_context(context)) return CUDA_INVALID_CONTEXT;
    if (mine.depth == CONTEXTS_DEEP) standin_die("contexts are pushed and never popped");
    mine.stack[mine.depth++] = context;
    return CUDA_OK;
}

int standin_context_pop(struct cuda_context **context)
{
    BEGIN("cuCtxPopCurrent_v2");
    if (mine.depth == 0) return CUDA_INVALID_CONTEXT;
    mine.depth--;
    if (context != NULL) *context = mine.stack[mine.depth];
    return CUDA_OK;
}

int standin_context_set(struct cuda_context *context)
{
    BEGIN("cuCtxSetCurrent");
    if (context != NULL && !is_context(context)) return CUDA_INVALID_CONTEXT;
    if (mine.depth > 0) mine.depth--;
    if (context != NULL) mine.stack[mine.depth++] = context;
    return CUDA_OK;
}

int standin_context_get(struct cuda_context **context)
{
    BEGIN("cuCtxGetCurrent");
    *context = standin_current();
    return CUDA_OK;
}

int standin_context_device(int *device)
{
    BEGIN_IN_CONTEXT("cuCtxGetDevice");
    *device = standin_current()->device;
    return CUDA_OK;
}

int standin_context_synchronize(void)
{
    BEGIN_IN_CONTEXT("cuCtxSynchronize");
    work_synchronize_device("cuCtxSynchronize", standin_current()->device);
    return standin_current_fault();
}

int standin_exchange_capture_mode(int *mode)
{
    BEGIN("cuThreadExchangeStreamCaptureMode");
    if (*mode < CUDA_CAPTURE_GLOBAL || *mode > CUDA_CAPTURE_RELAXED) return CUDA_INVALID_VALUE;
    const int before = mine.capture_mode;
    mine.capture_mode = *mode;
    *mode = before;
    return CUDA_OK;
}
