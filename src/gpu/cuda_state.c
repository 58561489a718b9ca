/* cuda_state.c - the driver in this process, errors in its words, the context of a call. */
#include "gpu/cuda_state.h"

#include "base/status.h"
#include "os/process.h"

/* Set once; acquire loads pair with the release that sets them. */
static _Atomic(struct cuda *) cuda;
static _Atomic(struct cuda_device *) devices[CUDA_DEVICES_MAX];

const struct cuda *cuda_get(void)
{
    return atomic_load_explicit(&cuda, memory_order_acquire);
}

bool cuda_keep(struct cuda *found)
{
    struct cuda *none = NULL;
    return atomic_compare_exchange_strong_explicit(&cuda, &none, found, memory_order_release,
                                                   memory_order_relaxed);
}

const struct cuda_library *cuda_calls(void)
{
    return &cuda_get()->calls;
}

bool cuda_is_child(void)
{
    return cuda_get()->generation != process_generation();
}

enum tutti_status cuda_refuse_child(void)
{
    return error_set(
        TUTTI_UNSUPPORTED,
        "this process was forked from one that had used CUDA, so it cannot use GPUs: fork "
        "before CUDA is used, or start processes by exec");
}

enum tutti_status cuda_fail_with(const struct cuda_library *library, int result, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (library->error_name(result, &name) != CUDA_OK || name == NULL) name = "an unknown error";
    if (library->error_text(result, &text) != CUDA_OK || text == NULL) text = "no text";
    return error_set(result == CUDA_OUT_OF_MEMORY   ? TUTTI_NO_MEMORY
                     : result == CUDA_NOT_SUPPORTED ? TUTTI_UNSUPPORTED
                                                    : TUTTI_SYSTEM,
                     "%s: %s (%d): %s", what, name, result, text);
}

enum tutti_status cuda_fail(int result, const char *what)
{
    return cuda_fail_with(cuda_calls(), result, what);
}

struct cuda_device *cuda_device_at(int number)
{
    return atomic_load_explicit(&devices[number], memory_order_acquire);
}

void cuda_add_device(struct cuda_device *device)
{
    atomic_store_explicit(&devices[device->gpu.number], device, memory_order_release);
}

enum tutti_status cuda_enter(const struct cuda_device *device, int *mode)
{
    if (cuda_is_child()) return cuda_refuse_child();
    const int result = cuda_calls()->context_push(device->context);
    if (result != CUDA_OK) return cuda_fail(result, "the context of a CUDA device");
    *mode = CUDA_CAPTURE_RELAXED;
    if (cuda_calls()->exchange_capture_mode(mode) != CUDA_OK) *mode = CUDA_CAPTURE_GLOBAL;
    return TUTTI_OK;
}

void cuda_leave(int mode)
{
    struct cuda_context *context;
    cuda_calls()->exchange_capture_mode(&mode);
    cuda_calls()->context_pop(&context);
}

/* NULL: no device is open. */
static struct cuda_device *any_device(void)
{
    for (int d = 0; d < CUDA_DEVICES_MAX; d++) {
        struct cuda_device *const found = cuda_device_at(d);
        if (found != NULL) return found;
    }
    return NULL;
}

/* Some drivers need a context even to answer this. A thread without one asks again in the context
 * of any open device. */
int cuda_ask_about(const void *address, unsigned count, int *attributes, void **values)
{
    struct cuda_context *context;
    const int result =
        cuda_calls()->pointer_attributes(count, attributes, values, (uintptr_t)address);
    const struct cuda_device *const device = result == CUDA_INVALID_CONTEXT ? any_device() : NULL;
    if (device == NULL || cuda_calls()->context_push(device->context) != CUDA_OK) return result;
    const int again =
        cuda_calls()->pointer_attributes(count, attributes, values, (uintptr_t)address);
    cuda_calls()->context_pop(&context);
    return again;
}
