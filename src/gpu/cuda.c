#include "gpu/cuda.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "gpu/cuda_library.h"
#include "gpu/device_fault.h"
#include "gpu/executor.h"
#include "gpu/kernels.h"
#include "gpu/shares.h"
#include "os/clock.h"
#include "os/mapping.h"
#include "os/process.h"

enum { DEVICES_MAX = 64, LOG_BYTES = 400, BOUNCE_BYTES = 512 << 10 };
#define FINISH_NS UINT64_C(60000000000)

/* The driver in this process, never freed. */
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
    char *read_place;         /* pinned, BOUNCE_BYTES: only the last of the copies there counts */
    atomic_bool has_told;     /* that a copy failed */
    pthread_mutex_t lock;     /* of the spares */
    struct spare *spares[64]; /* memory of 1 << i bytes that nobody uses now */
};

struct spare {
    void *address;
    struct spare *next;
};

/* Set once; acquire loads pair with the release that sets them. */
static _Atomic(struct cuda *) cuda;
static _Atomic(struct cuda_device *) devices[DEVICES_MAX];
/* Held while a device is opened. No child of fork() takes it: it is refused before. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* Returns the table of a driver that has been found: the caller must know that there is one. */
static const struct cuda *get(void)
{
    return atomic_load_explicit(&cuda, memory_order_acquire);
}

static const struct cuda_library *calls(void)
{
    return &get()->calls;
}

/* Tells what failed, in the driver's words. */
static enum tutti_status fail_with(const struct cuda_library *library, int result, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (library->error_name(result, &name) != CUDA_OK || name == NULL) name = "an unknown error";
    if (library->error_text(result, &text) != CUDA_OK || text == NULL) text = "no text";
    return error_set(result == CUDA_OUT_OF_MEMORY   ? TUTTI_NO_MEMORY
                     : result == CUDA_NOT_SUPPORTED ? TUTTI_UNSUPPORTED
                                                    : TUTTI_SYSTEM,
                     "%s: %s (%d): %s", what, name, result, text);
}

static enum tutti_status fail(int result, const char *what)
{
    return fail_with(calls(), result, what);
}

static bool is_child(void)
{
    return get()->generation != process_generation();
}

static enum tutti_status refuse_child(void)
{
    return error_set(
        TUTTI_UNSUPPORTED,
        "this process was forked from one that had used CUDA, so it cannot use GPUs: fork "
        "before CUDA is used, or start processes by exec");
}

static struct cuda_device *device_of(struct gpu_device *device)
{
    return (struct cuda_device *)((char *)device - offsetof(struct cuda_device, gpu));
}

/* Makes the device's context the calling thread's, and lets it allocate while another thread captures a graph. */
static enum tutti_status enter(const struct cuda_device *device, int *mode)
{
    if (is_child()) return refuse_child();
    const int result = calls()->context_push(device->context);
    if (result != CUDA_OK) return fail(result, "the context of a CUDA device");
    *mode = CUDA_CAPTURE_RELAXED;
    if (calls()->exchange_capture_mode(mode) != CUDA_OK) *mode = CUDA_CAPTURE_GLOBAL;
    return TUTTI_OK;
}

static void leave(int mode)
{
    struct cuda_context *context;
    calls()->exchange_capture_mode(&mode);
    calls()->context_pop(&context);
}

/* Faults. Once a device has failed, the driver answers everything about it with the same error,
 * until the process ends. */

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

/* Reports a result of the driver if it means that a device has failed. */
static enum tutti_status tell_fault(int result)
{
    const char *const advice = advice_on(result), *name = NULL;
    if (advice == NULL) return TUTTI_OK;
    if (calls()->error_name(result, &name) != CUDA_OK || name == NULL) name = "CUDA error";
    return error_set(TUTTI_SYSTEM, "%s (%d); start this process again; %s", name, result, advice);
}

static enum tutti_status check_device(struct gpu_device *device)
{
    struct cuda_device *const on = device_of(device);
    struct cuda_context *context;
    int mode = CUDA_CAPTURE_RELAXED;
    if (is_child()) return TUTTI_OK;
    int result = calls()->context_push(on->context);
    if (result == CUDA_OK) {
        const bool is_relaxed = calls()->exchange_capture_mode(&mode) == CUDA_OK;
        result = calls()->stream_query(on->stream);
        if (is_relaxed) calls()->exchange_capture_mode(&mode);
        calls()->context_pop(&context);
    }
    return tell_fault(result);
}

/* An open device; NULL: there is none. */
static struct cuda_device *any_device(void)
{
    struct cuda_device *found = NULL;
    for (int d = 0; d < DEVICES_MAX && found == NULL; d++)
        found = atomic_load_explicit(&devices[d], memory_order_acquire);
    return found;
}

/* Some drivers need a context even to answer this. A thread without one asks again in the context
 * of any open device. */
static int ask_about(const void *address, unsigned count, int *attributes, void **values)
{
    struct cuda_context *context;
    const int result = calls()->pointer_attributes(count, attributes, values, (uintptr_t)address);
    const struct cuda_device *const device = result == CUDA_INVALID_CONTEXT ? any_device() : NULL;
    if (device == NULL || calls()->context_push(device->context) != CUDA_OK) return result;
    const int again = calls()->pointer_attributes(count, attributes, values, (uintptr_t)address);
    calls()->context_pop(&context);
    return again;
}

