/* encoding_reduce_test.c - reductions of plain and encoded sources give what decoding, reducing the
 * plain elements, and encoding give one after the other. All levels.
 *
 * ctest: label=notsan */
#include "encoding/encoding.h"
#include "kernel/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    MOST = 3000,
    SOURCES_MAX = 10,
    OTHERS_MAX = 3,
    PLACES = 2 + OTHERS_MAX, /* destination, also and others */
    GUARD = 64,
    ROOM = MOST * 4 + 2 * GUARD + 64,
    GUARD_BYTE = 0xa5
};

struct place {
    unsigned char room[ROOM], *at;
    size_t bytes;
};
static struct place sources[SOURCES_MAX], places[PLACES];
static unsigned char plain[SOURCES_MAX][MOST * 4], sum[MOST * 4], wanted[MOST * 4];

static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16};

/* One call of a kernel. */
struct trial {
    enum tutti_dtype dtype;
    size_t count;
    unsigned source_count, other_count, divisor;
    double factor;
    bool has_also;
    int in_place; /* the source that the destination is; -1: none */
    struct kernel_format source_formats[SOURCES_MAX], place_formats[PLACES];
    const struct kernel_encoding *through;
};

static size_t bytes_of(const struct trial *trial, const struct kernel_format *format)
{
    return format->encoding != NULL ? kernel_encoded_bytes(format->encoding, trial->count)
                                    : trial->count * dtype_size(trial->dtype);
}

static void place_make(struct place *place, size_t bytes)
{
    memset(place->room, GUARD_BYTE, sizeof(place->room));
    place->at = place->room + GUARD + random_below(64);
    place->bytes = bytes;
}

static void place_check(const struct place *place)
{
    for (const unsigned char *at = place->room; at < place->at; at++)
        assert_int_equal(*at, GUARD_BYTE);
    for (const unsigned char *at = place->at + place->bytes; at < place->room + ROOM; at++)
        assert_int_equal(*at, GUARD_BYTE);
}

/* Plain, or one of the encodings that take the dtype. */
static struct kernel_format random_format(enum tutti_dtype dtype)
{
    const struct kernel_encoding *encoding = NULL;
    if (random_below(3) != 0) do
            encoding = encoding_of(1 + random_below(ENCODING_COUNT - 1), dtype);
        while (encoding == NULL);
    return (struct kernel_format){encoding, NULL};
}

static struct trial random_trial(void)
{
    struct trial trial = {.dtype = dtypes[random_below(3)],
                          .count = random_below(4) == 0 ? random_below(MOST) : random_below(300),
                          .source_count = 1 + random_below(SOURCES_MAX),
                          .other_count = random_below(OTHERS_MAX + 1),
                          .has_also = random_below(4) == 0,
                          .in_place = -1};
    if (random_below(3) == 0) trial.source_count = 1;
    if (random_below(3) == 0) trial.divisor = 1 + random_below(9);
    if (trial.divisor == 0 && random_below(3) == 0) trial.factor = 0.3;
    for (int i = 0; i < SOURCES_MAX; i++) trial.source_formats[i] = random_format(trial.dtype);
    for (int i = 0; i < PLACES; i++) trial.place_formats[i] = random_format(trial.dtype);
    if (random_below(3) == 0) trial.through = random_format(trial.dtype).encoding;
    if (random_below(3) == 0) {
        trial.in_place = (int)random_below(trial.source_count);
        trial.place_formats[0] = trial.source_formats[trial.in_place];
    }
    if (random_below(4) == 0) trial.place_formats[0] = trial.source_formats[0]; /* passed on */
    if (trial.in_place > 0) trial.place_formats[0] = trial.source_formats[trial.in_place];
    return trial;
}

static void fill_sources(const struct trial *trial)
{
    const bool is_wild = random_below(5) == 0;
    for (unsigned s = 0; s < trial->source_count; s++) {
        const struct kernel_encoding *const encoding = trial->source_formats[s].encoding;
        for (size_t i = 0; i < trial->count; i++) {
            uint64_t bits = trial_element(trial->dtype);
            const uint64_t exponents = trial->dtype == TUTTI_FLOAT32   ? 0x7f800000
                                       : trial->dtype == TUTTI_FLOAT16 ? 0x7c00
                                                                       : 0x7f80;
            if (!is_wild && (bits & exponents) == exponents) bits = 0; /* NaN would be everywhere */
            memcpy(plain[s] + i * dtype_size(trial->dtype), &bits, dtype_size(trial->dtype));
        }
        place_make(&sources[s], bytes_of(trial, &trial->source_formats[s]));
        if (encoding != NULL) {
            encoding_encode(KERNEL_SCALAR, encoding, plain[s], trial->count, sources[s].at);
            encoding_decode(KERNEL_SCALAR, encoding, sources[s].at, trial->count, plain[s]);
        } else {
            memcpy(sources[s].at, plain[s], sources[s].bytes);
        }
    }
}

/* The sum of the plain elements, by the kernels that know no formats. */
static void reduce_plainly(const struct trial *trial)
{
    const void *terms[SOURCES_MAX];
    for (unsigned s = 0; s < trial->source_count; s++) terms[s] = plain[s];
    const struct kernel_call call = {.destination = sum,
                                     .sources = terms,
                                     .source_count = trial->source_count,
                                     .divisor = trial->divisor,
                                     .factor = trial->factor,
                                     .count = trial->count,
                                     .dtype = trial->dtype};
    kernel_get(KERNEL_SCALAR, trial->dtype, OP_SUM).reduce(&call);
    if (trial->through == NULL) return;
    encoding_encode(KERNEL_SCALAR, trial->through, sum, trial->count, wanted);
    encoding_decode(KERNEL_SCALAR, trial->through, wanted, trial->count, sum);
}

