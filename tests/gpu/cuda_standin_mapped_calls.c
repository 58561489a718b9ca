/* cuda_standin_mapped_calls.c - memory that a program maps by hand. */
#include "tests/gpu/cuda_standin_mapped.h"
#include "tests/gpu/cuda_standin_state.h"

int standin_memory_granularity(size_t *bytes, const struct cuda_memory_kind *kind, int option)
{
    (void)option;
    BEGIN_ANYWHERE("cuMemGetAllocationGranularity");
    if (kind->type != CUDA_MEMORY_PINNED || kind->location.type != CUDA_LOCATION_DEVICE)
        return CUDA_INVALID_VALUE;
    *bytes = STANDIN_GRANULARITY;
    return standin_is_device(kind->location.device) ? CUDA_OK : CUDA_INVALID_DEVICE;
}

int standin_memory_create(cuda_memory *memory, size_t bytes, const struct cuda_memory_kind *kind,
                          unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemCreate");
    if (flags != 0 || kind->type != CUDA_MEMORY_PINNED ||
        kind->location.type != CUDA_LOCATION_DEVICE || !standin_is_device(kind->location.device))
        return CUDA_INVALID_VALUE;
    return mapped_create(kind->location.device, bytes,
                         (kind->handle_types & CUDA_MEMORY_AS_DESCRIPTOR) != 0, memory);
}

int standin_memory_retain(cuda_memory *memory, void *address)
{
    BEGIN_ANYWHERE("cuMemRetainAllocationHandle");
    RETURN_UNLESS_OK(standin_refuse_in_capture());
    return mapped_retain((uintptr_t)address, memory);
}

int standin_memory_release(cuda_memory memory)
{
    BEGIN_ANYWHERE("cuMemRelease");
    mapped_release(memory);
    return CUDA_OK;
}

int standin_memory_export(void *descriptor, cuda_memory memory, int type, unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemExportToShareableHandle");
    if (type != CUDA_MEMORY_AS_DESCRIPTOR || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_export(memory, descriptor);
}

int standin_memory_import(cuda_memory *memory, void *descriptor, int type)
{
    BEGIN_ANYWHERE("cuMemImportFromShareableHandle");
    if (type != CUDA_MEMORY_AS_DESCRIPTOR) return CUDA_INVALID_VALUE;
    return mapped_import((int)(intptr_t)descriptor, memory);
}

int standin_address_reserve(uint64_t *address, size_t bytes, size_t alignment, uint64_t wish,
                            unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemAddressReserve");
    if (alignment != 0 || wish != 0 || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_reserve(bytes, address);
}

int standin_address_free(uint64_t address, size_t bytes)
{
    BEGIN_ANYWHERE("cuMemAddressFree");
    mapped_free(address, bytes);
    return CUDA_OK;
}

int standin_map(uint64_t address, size_t bytes, size_t offset, cuda_memory memory,
                unsigned long long flags)
{
    BEGIN_ANYWHERE("cuMemMap");
    if (offset != 0 || flags != 0) return CUDA_INVALID_VALUE;
    return mapped_map(address, bytes, memory);
}

int standin_unmap(uint64_t address, size_t bytes)
{
    BEGIN_ANYWHERE("cuMemUnmap");
    struct memory_range range;
    if (memory_find(address, &range)) standin_finish_device_if_asked("cuMemUnmap", range.device);
    mapped_unmap(address, bytes);
    return CUDA_OK;
}

int standin_set_access(uint64_t address, size_t bytes, const struct cuda_access *access,
                       size_t count)
{
    BEGIN_ANYWHERE("cuMemSetAccess");
    for (size_t a = 0; a < count; a++) {
        if (access[a].location.type != CUDA_LOCATION_DEVICE ||
            !standin_is_device(access[a].location.device) || access[a].flags != CUDA_READ_AND_WRITE)
            return CUDA_INVALID_VALUE;
        const int device = access[a].location.device;
        standin_finish_device_if_asked("cuMemSetAccess", device);
        RETURN_UNLESS_OK(mapped_give_access(address, bytes, device, standin_state.are_peers));
    }
    return CUDA_OK;
}