/* The driver returns the error of a failed device even when it is asked about memory that is not
 * its own, without a context or a stream. An answer that it needs a context says nothing about a
 * device. */
static enum tutti_status check_all(void)
{
    unsigned type = 0;
    int attribute = CUDA_POINTER_MEMORY_TYPE;
    void *value = &type;
    if (is_child()) return TUTTI_OK;
    const int result = ask_about(&type, 1, &attribute, &value);
    return result == CUDA_INVALID_CONTEXT ? TUTTI_OK : tell_fault(result);
}

/* Memory of the device. Released memory is kept for the next request of its size: a driver frees memory only when all work on the device
 * is over, also a worker that waits for the rank that frees. For the same reason it comes from the device's pool. */

static struct cuda_device *device_of_kind(const struct memory_kind *kind)
{
    return (struct cuda_device *)((uintptr_t)kind - offsetof(struct cuda_device, gpu.kind));
}

static unsigned class_of(size_t bytes)
{
    return bytes <= 4096 ? 12 : 64 - (unsigned)__builtin_clzll(bytes - 1);
}

static void *take_spare(struct cuda_device *device, unsigned class)
{
    pthread_mutex_lock(&device->lock);
    struct spare *const spare = device->spares[class];
    void *const address = spare != NULL ? spare->address : NULL;
    if (spare != NULL) device->spares[class] = spare->next;
    pthread_mutex_unlock(&device->lock);
    free(spare);
    return address;
}

static bool is_over(const struct gpu_wait *wait)
{
    return clock_now_ns() > wait->deadline_ns ||
           (wait->is_pointless != NULL && wait->is_pointless(wait->context));
}

/* Until the device's own stream is done, whose work waits for no other stream's, or the deadline. */
static enum tutti_status finish(const struct cuda_device *device, const char *what,
                                const struct gpu_wait *wait)
{
    int result;
    while ((result = calls()->stream_query(device->stream)) == CUDA_NOT_READY) {
        if (is_over(wait))
            return error_set(TUTTI_TIMEOUT, "%s: CUDA device %d has not finished it in time", what,
                             device->gpu.number);
        sched_yield();
    }
    return result == CUDA_OK ? TUTTI_OK : fail(result, what);
}

static enum tutti_status find(const void *address, struct gpu_memory *memory);

/* The context is the calling thread's. Some devices, virtual ones say, have no pools: there the driver may wait. */
static int allocate_from_pool(const struct cuda_device *device, size_t bytes, uint64_t *address)
{
    const int result = calls()->allocate_later(address, bytes, device->stream);
    return result == CUDA_NOT_SUPPORTED ? calls()->allocate(address, bytes) : result;
}

static void *allocate_memory(const struct memory_kind *kind, size_t bytes)
{
    struct cuda_device *const device = device_of_kind(kind);
    const unsigned class = class_of(bytes);
    void *const spare = is_child() ? NULL : take_spare(device, class);
    uint64_t address = 0;
    int mode;
    if (spare != NULL) return spare;
    if (enter(device, &mode) != TUTTI_OK) return NULL;
    static const char what[] = "memory of a CUDA device";
    const int result = allocate_from_pool(device, (size_t)1 << class, &address);
    const enum tutti_status status =
        result == CUDA_OK
            ? finish(device, what, &(struct gpu_wait){clock_now_ns() + FINISH_NS, NULL, NULL})
            : fail(result, what);
    leave(mode);
    return status == TUTTI_OK ? (void *)(uintptr_t)address : NULL;
}

static void release_memory(const struct memory_kind *kind, void *address, size_t bytes)
{
    struct cuda_device *const device = device_of_kind(kind);
    const unsigned class = class_of(bytes);
    struct spare *const spare = is_child() ? NULL : malloc(sizeof *spare);
    if (spare == NULL) return; /* then it stays where it is */
    pthread_mutex_lock(&device->lock);
    *spare = (struct spare){.address = address, .next = device->spares[class]};
    device->spares[class] = spare;
    pthread_mutex_unlock(&device->lock);
}

/* Copying. A driver copies memory of the host that is not pinned piece by piece, waits for each of them, and lets no other thread in
 * meanwhile: also none whose rank has to come first. So such memory is copied by the CPU, through pinned memory; the driver is given nothing
 * that it would wait for. */

static const char copying[] = "a copy of a CUDA device";

static enum tutti_status queue_copy_in(struct cuda_stream *stream, void *destination,
                                       const void *source, size_t bytes)
{
    const int result = calls()->copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
    return result == CUDA_OK ? TUTTI_OK : fail(result, copying);
}

static enum tutti_status queue_copy(const struct cuda_device *device, void *destination,
                                    const void *source, size_t bytes)
{
    return queue_copy_in(device->stream, destination, source, bytes);
}

static size_t part_of(size_t bytes)
{
    return bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
}

/* With bounce_lock. While the device copies into one half, the CPU copies out of the other one. */
static enum tutti_status copy_to_host(const struct cuda_device *device, char *destination,
                                      const char *source, size_t bytes, const struct gpu_wait *wait)
{
    size_t part = part_of(bytes);
    TRY(queue_copy(device, device->bounce[0], source, part));
    for (size_t done = 0, half = 0; done < bytes; half = 1 - half) {
        const size_t next = part_of(bytes - done - part);
        TRY(finish(device, copying, wait));
        if (next > 0) TRY(queue_copy(device, device->bounce[1 - half], source + done + part, next));
        memcpy(destination + done, device->bounce[half], part);
        done += part;
        part = next;
    }
    return TUTTI_OK;
}

