/* cuda_copy.c - copies from and to memory of a device.
 *
 * A driver copies memory of the host that is not pinned piece by piece. It waits for each piece,
 * and lets no other thread in meanwhile: also none whose rank has to come first. So the CPU copies
 * such memory, through pinned memory, and the driver gets nothing for which it would wait.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "gpu/cuda_state.h"
#include "gpu/executor.h"
#include "os/clock.h"

static const char copying[] = "a copy of a CUDA device";

static enum tutti_status queue_copy_in(struct cuda_stream *stream, void *destination,
                                       const void *source, size_t bytes)
{
    const int result = cuda_calls()->copy((uintptr_t)destination, (uintptr_t)source, bytes, stream);
    return result == CUDA_OK ? TUTTI_OK : cuda_fail(result, copying);
}

static enum tutti_status queue_copy(const struct cuda_device *device, void *destination,
                                    const void *source, size_t bytes)
{
    return queue_copy_in(device->stream, destination, source, bytes);
}

static size_t part_of(size_t bytes)
{
    return bytes < CUDA_BOUNCE_BYTES ? bytes : CUDA_BOUNCE_BYTES;
}

/* With bounce_lock. While the device copies into one half, the CPU copies out of the other one. */
static enum tutti_status copy_to_host(const struct cuda_device *device, char *destination,
                                      const char *source, size_t bytes, const struct gpu_wait *wait)
{
    size_t part = part_of(bytes);
    TRY(queue_copy(device, device->bounce[0], source, part));
    for (size_t done = 0, half = 0; done < bytes; half = 1 - half) {
        const size_t next = part_of(bytes - done - part);
        TRY(cuda_finish(device, copying, wait));
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
        if (done > 0) TRY(cuda_finish(device, copying, wait));
        TRY(queue_copy(device, destination + done, device->bounce[half], part));
    }
    return cuda_finish(device, copying, wait);
}

static enum tutti_status lock_bounce(struct cuda_device *device, const struct gpu_wait *wait)
{
    while (pthread_mutex_trylock(&device->bounce_lock) != 0) {
        if (cuda_wait_is_over(wait))
            return error_set(TUTTI_TIMEOUT, "%s: others of CUDA device %d took too long", copying,
                             device->gpu.number);
        sched_yield();
    }
    return TUTTI_OK;
}

/* With bounce_lock. A copy that was given up comes to an end before all that its stream gets
 * later. */
static enum tutti_status find_bounce(struct cuda_device *device, const struct gpu_wait *wait)
{
    if (device->is_bounce_lost) TRY(cuda_finish(device, copying, wait));
    device->is_bounce_lost = false;
    return TUTTI_OK;
}

/* With bounce_lock. */
static enum tutti_status copy_with_bounce(struct cuda_device *device, void *destination,
                                          const void *source, size_t bytes, bool is_to_host,
                                          const struct gpu_wait *wait)
{
    TRY(find_bounce(device, wait));
    return is_to_host ? copy_to_host(device, destination, source, bytes, wait)
                      : copy_from_host(device, destination, source, bytes, wait);
}

static enum tutti_status copy_bounced(struct cuda_device *device, void *destination,
                                      const void *source, size_t bytes, bool is_to_host,
                                      const struct gpu_wait *wait)
{
    TRY(lock_bounce(device, wait));
    const enum tutti_status status =
        copy_with_bounce(device, destination, source, bytes, is_to_host, wait);
    if (status == TUTTI_TIMEOUT) device->is_bounce_lost = true;
    pthread_mutex_unlock(&device->bounce_lock);
    return status;
}

/* In the context. */
static enum tutti_status copy_anywhere(struct cuda_device *device, void *destination,
                                       const void *source, size_t bytes, const struct gpu_wait *wait)
{
    struct gpu_memory to, from;
    TRY(cuda_find(destination, &to));
    TRY(cuda_find(source, &from));
    if (to.place == GPU_NOT_ITS || from.place == GPU_NOT_ITS)
        return copy_bounced(device, destination, source, bytes, to.place == GPU_NOT_ITS, wait);
    TRY(queue_copy(device, destination, source, bytes));
    return cuda_finish(device, copying, wait);
}

/* Reading for links. In a hardware queue the driver's copy may stand behind work of the application
 * that waits for an operation, and the operation for the copy. Then that operation's worker is on
 * the device, or comes there: it copies. The driver's copy is done at some later time, and nobody
 * looks at it any more. */

static enum tutti_status be_patient(const struct gpu_wait *wait, const struct cuda_device *device)
{
    sched_yield();
    if (!cuda_wait_is_over(wait)) return TUTTI_OK;
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
        const int result = cuda_calls()->stream_query(device->read_stream);
        if (result == CUDA_NOT_READY) {
            if (gpu_run_read(&device->gpu, destination + done, source + done, bytes - done))
                return TUTTI_OK;
            TRY(be_patient(wait, device));
            continue;
        }
        if (result != CUDA_OK) return cuda_fail(result, copying);
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

/* In the context. */
static enum tutti_status read_anywhere(struct cuda_device *device, void *destination,
                                       const void *source, size_t bytes, const struct gpu_wait *wait)
{
    struct gpu_memory to;
    TRY(cuda_find(destination, &to));
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
    TRY(cuda_enter(device, &mode));
    const enum tutti_status status = copies(device, destination, source, bytes, wait);
    cuda_leave(mode);
    /* A link cannot report that its copy failed: its call just does not go on. */
    if (status != TUTTI_OK &&
        !atomic_exchange_explicit(&device->has_told, true, memory_order_relaxed))
        log_write(LOG_WARN, "GPU %d: %zu bytes were not copied: %s", device->gpu.number, bytes,
                  tutti_error_message());
    return status;
}

enum tutti_status cuda_copy_until(struct gpu_device *device, void *destination, const void *source,
                                  size_t bytes, const struct gpu_wait *wait)
{
    return copy_by(copy_anywhere, cuda_device_of(device), destination, source, bytes, wait);
}

bool cuda_copy_memory(const struct memory_kind *kind, void *destination, const void *source,
                      size_t bytes)
{
    return copy_by(copy_anywhere, cuda_device_of_kind(kind), destination, source, bytes,
                   &(struct gpu_wait){clock_now_ns() + CUDA_FINISH_NS, NULL, NULL}) == TUTTI_OK;
}

bool cuda_read_memory(const struct memory_kind *kind, void *destination, const void *source,
                      size_t bytes)
{
    return copy_by(read_anywhere, cuda_device_of_kind(kind), destination, source, bytes,
                   &(struct gpu_wait){clock_now_ns() + CUDA_FINISH_NS, NULL, NULL}) == TUTTI_OK;
}
