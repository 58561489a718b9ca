/* cuda_standin_memory_calls.c - memory of devices and of the host. */
#include "tests/gpu/cuda_standin_mapped.h"
#include "tests/gpu/cuda_standin_state.h"

static const uint32_t freed_by_release =
    1u << MEMORY_DEVICE | 1u << MEMORY_BARE | 1u << MEMORY_FOREIGN | 1u << MEMORY_MANAGED;

static void set_attribute(int attribute, void *value, const struct memory_range *range)
{
    const bool is_host =
        range != NULL && (range->sort == MEMORY_PINNED || range->sort == MEMORY_REGISTERED);
    switch (attribute) {
    case CUDA_POINTER_CONTEXT:
        *(struct cuda_context **)value =
            range == NULL || range->sort == MEMORY_BARE || range->sort == MEMORY_MAPPED ? NULL
            : range->sort == MEMORY_FOREIGN  ? &standin_state.foreign
            : range->sort == MEMORY_IMPORTED ? &standin_state.contexts[range->opener]
                                             : &standin_state.contexts[range->device];
        break;
    case CUDA_POINTER_MEMORY_TYPE:
        *(unsigned *)value = range == NULL ? 0 : is_host ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
        break;
    case CUDA_POINTER_BUFFER_ID:
        *(unsigned long long *)value = range == NULL ? 0 : range->buffer;
        break;
    case CUDA_POINTER_IS_MANAGED:
        *(unsigned *)value = range != NULL && range->sort == MEMORY_MANAGED;
        break;
    case CUDA_POINTER_DEVICE_ORDINAL: *(int *)value = range == NULL ? -2 : range->device; break;
    case CUDA_POINTER_IS_LEGACY_IPC_CAPABLE:
        *(int *)value = range != NULL && range->sort == MEMORY_DEVICE;
        break;
    case CUDA_POINTER_RANGE_BEGIN: *(uint64_t *)value = range == NULL ? 0 : range->begin; break;
    case CUDA_POINTER_RANGE_BYTES: *(size_t *)value = range == NULL ? 0 : range->bytes; break;
    case CUDA_POINTER_IS_MAPPED: *(int *)value = range != NULL; break;
    case CUDA_POINTER_HANDLE_TYPES:
        *(uint64_t *)value = range == NULL || range->sort != MEMORY_MAPPED ? 0 : mapped_types(range);
        break;
    default: standin_die("cuPointerGetAttributes: nothing is known of attribute %d", attribute);
    }
}

int standin_pointer_attributes(unsigned count, int *attributes, void **values, uint64_t address)
{
    struct memory_range range;
    BEGIN("cuPointerGetAttributes");
    const bool is_known = memory_find(address, &range);
    for (int d = 0; d < standin_state.device_count; d++)
        if (!is_known || range.device == d) RETURN_UNLESS_OK(work_fault_of(d));
    for (unsigned a = 0; a < count; a++)
        set_attribute(attributes[a], values[a], is_known ? &range : NULL);
    return CUDA_OK;
}

int standin_allocate(uint64_t *address, size_t bytes)
{
    BEGIN_IN_CONTEXT("cuMemAlloc_v2");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    standin_finish_if_asked("cuMemAlloc");
    return memory_allocate(MEMORY_DEVICE, standin_current()->device, bytes, address);
}

/* Allocates from the device's pool at once: the address is there when this returns, and nothing
 * waits. */
int standin_allocate_later(uint64_t *address, size_t bytes, struct cuda_stream *stream)
{
    BEGIN_IN_CONTEXT("cuMemAllocAsync");
    return memory_allocate(MEMORY_BARE, standin_device_of(stream), bytes, address);
}

int standin_allocate_managed(uint64_t *address, size_t bytes, unsigned flags)
{
    (void)flags;
    BEGIN_IN_CONTEXT("cuMemAllocManaged");
    return memory_allocate(MEMORY_MANAGED, standin_current()->device, bytes, address);
}

