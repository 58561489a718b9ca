/* encoded_test.c - the codecs of devices, run by twins on the host, have the bits of the CPU's scalar
 * codecs; their sums have those of the CPU's kernels with formats, but for NaN that were computed;
 * and they touch exactly what they should.
 *
 * ctest: label=notsan */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "encoding/encoding.h"
#include "gpu/device_code.h"
#include "gpu/reduce.h"
#include "kernel/kernel_element.h"
#include "kernel/trial.h"
#include "tests/gpu/twins.h"

enum {
    MOST = 3000, /* elements */
    SOURCES_MAX = 6,
    DESTINATIONS_MAX = 3,
    PLACES = SOURCES_MAX + DESTINATIONS_MAX, /* destinations first */
    GUARD = 64,
    ROOM = MOST * 4 + 2 * GUARD + 64,
    GUARD_BYTE = 0xa5
};

static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16};

/* ------------------------------------------------------------------------------------ the device
 *
 * Its memory is elsewhere for the host, and nothing lies beside the places that it was given. */

static const uint64_t elsewhere = 0x0f00000000000000;

struct place {
    unsigned char room[ROOM], expected[ROOM];
    size_t offset, bytes;
    bool is_encoded;
};
static struct place places[PLACES];

struct order {
    struct gpu_reduce reduce;
    uint64_t pointers[PLACES];
};
static struct order order;

static void *reach(uint64_t address, size_t bytes)
{
    unsigned char *const memory = (unsigned char *)(uintptr_t)(address - elsewhere);
    const unsigned char *const of_order = (const unsigned char *)&order;
    if (memory >= of_order && memory + bytes <= of_order + sizeof(order)) return memory;
    for (unsigned i = 0; i < PLACES; i++) {
        const unsigned char *const begin = places[i].room + places[i].offset;
        if (memory >= begin && memory + bytes <= begin + places[i].bytes) return memory;
    }
    fail_msg("%zu bytes at %#llx: no memory of the device's", bytes, (unsigned long long)address);
    return NULL;
}

/* ----------------------------------------------------------------------------------------- a case */

struct trial {
    const struct kernel_encoding *encoding;
    enum tutti_dtype dtype;
    size_t count;
    unsigned source_count, destination_count, divisor, threads;
    double factor;
    bool through, in_place; /* destination 0 is source 0 */
};

static size_t bytes_of(const struct trial *trial, bool is_encoded)
{
    return is_encoded ? kernel_encoded_bytes(trial->encoding, trial->count)
                      : trial->count * dtype_size(trial->dtype);
}

static void place_make(const struct trial *trial, struct place *place, bool is_encoded)
{
    memset(place->room, GUARD_BYTE, ROOM);
    place->is_encoded = is_encoded;
    place->bytes = bytes_of(trial, is_encoded);
    place->offset = GUARD + (random_below(2) == 0 ? 0 : random_below(64));
}

/* The places of a trial, in the pointers' order. */
static struct place *destination_of(const struct trial *trial, unsigned d)
{
    return d == 0 && trial->in_place ? &places[DESTINATIONS_MAX] : &places[d];
}

/* Computes the sources with the CPU's kernels, to each place's `expected`. */
static void reduce_on_host(const struct trial *trial)
{
    struct kernel_format formats[PLACES];
    const void *sources[SOURCES_MAX];
    void *others[DESTINATIONS_MAX];
    for (unsigned i = 0; i < PLACES; i++)
        formats[i] = (struct kernel_format){places[i].is_encoded ? trial->encoding : NULL, NULL};
    for (unsigned s = 0; s < trial->source_count; s++)
        sources[s] = places[DESTINATIONS_MAX + s].room + places[DESTINATIONS_MAX + s].offset;
    if (trial->in_place) formats[0] = formats[DESTINATIONS_MAX];
    for (unsigned d = 0; d < trial->destination_count; d++) {
        struct place *const place = &places[d];
        memcpy(place->expected, destination_of(trial, d)->room, ROOM);
        if (d > 0) others[d - 1] = place->expected + place->offset;
    }
    const struct kernel_formats all = {.destination = formats[0],
                                       .sources = formats + DESTINATIONS_MAX,
                                       .others = formats + 1,
                                       .through = trial->through ? trial->encoding : NULL};
    const struct kernel_call call = {.destination =
                                         places[0].expected + destination_of(trial, 0)->offset,
                                     .others = others,
                                     .other_count = trial->destination_count - 1,
                                     .sources = sources,
                                     .source_count = trial->source_count,
                                     .divisor = trial->divisor,
                                     .factor = trial->factor,
                                     .count = trial->count,
                                     .dtype = trial->dtype,
                                     .formats = &all};
    encoding_kernels(KERNEL_SCALAR, trial->dtype).reduce(&call);
}