static enum tutti_status copy_from_host(const struct cuda_device *device, char *destination,
                                        const char *source, size_t bytes,
                                        const struct gpu_wait *wait)
{
    for (size_t done = 0, part, half = 0; done < bytes; done += part, half = 1 - half) {
        part = part_of(bytes - done);
        memcpy(device->bounce[half], source + done, part);
        if (done > 0) TRY(finish(device, copying, wait));
        TRY(queue_copy(device, destination + done, device->bounce[half], part));
    }
    return finish(device, copying, wait);
}

static enum tutti_status lock_bounce(struct cuda_device *device, const struct gpu_wait *wait)
{
    while (pthread_mutex_trylock(&device->bounce_lock) != 0) {
        if (is_over(wait))
            return error_set(TUTTI_TIMEOUT, "%s: others of CUDA device %d took too long", copying,
                             device->gpu.number);
        sched_yield();
    }
    return TUTTI_OK;
}

/* With bounce_lock. A copy that was given up comes to an end before anything that its stream is given later. */
static enum tutti_status find_bounce(struct cuda_device *device, const struct gpu_wait *wait)
{
    if (device->is_bounce_lost) TRY(finish(device, copying, wait));
    device->is_bounce_lost = false;
    return TUTTI_OK;
}

static enum tutti_status copy_bounced(struct cuda_device *device, void *destination,
                                      const void *source, size_t bytes, bool is_to_host,
                                      const struct gpu_wait *wait)
{
    TRY(lock_bounce(device, wait));
    enum tutti_status status = find_bounce(device, wait);
    if (status == TUTTI_OK)
        status = is_to_host ? copy_to_host(device, destination, source, bytes, wait)
                            : copy_from_host(device, destination, source, bytes, wait);
    if (status == TUTTI_TIMEOUT) device->is_bounce_lost = true;
    pthread_mutex_unlock(&device->bounce_lock);
    return status;
}

/* The context is the calling thread's. */
static enum tutti_status copy_anywhere(struct cuda_device *device, void *destination,
                                       const void *source, size_t bytes, const struct gpu_wait *wait)
{
    struct gpu_memory to, from;
    TRY(find(destination, &to));
    TRY(find(source, &from));
    if (to.place == GPU_NOT_ITS || from.place == GPU_NOT_ITS)
        return copy_bounced(device, destination, source, bytes, to.place == GPU_NOT_ITS, wait);
    TRY(queue_copy(device, destination, source, bytes));
    return finish(device, copying, wait);
}

/* Reading for links. In a hardware queue the driver's copy may stand behind work of the application that waits for an operation, and the
 * operation for the copy. Then that operation's worker is on the device, or comes there: it copies, and of the driver's copy, which comes
 * when it may, nobody takes any more notice. */

static enum tutti_status be_patient(const struct gpu_wait *wait, const struct cuda_device *device)
{
    sched_yield();
    if (!is_over(wait)) return TUTTI_OK;
    return error_set(TUTTI_TIMEOUT, "%s: CUDA device %d has not finished it in time", copying,
                     device->gpu.number);
}

/* With read_lock. */
static enum tutti_status read_or_let_read(struct cuda_device *device, char *destination,
                                          const char *source, size_t bytes,
                                          const struct gpu_wait *wait)
{
    size_t done = 0, part = 0;
    for (;;) {
        const int result = calls()->stream_query(device->read_stream);
        if (result == CUDA_NOT_READY) {
            if (gpu_run_read(&device->gpu, destination + done, source + done, bytes - done))
                return TUTTI_OK;
            TRY(be_patient(wait, device));
            continue;
        }
        if (result != CUDA_OK) return fail(result, copying);
        memcpy(destination + done, device->read_place, part);
        done += part;
        if (done == bytes) return TUTTI_OK;
        part = part_of(bytes - done);
        TRY(queue_copy_in(device->read_stream, device->read_place, source + done, part));
    }
}

static enum tutti_status read_to_host(struct cuda_device *device, void *destination,
                                      const void *source, size_t bytes, const struct gpu_wait *wait)
{
    for (;;) {
        if (gpu_run_read(&device->gpu, destination, source, bytes)) return TUTTI_OK;
        if (pthread_mutex_trylock(&device->read_lock) == 0) break;
        TRY(be_patient(wait, device));
    }
    const enum tutti_status status = read_or_let_read(device, destination, source, bytes, wait);
    pthread_mutex_unlock(&device->read_lock);
    return status;
}

/* The context is the calling thread's. */
static enum tutti_status read_anywhere(struct cuda_device *device, void *destination,
                                       const void *source, size_t bytes, const struct gpu_wait *wait)
{
    struct gpu_memory to;
    TRY(find(destination, &to));
    return (to.place == GPU_DEVICE_MEMORY ? copy_anywhere : read_to_host)(device, destination,
                                                                          source, bytes, wait);
}

typedef enum tutti_status copier(struct cuda_device *device, void *destination, const void *source,
                                 size_t bytes, const struct gpu_wait *wait);

