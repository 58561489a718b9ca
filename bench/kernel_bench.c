/* kernel_bench - how near the kernels are to memcpy.
 *
 *     kernel_bench [scalar|avx2|avx512]...        levels; without arguments all that this processor has
 *
 * GB/s counts every byte read and written once (memcpy of n bytes: 2n; a sum of two sources: 3n). The ratio is
 * to memcpy of buffers of the same size, measured in turns with the kernel, so that a busy machine disturbs both
 * alike. Each figure is the best of many turns. A non-temporal store spares the read that an ordinary store to
 * memory needs first, so ratios above 1 are no error.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel/kernel.h"

enum { SOURCES_MAX = 8, BUFFERS = SOURCES_MAX + 2, TURNS = 7 };

struct place {
    const char *name;
    size_t bytes; /* of one buffer */
    unsigned repeats;
};
static const struct place places[] = {
    {"L1", 4 << 10, 4000}, {"L2", 96 << 10, 200}, {"DRAM", 48 << 20, 1}};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

struct job {
    kernel_reduce *reduce; /* or NULL: `copy` */
    void (*copy)(void *destination, const void *source, size_t bytes);
    struct kernel_call call;
    size_t bytes;
    size_t traffic; /* bytes read and written by one run */
};

static unsigned char *buffers[BUFFERS];

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double job_seconds(const struct job *job, unsigned repeats)
{
    const double start = seconds_now();
    for (unsigned i = 0; i < repeats; i++) {
        if (job->reduce != NULL)
            job->reduce(&job->call);
        else
            job->copy(job->call.destination, job->call.sources[0], job->bytes);
        __asm__ volatile("" ::: "memory");
    }
    return (seconds_now() - start) / repeats;
}

/* GB/s of the job, and of memcpy in the same turns. */
static void measure(const struct job *job, unsigned repeats, double *speed, double *memcpy_speed)
{
    struct job plain = *job;
    plain.reduce = NULL;
    plain.copy = kernel_copy;
    double best = 1e9, best_plain = 1e9;
    for (int turn = 0; turn < TURNS; turn++) {
        const double plain_s = job_seconds(&plain, repeats), job_s = job_seconds(job, repeats);
        if (plain_s < best_plain) best_plain = plain_s;
        if (job_s < best) best = job_s;
    }
    *speed = (double)job->traffic / best * 1e-9;
    *memcpy_speed = 2.0 * (double)job->bytes / best_plain * 1e-9;
}

static void print_job(const char *level, const char *name, struct job job)
{
    static const void *sources[SOURCES_MAX];
    for (int i = 0; i < SOURCES_MAX; i++) sources[i] = buffers[2 + i];
    job.call.destination = buffers[0];
    if (job.call.also != NULL) job.call.also = buffers[1];
    job.call.sources = sources;
    const size_t element = job.bytes;
    printf("%-7s %-30s", level, name);
    for (int i = 0; i < PLACES; i++) {
        double speed, memcpy_speed;
        job.bytes = places[i].bytes;
        job.call.count = job.bytes / element;
        job.traffic = job.bytes * (job.call.source_count + 1 + (job.call.also != NULL));
        measure(&job, places[i].repeats, &speed, &memcpy_speed);
        printf("  %-4s %6.1f GB/s (x%4.2f)", places[i].name, speed, speed / memcpy_speed);
    }
    printf("\n");
    fflush(stdout);
}

struct variant {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count;
    int stream, also;
    unsigned divisor;
};

