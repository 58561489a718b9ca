/* gpu.h - what this library needs of GPUs: a table of functions that a vendor's driver fills.
 *
 *     application ── pointers, streams ──► gpu_find: whose memory is that?
 *                                          gpu_open: a device as this process uses it
 *     gpu/cuda.c  ── CUDA's driver, loaded when it is needed, never linked
 *
 * A program without GPUs pays nothing for them: a driver is looked for when gpu_driver is first
 * called, and only taken if the process has it already (the application uses it) or
 * TUTTI_CUDA_DRIVER names it. Until then, and without one, gpu_in_use is false: one load.
 *
 * All functions: any thread, unless they say otherwise. They leave the calling thread's current
 * context as it was. Errors are told with error_set, in the driver's own words. None of those
 * marked "prompt" waits for the device, allocates, synchronises or loads anything: they may be
 * called while operations run, whatever is queued on the device's streams.
 */
#ifndef TUTTI_GPU_GPU_H
#define TUTTI_GPU_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/device_fault.h"
#include "gpu/worker.h"
#include "memory/kind.h"
#include "tutti/tutti.h"

/* The memory at an address, as the driver knows it. */
enum gpu_place {
    GPU_NOT_ITS,       /* the driver does not know it: memory of the host */
    GPU_PINNED,        /* memory of the host that devices can reach */
    GPU_DEVICE_MEMORY, /* only the device reaches it */
    GPU_MANAGED        /* moves between host and device: refused */
};

struct gpu_memory {
    enum gpu_place place;
    int device;      /* of GPU_DEVICE_MEMORY */
    uint64_t buffer; /* the driver's number of the allocation, never used again; 0: it has none */
};

/* A device as this process uses it, for as long as the process lives. */
struct gpu_device {
    const struct gpu_driver *driver;
    int number;              /* the driver's */
    struct memory_kind kind; /* of its memory: allocate and release are the driver's */
    unsigned processor_count; /* multiprocessors: blocks of threads that surely run at the same time */
    char name[64];
    char bus[16]; /* "0000:3b:00.0" */
    uint64_t memory_bytes;
    struct gpu_fault fault;
};

enum { GPU_THREADS = 512 }; /* of a block */
enum { GPU_HANDLE_BYTES = 64 };

/* A handle with which another process can map memory. */
struct gpu_handle {
    unsigned char bytes[GPU_HANDLE_BYTES]; /* if there is no descriptor */
    /* The descriptor of memory that was mapped by hand, in the process that has the struct, which
     * closes it; -1: this is other memory. */
    int descriptor;
    uint64_t kept; /* where it was exported: with a descriptor, the driver's name of that memory, see is_kept */
};

/* The time for which a caller waits for the device. */
struct gpu_wait {
    uint64_t deadline_ns;
    bool (*is_pointless)(const void *context); /* nobody needs it any more; NULL: somebody does */
    const void *context;
};

struct gpu_driver {
    const char *name;                                                          /* "cuda" */
    int (*device_count)(void);                                                 /* prompt */
    enum tutti_status (*find)(const void *address, struct gpu_memory *memory); /* prompt; ~1 us */
    /* Describes a device without opening it: number, processor_count, name, bus and memory_bytes of
     * *described. */
    enum tutti_status (*describe)(int number, struct gpu_device *described);
    /* The device, with this library's kernels loaded, which takes seconds the first time on a
     * machine. Blocks. */
    enum tutti_status (*open)(int number, struct gpu_device **device);

    /* Whether the device still works. SYSTEM: it has failed for good, and the error says as what,
     * and what to do. Waits for nothing on the device, but perhaps for other threads that are in
     * the driver. */
    enum tutti_status (*check)(struct gpu_device *device);
    /* Whether the driver knows of a device that has failed, also among devices that were never
     * opened: as `check`, but it does not say which device. Prompt. */
    enum tutti_status (*check_all)(void);

