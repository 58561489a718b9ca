/* A process on each processor copies past the caches, block after block, and counts its bytes; this
 * process looks at all counters every few milliseconds. Each copied byte is read once and written
 * once. */
#include "bandwidth.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/status.h"
#include "crew.h"
#include "kernel/kernel.h"
#include "kernels.h"
#include "os/clock.h"
#include "series.h"

enum { WINDOWS = 9, BLOCK_BYTES = 1 << 20 };
static const long window_ns = 30000000;
static const uint64_t limit_ns = 5000000000u; /* after which nobody waits any more */

struct copier {
    _Alignas(64) _Atomic uint64_t copied_bytes;
    uint64_t wall_ns, cpu_ns;
};

struct bandwidth {
    _Atomic int ready_count, is_over;
    _Atomic int has_begun;
    int count;
    size_t bytes; /* of a buffer of a process */
    struct series series;
    struct copier copiers[];
};

static void copy_blocks(struct bandwidth *bandwidth, struct copier *copier, char *buffers)
{
    const uint64_t begin_ns = clock_now_ns(), begin_cpu_ns = load_thread_ns();
    size_t at = 0;
    while (!atomic_load(&bandwidth->is_over) && clock_now_ns() - begin_ns < limit_ns) {
        const size_t left = bandwidth->bytes - at, bytes = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        kernel_copy_stream(buffers + at, buffers + bandwidth->bytes + at, bytes);
        atomic_fetch_add_explicit(&copier->copied_bytes, bytes, memory_order_relaxed);
        at = left > bytes ? at + bytes : 0;
    }
    copier->wall_ns = clock_now_ns() - begin_ns;
    copier->cpu_ns = load_thread_ns() - begin_cpu_ns;
}

/* A process that cannot take part counts as ready, so that no process waits for it. */
static bool copy(int index, void *context)
{
    struct bandwidth *const bandwidth = context;
    const uint64_t until_ns = clock_now_ns() + limit_ns;
    char *const buffers = mmap(NULL, 2 * bandwidth->bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers != MAP_FAILED) memset(buffers, 1, 2 * bandwidth->bytes);
    atomic_fetch_add(&bandwidth->ready_count, 1);
    if (buffers == MAP_FAILED) return false;
    while (!atomic_load(&bandwidth->has_begun) && clock_now_ns() < until_ns) sched_yield();
    copy_blocks(bandwidth, &bandwidth->copiers[index], buffers);
    return true;
}

static uint64_t sum_bytes(struct bandwidth *bandwidth)
{
    uint64_t bytes = 0;
    for (int i = 0; i < bandwidth->count; i++)
        bytes += atomic_load_explicit(&bandwidth->copiers[i].copied_bytes, memory_order_relaxed);
    return bytes;
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = window_ns}, NULL);
}

static void look(void *context)
{
    struct bandwidth *const bandwidth = context;
    const uint64_t until_ns = clock_now_ns() + limit_ns;
    while (atomic_load(&bandwidth->ready_count) < bandwidth->count && clock_now_ns() < until_ns)
        rest();
    const bool are_ready = atomic_load(&bandwidth->ready_count) == bandwidth->count;
    atomic_store(&bandwidth->has_begun, 1);
    rest(); /* until all of them copy */
    for (int i = 0; i < WINDOWS && are_ready; i++) {
        const uint64_t begin_ns = clock_now_ns(), begin_bytes = sum_bytes(bandwidth);
        rest();
        const uint64_t bytes = 2 * (sum_bytes(bandwidth) - begin_bytes);
        if (bytes > 0)
            series_add(&bandwidth->series,
                       (double)(clock_now_ns() - begin_ns) * 1e6 / (double)bytes);
    }
    atomic_store(&bandwidth->is_over, 1);
}

enum tutti_status measure_bandwidth(struct calibration *calibration, struct load *load)
{
    int cpus[CREW_CPUS_MAX];
    const int count = crew_cpus(cpus), around = calibration->key.hardware.cpus_a_cache;
    if (count < 1) return error_set(TUTTI_UNSUPPORTED, "no processor is known");
    const size_t size = sizeof(struct bandwidth) + (size_t)count * sizeof(struct copier);
    struct bandwidth *const bandwidth = crew_memory(size);
    if (bandwidth == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    bandwidth->count = count;
    /* All that share a cache together go past it. */
    const size_t far_bytes = measure_far_bytes(&calibration->key.hardware, 2 * (size_t)count);
    bandwidth->bytes = around > 1 ? far_bytes / (size_t)around : far_bytes;
    if (bandwidth->bytes < 2 * BLOCK_BYTES) bandwidth->bytes = 2 * BLOCK_BYTES;
    const enum tutti_status status = crew_run(cpus, count, copy, look, bandwidth);
    for (int i = 0; status == TUTTI_OK && i < count; i++)
        load_computed(load, bandwidth->copiers[i].wall_ns, bandwidth->copiers[i].cpu_ns);
    if (status == TUTTI_OK && bandwidth->series.count > 0) /* else it stays assumed */
        series_store(&bandwidth->series, CALIBRATION_memory_byte_fs, calibration);
    crew_free(bandwidth, size);
    return status;
}