static void reduce_on_device(const struct trial *trial)
{
    order = (struct order){.reduce = {.count = trial->count,
                                      .factor = trial->factor,
                                      .divisor = trial->divisor,
                                      .dtype = (uint8_t)trial->dtype,
                                      .op = OP_SUM,
                                      .encoding = (uint8_t)encoding_named(trial->encoding),
                                      .source_count = trial->source_count,
                                      .destination_count = trial->destination_count}};
    if (trial->through) order.reduce.encoding |= GPU_THROUGH;
    for (unsigned i = 0; i < trial->destination_count + trial->source_count; i++) {
        const struct place *const place =
            i < trial->destination_count ? destination_of(trial, i)
                                         : &places[DESTINATIONS_MAX + i - trial->destination_count];
        order.pointers[i] = ((uintptr_t)(place->room + place->offset) + elsewhere) |
                            (place->is_encoded ? GPU_ENCODED : 0);
    }
    gpu_twin *const run = gpu_twin_find("tutti_reduce_once");
    assert_non_null(run);
    for (unsigned t = 0; t < trial->threads; t++)
        run((uintptr_t)&order + elsewhere, trial->threads - 1 - t, trial->threads);
}

static void compare(const struct trial *trial)
{
    for (unsigned d = 0; d < trial->destination_count; d++) {
        const struct place *const place = destination_of(trial, d);
        for (size_t i = 0; i < ROOM; i++)
            if (place->room[i] != places[d].expected[i])
                fail_msg("%s, dtype %d, %zu elements, %u to %u, divisor %u, factor %g%s%s: byte "
                         "%zu of %s place %u is %#x instead of %#x",
                         trial->encoding->name, (int)trial->dtype, trial->count, trial->source_count,
                         trial->destination_count, trial->divisor, trial->factor,
                         trial->through ? ", through" : "", trial->in_place ? ", in place" : "",
                         i - place->offset, place->is_encoded ? "encoded" : "plain", d,
                         place->room[i], places[d].expected[i]);
    }
}

static void run(const struct trial *trial)
{
    reduce_on_host(trial);
    reduce_on_device(trial);
    compare(trial);
}

/* Elements of a dtype: any bits, or, where sums could be NaN, numbers of a middling size. */
static void fill(const struct trial *trial, unsigned char *to, bool is_wild)
{
    const size_t size = dtype_size(trial->dtype);
    const float scale = ldexpf(1, (int)random_below(20) - 10);
    for (size_t i = 0; i < trial->count; i++) {
        uint64_t bits = trial_element(trial->dtype);
        if (!is_wild) {
            const float a = (float)(int32_t)random_next() * 0x1p-31f * scale;
            if (trial->dtype == TUTTI_FLOAT32)
                bits = float32_bits(a);
            else if (trial->dtype == TUTTI_BFLOAT16)
                store_one_bfloat16((unsigned char *)&bits, a);
            else
                store_one_float16((unsigned char *)&bits, a);
        }
        memcpy(to + i * size, &bits, size);
    }
}

static void fill_source(const struct trial *trial, struct place *place, bool is_wild)
{
    static unsigned char elements[MOST * 4];
    unsigned char *const at = place->room + place->offset;
    fill(trial, place->is_encoded ? elements : at, is_wild);
    if (place->is_encoded)
        encoding_encode(KERNEL_SCALAR, trial->encoding, elements, trial->count, at);
}

#define FOR_ENCODINGS(encoding, dtype)                                 \
    for (unsigned e_ = 1; e_ < ENCODING_COUNT; e_++)                   \
        for (unsigned t_ = 0; t_ < 3; t_++)                            \
            for (const struct kernel_encoding *encoding =              \
                     encoding_of((enum tutti_encoding)e_, dtypes[t_]); \
                 encoding != NULL && (dtype = dtypes[t_], true); encoding = NULL)

