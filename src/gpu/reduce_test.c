/* reduce_test.c - what devices reduce, run by twins on the host, has the bits of the CPU's scalar
 * kernels, but for NaN's sign and payload; and touches exactly what it should.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "gpu/device_code.h"
#include "gpu/reduce.h"
#include "kernel/kernel.h"
#include "kernel/trial.h"
#include "tests/gpu/twins.h"

enum {
    SOURCES_MAX = 9,
    DESTINATIONS_MAX = 4,
    PLACES_MAX = SOURCES_MAX + DESTINATIONS_MAX,
    BYTES_MAX = 8 * 65536,
    GUARD = 64,
    ROOM = BYTES_MAX + 2 * GUARD + 64,
    GUARD_BYTE = 0xa5
};

static const char *const dtype_names[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = #name,
    DTYPE_LIST(X)
#undef X
};

/* ----------------------------------------------------------------------------------------- the device
 *
 * Its memory is elsewhere for the host, and nothing lies beside the places that the kernel was
 * given. */

static const uint64_t elsewhere = 0x0f00000000000000;

struct place {
    const unsigned char *begin;
    size_t bytes;
};
static struct place places[PLACES_MAX + 1];
static unsigned place_count;

static void *reach(uint64_t address, size_t bytes)
{
    unsigned char *const memory = (unsigned char *)(uintptr_t)(address - elsewhere);
    for (unsigned i = 0; i < place_count; i++)
        if (memory >= places[i].begin && memory + bytes <= places[i].begin + places[i].bytes)
            return memory;
    fail_msg("%zu bytes at %#llx: no memory of the device's", bytes, (unsigned long long)address);
    return NULL;
}

static uint64_t place_of_device(const void *memory, size_t bytes)
{
    places[place_count++] = (struct place){memory, bytes};
    return (uintptr_t)memory + elsewhere;
}

/* --------------------------------------------------------------------------------------- a case */

struct experiment {
    enum tutti_dtype dtype;
    enum op op;
    unsigned source_count, destination_count, divisor;
    double factor;
    size_t count;
    unsigned threads;
    unsigned in_place[DESTINATIONS_MAX]; /* this source is that destination; source_count: none */
    unsigned offsets[PLACES_MAX];        /* from a multiple of 64 bytes; sources first */
};

static _Alignas(64) unsigned char rooms[PLACES_MAX][ROOM], expected[BYTES_MAX];

static unsigned char *source_of(const struct experiment *x, unsigned s)
{
    return rooms[s] + GUARD + x->offsets[s];
}

static unsigned char *destination_of(const struct experiment *x, unsigned d)
{
    if (x->in_place[d] < x->source_count) return source_of(x, x->in_place[d]);
    return rooms[SOURCES_MAX + d] + GUARD + x->offsets[SOURCES_MAX + d];
}

static void compare(const struct experiment *x, unsigned d)
{
    const size_t size = dtype_size(x->dtype), bytes = x->count * size;
    const unsigned char *const got = destination_of(x, d);
    size_t guard = 0;
    for (int i = 1; i <= GUARD && x->in_place[d] == x->source_count; i++)
        guard += (got[-i] != GUARD_BYTE) + (got[bytes + (size_t)i - 1] != GUARD_BYTE);
    assert_int_equal(guard, 0);
    if (memcmp(got, expected, bytes) == 0) return;
    for (size_t i = 0; i < x->count; i++) {
        uint64_t mine = 0, right = 0;
        memcpy(&mine, got + i * size, size);
        memcpy(&right, expected + i * size, size);
        if (mine == right || (trial_is_nan(x->dtype, mine) && trial_is_nan(x->dtype, right)))
            continue;
        fail_msg("%s %s of %u to %u, divisor %u, factor %a, %zu elements, %u threads: element %zu "
                 "of place %u is %#llx instead of %#llx",
                 dtype_names[x->dtype], op_kind_name(x->op), x->source_count, x->destination_count,
                 x->divisor, x->factor, x->count, x->threads, i, d, (unsigned long long)mine,
                 (unsigned long long)right);
    }
}

