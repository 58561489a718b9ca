#include "gpu/gpu.h"

#include "base/status.h"
#include "gpu/cuda.h"
#include "os/mapping.h"

_Atomic(const struct gpu_driver *) gpu_in_use;

static void *allocate_none(const struct memory_kind *kind, size_t bytes)
{
    (void)kind, (void)bytes;
    return NULL;
}

static void release_none(const struct memory_kind *kind, void *address, size_t bytes)
{
    (void)kind, (void)address, (void)bytes;
}

static bool copy_none(const struct memory_kind *kind, void *destination, const void *source,
                      size_t bytes)
{
    (void)kind, (void)destination, (void)source, (void)bytes;
    error_set(TUTTI_SYSTEM, "the driver of a device no longer says whose memory this is");
    return false;
}

/* The kind of memory that the CPU does not reach and about which a driver says nothing because its
 * device has failed. Neither a device nor the CPU touches it. */
static const struct memory_kind lost = {
    .name = "lost", .allocate = allocate_none, .release = release_none, .copy = copy_none};

static const struct memory_kind *find_kind(const void *address)
{
    struct gpu_device *device;
    if (gpu_find(address, &device) != TUTTI_OK) return mapping_is_readable(address) ? NULL : &lost;
    return device != NULL ? &device->kind : NULL;
}

enum tutti_status gpu_driver(const struct gpu_driver **driver)
{
    /* Acquire: pairs with the release below. */
    *driver = atomic_load_explicit(&gpu_in_use, memory_order_acquire);
    if (*driver != NULL) return TUTTI_OK;
    TRY(cuda_driver(driver));
    /* Release: a thread that sees the driver sees all that was written while it was found. */
    if (*driver != NULL) {
        atomic_store_explicit(&gpu_in_use, *driver, memory_order_release);
        atomic_store_explicit(&memory_kind_driver, find_kind, memory_order_release);
    }
    return TUTTI_OK;
}

enum tutti_status gpu_find_slowly(const void *address, struct gpu_device **device)
{
    /* A bit for each device of which one call has found that it is open. */
    static _Atomic uint64_t opened;
    const struct gpu_driver *const driver = atomic_load_explicit(&gpu_in_use, memory_order_acquire);
    /* Acquire: pairs with the release below, so that `find` sees those devices open. */
    const uint64_t were_open = atomic_load_explicit(&opened, memory_order_acquire);
    struct gpu_memory memory;
    struct gpu_device *found;
    *device = NULL;
    if (driver == NULL) return TUTTI_OK;
    TRY(driver->find(address, &memory));
    if (memory.place == GPU_MANAGED)
        return error_set(
            TUTTI_INVALID_BUFFER,
            "%p is managed memory, which moves between host and device: pass memory of "
            "the device or of the host",
            address);
    if (memory.place != GPU_DEVICE_MEMORY) return TUTTI_OK;
    TRY(driver->open(memory.device, &found));
    const uint64_t bit = UINT64_C(1) << ((unsigned)memory.device & 63);
    if ((were_open & bit) == 0) {
        /* Only of an open device the driver knows which memory is not for us (gpu/cuda.h): it is
         * asked once more. */
        TRY(driver->find(address, &memory));
        atomic_fetch_or_explicit(&opened, bit, memory_order_release);
    }
    *device = found;
    return TUTTI_OK;
}

struct gpu_device *gpu_of_kind(const struct memory_kind *kind)
{
    return kind != NULL ? cuda_of_kind(kind) : NULL;
}
