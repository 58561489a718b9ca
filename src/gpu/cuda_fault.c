/* cuda_fault.c - whether a device has failed. From then on, the driver answers everything about it
 * with the same error, until the process ends. */
#include "base/status.h"
#include "gpu/cuda_state.h"

/* The advice on an error that stays; NULL: the result is no such error. */
static const char *advice_on(int result)
{
    switch (result) {
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_LAUNCH_TIMEOUT:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR:
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK: return "compute-sanitizer finds the kernel";
    case CUDA_ECC_UNCORRECTABLE: return "see nvidia-smi -q -d ECC";
    case CUDA_NVLINK_UNCORRECTABLE: return "see nvidia-smi nvlink -e";
    case CUDA_MPS_CLIENT_TERMINATED: return "see the log of the MPS server";
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_INVALID_CONTEXT:
    case CUDA_INVALID_HANDLE: return "was it reset?";
    case CUDA_NO_DEVICE:
    case CUDA_INVALID_DEVICE:
    case CUDA_CONTAINED:
    case CUDA_UNKNOWN: return "see Xid errors in dmesg";
    default: return NULL;
    }
}

bool cuda_is_fault(int result)
{
    return advice_on(result) != NULL;
}

/* An error if the result means that a device has failed. */
static enum tutti_status tell_fault(int result)
{
    const char *const advice = advice_on(result), *name = NULL;
    if (advice == NULL) return TUTTI_OK;
    if (cuda_calls()->error_name(result, &name) != CUDA_OK || name == NULL) name = "CUDA error";
    return error_set(TUTTI_SYSTEM, "%s (%d); start this process again; %s", name, result, advice);
}

enum tutti_status cuda_check_device(struct gpu_device *device)
{
    struct cuda_device *const on = cuda_device_of(device);
    struct cuda_context *context;
    int mode = CUDA_CAPTURE_RELAXED;
    if (cuda_is_child()) return TUTTI_OK;
    int result = cuda_calls()->context_push(on->context);
    if (result == CUDA_OK) {
        const bool is_relaxed = cuda_calls()->exchange_capture_mode(&mode) == CUDA_OK;
        result = cuda_calls()->stream_query(on->stream);
        if (is_relaxed) cuda_calls()->exchange_capture_mode(&mode);
        cuda_calls()->context_pop(&context);
    }
    return tell_fault(result);
}

/* The driver returns the error of a failed device even when it is asked about memory that is not
 * its own, without a context or a stream. An answer that it needs a context says nothing about a
 * device. */
enum tutti_status cuda_check_all(void)
{
    unsigned type = 0;
    int attribute = CUDA_POINTER_MEMORY_TYPE;
    void *value = &type;
    if (cuda_is_child()) return TUTTI_OK;
    const int result = cuda_ask_about(&type, 1, &attribute, &value);
    return result == CUDA_INVALID_CONTEXT ? TUTTI_OK : tell_fault(result);
}