    /* As `copy` of the device's kind of memory. TIMEOUT: the wait is over; it has not been done,
     * and may be done later. */
    enum tutti_status (*copy_until)(struct gpu_device *device, void *destination,
                                    const void *source, size_t bytes, const struct gpu_wait *wait);

    /* Memory of the host that the device reaches under the same address; of any device that is
     * open. Block. */
    enum tutti_status (*allocate_pinned)(struct gpu_device *device, size_t bytes, void **memory);
    void (*release_pinned)(struct gpu_device *device, void *memory);

    /* Memory of the device as applications have it: it can be exported. To release it may wait for
     * all that this process has queued on the device. Block. */
    enum tutti_status (*allocate_memory)(struct gpu_device *device, size_t bytes, void **memory);
    void (*release_memory)(struct gpu_device *device, void *memory);

    /* A stream of this library's own, that waits for no other. Blocks. */
    enum tutti_status (*make_stream)(struct gpu_device *device, void **stream);
    void (*free_stream)(struct gpu_device *device, void *stream);
    /* Whether all work on it is done. Prompt. */
    enum tutti_status (*stream_is_done)(struct gpu_device *device, void *stream, bool *is_done);
    /* Finds the device of a stream of the application (NULL: the default stream, of the current
     * device). INVALID_OPTIONS: there is none. */
    enum tutti_status (*stream_device)(void *stream, int *number);
    /* UNSUPPORTED, with a text that says so, if work on the stream is being captured into a graph.
     * Prompt. */
    enum tutti_status (*stream_check)(struct gpu_device *device, void *stream);

    /* Puts a worker (gpu/worker.h), whose home is in the device's memory, on a stream: so many
     * blocks of GPU_THREADS threads, which run until they are told to end. Prompt. */
    enum tutti_status (*start_worker)(struct gpu_device *device, void *stream, unsigned blocks,
                                      struct worker_home *home);

    /* The handle of the allocation in which an address lies, and how far in. UNSUPPORTED: this
     * memory has none; *bytes is 0 if it is not known where it begins and ends. Memory that was
     * mapped by hand is kept until the process ends, so that no other memory gets its name.
     * Blocks. */
    enum tutti_status (*export_memory)(struct gpu_device *device, const void *address,
                                       struct gpu_handle *handle, size_t *offset, size_t *bytes);
    /* Whether memory that was mapped by hand, so many bytes from where it begins, is mapped as it
     * was when it was exported. Prompt. */
    bool (*is_kept)(const void *base, size_t bytes, const struct gpu_handle *handle);
    /* Maps memory of another process, so many bytes of it. An error if there are fewer. Blocks. */
    enum tutti_status (*import_memory)(struct gpu_device *device, const struct gpu_handle *handle,
                                       size_t bytes, void **memory);
};

/* The process's driver, found at the first call; NULL: there is none, and it stays so until a later
 * call finds that the application has loaded one. An error only where TUTTI_CUDA_DRIVER names a
 * file that is none. Blocks at the first call. */
enum tutti_status gpu_driver(const struct gpu_driver **driver);

extern _Atomic(const struct gpu_driver *) gpu_in_use; /* the driver that gpu_driver has found */

/* The device in whose memory an address lies; NULL: it is the host's, pinned or not.
 * INVALID_BUFFER: managed memory. */
enum tutti_status gpu_find_slowly(const void *address, struct gpu_device **device);
static inline enum tutti_status gpu_find(const void *address, struct gpu_device **device)
{
    *device = NULL;
    if (__builtin_expect(atomic_load_explicit(&gpu_in_use, memory_order_acquire) == NULL, 1) ||
        address == NULL)
        return TUTTI_OK;
    return gpu_find_slowly(address, device);
}

/* The device of a kind of memory; NULL: the kind is not a device's. */
struct gpu_device *gpu_of_kind(const struct memory_kind *kind);

#endif