/* Sources are filled. */
static void experiment_run(const struct experiment *x)
{
    const size_t bytes = x->count * dtype_size(x->dtype);
    const void *sources[SOURCES_MAX];
    for (unsigned s = 0; s < x->source_count; s++) sources[s] = source_of(x, s);
    kernel_get(KERNEL_SCALAR, x->dtype, x->op)
        .reduce(&(struct kernel_call){.destination = expected,
                                      .sources = sources,
                                      .source_count = x->source_count,
                                      .divisor = x->divisor,
                                      .factor = x->factor,
                                      .count = x->count,
                                      .dtype = x->dtype});

    struct {
        struct gpu_reduce reduce;
        uint64_t pointers[PLACES_MAX];
    } order = {.reduce = {.count = x->count,
                          .factor = x->factor,
                          .divisor = x->divisor,
                          .dtype = (uint8_t)x->dtype,
                          .op = (uint8_t)x->op,
                          .source_count = x->source_count,
                          .destination_count = x->destination_count}};
    place_count = 0;
    for (unsigned d = 0; d < x->destination_count; d++) {
        unsigned char *const to = destination_of(x, d);
        if (x->in_place[d] == x->source_count) memset(to - GUARD, GUARD_BYTE, bytes + 2 * GUARD);
        order.pointers[d] = place_of_device(to, bytes);
    }
    for (unsigned s = 0; s < x->source_count; s++)
        order.pointers[x->destination_count + s] = place_of_device(sources[s], bytes);
    const uint64_t at = place_of_device(&order, sizeof(order));
    gpu_twin *const run = gpu_twin_find("tutti_reduce_once");
    assert_non_null(run);
    /* In an order of its own: no thread counts on another. */
    for (unsigned t = 0; t < x->threads; t++) run(at, x->threads - 1 - t, x->threads);
    for (unsigned d = 0; d < x->destination_count; d++) compare(x, d);
}

static struct experiment experiment_plain(enum tutti_dtype dtype, enum op op, unsigned source_count,
                                          size_t count)
{
    struct experiment x = {.dtype = dtype,
                           .op = op,
                           .source_count = source_count,
                           .destination_count = 1,
                           .count = count,
                           .threads = 1};
    for (unsigned d = 0; d < DESTINATIONS_MAX; d++) x.in_place[d] = source_count;
    return x;
}

static bool is_supported(enum op op, enum tutti_dtype dtype)
{
    if (op == OP_SCALED_SUM) return dtype_kind(dtype) == DTYPE_FLOAT;
    return op_supports(op_builtin(op), dtype);
}

static void experiment_finish(struct experiment *x, unsigned variant)
{
    static const unsigned divisors[] = {3, 2, 7, 1, 2147483648u, 65537, 4294967295u};
    static const double factors[] = {1.0 / 3, -0.5, 3, 1e-3, 0x1p-20, -77.7, 1e300};
    if (x->op == OP_AVG) x->divisor = divisors[variant % 7];
    if (x->op == OP_SCALED_SUM) x->factor = factors[variant % 7];
}

static void element_set(unsigned char *to, enum tutti_dtype dtype, uint64_t bits)
{
    memcpy(to, &bits, dtype_size(dtype));
}

static void sources_fill(const struct experiment *x)
{
    const size_t size = dtype_size(x->dtype);
    for (unsigned s = 0; s < x->source_count; s++)
        for (size_t i = 0; i < x->count; i++)
            element_set(source_of(x, s) + i * size, x->dtype, trial_element(x->dtype));
}

/* ---------------------------------------------------------------------------------------- tests */

static void every_pair_of_8_bits_is_right(void **state)
{
    (void)state;
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype_size((enum tutti_dtype)dtype) != 1) continue;
        for (unsigned op = 0; op <= OP_SCALED_SUM; op++) {
            if (!is_supported((enum op)op, (enum tutti_dtype)dtype)) continue;
            struct experiment x =
                experiment_plain((enum tutti_dtype)dtype, (enum op)op, 2, 256 * 256);
            const unsigned variants = op == OP_AVG || op == OP_SCALED_SUM ? 7 : 1;
            for (unsigned variant = 0; variant < variants; variant++) {
                experiment_finish(&x, variant);
                for (unsigned i = 0; i < 256 * 256; i++) {
                    source_of(&x, 0)[i] = (unsigned char)i;
                    source_of(&x, 1)[i] = (unsigned char)(i >> 8);
                }
                experiment_run(&x);
            }
        }
    }
}