static enum tutti_status copy_by(copier *copies, struct cuda_device *device, void *destination,
                                 const void *source, size_t bytes, const struct gpu_wait *wait)
{
    int mode;
    if (bytes == 0) return TUTTI_OK;
    TRY(enter(device, &mode));
    const enum tutti_status status = copies(device, destination, source, bytes, wait);
    leave(mode);
    /* A link whose copy fails has nobody to tell of it: its call just does not go on. */
    if (status != TUTTI_OK &&
        !atomic_exchange_explicit(&device->has_told, true, memory_order_relaxed))
        log_write(LOG_WARN, "GPU %d: %zu bytes were not copied: %s", device->gpu.number, bytes,
                  tutti_error_message());
    return status;
}

static enum tutti_status copy_until(struct gpu_device *device, void *destination,
                                    const void *source, size_t bytes, const struct gpu_wait *wait)
{
    return copy_by(copy_anywhere, device_of(device), destination, source, bytes, wait);
}

static bool copy_memory(const struct memory_kind *kind, void *destination, const void *source,
                        size_t bytes)
{
    return copy_by(copy_anywhere, device_of_kind(kind), destination, source, bytes,
                   &(struct gpu_wait){clock_now_ns() + FINISH_NS, NULL, NULL}) == TUTTI_OK;
}

static bool read_memory(const struct memory_kind *kind, void *destination, const void *source,
                        size_t bytes)
{
    return copy_by(read_anywhere, device_of_kind(kind), destination, source, bytes,
                   &(struct gpu_wait){clock_now_ns() + FINISH_NS, NULL, NULL}) == TUTTI_OK;
}

static enum tutti_status allocate_plainly(struct gpu_device *device, size_t bytes, void **memory)
{
    uint64_t address = 0;
    int mode;
    TRY(enter(device_of(device), &mode));
    const int result = calls()->allocate(&address, bytes);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : fail(result, "memory of a CUDA device");
    leave(mode);
    if (status == TUTTI_OK) *memory = (void *)(uintptr_t)address;
    return status;
}

static void release_plainly(struct gpu_device *device, void *memory)
{
    int mode;
    if (enter(device_of(device), &mode) != TUTTI_OK) return;
    calls()->release((uintptr_t)memory);
    leave(mode);
}

/* Opening. */

static enum tutti_status describe(struct cuda_device *device)
{
    struct gpu_device *const gpu = &device->gpu;
    int processor_count = 0, is_unified = 0;
    size_t bytes = 0;
    int result = calls()->device_name(gpu->name, sizeof gpu->name, device->device);
    if (result == CUDA_OK) result = calls()->device_bus(gpu->bus, sizeof gpu->bus, device->device);
    if (result == CUDA_OK) result = calls()->device_memory(&bytes, device->device);
    if (result == CUDA_OK)
        result = calls()->device_attribute(&processor_count, CUDA_DEVICE_MULTIPROCESSOR_COUNT,
                                           device->device);
    if (result == CUDA_OK)
        result =
            calls()->device_attribute(&is_unified, CUDA_DEVICE_UNIFIED_ADDRESSING, device->device);
    if (result != CUDA_OK) return fail(result, "what a CUDA device is");
    gpu->name[sizeof gpu->name - 1] = gpu->bus[sizeof gpu->bus - 1] = '\0';
    for (char *letter = gpu->bus; *letter != '\0'; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    if (!is_unified || processor_count < 1)
        return error_set(TUTTI_UNSUPPORTED,
                         "CUDA device %d (%s) has no address space in common with the host",
                         gpu->number, gpu->name);
    gpu->processor_count = (unsigned)processor_count;
    gpu->memory_bytes = bytes;
    return TUTTI_OK;
}

static enum tutti_status check_number(int number)
{
    if (is_child()) return refuse_child();
    if (number >= 0 && number < get()->device_count) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS, "there is no CUDA device %d: they are 0 to %d", number,
                     get()->device_count - 1);
}

static enum tutti_status describe_device(int number, struct gpu_device *described)
{
    struct cuda_device device = {.gpu = {.number = number}};
    TRY(check_number(number));
    const int result = calls()->device_get(&device.device, number);
    if (result != CUDA_OK) return fail(result, "a CUDA device");
    TRY(describe(&device));
    *described = device.gpu;
    return TUTTI_OK;
}

/* The context is the calling thread's. */
static enum tutti_status load_kernels(struct cuda_device *device)
{
    char log[LOG_BYTES] = "", what[LOG_BYTES + 80];
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int threads = 0;
    int result = calls()->module_load(&device->module, gpu_kernels_ptx,
                                      sizeof options / sizeof *options, options, values);
    if (result != CUDA_OK) {
        device->module = NULL;
        log[sizeof log - 1] = '\0';
        snprintf(what, sizeof what, "this library's kernels on CUDA device %d%s%s",
                 device->gpu.number, log[0] != '\0' ? ": " : "", log);
        return fail(result, what);
    }
    result = calls()->module_function(&device->worker, device->module, GPU_KERNEL_WORKER);
    if (result != CUDA_OK) return fail(result, "the kernel " GPU_KERNEL_WORKER);
    /* To ask also loads it: a launch may then be the first one and yet be prompt. */
    result = calls()->function_attribute(&threads, CUDA_FUNCTION_MAX_THREADS, device->worker);
    if (result != CUDA_OK) return fail(result, "the kernel " GPU_KERNEL_WORKER);
    if (threads < GPU_THREADS)
        return error_set(
            TUTTI_UNSUPPORTED,
            "CUDA device %d (%s) runs at most %d threads of a block of ours, %d are needed",
            device->gpu.number, device->gpu.name, threads, GPU_THREADS);
    return TUTTI_OK;
}

