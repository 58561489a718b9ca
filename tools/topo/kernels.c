/* Buffers begin at the same place of a page, as large buffers mostly do, so the cost of that
 * (docs/develop/kernels.md) is measured, too. */
#include "kernels.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "kernel/kernel.h"
#include "os/clock.h"
#include "series.h"

enum {
    PLACES =
        5, /* where in a buffer near pieces lie: which lines they share a set of a cache with differs */
    NEAR_REPEATS = 4, /* in each place */
    FAR_REPEATS = 5,
    TINY_BYTES = 64,
    NEAR_BYTES = 32 << 10, /* three of them fit in a second-level cache, and not in a first one */
    BUFFERS = 3,
    PAGE_BYTES = 4096
};
static const uint64_t repeat_ns = 1000000;
static const size_t far_bytes_min = (size_t)8 << 20, far_bytes_max = (size_t)128 << 20;

/* A source or two, and a destination. */
struct work {
    enum tutti_dtype dtype;
    kernel_reduce *reduce; /* NULL: it copies */
    void (*copy)(void *destination, const void *source, size_t bytes);
    char *buffers[BUFFERS];
};

static void run(const struct work *work, size_t bytes)
{
    if (work->reduce == NULL) {
        work->copy(work->buffers[0], work->buffers[1], bytes);
        return;
    }
    const void *const sources[] = {work->buffers[1], work->buffers[2]};
    const struct kernel_call call = {.destination = work->buffers[0],
                                     .sources = sources,
                                     .source_count = 2,
                                     .count = bytes / tutti_dtype_size(work->dtype),
                                     .dtype = work->dtype};
    work->reduce(&call);
}

static uint64_t time_runs(const struct work *work, size_t bytes, uint64_t times)
{
    const uint64_t begin = clock_now_ns();
    for (uint64_t i = 0; i < times; i++) run(work, bytes);
    return clock_now_ns() - begin;
}

/* Adds picoseconds per run. Short runs are repeated until they take long enough for the clock. */
static void measure(const struct work *work, size_t bytes, int repeats, struct series *series,
                    struct load *load)
{
    uint64_t times = 1;
    const uint64_t begin_ns = clock_now_ns(), begin_cpu_ns = load_thread_ns();
    while (time_runs(work, bytes, times) < repeat_ns && times < 1 << 24) times *= 2;
    for (int i = 0; i < repeats; i++)
        series_add(series, (double)time_runs(work, bytes, times) * 1e3 / (double)times);
    load_computed(load, clock_now_ns() - begin_ns, load_thread_ns() - begin_cpu_ns);
}

static struct series per_byte(const struct series *times, double first_ps, double bytes)
{
    struct series costs = {.count = 0};
    for (int i = 0; i < times->count; i++)
        series_add(&costs, (times->values[i] - first_ps) * 1e3 / bytes);
    return costs;
}

/* The time of a tiny run, less the time for its bytes. */
static struct series without_bytes(const struct series *times, double byte_fs)
{
    struct series costs = {.count = 0};
    for (int i = 0; i < times->count; i++)
        series_add(&costs, times->values[i] - byte_fs * TINY_BYTES / 1e3);
    return costs;
}

struct parameters {
    enum calibration_parameter each, near_byte, far_byte;
};

static void measure_near(const struct work *work, size_t far_bytes, const struct parameters *to,
                         struct calibration *calibration, struct load *load)
{
    const size_t step = (far_bytes - NEAR_BYTES) / PLACES / PAGE_BYTES * PAGE_BYTES;
    struct series tiny = {.count = 0}, large = {.count = 0};
    struct work moved = *work;
    for (int place = 0; place < PLACES; place++) {
        for (int i = 0; i < BUFFERS; i++)
            moved.buffers[i] = work->buffers[i] + (size_t)place * step;
        measure(&moved, TINY_BYTES, NEAR_REPEATS, &tiny, load);
        measure(&moved, NEAR_BYTES, NEAR_REPEATS, &large, load);
    }
    const struct series bytes = per_byte(&large, series_least(&tiny), NEAR_BYTES - TINY_BYTES),
                        each = without_bytes(&tiny, series_least(&bytes));
    series_store(&bytes, to->near_byte, calibration);
    series_store(&each, to->each, calibration);
}