/* ------------------------------------------------------------------------------------------ tests */

/* Of one source, to plain and encoded places: all NaN and infinities, too. A NaN times a scale that
 * is none is the one exception, and no unit that an encoder made has it. */
static void every_codec_has_the_bits_of_the_scalar_one(void **state)
{
    enum tutti_dtype dtype = TUTTI_FLOAT32;
    (void)state;
    FOR_ENCODINGS(encoding, dtype)
    for (unsigned round = 0; round < 60; round++) {
        struct trial trial = {.encoding = encoding,
                              .dtype = dtype,
                              .count = round < 20 ? round + 1 : 1 + random_below(MOST),
                              .source_count = 1,
                              .destination_count = 2,
                              .threads = 1 + random_below(5),
                              .through = round % 2 == 1};
        place_make(&trial, &places[0], true);
        place_make(&trial, &places[1], false);
        place_make(&trial, &places[DESTINATIONS_MAX], round % 4 >= 2);
        fill_source(&trial, &places[DESTINATIONS_MAX], round % 3 != 0);
        run(&trial);
    }
}

/* All codes of 16 bits, in units that have all scales. */
static void every_code_is_decoded(void **state)
{
    enum tutti_dtype dtype = TUTTI_FLOAT32;
    (void)state;
    FOR_ENCODINGS(encoding, dtype)
    for (uint32_t code = 0; code < 65536; code += MOST) {
        struct trial trial = {.encoding = encoding,
                              .dtype = dtype,
                              .count = MOST,
                              .source_count = 1,
                              .destination_count = 1,
                              .threads = 3};
        place_make(&trial, &places[0], false);
        place_make(&trial, &places[DESTINATIONS_MAX], true);
        struct place *const from = &places[DESTINATIONS_MAX];
        unsigned char *const at = from->room + from->offset;
        if (encoding->unit_elements > 1) {
            fill_source(&trial, from, false);
            for (size_t u = 0; u < from->bytes; u += encoding->unit_bytes) {
                const bool is_mx = encoding->unit_elements == 32;
                const uint32_t scale = (uint32_t)(code / MOST + u / encoding->unit_bytes) * 1299709u;
                for (size_t b = is_mx ? 1 : 4; b < encoding->unit_bytes; b++)
                    at[u + b] = (unsigned char)random_next();
                if (is_mx) at[u] = (unsigned char)(scale % 255);
            }
        } else {
            for (uint32_t i = 0; i < MOST; i++) {
                const uint32_t bits = code + i;
                memcpy(at + i * encoding->unit_bytes, &bits, encoding->unit_bytes);
            }
        }
        run(&trial);
    }
}

static void sums_have_the_bits_of_the_host(void **state)
{
    static const unsigned threads[] = {1, 2, 7};
    enum tutti_dtype dtype = TUTTI_FLOAT32;
    (void)state;
    FOR_ENCODINGS(encoding, dtype)
    for (unsigned round = 0; round < 120; round++) {
        struct trial trial = {.encoding = encoding,
                              .dtype = dtype,
                              .count =
                                  round % 3 == 0 ? 1 + random_below(MOST) : 1 + random_below(300),
                              .source_count = 1 + random_below(SOURCES_MAX),
                              .destination_count = 1 + random_below(DESTINATIONS_MAX),
                              .threads = threads[random_below(3)],
                              .through = random_below(2) == 0,
                              .in_place = random_below(3) == 0};
        if (random_below(3) == 0) trial.divisor = 1 + random_below(9);
        if (trial.divisor == 0 && random_below(3) == 0) trial.factor = 0.3;
        for (unsigned i = 0; i < PLACES; i++) place_make(&trial, &places[i], random_below(2) == 0);
        if (trial.in_place) places[0].is_encoded = places[DESTINATIONS_MAX].is_encoded;
        for (unsigned s = 0; s < trial.source_count; s++)
            fill_source(&trial, &places[DESTINATIONS_MAX + s], false);
        run(&trial);
    }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    gpu_twin_reach = reach;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_has_the_bits_of_the_scalar_one),
        cmocka_unit_test(every_code_is_decoded),
        cmocka_unit_test(sums_have_the_bits_of_the_host),
    };
    return cmocka_run_group_tests_name("gpu/encoded", tests, NULL, NULL);
}