/* The context is the calling thread's. */
static enum tutti_status make_bounce(struct cuda_device *device)
{
    void *made = NULL;
    const int result = calls()->host_allocate(&made, (size_t)3 * BOUNCE_BYTES,
                                              CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
    if (result != CUDA_OK) return fail(result, "pinned memory");
    device->bounce[0] = made;
    device->bounce[1] = device->bounce[0] + BOUNCE_BYTES;
    device->read_place = device->bounce[1] + BOUNCE_BYTES;
    return TUTTI_OK;
}

/* The same. */
static enum tutti_status make_streams(struct cuda_device *device)
{
    int result = calls()->stream_create(&device->stream, CUDA_STREAM_NON_BLOCKING);
    if (result != CUDA_OK) return fail(result, "a stream of this library's");
    result = calls()->stream_create(&device->read_stream, CUDA_STREAM_NON_BLOCKING);
    if (result == CUDA_OK) return TUTTI_OK;
    calls()->stream_destroy(device->stream);
    return fail(result, "a stream of this library's");
}

static enum tutti_status load(struct cuda_device *device)
{
    int mode;
    TRY(describe(device));
    TRY(enter(device, &mode));
    enum tutti_status status = load_kernels(device);
    if (status == TUTTI_OK) status = make_bounce(device);
    if (status == TUTTI_OK) status = make_streams(device);
    if (status != TUTTI_OK && device->bounce[0] != NULL) calls()->host_release(device->bounce[0]);
    if (status != TUTTI_OK && device->module != NULL) calls()->module_unload(device->module);
    leave(mode);
    return status;
}

static enum tutti_status make_device(int number, struct cuda_device **made)
{
    struct cuda_device *const device = calloc(1, sizeof *device);
    if (device == NULL) return error_system("what is known of a CUDA device");
    device->gpu.number = number;
    device->gpu.kind =
        (struct memory_kind){"cuda",           allocate_memory, release_memory, copy_memory,
                             gpu_shares_share, gpu_shares_map,  read_memory};
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->bounce_lock, NULL);
    pthread_mutex_init(&device->read_lock, NULL);
    enum tutti_status status = TUTTI_OK;
    int result = calls()->device_get(&device->device, number);
    if (result == CUDA_OK) result = calls()->primary_retain(&device->context, device->device);
    if (result != CUDA_OK) {
        status = fail(result, "a CUDA device");
        goto free_device;
    }
    status = load(device);
    if (status != TUTTI_OK) goto release_context;
    *made = device;
    return TUTTI_OK;
release_context:
    calls()->primary_release(device->device);
free_device:
    free(device);
    return status;
}

static const struct gpu_driver driver_of_cuda;

static enum tutti_status open_device(int number, struct gpu_device **device)
{
    TRY(check_number(number));
    struct cuda_device *made = atomic_load_explicit(&devices[number], memory_order_acquire);
    enum tutti_status status = TUTTI_OK;
    if (made == NULL) {
        pthread_mutex_lock(&opening);
        made = atomic_load_explicit(&devices[number], memory_order_relaxed);
        if (made == NULL) {
            status = make_device(number, &made);
            if (status == TUTTI_OK) {
                made->gpu.driver = &driver_of_cuda;
                gpu_fault_add(&made->gpu);
                atomic_store_explicit(&devices[number], made, memory_order_release);
            }
        }
        pthread_mutex_unlock(&opening);
    }
    if (status == TUTTI_OK) *device = &made->gpu;
    return status;
}

static int device_count(void)
{
    return is_child() ? 0 : get()->device_count;
}

/* Finding. */

static enum tutti_status find_in_child(const void *address)
{
    if (mapping_is_readable(address)) return TUTTI_OK;
    refuse_child();
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    return error_set(TUTTI_INVALID_BUFFER, "%p is no memory of the host, and %.400s", address, why);
}

/* Whether memory of a device that is open is of one of the contexts that we use. Memory of another process may be of the context that has opened
 * it, whichever device it is on. */
static bool may_be_ours(const struct cuda_context *context, int number)
{
    if (number < 0 || number >= DEVICES_MAX ||
        atomic_load_explicit(&devices[number], memory_order_acquire) == NULL)
        return true;
    for (int d = 0; d < DEVICES_MAX; d++) {
        const struct cuda_device *const device =
            atomic_load_explicit(&devices[d], memory_order_acquire);
        if (device != NULL && device->context == context) return true;
    }
    return false;
}