static void measure_far(const struct work *work, size_t far_bytes, const struct parameters *to,
                        struct calibration *calibration, struct load *load)
{
    struct series times = {.count = 0};
    measure(work, far_bytes, FAR_REPEATS, &times, load);
    const struct series bytes = per_byte(&times, 0, (double)far_bytes);
    series_store(&bytes, to->far_byte, calibration);
}

size_t measure_far_bytes(const struct hardware *hardware, size_t count)
{
    uint64_t bytes = far_bytes_min;
    for (int i = 0; i < HARDWARE_CACHE_LEVELS; i++)
        if (2 * hardware->cache_bytes[i] > bytes) bytes = 2 * hardware->cache_bytes[i];
    if (bytes > far_bytes_max) bytes = far_bytes_max;
    const long pages = sysconf(_SC_AVPHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t share =
        pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 4 / count : bytes;
    if (bytes > share) bytes = share > NEAR_BYTES ? share : NEAR_BYTES;
    return (size_t)(bytes / PAGE_BYTES * PAGE_BYTES);
}

static void measure_all(char *const buffers[BUFFERS], size_t far_bytes,
                        struct calibration *calibration, struct load *load)
{
    static const struct {
        enum tutti_dtype dtype;
        struct parameters to;
    } classes[CALIBRATION_CLASSES] = {
        [CALIBRATION_CLASS_PLAIN] = {TUTTI_FLOAT32,
                                     {CALIBRATION_reduce_plain_each_ps,
                                      CALIBRATION_reduce_plain_near_byte_fs,
                                      CALIBRATION_reduce_plain_far_byte_fs}},
        [CALIBRATION_CLASS_FLOAT16] = {TUTTI_BFLOAT16,
                                       {CALIBRATION_reduce_float16_each_ps,
                                        CALIBRATION_reduce_float16_near_byte_fs,
                                        CALIBRATION_reduce_float16_far_byte_fs}},
        [CALIBRATION_CLASS_FLOAT8] = {TUTTI_FLOAT8_E4M3,
                                      {CALIBRATION_reduce_float8_each_ps,
                                       CALIBRATION_reduce_float8_near_byte_fs,
                                       CALIBRATION_reduce_float8_far_byte_fs}}};
    static const struct parameters copies = {
        CALIBRATION_copy_each_ps, CALIBRATION_copy_near_byte_fs, CALIBRATION_copy_far_byte_fs};
    struct work work = {.copy = kernel_copy};
    memcpy(work.buffers, buffers, sizeof work.buffers);
    measure_near(&work, far_bytes, &copies, calibration, load);
    work.copy = kernel_copy_stream;
    measure_far(&work, far_bytes, &copies, calibration, load);
    for (int i = 0; i < CALIBRATION_CLASSES; i++) {
        const struct kernel_set kernels =
            kernel_get(kernel_level_chosen(), classes[i].dtype, OP_SUM);
        work.dtype = classes[i].dtype;
        work.reduce = kernels.reduce;
        measure_near(&work, far_bytes, &classes[i].to, calibration, load);
        work.reduce = kernels.reduce_stream;
        measure_far(&work, far_bytes, &classes[i].to, calibration, load);
    }
}

enum tutti_status measure_kernels(struct calibration *calibration, struct load *load)
{
    const size_t far_bytes = measure_far_bytes(&calibration->key.hardware, BUFFERS);
    char *const memory =
        mmap(NULL, BUFFERS * far_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(TUTTI_NO_MEMORY, "no memory for %d buffers of %zu bytes", BUFFERS,
                         far_bytes);
    memset(memory, 0x3c, BUFFERS * far_bytes); /* numbers of an ordinary size, as any float */
    char *const buffers[BUFFERS] = {memory, memory + far_bytes, memory + 2 * far_bytes};
    measure_all(buffers, far_bytes, calibration, load);
    munmap(memory, BUFFERS * far_bytes);
    return TUTTI_OK;
}
