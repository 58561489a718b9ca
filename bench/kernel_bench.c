/* kernel_bench - how near the kernels are to memcpy.
 *
 *     kernel_bench [LEVEL|DTYPE|OP|paged|straight]...
 *
 * LEVEL is scalar, avx2, avx512 or neon; where none is named, all that this processor has. Naming
 * dtypes or operations leaves the others out: kernel_bench avx512 float16 sum max.
 *
 * GB/s counts every byte read and written once (memcpy of n bytes: 2n; a sum of two sources: 3n).
 * The ratio is to memcpy of buffers of the same size, measured in turns with the kernel, so that a
 * busy machine disturbs both alike. Each figure is the best of many turns. A non-temporal store
 * spares the read that an ordinary store to memory needs first, so ratios above 1 are no error.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/op.h"
#include "kernel/kernel.h"
#include "kernel/kernel_pages.h"

enum {
    SOURCES_MAX = 8,
    OTHERS_MAX = 7,
    BUFFERS = 2 + SOURCES_MAX + OTHERS_MAX,
    TURNS = 7,
    SHIFT = 320
};

struct place {
    const char *name;
    size_t bytes; /* of one buffer */
    unsigned repeats;
    bool alike; /* all buffers begin at the same place of a page, as large ones often do */
};
static const struct place places[] = {{"L1", 4 << 10, 4000, false},
                                      {"L2", 96 << 10, 200, false},
                                      {"DRAM", 48 << 20, 1, false},
                                      {"alike", 48 << 20, 1, true}};
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
    static void *others[OTHERS_MAX];
    const size_t element = job.bytes;
    printf("%-7s %-30s", level, name);
    for (int i = 0; i < PLACES; i++) {
        double speed, memcpy_speed;
        unsigned char *at[BUFFERS];
        for (int b = 0; b < BUFFERS; b++) at[b] = buffers[b] + (places[i].alike ? 0 : b * SHIFT);
        for (int s = 0; s < SOURCES_MAX; s++) sources[s] = at[2 + s];
        for (int o = 0; o < OTHERS_MAX; o++) others[o] = at[2 + SOURCES_MAX + o];
        job.call.others = others;
        job.call.destination = at[0];
        if (job.call.also != NULL) job.call.also = at[1];
        job.call.sources = sources;
        job.bytes = places[i].bytes;
        job.call.count = job.bytes / element;
        job.traffic = job.bytes *
                      (job.call.source_count + 1 + job.call.other_count + (job.call.also != NULL));
        measure(&job, places[i].repeats, &speed, &memcpy_speed);
        printf("  %-5s %6.1f GB/s (x%4.2f)", places[i].name, speed, speed / memcpy_speed);
    }
    printf("\n");
    fflush(stdout);
}

struct variant {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count;
    int stream, also;
    unsigned divisor, other_count;
};