int standin_release(uint64_t address)
{
    BEGIN_IN_CONTEXT("cuMemFree_v2");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    struct memory_range range;
    if (address == 0) return CUDA_OK;
    if (memory_find(address, &range)) standin_finish_device("cuMemFree", range.device);
    RETURN_UNLESS_OK(standin_current_fault());
    memory_release("cuMemFree", freed_by_release, address);
    return CUDA_OK;
}

int standin_address_range(uint64_t *base, size_t *bytes, uint64_t address)
{
    struct memory_range range;
    BEGIN_IN_CONTEXT("cuMemGetAddressRange_v2");
    if (!memory_find(address, &range) || range.sort == MEMORY_PINNED ||
        range.sort == MEMORY_REGISTERED || range.sort == MEMORY_MANAGED)
        return CUDA_NOT_FOUND;
    if (range.sort == MEMORY_MAPPED) return mapped_range(&range, base, bytes);
    *base = range.begin - range.block_lead;
    *bytes = range.block_lead + range.bytes + range.block_rest;
    return CUDA_OK;
}

int standin_host_allocate(void **memory, size_t bytes, unsigned flags)
{
    uint64_t address = 0;
    BEGIN_IN_CONTEXT("cuMemHostAlloc");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    if ((flags & CUDA_HOST_PORTABLE) == 0) return CUDA_NOT_SUPPORTED;
    standin_finish_if_asked("cuMemHostAlloc");
    const int result = memory_allocate(MEMORY_PINNED, standin_current()->device, bytes, &address);
    if (result == CUDA_OK) *memory = (void *)(uintptr_t)address;
    return result;
}

int standin_host_release(void *memory)
{
    BEGIN_IN_CONTEXT("cuMemFreeHost");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    standin_finish_devices("cuMemFreeHost");
    RETURN_UNLESS_OK(standin_current_fault());
    memory_release("cuMemFreeHost", 1u << MEMORY_PINNED, (uintptr_t)memory);
    return CUDA_OK;
}

int standin_host_register(void *memory, size_t bytes, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuMemHostRegister_v2");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    if ((flags & CUDA_HOST_PORTABLE) == 0) return CUDA_NOT_SUPPORTED;
    standin_finish_if_asked("cuMemHostRegister");
    return memory_register(memory, bytes);
}

int standin_host_unregister(void *memory)
{
    BEGIN_IN_CONTEXT("cuMemHostUnregister");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    standin_finish_devices("cuMemHostUnregister");
    RETURN_UNLESS_OK(standin_current_fault());
    return memory_unregister(memory);
}

int standin_host_device_pointer(uint64_t *address, void *memory, unsigned flags)
{
    struct memory_range range;
    BEGIN_IN_CONTEXT("cuMemHostGetDevicePointer_v2");
    if (flags != 0 || !memory_find((uintptr_t)memory, &range) ||
        (range.sort != MEMORY_PINNED && range.sort != MEMORY_REGISTERED))
        return CUDA_INVALID_VALUE;
    *address = (uintptr_t)memory;
    return CUDA_OK;
}

int standin_ipc_export(struct cuda_ipc_handle *handle, uint64_t address)
{
    BEGIN_IN_CONTEXT("cuIpcGetMemHandle");
    return memory_export(address, handle);
}

int standin_ipc_open(uint64_t *address, struct cuda_ipc_handle handle, unsigned flags)
{
    BEGIN_IN_CONTEXT("cuIpcOpenMemHandle_v2");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    if (flags != CUDA_IPC_ENABLE_PEER_ACCESS) return CUDA_INVALID_VALUE;
    standin_finish_if_asked("cuIpcOpenMemHandle");
    return memory_import(standin_current()->device, standin_state.are_peers, &handle, address);
}

int standin_ipc_close(uint64_t address)
{
    BEGIN_IN_CONTEXT("cuIpcCloseMemHandle");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    standin_finish_devices("cuIpcCloseMemHandle");
    RETURN_UNLESS_OK(standin_current_fault());
    memory_release("cuIpcCloseMemHandle", 1u << MEMORY_IMPORTED, address);
    return CUDA_OK;
}