static void check_place(const struct trial *trial, const struct place *place,
                        const struct kernel_format *format)
{
    if (format->encoding != NULL)
        encoding_encode(KERNEL_SCALAR, format->encoding, sum, trial->count, wanted);
    else
        memcpy(wanted, sum, place->bytes);
    place_check(place);
    assert_memory_equal(place->at, wanted, place->bytes);
}

/* In pieces of whole units, as messages arrive: `piece` elements at a time. */
static void run(const struct trial *trial, enum kernel_level level, size_t piece)
{
    const void *terms[SOURCES_MAX];
    void *others[OTHERS_MAX];
    struct kernel_formats formats = {.destination = trial->place_formats[0],
                                     .also = trial->place_formats[1],
                                     .sources = trial->source_formats,
                                     .others = trial->place_formats + 2,
                                     .through = trial->through};
    for (size_t done = 0; done < trial->count || done == 0; done += piece) {
        struct trial before = *trial;
        before.count = done;
        for (unsigned s = 0; s < trial->source_count; s++)
            terms[s] = sources[s].at + bytes_of(&before, &trial->source_formats[s]);
        for (unsigned o = 0; o < trial->other_count; o++)
            others[o] = places[2 + o].at + bytes_of(&before, &trial->place_formats[2 + o]);
        const struct kernel_call call = {
            .destination = trial->in_place >= 0
                               ? (unsigned char *)(uintptr_t)terms[trial->in_place]
                               : places[0].at + bytes_of(&before, &trial->place_formats[0]),
            .also =
                trial->has_also ? places[1].at + bytes_of(&before, &trial->place_formats[1]) : NULL,
            .others = others,
            .other_count = trial->other_count,
            .sources = terms,
            .source_count = trial->source_count,
            .divisor = trial->divisor,
            .factor = trial->factor,
            .count = trial->count - done < piece ? trial->count - done : piece,
            .dtype = trial->dtype,
            .formats = &formats};
        const struct kernel_set set = encoding_kernels(level, trial->dtype);
        (done % 2 == 0 ? set.reduce : set.reduce_stream)(&call);
    }
}

static void check_level(const struct trial *trial, enum kernel_level level, size_t piece)
{
    static struct place kept;
    for (int p = 0; p < PLACES; p++)
        place_make(&places[p], bytes_of(trial, &trial->place_formats[p]));
    if (trial->in_place >= 0) kept = sources[trial->in_place];
    run(trial, level, piece);
    check_place(trial, trial->in_place >= 0 ? &sources[trial->in_place] : &places[0],
                &trial->place_formats[0]);
    if (trial->has_also) check_place(trial, &places[1], &trial->place_formats[1]);
    for (unsigned o = 0; o < trial->other_count; o++)
        check_place(trial, &places[2 + o], &trial->place_formats[2 + o]);
    for (unsigned s = 0; s < trial->source_count; s++) place_check(&sources[s]);
    if (trial->in_place >= 0) memcpy(sources[trial->in_place].room, kept.room, sizeof(kept.room));
}

static void kernels_give_what_the_single_steps_give(void **state)
{
    (void)state;
    const int rounds = getenv("TUTTI_LONG") != NULL ? 20000 : 400;
    for (int round = 0; round < rounds; round++) {
        const struct trial trial = random_trial();
        fill_sources(&trial);
        reduce_plainly(&trial);
        for (enum kernel_level level = KERNEL_SCALAR; level < KERNEL_LEVEL_COUNT; level++)
            if (kernel_level_available(level)) {
                check_level(&trial, level, MOST);
                check_level(&trial, level, 128 * (1 + random_below(4)));
            }
    }
}

/* The owner of a result and the rank that gets it encoded have the same elements. */
static void an_owner_keeps_what_others_decode(void **state)
{
    (void)state;
    static float mine[MOST], kept[MOST], theirs[MOST];
    static unsigned char sent[MOST * 2];
    for (size_t i = 0; i < MOST; i++) mine[i] = (float)(int32_t)random_next() * 1e-9f;
    for (unsigned e = 1; e < ENCODING_COUNT; e++) {
        const struct kernel_encoding *const encoding =
            encoding_of((enum tutti_encoding)e, TUTTI_FLOAT32);
        const struct kernel_format plain_format = {NULL, NULL}, encoded_format = {encoding, NULL};
        const struct kernel_formats formats = {.destination = plain_format,
                                               .sources = &plain_format,
                                               .others = &encoded_format,
                                               .through = encoding};
        const void *const terms[] = {mine};
        void *const others[] = {sent};
        const struct kernel_call call = {.destination = kept,
                                         .others = others,
                                         .other_count = 1,
                                         .sources = terms,
                                         .source_count = 1,
                                         .count = MOST,
                                         .dtype = TUTTI_FLOAT32,
                                         .formats = &formats};
        encoding_kernels(kernel_level_chosen(), TUTTI_FLOAT32).reduce(&call);
        encoding_decode(KERNEL_SCALAR, encoding, sent, MOST, theirs);
        assert_memory_equal(kept, theirs, sizeof(kept));
        assert_memory_not_equal(kept, mine, sizeof(kept));
    }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_give_what_the_single_steps_give),
        cmocka_unit_test(an_owner_keeps_what_others_decode),
    };
    return cmocka_run_group_tests_name("encoding_reduce", tests, NULL, NULL);
}
