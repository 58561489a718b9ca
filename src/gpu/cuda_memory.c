/* cuda_memory.c - memory of a device, and memory of the host that devices reach.
 *
 * Released memory of the device's kind is kept for the next request of its size. A driver frees
 * memory only when all work on the device is over, also a worker that waits for the rank that
 * frees. For the same reason this memory comes from the device's pool.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "gpu/cuda_state.h"
#include "os/clock.h"

struct cuda_spare {
    void *address;
    struct cuda_spare *next;
};

static unsigned class_of(size_t bytes)
{
    return bytes <= 4096 ? 12 : 64 - (unsigned)__builtin_clzll(bytes - 1);
}

static void *take_spare(struct cuda_device *device, unsigned class)
{
    pthread_mutex_lock(&device->lock);
    struct cuda_spare *const spare = device->spares[class];
    void *const address = spare != NULL ? spare->address : NULL;
    if (spare != NULL) device->spares[class] = spare->next;
    pthread_mutex_unlock(&device->lock);
    free(spare);
    return address;
}

/* In the context. Some devices, virtual ones say, have no pools: there the driver may wait. */
static int allocate_from_pool(const struct cuda_device *device, size_t bytes, uint64_t *address)
{
    const int result = cuda_calls()->allocate_later(address, bytes, device->stream);
    return result == CUDA_NOT_SUPPORTED ? cuda_calls()->allocate(address, bytes) : result;
}

void *cuda_allocate_memory(const struct memory_kind *kind, size_t bytes)
{
    struct cuda_device *const device = cuda_device_of_kind(kind);
    const unsigned class = class_of(bytes);
    void *const spare = cuda_is_child() ? NULL : take_spare(device, class);
    uint64_t address = 0;
    int mode;
    if (spare != NULL) return spare;
    if (cuda_enter(device, &mode) != TUTTI_OK) return NULL;
    static const char what[] = "memory of a CUDA device";
    const int result = allocate_from_pool(device, (size_t)1 << class, &address);
    const enum tutti_status status =
        result == CUDA_OK
            ? cuda_finish(device, what,
                          &(struct gpu_wait){clock_now_ns() + CUDA_FINISH_NS, NULL, NULL})
            : cuda_fail(result, what);
    cuda_leave(mode);
    return status == TUTTI_OK ? (void *)(uintptr_t)address : NULL;
}

void cuda_release_memory(const struct memory_kind *kind, void *address, size_t bytes)
{
    struct cuda_device *const device = cuda_device_of_kind(kind);
    const unsigned class = class_of(bytes);
    struct cuda_spare *const spare = cuda_is_child() ? NULL : malloc(sizeof *spare);
    if (spare == NULL) return; /* then it stays where it is */
    pthread_mutex_lock(&device->lock);
    *spare = (struct cuda_spare){.address = address, .next = device->spares[class]};
    device->spares[class] = spare;
    pthread_mutex_unlock(&device->lock);
}

enum tutti_status cuda_allocate_plainly(struct gpu_device *device, size_t bytes, void **memory)
{
    uint64_t address = 0;
    int mode;
    TRY(cuda_enter(cuda_device_of(device), &mode));
    const int result = cuda_calls()->allocate(&address, bytes);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : cuda_fail(result, "memory of a CUDA device");
    cuda_leave(mode);
    if (status == TUTTI_OK) *memory = (void *)(uintptr_t)address;
    return status;
}

void cuda_release_plainly(struct gpu_device *device, void *memory)
{
    int mode;
    if (cuda_enter(cuda_device_of(device), &mode) != TUTTI_OK) return;
    cuda_calls()->release((uintptr_t)memory);
    cuda_leave(mode);
}

/* In the context. Devices must reach the memory under the address that it has. */
static enum tutti_status check_address(void *memory)
{
    uint64_t address = 0;
    const int result = cuda_calls()->host_device_pointer(&address, memory, 0);
    if (result != CUDA_OK) return cuda_fail(result, "the address of pinned memory");
    if (address != (uintptr_t)memory)
        return error_set(TUTTI_UNSUPPORTED,
                         "the CUDA device has another address for pinned memory");
    return TUTTI_OK;
}

/* In the context. */
static enum tutti_status pin(size_t bytes, void **made)
{
    const int result =
        cuda_calls()->host_allocate(made, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
    if (result != CUDA_OK) return cuda_fail(result, "pinned memory");
    const enum tutti_status status = check_address(*made);
    if (status != TUTTI_OK) cuda_calls()->host_release(*made);
    return status;
}

enum tutti_status cuda_allocate_pinned(struct gpu_device *device, size_t bytes, void **memory)
{
    void *made = NULL;
    int mode;
    TRY(cuda_enter(cuda_device_of(device), &mode));
    const enum tutti_status status = pin(bytes, &made);
    cuda_leave(mode);
    if (status == TUTTI_OK) *memory = made;
    return status;
}

void cuda_release_pinned(struct gpu_device *device, void *memory)
{
    int mode;
    if (cuda_enter(cuda_device_of(device), &mode) != TUTTI_OK) return;
    cuda_calls()->host_release(memory);
    cuda_leave(mode);
}
