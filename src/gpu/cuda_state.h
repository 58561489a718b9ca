/* cuda_state.h - CUDA's driver and its devices in this process, and the functions that the files of
 * this driver share.
 *
 *     cuda.c           finds the driver, opens each device once; the table of functions (gpu/gpu.h)
 *     cuda_open.c      describes a device, and makes its kernels, streams and pinned memory
 *     cuda_find.c      whose memory an address is
 *     cuda_memory.c    allocates memory of devices, and pinned memory
 *     cuda_copy.c      copies, and reads for links
 *     cuda_streams.c   streams, and workers on them
 *     cuda_shares.c    memory that other processes map
 *     cuda_fault.c     whether a device has failed for good
 *     cuda_state.c     the driver's functions, errors in its words, the context of a call
 *
 * Any thread may call all functions here; all but cuda_get and cuda_fail_with need a driver that
 * cuda_keep has kept. The driver and its devices are never freed. A function that talks to a device
 * does so between cuda_enter and cuda_leave: "in the context" means that its caller has entered.
 */
#ifndef TUTTI_GPU_CUDA_STATE_H
#define TUTTI_GPU_CUDA_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda_library.h"
#include "gpu/gpu.h"
#include "memory/kind.h"
#include "tutti/tutti.h"

enum { CUDA_DEVICES_MAX = 64, CUDA_BOUNCE_BYTES = 512 << 10 };
/* For callers that set no deadline of their own. */
#define CUDA_FINISH_NS UINT64_C(60000000000)

/* The driver in this process. */
struct cuda {
    struct cuda_library calls;
    uint32_t generation; /* of the process that has it */
    int device_count;
};

struct cuda_device {
    struct gpu_device gpu;
    int device; /* as the driver calls it */
    struct cuda_context *context;
    struct cuda_module *module;
    struct cuda_function *worker;
    struct cuda_stream *stream;  /* for allocating and copying */
    pthread_mutex_t bounce_lock; /* of what follows */
    char *bounce[2];             /* pinned, for copies from and to memory of the host that is not */
    bool is_bounce_lost;         /* the device has not finished a copy there, and may do it yet */
    pthread_mutex_t read_lock;   /* of what follows */
    struct cuda_stream *read_stream;
    char *read_place;              /* pinned, CUDA_BOUNCE_BYTES: only the last copy there counts */
    atomic_bool has_told;          /* that a copy failed */
    pthread_mutex_t lock;          /* of the spares */
    struct cuda_spare *spares[64]; /* memory of 1 << i bytes that nobody uses now */
};

static inline struct cuda_device *cuda_device_of(struct gpu_device *device)
{
    return (struct cuda_device *)((char *)device - offsetof(struct cuda_device, gpu));
}

static inline struct cuda_device *cuda_device_of_kind(const struct memory_kind *kind)
{
    return (struct cuda_device *)((uintptr_t)kind - offsetof(struct cuda_device, gpu.kind));
}

/* cuda_state.c */

/* NULL: no driver has been found yet. */
const struct cuda *cuda_get(void);
/* False: another thread was first, and its driver stays. */
bool cuda_keep(struct cuda *found);
/* The functions of the driver that was found. */
const struct cuda_library *cuda_calls(void);

/* Whether this process was forked from the one that has the driver: then it must not call it. */
bool cuda_is_child(void);
enum tutti_status cuda_refuse_child(void);

/* Tells what failed, in the driver's words. */
enum tutti_status cuda_fail(int result, const char *what);
/* The same, of a driver that was not kept. */
enum tutti_status cuda_fail_with(const struct cuda_library *library, int result, const char *what);

/* An open device; NULL: it is not open. */
struct cuda_device *cuda_device_at(int number);
/* Once for each device. */
void cuda_add_device(struct cuda_device *device);

/* Makes the device's context the calling thread's, and lets the thread allocate while another one
 * captures a graph. *mode is for cuda_leave. An error leaves the thread's context as it was. */
enum tutti_status cuda_enter(const struct cuda_device *device, int *mode);
void cuda_leave(int mode);
/* Asks for attributes of a pointer, without a context or in any. */
int cuda_ask_about(const void *address, unsigned count, int *attributes, void **values);

/* cuda_fault.c */

/* Whether that result means that a device has failed for good. */
bool cuda_is_fault(int result);
enum tutti_status cuda_check_device(struct gpu_device *device);
enum tutti_status cuda_check_all(void);

/* cuda_find.c */

enum tutti_status cuda_find(const void *address, struct gpu_memory *memory);

/* cuda_streams.c */

bool cuda_wait_is_over(const struct gpu_wait *wait);
/* In the context. Waits until the device's own stream is done, whose work waits for no other
 * stream's. TIMEOUT: the wait is over, and `what` is not finished. */
enum tutti_status cuda_finish(const struct cuda_device *device, const char *what,
                              const struct gpu_wait *wait);
enum tutti_status cuda_make_stream(struct gpu_device *device, void **stream);
void cuda_free_stream(struct gpu_device *device, void *stream);
enum tutti_status cuda_stream_is_done(struct gpu_device *device, void *stream, bool *is_done);
enum tutti_status cuda_stream_device(void *stream, int *number);
enum tutti_status cuda_stream_check(struct gpu_device *device, void *stream);
enum tutti_status cuda_start_worker(struct gpu_device *device, void *stream, unsigned blocks,
                                    struct worker_home *home);

/* cuda_memory.c. The first two are those of the device's kind of memory. */

void *cuda_allocate_memory(const struct memory_kind *kind, size_t bytes);
void cuda_release_memory(const struct memory_kind *kind, void *address, size_t bytes);
enum tutti_status cuda_allocate_plainly(struct gpu_device *device, size_t bytes, void **memory);
void cuda_release_plainly(struct gpu_device *device, void *memory);
enum tutti_status cuda_allocate_pinned(struct gpu_device *device, size_t bytes, void **memory);
void cuda_release_pinned(struct gpu_device *device, void *memory);

/* cuda_copy.c. The first two are those of the device's kind of memory. */

bool cuda_copy_memory(const struct memory_kind *kind, void *destination, const void *source,
                      size_t bytes);
bool cuda_read_memory(const struct memory_kind *kind, void *destination, const void *source,
                      size_t bytes);
enum tutti_status cuda_copy_until(struct gpu_device *device, void *destination, const void *source,
                                  size_t bytes, const struct gpu_wait *wait);

/* cuda_open.c */

/* INVALID_OPTIONS: no device has that number. UNSUPPORTED: the process is a child. */
enum tutti_status cuda_check_number(int number);
enum tutti_status cuda_describe_device(int number, struct gpu_device *described);
/* Makes a device with all that it needs but gpu.driver. Blocks. A failure leaves nothing. */
enum tutti_status cuda_make_device(int number, struct cuda_device **made);

/* cuda_shares.c */

enum tutti_status cuda_export_memory(struct gpu_device *device, const void *address,
                                     struct gpu_handle *handle, size_t *offset, size_t *bytes);
bool cuda_is_kept(const void *base, size_t bytes, const struct gpu_handle *handle);
enum tutti_status cuda_import_memory(struct gpu_device *device, const struct gpu_handle *handle,
                                     size_t bytes, void **memory);

#endif
