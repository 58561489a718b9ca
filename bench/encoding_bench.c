/* encoding_bench - how near encoding and decoding are to memcpy, on one core.
 *
 *     encoding_bench [LEVEL|ENCODING]...
 *
 * LEVEL is scalar, avx2, avx512 or neon; where none is named, the best that this processor has.
 * Naming encodings leaves the others out: encoding_bench avx2 int8 mxfp8.
 *
 * GB/s counts the bytes of the plain elements, float32, once. The number behind it is the time of a
 * memcpy of these elements, as a share of the time of the job: above 1 the job is faster. Both take
 * turns, and time is this thread's on its core, so that a busy machine disturbs little, and both
 * alike; each figure is the median of the turns.
 *     encode    elements to bytes
 *     decode    bytes to elements
 *     residual  encode, and what is lost
 *     add       bytes and elements to elements: a rank adds what comes to what it has
 *     pass      bytes and elements to bytes: a rank adds, and sends on
 *     owner     bytes of three ranks, and elements, to elements and bytes, both rounded by the encoding
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/timing.h"
#include "encoding/encoding.h"

enum { TURNS = 15, CAME = 3 };

static const struct {
    const char *name;
    size_t elements;
    unsigned repeats;
} places[] = {{"L1", 2 << 10, 2000}, {"L2", 64 << 10, 60}, {"DRAM", 8 << 20, 1}};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

enum job { JOB_ENCODE, JOB_DECODE, JOB_RESIDUAL, JOB_ADD, JOB_PASS, JOB_OWNER, JOBS };
static const char *const job_names[JOBS] = {"encode", "decode", "residual", "add", "pass", "owner"};

static struct {
    float *elements, *copy;
    unsigned char *came[CAME], *sent;
} memory;

static double cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

static void run(enum job job, enum kernel_level level, const struct kernel_encoding *encoding,
                size_t count)
{
    const struct kernel_format plain = {NULL, NULL}, encoded = {encoding, NULL};
    const struct kernel_format sources[] = {plain, encoded, encoded, encoded}, others[] = {encoded};
    const void *const terms[] = {memory.elements, memory.came[0], memory.came[1], memory.came[2]};
    void *const places_of_others[] = {memory.sent};
    struct kernel_formats formats = {.destination = plain, .sources = sources, .others = others};
    struct kernel_call call = {.destination = memory.copy,
                               .sources = terms,
                               .source_count = 2,
                               .count = count,
                               .dtype = TUTTI_FLOAT32,
                               .formats = &formats};
    switch (job) {
    case JOB_ENCODE: encoding_encode(level, encoding, memory.elements, count, memory.sent); return;
    case JOB_DECODE: encoding_decode(level, encoding, memory.came[0], count, memory.copy); return;
    case JOB_RESIDUAL:
        encoding_encode_residual(level, encoding, memory.elements, count, memory.sent, memory.copy);
        return;
    case JOB_PASS:
        call.destination = memory.sent;
        formats.destination = encoded;
        break;
    case JOB_OWNER:
        call.source_count = 1 + CAME;
        call.divisor = 1 + CAME;
        call.others = places_of_others;
        call.other_count = 1;
        formats.through = encoding;
        break;
    default: break;
    }
    encoding_kernels(level, TUTTI_FLOAT32).reduce(&call);
}

static double measure(enum job job, enum kernel_level level, const struct kernel_encoding *encoding,
                      size_t count, unsigned repeats, double *memcpy_us)
{
    double times[TURNS], copies[TURNS];
    for (int turn = 0; turn < TURNS; turn++) {
        double start = cpu_us();
        for (unsigned i = 0; i < repeats; i++) {
            kernel_copy(memory.copy, memory.elements, count * sizeof(float));
            __asm__ volatile("" ::: "memory");
        }
        copies[turn] = (cpu_us() - start) / repeats;
        start = cpu_us();
        for (unsigned i = 0; i < repeats; i++) run(job, level, encoding, count);
        times[turn] = (cpu_us() - start) / repeats;
    }
    *memcpy_us = median(copies, TURNS);
    return median(times, TURNS);
}

static void print_encoding(enum kernel_level level, enum tutti_encoding which)
{
    const struct kernel_encoding *const encoding = encoding_of(which, TUTTI_FLOAT32);
    for (int c = 0; c < CAME; c++)
        encoding_encode(level, encoding, memory.elements, places[PLACES - 1].elements,
                        memory.came[c]);
    for (unsigned job = 0; job < JOBS; job++) {
        printf("%-7s %-9s %-9s", kernel_level_name(level), encoding->name, job_names[job]);
        for (int p = 0; p < PLACES; p++) {
            double memcpy_us;
            const size_t count = places[p].elements;
            const double us =
                measure((enum job)job, level, encoding, count, places[p].repeats, &memcpy_us);
            printf("  %-4s %6.2f GB/s (%5.2f)", places[p].name,
                   (double)(count * sizeof(float)) / us * 1e-3, memcpy_us / us);
        }
        printf("\n");
        fflush(stdout);
    }
}

static bool make_memory(void)
{
    const size_t count = places[PLACES - 1].elements;
    const size_t encoded_max = count * 2;
    memory.elements = aligned_alloc(4096, count * sizeof(float));
    memory.copy = aligned_alloc(4096, count * sizeof(float));
    memory.sent = aligned_alloc(4096, encoded_max);
    bool ok = memory.elements != NULL && memory.copy != NULL && memory.sent != NULL;
    for (int c = 0; c < CAME; c++) {
        memory.came[c] = aligned_alloc(4096, encoded_max);
        ok = ok && memory.came[c] != NULL;
    }
    if (!ok) return false;
    /* Numbers between -1 and 1 in no order, as gradients are. */
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        memory.elements[i] = (float)(int32_t)state * 0x1p-31f;
    }
    memset(memory.sent, 0, encoded_max);
    return true;
}

int main(int argc, char **argv)
{
    bool levels[KERNEL_LEVEL_COUNT] = {false}, encodings[ENCODING_COUNT] = {false};
    bool any_level = false, any_encoding = false;
    for (int i = 1; i < argc; i++) {
        unsigned level = 0;
        while (level < KERNEL_LEVEL_COUNT &&
               strcmp(argv[i], kernel_level_name((enum kernel_level)level)) != 0)
            level++;
        const enum tutti_encoding encoding = encoding_from_name(argv[i]);
        if (level < KERNEL_LEVEL_COUNT && kernel_level_available((enum kernel_level)level))
            any_level = levels[level] = true;
        else if (encoding != TUTTI_ENCODING_NONE)
            any_encoding = encodings[encoding] = true;
        else {
            fprintf(stderr,
                    "usage: encoding_bench [LEVEL|ENCODING]...   for example: avx2 int8 "
                    "mxfp8\nno encoding, and no level of this processor: %s\n",
                    argv[i]);
            return 2;
        }
    }
    if (!any_level) levels[kernel_level_chosen()] = true;
    if (!make_memory()) {
        fprintf(stderr, "encoding_bench: no memory\n");
        return 1;
    }
    for (unsigned level = 0; level < KERNEL_LEVEL_COUNT; level++)
        for (unsigned e = 1; e < ENCODING_COUNT; e++)
            if (levels[level] && (encodings[e] || !any_encoding))
                print_encoding((enum kernel_level)level, (enum tutti_encoding)e);
    return 0;
}
