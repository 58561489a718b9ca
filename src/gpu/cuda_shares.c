/* cuda_shares.c - exports memory of devices to other processes, and imports theirs. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>

#include "base/status.h"
#include "gpu/cuda_state.h"

static enum tutti_status unsupported(int result, const char *what)
{
    cuda_fail(result, what);
    return TUTTI_UNSUPPORTED;
}

/* The driver's name of the physical memory at an address; 0: this memory was not mapped by hand. As
 * long as anything keeps the memory, no other memory has its name. */
static cuda_memory memory_at(uint64_t address)
{
    cuda_memory memory = 0;
    if (cuda_calls()->memory_retain(&memory, (void *)(uintptr_t)address) != CUDA_OK) return 0;
    cuda_calls()->memory_release(memory);
    return memory;
}

/* Whether a range is one mapping of that memory, from its beginning. Importers map it so. */
static bool is_mapped_once(cuda_memory memory, uint64_t base, size_t bytes)
{
    return memory_at(base) == memory && memory_at(base + bytes - 1) == memory &&
           memory_at(base - 1) != memory;
}

/* Needs no context, but where a thread captures a graph, a driver may refuse it, and break the
 * capture. */
bool cuda_is_kept(const void *base, size_t bytes, const struct gpu_handle *handle)
{
    int mode = CUDA_CAPTURE_RELAXED;
    if (cuda_is_child()) return false;
    const bool is_relaxed = cuda_calls()->exchange_capture_mode(&mode) == CUDA_OK;
    const bool is_same = is_mapped_once(handle->kept, (uintptr_t)base, bytes);
    if (is_relaxed) cuda_calls()->exchange_capture_mode(&mode);
    return is_same;
}

static enum tutti_status export_mapped(cuda_memory memory, uint64_t base, size_t bytes,
                                       struct gpu_handle *handle)
{
    int descriptor = -1;
    if (!is_mapped_once(memory, base, bytes))
        return error_set(TUTTI_UNSUPPORTED, "memory of a CUDA device that is mapped several times");
    const int result =
        cuda_calls()->memory_export(&descriptor, memory, CUDA_MEMORY_AS_DESCRIPTOR, 0);
    if (result != CUDA_OK)
        return unsupported(result, "memory of a CUDA device that was not created to be exported");
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    *handle = (struct gpu_handle){.descriptor = descriptor, .kept = memory};
    return TUTTI_OK;
}

static enum tutti_status export_range(uint64_t base, size_t bytes, struct gpu_handle *handle)
{
    struct cuda_ipc_handle made;
    cuda_memory memory = 0;
    if (cuda_calls()->memory_retain(&memory, (void *)(uintptr_t)base) == CUDA_OK) {
        const enum tutti_status status = export_mapped(memory, base, bytes, handle);
        if (status != TUTTI_OK) cuda_calls()->memory_release(memory);
        return status;
    }
    const int result = cuda_calls()->ipc_export(&made, base);
    if (result != CUDA_OK)
        return unsupported(result, "memory of a CUDA device that other processes cannot map");
    *handle = (struct gpu_handle){.descriptor = -1};
    static_assert(sizeof handle->bytes == sizeof made.bytes, "one is the other");
    memcpy(handle->bytes, made.bytes, sizeof handle->bytes);
    return TUTTI_OK;
}

enum tutti_status cuda_export_memory(struct gpu_device *device, const void *address,
                                     struct gpu_handle *handle, size_t *offset, size_t *bytes)
{
    uint64_t base = 0;
    size_t whole = 0;
    int mode;
    TRY(cuda_enter(cuda_device_of(device), &mode));
    const int result = cuda_calls()->address_range(&base, &whole, (uintptr_t)address);
    const enum tutti_status status =
        result == CUDA_OK ? export_range(base, whole, handle)
                          : unsupported(result, "memory of a CUDA device that is no allocation");
    cuda_leave(mode);
    *offset = result == CUDA_OK ? (uintptr_t)address - base : 0;
    *bytes = whole;
    return status;
}

/* In the context. Believes the driver, not the peer, about the memory that is mapped. */
static enum tutti_status check_import(uint64_t address, size_t bytes)
{
    uint64_t base = 0;
    size_t whole = 0;
    const int result = cuda_calls()->address_range(&base, &whole, address);
    if (result != CUDA_OK) return cuda_fail(result, "the size of memory of another process");
    if (address - base >= whole || bytes > whole - (size_t)(address - base))
        return error_set(TUTTI_SYSTEM, "memory of another process is smaller than that says");
    return TUTTI_OK;
}

static enum tutti_status import_handle(const struct gpu_handle *handle, size_t bytes,
                                       uint64_t *address)
{
    struct cuda_ipc_handle theirs;
    memcpy(theirs.bytes, handle->bytes, sizeof theirs.bytes);
    const int result = cuda_calls()->ipc_open(address, theirs, CUDA_IPC_ENABLE_PEER_ACCESS);
    if (result != CUDA_OK) return cuda_fail(result, "memory of another process on a CUDA device");
    return check_import(
        *address, bytes); /* and leaves it open: to close it waits for all that the device does */
}

/* In the context. The mapping keeps the memory, so its name may be given back. A driver maps no
 * more of the memory than there is. */
static int map_memory(const struct cuda_device *device, cuda_memory memory, size_t bytes,
                      uint64_t *address)
{
    const struct cuda_access access = {.location = {CUDA_LOCATION_DEVICE, device->device},
                                       .flags = CUDA_READ_AND_WRITE};
    int result = cuda_calls()->address_reserve(address, bytes, 0, 0, 0);
    if (result != CUDA_OK) return result;
    result = cuda_calls()->map(*address, bytes, 0, memory, 0);
    if (result != CUDA_OK) goto free_address;
    result = cuda_calls()->set_access(*address, bytes, &access, 1);
    if (result != CUDA_OK) goto unmap;
    return CUDA_OK;
unmap:
    cuda_calls()->unmap(*address, bytes);
free_address:
    cuda_calls()->address_free(*address, bytes);
    return result;
}

static enum tutti_status import_descriptor(const struct cuda_device *device, int descriptor,
                                           size_t bytes, uint64_t *address)
{
    cuda_memory memory = 0;
    static const char what[] = "memory that another process has mapped by hand";
    int result = cuda_calls()->memory_import(&memory, (void *)(intptr_t)descriptor,
                                             CUDA_MEMORY_AS_DESCRIPTOR);
    if (result != CUDA_OK) return cuda_fail(result, what);
    result = map_memory(device, memory, bytes, address);
    cuda_calls()->memory_release(memory);
    return result == CUDA_OK ? TUTTI_OK : cuda_fail(result, what);
}

enum tutti_status cuda_import_memory(struct gpu_device *device, const struct gpu_handle *handle,
                                     size_t bytes, void **memory)
{
    struct cuda_device *const on = cuda_device_of(device);
    uint64_t address = 0;
    int mode;
    TRY(cuda_enter(on, &mode));
    const enum tutti_status status =
        handle->descriptor >= 0 ? import_descriptor(on, handle->descriptor, bytes, &address)
                                : import_handle(handle, bytes, &address);
    cuda_leave(mode);
    if (status == TUTTI_OK) *memory = (void *)(uintptr_t)address;
    return status;
}