static enum tutti_status find(const void *address, struct gpu_memory *memory)
{
    unsigned type = 0, is_managed = 0;
    int number = -1;
    unsigned long long buffer = 0;
    struct cuda_context *context = NULL;
    int attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
                        CUDA_POINTER_DEVICE_ORDINAL, CUDA_POINTER_BUFFER_ID, CUDA_POINTER_CONTEXT};
    void *values[] = {&type, &is_managed, &number, &buffer, &context};
    *memory = (struct gpu_memory){.place = GPU_NOT_ITS};
    if (is_child()) return find_in_child(address);
    const int result =
        ask_about(address, sizeof attributes / sizeof *attributes, attributes, values);
    /* Drivers may say so that it is none of their memory, that the process is about to exit, or that a device has failed, which is no matter of
     * the host's memory. But memory that the CPU does not reach is not the host's. */
    if ((result == CUDA_INVALID_VALUE || result == CUDA_DEINITIALIZED || advice_on(result) != NULL) &&
        mapping_is_readable(address))
        return TUTTI_OK;
    if (result != CUDA_OK) return fail(result, "whose memory a buffer is");
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

struct gpu_device *cuda_of_kind(const struct memory_kind *kind)
{
    if (kind->allocate != allocate_memory) return NULL;
    return (struct gpu_device *)((uintptr_t)kind - offsetof(struct gpu_device, kind));
}

/* Memory of the host. */

/* Whether devices reach it under the address that it has. The context is the calling thread's. */
static enum tutti_status check_address(void *memory)
{
    uint64_t address = 0;
    const int result = calls()->host_device_pointer(&address, memory, 0);
    if (result != CUDA_OK) return fail(result, "the address of pinned memory");
    if (address != (uintptr_t)memory)
        return error_set(TUTTI_UNSUPPORTED,
                         "the CUDA device has another address for pinned memory");
    return TUTTI_OK;
}

static enum tutti_status allocate_pinned(struct gpu_device *device, size_t bytes, void **memory)
{
    void *made = NULL;
    int mode;
    TRY(enter(device_of(device), &mode));
    const int result =
        calls()->host_allocate(&made, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_DEVICE_MAP);
    enum tutti_status status =
        result == CUDA_OK ? check_address(made) : fail(result, "pinned memory");
    if (result == CUDA_OK && status != TUTTI_OK) calls()->host_release(made);
    leave(mode);
    if (status == TUTTI_OK) *memory = made;
    return status;
}

static void release_pinned(struct gpu_device *device, void *memory)
{
    int mode;
    if (enter(device_of(device), &mode) != TUTTI_OK) return;
    calls()->host_release(memory);
    leave(mode);
}

/* Streams. */

static enum tutti_status make_stream(struct gpu_device *device, void **stream)
{
    struct cuda_stream *made = NULL;
    int mode;
    TRY(enter(device_of(device), &mode));
    const int result = calls()->stream_create(&made, CUDA_STREAM_NON_BLOCKING);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : fail(result, "a stream of this library's");
    leave(mode);
    if (status == TUTTI_OK) *stream = made;
    return status;
}

static void free_stream(struct gpu_device *device, void *stream)
{
    int mode;
    if (enter(device_of(device), &mode) != TUTTI_OK) return;
    calls()->stream_destroy(stream);
    leave(mode);
}

/* The number of the device of a context. */
static int number_of(struct cuda_context *context, int *number)
{
    struct cuda_context *popped;
    int device = -1, other;
    int result = calls()->context_push(context);
    if (result != CUDA_OK) return result;
    result = calls()->context_device(&device);
    calls()->context_pop(&popped);
    if (result != CUDA_OK) return result;
    for (*number = 0; *number < get()->device_count; ++*number)
        if (calls()->device_get(&other, *number) == CUDA_OK && other == device) return CUDA_OK;
    return CUDA_INVALID_DEVICE;
}

static enum tutti_status stream_device(void *stream, int *number)
{
    struct cuda_context *context = NULL;
    int found = -1;
    if (is_child()) return refuse_child();
    int result = calls()->stream_context(stream, &context);
    if (result == CUDA_OK) result = number_of(context, &found);
    if (result != CUDA_OK) {
        fail(result, stream == NULL
                         ? "the default stream of the current CUDA device, if this thread has one "
                           "(cudaSetDevice, cuCtxSetCurrent)"
                         : "the device of a CUDA stream");
        return TUTTI_INVALID_OPTIONS;
    }
    *number = found;
    return TUTTI_OK;
}

static enum tutti_status stream_is_done(struct gpu_device *device, void *stream, bool *is_done)
{
    int mode;
    TRY(enter(device_of(device), &mode));
    const int result = calls()->stream_query(stream);
    *is_done = result == CUDA_OK;
    const enum tutti_status status = result == CUDA_OK || result == CUDA_NOT_READY
                                         ? TUTTI_OK
                                         : fail(result, "work on a CUDA stream");
    leave(mode);
    return status;
}

static enum tutti_status stream_check(struct gpu_device *device, void *stream)
{
    int mode, capture = CUDA_CAPTURE_NONE;
    struct cuda_context *context = NULL;
    TRY(enter(device_of(device), &mode));
    int result = calls()->stream_is_capturing(stream, &capture);
    if (result == CUDA_CAPTURE_IMPLICIT) { /* the default stream, and another one is captured */
        result = CUDA_OK;
        capture = CUDA_CAPTURE_ACTIVE;
    }
    if (result == CUDA_OK && capture == CUDA_CAPTURE_NONE)
        result = calls()->stream_context(stream, &context);
    enum tutti_status status = TUTTI_OK;
    if (result != CUDA_OK)
        status = fail(result, "a CUDA stream");
    else if (capture != CUDA_CAPTURE_NONE)
        status =
            error_set(TUTTI_UNSUPPORTED,
                      "work on the CUDA stream is being captured into a graph, and a call of this "
                      "library cannot be part of one: make it outside of the capture");
    else if (context != device_of(device)->context)
        status =
            error_set(TUTTI_INVALID_OPTIONS,
                      "the CUDA stream is of another device, or another context, than device %d",
                      device->number);
    leave(mode);
    return status;
}

