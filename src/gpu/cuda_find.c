/* cuda_find.c - whose memory an address is. */
#include "base/status.h"
#include "gpu/cuda_state.h"
#include "os/mapping.h"

static enum tutti_status find_in_child(const void *address)
{
    if (mapping_is_readable(address)) return TUTTI_OK;
    cuda_refuse_child();
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(TUTTI_INVALID_BUFFER, "%p is no memory of the host, and %.400s", address, why);
}

/* False: the memory is of an open device, but of no context that we use. Memory of another process
 * may be of the context that has opened it, whichever device it is on. */
static bool may_be_ours(const struct cuda_context *context, int number)
{
    if (number < 0 || number >= CUDA_DEVICES_MAX || cuda_device_at(number) == NULL) return true;
    for (int d = 0; d < CUDA_DEVICES_MAX; d++) {
        const struct cuda_device *const device = cuda_device_at(d);
        if (device != NULL && device->context == context) return true;
    }
    return false;
}

enum tutti_status cuda_find(const void *address, struct gpu_memory *memory)
{
    unsigned type = 0, is_managed = 0;
    int number = -1;
    unsigned long long buffer = 0;
    struct cuda_context *context = NULL;
    int attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
                        CUDA_POINTER_DEVICE_ORDINAL, CUDA_POINTER_BUFFER_ID, CUDA_POINTER_CONTEXT};
    void *values[] = {&type, &is_managed, &number, &buffer, &context};
    *memory = (struct gpu_memory){.place = GPU_NOT_ITS};
    if (cuda_is_child()) return find_in_child(address);
    const int result =
        cuda_ask_about(address, sizeof attributes / sizeof *attributes, attributes, values);
    /* A driver may mean by these that the memory is not its own, that the process is about to exit,
     * or that a device has failed, which does not concern memory of the host. Memory that the CPU
     * does not reach is not the host's. */
    if ((result == CUDA_INVALID_VALUE || result == CUDA_DEINITIALIZED || cuda_is_fault(result)) &&
        mapping_is_readable(address))
        return TUTTI_OK;
    if (result != CUDA_OK) return cuda_fail(result, "whose memory a buffer is");
    if (is_managed != 0) {
        memory->place = GPU_MANAGED;
    } else if (type == CUDA_MEMORY_HOST) {
        memory->place = GPU_PINNED;
    } else if (type == CUDA_MEMORY_DEVICE) {
        memory->place = GPU_DEVICE_MEMORY;
    } else {
        return TUTTI_OK;
    }
    memory->device = number;
    memory->buffer = buffer;
    if (memory->place != GPU_DEVICE_MEMORY || context == NULL) return TUTTI_OK;
    if (!may_be_ours(context, number))
        return error_set(TUTTI_INVALID_BUFFER,
                         "%p is memory of a CUDA context other than the primary one of device %d",
                         address, number);
    return TUTTI_OK;
}