static void print_variant(enum kernel_level level, const char *dtype, const char *op,
                          struct variant variant)
{
    static const size_t element_bytes[] = {
        [TUTTI_FLOAT32] = 4, [TUTTI_FLOAT64] = 8, [TUTTI_BFLOAT16] = 2, [TUTTI_INT32] = 4, [TUTTI_INT64] = 8};
    const struct kernel_set set = kernel_get(level, variant.dtype, variant.op);
    char name[64];
    snprintf(name, sizeof(name), "%s %s of %u%s%s", dtype, op, variant.source_count,
             variant.stream ? " stream" : "", variant.also ? " also" : "");
    print_job(kernel_level_name(level), name,
              (struct job){.reduce = variant.stream ? set.reduce_stream : set.reduce,
                           .call = {.also = variant.also ? buffers[1] : NULL,
                                    .source_count = variant.source_count,
                                    .divisor = variant.divisor},
                           .bytes = element_bytes[variant.dtype]});
}

/* What a call costs before it touches anything worth mentioning. */
static void print_small(enum kernel_level level)
{
    static const size_t counts[] = {1, 2, 4, 8, 15, 16, 31, 64, 127, 256};
    const void *sources[2] = {buffers[2], buffers[3]};
    printf("%-7s float32 sum of 2, ns a call:", kernel_level_name(level));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const struct job job = {.reduce = kernel_get(level, TUTTI_FLOAT32, OP_SUM).reduce,
                                .call = {.destination = buffers[0],
                                         .sources = sources,
                                         .source_count = 2,
                                         .count = counts[i]}};
        double best = 1e9;
        for (int turn = 0; turn < TURNS; turn++) {
            const double s = job_seconds(&job, 100000);
            if (s < best) best = s;
        }
        printf("  %zu: %.1f", counts[i], best * 1e9);
    }
    printf("\n");
}

static void print_level(enum kernel_level level)
{
    print_small(level);
    static const unsigned source_counts[] = {1, 2, 3, 4, 8};
    for (size_t i = 0; i < sizeof(source_counts) / sizeof(source_counts[0]); i++)
        for (int form = 0; form < 4; form++)
            print_variant(
                level, "float32", "sum",
                (struct variant){TUTTI_FLOAT32, OP_SUM, source_counts[i], form >> 1, form & 1, 0});
    static const char *const dtypes[] = {"float32", "float64", "bfloat16", "int32", "int64"};
    static const char *const ops[] = {"sum", "prod", "min", "max", "avg"};
    for (unsigned dtype = 0; dtype < 5; dtype++)
        for (unsigned op = 0; op < 5; op++)
            print_variant(
                level, dtypes[dtype], ops[op],
                (struct variant){(enum tutti_dtype)dtype, (enum op)op, 2, 0, 0, op == 4 ? 3 : 0});
}

int main(int argc, char **argv)
{
    size_t bytes_max = 0;
    for (int i = 0; i < PLACES; i++)
        if (places[i].bytes > bytes_max) bytes_max = places[i].bytes;
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = aligned_alloc(4096, bytes_max + 4096);
        if (buffers[i] == NULL) {
            fprintf(stderr, "kernel_bench: no memory for %d buffers of %zu bytes\n", BUFFERS,
                    bytes_max);
            return 1;
        }
        /* As any of the dtypes an ordinary number, and so are products: denormals would be slow. */
        memset(buffers[i], 0x3f, bytes_max + 4096);
        /* Not all at the same place of a page, which would measure the collisions and not the kernel. */
        buffers[i] += (size_t)i * 320;
    }
    const void *const copy_sources[1] = {buffers[2]};
    print_job("-", "copy_stream",
              (struct job){.copy = kernel_copy_stream,
                           .call = {.sources = copy_sources, .source_count = 1},
                           .bytes = 1});
    int done = 0;
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++) {
        int wanted = argc == 1;
        for (int i = 1; i < argc; i++)
            if (strcmp(argv[i], kernel_level_name((enum kernel_level)level)) == 0) wanted = 1;
        if (!wanted || !kernel_level_available((enum kernel_level)level)) continue;
        print_level((enum kernel_level)level);
        done++;
    }
    if (done == 0)
        fprintf(stderr, "kernel_bench: no such level here; use scalar, avx2 or avx512\n");
    return done == 0;
}