static enum tutti_status start_worker(struct gpu_device *device, void *stream, unsigned blocks,
                                      struct worker_home *home)
{
    struct cuda_device *const on = device_of(device);
    uint64_t address = (uintptr_t)home;
    void *parameters[] = {&address};
    int mode;
    TRY(enter(on, &mode));
    const int result =
        calls()->launch(on->worker, blocks, 1, 1, GPU_THREADS, 1, 1, 0, stream, parameters, NULL);
    const enum tutti_status status =
        result == CUDA_OK ? TUTTI_OK : fail(result, "the start of a kernel on a CUDA stream");
    leave(mode);
    return status;
}

/* Memory of other processes. */

static enum tutti_status unsupported(int result, const char *what)
{
    fail(result, what);
    return TUTTI_UNSUPPORTED;
}

/* The driver's name of the physical memory at an address; 0: this memory was not mapped by hand. As
 * long as anything keeps the memory, no other memory has its name. */
static cuda_memory memory_at(uint64_t address)
{
    cuda_memory memory = 0;
    if (calls()->memory_retain(&memory, (void *)(uintptr_t)address) != CUDA_OK) return 0;
    calls()->memory_release(memory);
    return memory;
}

/* Whether a range is one mapping of that memory, from its beginning: importers map it so. */
static bool is_mapped_once(cuda_memory memory, uint64_t base, size_t bytes)
{
    return memory_at(base) == memory && memory_at(base + bytes - 1) == memory &&
           memory_at(base - 1) != memory;
}

/* Needs no context, but where a thread captures a graph, a driver may refuse it, and break the capture. */
static bool is_kept(const void *base, size_t bytes, const struct gpu_handle *handle)
{
    int mode = CUDA_CAPTURE_RELAXED;
    if (is_child()) return false;
    const bool is_relaxed = calls()->exchange_capture_mode(&mode) == CUDA_OK;
    const bool is_same = is_mapped_once(handle->kept, (uintptr_t)base, bytes);
    if (is_relaxed) calls()->exchange_capture_mode(&mode);
    return is_same;
}

static enum tutti_status export_mapped(cuda_memory memory, uint64_t base, size_t bytes,
                                       struct gpu_handle *handle)
{
    int descriptor = -1;
    if (!is_mapped_once(memory, base, bytes))
        return error_set(TUTTI_UNSUPPORTED, "memory of a CUDA device that is mapped several times");
    const int result = calls()->memory_export(&descriptor, memory, CUDA_MEMORY_AS_DESCRIPTOR, 0);
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
    if (calls()->memory_retain(&memory, (void *)(uintptr_t)base) == CUDA_OK) {
        const enum tutti_status status = export_mapped(memory, base, bytes, handle);
        if (status != TUTTI_OK) calls()->memory_release(memory);
        return status;
    }
    const int result = calls()->ipc_export(&made, base);
    if (result != CUDA_OK)
        return unsupported(result, "memory of a CUDA device that other processes cannot map");
    *handle = (struct gpu_handle){.descriptor = -1};
    static_assert(sizeof handle->bytes == sizeof made.bytes, "one is the other");
    memcpy(handle->bytes, made.bytes, sizeof handle->bytes);
    return TUTTI_OK;
}

static enum tutti_status export_memory(struct gpu_device *device, const void *address,
                                       struct gpu_handle *handle, size_t *offset, size_t *bytes)
{
    uint64_t base = 0;
    size_t whole = 0;
    int mode;
    TRY(enter(device_of(device), &mode));
    const int result = calls()->address_range(&base, &whole, (uintptr_t)address);
    const enum tutti_status status =
        result == CUDA_OK ? export_range(base, whole, handle)
                          : unsupported(result, "memory of a CUDA device that is no allocation");
    leave(mode);
    *offset = result == CUDA_OK ? (uintptr_t)address - base : 0;
    *bytes = whole;
    return status;
}

/* Believes the driver, not the peer, about the memory that is mapped. The context is the calling
 * thread's. */
static enum tutti_status check_import(uint64_t address, size_t bytes)
{
    uint64_t base = 0;
    size_t whole = 0;
    const int result = calls()->address_range(&base, &whole, address);
    if (result != CUDA_OK) return fail(result, "the size of memory of another process");
    if (address - base >= whole || bytes > whole - (size_t)(address - base))
        return error_set(TUTTI_SYSTEM, "memory of another process is smaller than that says");
    return TUTTI_OK;
}

static enum tutti_status import_handle(const struct gpu_handle *handle, size_t bytes,
                                       uint64_t *address)
{
    struct cuda_ipc_handle theirs;
    memcpy(theirs.bytes, handle->bytes, sizeof theirs.bytes);
    const int result = calls()->ipc_open(address, theirs, CUDA_IPC_ENABLE_PEER_ACCESS);
    if (result != CUDA_OK) return fail(result, "memory of another process on a CUDA device");
    return check_import(*address, bytes); /* to close it would wait for all that the device does */
}