static void every_value_of_16_bits_is_right(void **state)
{
    (void)state;
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (dtype_size((enum tutti_dtype)dtype) != 2) continue;
        for (unsigned op = 0; op <= OP_SCALED_SUM; op++) {
            if (!is_supported((enum op)op, (enum tutti_dtype)dtype)) continue;
            for (unsigned variant = 0; variant < 7; variant++) {
                struct experiment x = experiment_plain((enum tutti_dtype)dtype, (enum op)op,
                                                       variant == 0 ? 1 : 2, 65536);
                experiment_finish(&x, variant);
                for (unsigned i = 0; i < 65536; i++) {
                    element_set(source_of(&x, 0) + 2 * i, x.dtype, i);
                    element_set(source_of(&x, 1) + 2 * i, x.dtype, trial_element(x.dtype));
                }
                experiment_run(&x);
            }
        }
    }
}

/* Small floats are rounded from float32: all of these that are near a tie, by a factor that keeps
 * them as they are. */
static void every_shape_is_right(void **state)
{
    (void)state;
    static const unsigned threads[] = {1, 7, 64};
    for (unsigned round = 0; round < 6000; round++) {
        const enum tutti_dtype dtype = (enum tutti_dtype)(round % DTYPE_COUNT);
        const enum op op = (enum op)random_below(OP_SCALED_SUM + 1);
        if (!is_supported(op, dtype)) continue;
        const size_t count = round % 8 == 0 ? random_below(5000) : random_below(301);
        const unsigned n = 1 + random_below(round % 3 == 0 ? SOURCES_MAX : 3);
        struct experiment x = experiment_plain(dtype, op, n, count);
        x.destination_count = 1 + random_below(DESTINATIONS_MAX);
        x.threads = threads[random_below(3)];
        experiment_finish(&x, random_below(7));
        /* Often all alike, now and then not even aligned to their elements. */
        const unsigned size = (unsigned)dtype_size(dtype), alike = random_below(64 / size) * size;
        const unsigned sort = random_below(8);
        for (unsigned i = 0; i < PLACES_MAX; i++)
            x.offsets[i] = sort < 4    ? alike
                           : sort < 6  ? random_below(64 / size) * size
                           : sort == 6 ? (random_below(8) == 0 ? random_below(64) : alike)
                                       : random_below(64);
        for (unsigned d = 0; d < x.destination_count; d++) {
            const unsigned s = random_below(3 * n);
            bool is_taken = s >= n;
            for (unsigned other = 0; other < d; other++) is_taken |= x.in_place[other] == s;
            if (!is_taken) x.in_place[d] = s;
        }
        sources_fill(&x);
        experiment_run(&x);
    }
}

static void every_operation_is_right(void **state)
{
    (void)state;
    for (unsigned dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (unsigned op = 0; op <= OP_SCALED_SUM; op++) {
            if (!is_supported((enum op)op, (enum tutti_dtype)dtype)) continue;
            for (unsigned variant = 0; variant < 7; variant++) {
                struct experiment x =
                    experiment_plain((enum tutti_dtype)dtype, (enum op)op, 1 + variant % 5, 6000);
                experiment_finish(&x, variant);
                x.threads = 3;
                sources_fill(&x);
                experiment_run(&x);
            }
        }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    gpu_twin_reach = reach;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_8_bits_is_right),
        cmocka_unit_test(every_value_of_16_bits_is_right),
        cmocka_unit_test(every_operation_is_right),
        cmocka_unit_test(every_shape_is_right),
    };
    return cmocka_run_group_tests_name("gpu/reduce", tests, NULL, NULL);
}