static void print_variant(enum kernel_level level, struct variant variant)
{
    const struct kernel_set set = kernel_get(level, variant.dtype, variant.op);
    char name[64], others[16] = "";
    if (variant.other_count != 0)
        snprintf(others, sizeof(others), " to %u", 1 + variant.other_count);
    snprintf(name, sizeof(name), "%s %s of %u%s%s%s", tutti_dtype_name(variant.dtype),
             op_kind_name(variant.op), variant.source_count, others,
             variant.stream ? " stream" : "", variant.also ? " also" : "");
    print_job(kernel_level_name(level), name,
              (struct job){.reduce = variant.stream ? set.reduce_stream : set.reduce,
                           .call = {.also = variant.also ? buffers[1] : NULL,
                                    .other_count = variant.other_count,
                                    .source_count = variant.source_count,
                                    .divisor = variant.divisor},
                           .bytes = tutti_dtype_size(variant.dtype)});
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

/* What the arguments name; where they name none of a kind, all of it. */
struct choice {
    bool levels[KERNEL_LEVEL_COUNT], dtypes[DTYPE_COUNT], ops[OP_BUILTIN_COUNT];
};

static void choose_all_if_none(bool *chosen, int count)
{
    for (int i = 0; i < count; i++)
        if (chosen[i]) return;
    for (int i = 0; i < count; i++) chosen[i] = true;
}

/* Whether every argument names something. */
static bool choose(struct choice *choice, int count, char **names)
{
    for (int i = 0; i < count; i++) {
        unsigned level = 0;
        while (level < KERNEL_LEVEL_COUNT &&
               strcmp(names[i], kernel_level_name((enum kernel_level)level)) != 0)
            level++;
        const unsigned dtype = dtype_from_name(names[i]), op = op_from_name(names[i]);
        if (strcmp(names[i], "paged") == 0)
            kernel_set_paging(PAGING_ALWAYS);
        else if (strcmp(names[i], "straight") == 0)
            kernel_set_paging(PAGING_NEVER);
        else if (level < KERNEL_LEVEL_COUNT)
            choice->levels[level] = true;
        else if (dtype < DTYPE_COUNT)
            choice->dtypes[dtype] = true;
        else if (op < OP_BUILTIN_COUNT)
            choice->ops[op] = true;
        else
            return false;
    }
    choose_all_if_none(choice->levels, KERNEL_LEVEL_COUNT);
    choose_all_if_none(choice->dtypes, DTYPE_COUNT);
    choose_all_if_none(choice->ops, OP_BUILTIN_COUNT);
    return true;
}

/* Sums of float32 in all ways, also from as many places to as many, as in an allreduce; everything
 * else of two sources. */
static void print_level(enum kernel_level level, const struct choice *choice)
{
    if (choice->dtypes[TUTTI_FLOAT32] && choice->ops[OP_SUM]) {
        print_small(level);
        static const unsigned source_counts[] = {1, 2, 3, 4, 8};
        for (size_t i = 0; i < sizeof(source_counts) / sizeof(source_counts[0]); i++)
            for (int form = 0; form < 4; form++)
                print_variant(level, (struct variant){TUTTI_FLOAT32, OP_SUM, source_counts[i],
                                                      form >> 1, form & 1, 0, 0});
        static const unsigned place_counts[] = {2, 8};
        for (size_t i = 0; i < sizeof(place_counts) / sizeof(place_counts[0]); i++)
            for (int stream = 0; stream < 2; stream++)
                print_variant(level, (struct variant){TUTTI_FLOAT32, OP_SUM, place_counts[i],
                                                      stream, 0, 0, place_counts[i] - 1});
    }
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (unsigned op = 0; op < OP_BUILTIN_COUNT; op++)
            if (choice->dtypes[dtype] && choice->ops[op] &&
                op_supports(op_builtin((enum op)op), (enum tutti_dtype)dtype))
                print_variant(level, (struct variant){(enum tutti_dtype)dtype, (enum op)op, 2, 0, 0,
                                                      op == OP_AVG ? 3 : 0, 0});
}

int main(int argc, char **argv)
{
    struct choice choice = {0};
    if (!choose(&choice, argc - 1, argv + 1)) {
        fprintf(stderr,
                "usage: kernel_bench [LEVEL|DTYPE|OP|paged|straight]...   for example: avx512 "
                "float16 sum\n"
                "paged, straight: how stores past the caches go, instead of as the processor likes "
                "it\n");
        return 2;
    }
    size_t bytes_max = 0;
    for (int i = 0; i < PLACES; i++)
        if (places[i].bytes > bytes_max) bytes_max = places[i].bytes;
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = aligned_alloc(4096, bytes_max + 2 * 4096);
        if (buffers[i] == NULL) {
            fprintf(stderr, "kernel_bench: no memory for %d buffers of %zu bytes\n", BUFFERS,
                    bytes_max);
            return 1;
        }
        /* As any of the dtypes an ordinary number, and so are products: denormals would be slow. */
        memset(buffers[i], 0x3f, bytes_max + 2 * 4096);
    }
    const void *const copy_sources[1] = {buffers[2]};
    print_job("-", "copy_stream",
              (struct job){.copy = kernel_copy_stream,
                           .call = {.sources = copy_sources, .source_count = 1},
                           .bytes = 1});
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++)
        if (choice.levels[level] && kernel_level_available((enum kernel_level)level))
            print_level((enum kernel_level)level, &choice);
    return 0;
}