/* The mapping keeps the memory, so its name may be given back. A driver maps no more of the memory than there is. */
static int map_memory(const struct cuda_device *device, cuda_memory memory, size_t bytes,
                      uint64_t *address)
{
    const struct cuda_access access = {.location = {CUDA_LOCATION_DEVICE, device->device},
                                       .flags = CUDA_READ_AND_WRITE};
    int result = calls()->address_reserve(address, bytes, 0, 0, 0);
    if (result != CUDA_OK) return result;
    result = calls()->map(*address, bytes, 0, memory, 0);
    if (result == CUDA_OK) {
        result = calls()->set_access(*address, bytes, &access, 1);
        if (result != CUDA_OK) calls()->unmap(*address, bytes);
    }
    if (result != CUDA_OK) calls()->address_free(*address, bytes);
    return result;
}

static enum tutti_status import_descriptor(const struct cuda_device *device, int descriptor,
                                           size_t bytes, uint64_t *address)
{
    cuda_memory memory = 0;
    int result =
        calls()->memory_import(&memory, (void *)(intptr_t)descriptor, CUDA_MEMORY_AS_DESCRIPTOR);
    if (result == CUDA_OK) {
        result = map_memory(device, memory, bytes, address);
        calls()->memory_release(memory);
    }
    return result == CUDA_OK ? TUTTI_OK
                             : fail(result, "memory that another process has mapped by hand");
}

static enum tutti_status import_memory(struct gpu_device *device, const struct gpu_handle *handle,
                                       size_t bytes, void **memory)
{
    struct cuda_device *const on = device_of(device);
    uint64_t address = 0;
    int mode;
    TRY(enter(on, &mode));
    const enum tutti_status status =
        handle->descriptor >= 0 ? import_descriptor(on, handle->descriptor, bytes, &address)
                                : import_handle(handle, bytes, &address);
    leave(mode);
    if (status == TUTTI_OK) *memory = (void *)(uintptr_t)address;
    return status;
}

static const struct gpu_driver driver_of_cuda = {
    .name = "cuda",
    .device_count = device_count,
    .find = find,
    .describe = describe_device,
    .open = open_device,
    .check = check_device,
    .check_all = check_all,
    .copy_until = copy_until,
    .allocate_pinned = allocate_pinned,
    .release_pinned = release_pinned,
    .allocate_memory = allocate_plainly,
    .release_memory = release_plainly,
    .make_stream = make_stream,
    .free_stream = free_stream,
    .stream_is_done = stream_is_done,
    .stream_device = stream_device,
    .stream_check = stream_check,
    .start_worker = start_worker,
    .export_memory = export_memory,
    .is_kept = is_kept,
    .import_memory = import_memory,
};

/* The driver itself. */

/* Whether there is a driver that can be used; *count: how many devices it has. */
static enum tutti_status start(const struct cuda_library *library, bool is_ours, int *count)
{
    int result = is_ours ? library->init(0) : CUDA_OK;
    *count = 0;
    if (result == CUDA_OK) result = library->device_count(count);
    if (*count > DEVICES_MAX) *count = DEVICES_MAX;
    if (result == CUDA_OK) return TUTTI_OK;
    *count = 0;
    /* The program's own: if it fails, or is not in use yet, that is the program's matter. */
    if (!is_ours || result == CUDA_NO_DEVICE) return TUTTI_OK;
    return fail_with(library, result, "the CUDA driver cannot be initialised");
}

/* A driver that the program has loaded and that will not do is as good as none. */
static enum tutti_status load_driver(const char *file, struct cuda *found)
{
    char before[ERROR_TEXT_MAX];
    bool is_there;
    error_copy(before, sizeof before);
    enum tutti_status status = cuda_library_load(file, &found->calls, &is_there);
    if (status == TUTTI_OK && is_there)
        status = start(&found->calls, file != NULL, &found->device_count);
    if (status == TUTTI_OK || file != NULL) return status;
    char why[ERROR_TEXT_MAX];
    error_copy(why, sizeof why);
    log_write(LOG_INFO, "GPUs are not used: %s", why);
    return error_unless_ok(TUTTI_OK, before);
}

enum tutti_status cuda_driver(const struct gpu_driver **driver)
{
    const char *const file = option_text(OPTION_CUDA_DRIVER);
    *driver = NULL;
    if (get() != NULL) {
        *driver = &driver_of_cuda;
        return TUTTI_OK;
    }
    struct cuda *const found = calloc(1, sizeof *found), *none = NULL;
    if (found == NULL) return error_system("the table of the CUDA driver");
    found->generation = process_generation();
    const enum tutti_status status = load_driver(file, found);
    /* Release: pairs with `get`. If several threads come at once, one table stays. */
    if (status != TUTTI_OK || found->device_count == 0 ||
        !atomic_compare_exchange_strong_explicit(&cuda, &none, found, memory_order_release,
                                                 memory_order_relaxed))
        free(found);
    if (status == TUTTI_OK && get() != NULL) {
        *driver = &driver_of_cuda;
        gpu_fault_add_driver(*driver);
    }
    return status;
}
