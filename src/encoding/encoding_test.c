/* encoding_test.c - what holds for all encodings alike: encode(decode(x)) = x, every level gives the
 * scalar level's bits, decoded and residual make the element, and nothing else is touched. All dtypes.
 *
 * ctest: label=notsan */
#include "encoding/encoding.h"
#include "kernel/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 2600, GUARD = 64, ROOM = MOST * 4 + 2 * GUARD + 64, GUARD_BYTE = 0xa5 };

#define FOR_LEVELS(level)                                                              \
    for (enum kernel_level level = KERNEL_SCALAR; level < KERNEL_LEVEL_COUNT; level++) \
        if (kernel_level_available(level))

/* Each encoding with each dtype that it takes. */
#define FOR_FORMATS(encoding, dtype)                                                        \
    for (enum tutti_encoding encoding = 1; (unsigned)encoding < ENCODING_COUNT; encoding++) \
        for (enum tutti_dtype dtype = 0; (unsigned)dtype < DTYPE_COUNT; dtype++)            \
            if (encoding_of(encoding, dtype) != NULL)

/* Memory with guards around `bytes` bytes at an alignment. */
struct place {
    unsigned char room[ROOM], *at;
    size_t bytes;
};
static struct place elements, encoded, again, decoded, residual, expected, more;

static void *place_make(struct place *place, size_t bytes, unsigned offset)
{
    assert_true(GUARD + offset + bytes + GUARD <= ROOM);
    memset(place->room, GUARD_BYTE, sizeof(place->room));
    place->at = place->room + GUARD + offset;
    place->bytes = bytes;
    return place->at;
}

static void place_check(const struct place *place)
{
    const unsigned char *const end = place->at + place->bytes;
    for (const unsigned char *at = place->room; at < place->at; at++)
        assert_int_equal(*at, GUARD_BYTE);
    for (const unsigned char *at = end; at < place->room + ROOM; at++)
        assert_int_equal(*at, GUARD_BYTE);
}

/* Numbers of one order, so that units hold more than one number; now and then anything. */
static uint64_t element_near(enum tutti_dtype dtype, unsigned exponent, unsigned wild)
{
    if (random_below(wild) == 0) return trial_element(dtype);
    const unsigned digits = dtype == TUTTI_FLOAT32 ? 23 : dtype == TUTTI_BFLOAT16 ? 7 : 10;
    const unsigned exponents = dtype == TUTTI_FLOAT16 ? 31 : 255;
    const unsigned down = random_below(6), e = exponent % exponents;
    const uint64_t mantissa = random_next() & ((1ull << digits) - 1);
    return (random_next() & 1) << (dtype == TUTTI_FLOAT32 ? 31 : 15) |
           (uint64_t)(e < down ? 0 : e - down) << digits | mantissa;
}

static void fill_elements(enum tutti_dtype dtype, size_t count)
{
    const unsigned exponent = (unsigned)random_next(), wild = random_below(3) == 0 ? 5 : 500;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = element_near(dtype, exponent, wild);
        memcpy(elements.at + i * dtype_size(dtype), &bits, dtype_size(dtype)); /* little-endian */
    }
}

static void only_floats_that_are_wider_can_be_encoded(void **state)
{
    (void)state;
    unsigned float32 = 0, halves = 0;
    FOR_FORMATS(encoding, dtype)
    {
        const struct kernel_encoding *const format = encoding_of(encoding, dtype);
        assert_true(dtype == TUTTI_FLOAT32 || dtype == TUTTI_BFLOAT16 || dtype == TUTTI_FLOAT16);
        float32 += dtype == TUTTI_FLOAT32;
        halves += dtype != TUTTI_FLOAT32;
        assert_true(encoding_named(format) == encoding);
        assert_ptr_equal(format, encoding_of(encoding, dtype));
        assert_true(format->unit_bytes < format->unit_elements * dtype_size(dtype));
        assert_string_equal(format->name, tutti_encoding_name(encoding));
        assert_true(encoding_from_name(format->name) == encoding);
        FOR_FORMATS(other, other_dtype)
        if (encoding_of(other, other_dtype) != format)
            assert_true(encoding_of(other, other_dtype)->id != format->id);
    }
    assert_int_equal(float32, 9);
    assert_int_equal(halves, 10); /* fp8 and Microscaling, for two dtypes */
    assert_true(encoding_from_name("int3") == TUTTI_ENCODING_NONE);
    assert_true(encoding_from_name("none") == TUTTI_ENCODING_NONE);
}

/* The bytes, the decoded elements and the residual of one level, with all places somewhere. */
static void check_level(enum kernel_level level, const struct kernel_encoding *format,
                        enum tutti_dtype dtype, size_t count)
{
    const size_t bytes = count * dtype_size(dtype);
    place_make(&again, encoded.bytes, random_below(64));
    encoding_encode(level, format, elements.at, count, again.at);
    place_check(&again);
    assert_memory_equal(again.at, encoded.at, encoded.bytes);

    place_make(&more, bytes, random_below(64));
    encoding_decode(level, format, again.at, count, more.at);
    place_check(&more);
    assert_memory_equal(more.at, decoded.at, bytes);

    place_make(&again, encoded.bytes, random_below(64));
    encoding_encode(level, format, more.at, count, again.at);
    assert_memory_equal(again.at, encoded.at, encoded.bytes); /* the contract */

    place_make(&again, encoded.bytes, random_below(64));
    encoding_encode_residual(level, format, elements.at, count, again.at,
                             place_make(&more, bytes, random_below(64)));
    place_check(&again);
    place_check(&more);
    assert_memory_equal(again.at, encoded.at, encoded.bytes);
    assert_memory_equal(more.at, residual.at, bytes);

    memcpy(place_make(&more, bytes, random_below(64)), elements.at, bytes); /* in place */
    encoding_encode_residual(level, format, more.at, count, again.at, more.at);
    place_check(&more);
    assert_memory_equal(more.at, residual.at, bytes);
}

static float number_at(const struct place *place, enum tutti_dtype dtype, size_t i)
{
    float number;
    unsigned char wide[4];
    const struct kernel_encoding *const half = encoding_of(
        dtype == TUTTI_BFLOAT16 ? TUTTI_ENCODING_BFLOAT16 : TUTTI_ENCODING_FLOAT16, TUTTI_FLOAT32);
    if (dtype == TUTTI_FLOAT32)
        memcpy(wide, place->at + 4 * i, 4);
    else
        encoding_decode(KERNEL_SCALAR, half, place->at + 2 * i, 1, wide);
    memcpy(&number, wide, 4);
    return number;
}

static void check_residual(enum tutti_encoding encoding, enum tutti_dtype dtype, size_t count)
{
    const bool has_one_zero = encoding == TUTTI_ENCODING_INT8 || encoding == TUTTI_ENCODING_INT4 ||
                              encoding == TUTTI_ENCODING_MXINT8;
    for (size_t i = 0; i < count; i++) {
        const float x = number_at(&elements, dtype, i), d = number_at(&decoded, dtype, i),
                    r = number_at(&residual, dtype, i), sum = d + r;
        if (isfinite(d)) {
            assert_true(sum == x);
            if (x != 0 || !has_one_zero) assert_true(signbit(sum) == signbit(x));
        } else {
            assert_true(r == 0 && !signbit(r));
        }
    }
}

static void check_all(enum tutti_encoding encoding, enum tutti_dtype dtype, size_t count)
{
    const struct kernel_encoding *const format = encoding_of(encoding, dtype);
    const size_t bytes = count * dtype_size(dtype);
    place_make(&encoded, kernel_encoded_bytes(format, count), 0);
    place_make(&decoded, bytes, 0);
    place_make(&residual, bytes, 0);
    encoding_encode_residual(KERNEL_SCALAR, format, elements.at, count, encoded.at, residual.at);
    encoding_decode(KERNEL_SCALAR, format, encoded.at, count, decoded.at);
    check_residual(encoding, dtype, count);
    FOR_LEVELS(level) check_level(level, format, dtype, count);
}

static void every_level_gives_the_bits_of_the_scalar_level(void **state)
{
    (void)state;
    const int rounds = getenv("TUTTI_LONG") != NULL ? 400 : 12;
    for (int round = 0; round < rounds; round++) FOR_FORMATS(encoding, dtype)
        {
            const size_t count = round % 4 == 0 ? random_below(MOST) : random_below(300);
            place_make(&elements, count * dtype_size(dtype), random_below(64));
            fill_elements(dtype, count);
            check_all(encoding, dtype, count);
        }
}

/* One after the other, so that units hold numbers of one order; and each far from the one before. */
static void every_16_bit_element_keeps_its_bytes(void **state)
{
    (void)state;
    static const unsigned strides[] = {1, 25033};
    FOR_FORMATS(encoding, dtype)
    {
        if (dtype == TUTTI_FLOAT32) continue;
        for (int s = 0; s < 2; s++)
            for (unsigned first = 0; first < 1u << 16; first += 2048) {
                place_make(&elements, 2048 * 2, 0);
                for (unsigned i = 0; i < 2048; i++) {
                    const uint16_t bits = (uint16_t)((first + i) * strides[s]);
                    memcpy(elements.at + 2 * i, &bits, 2);
                }
                check_all(encoding, dtype, 2048);
            }
    }
}

/* Bytes that another program wrote decode alike everywhere, too. */
static void any_bytes_decode_alike_at_every_level(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) FOR_FORMATS(encoding, dtype)
        {
            const struct kernel_encoding *const format = encoding_of(encoding, dtype);
            const size_t count = random_below(300), bytes = count * dtype_size(dtype);
            place_make(&encoded, kernel_encoded_bytes(format, count), random_below(64));
            for (size_t i = 0; i < encoded.bytes; i++) encoded.at[i] = (unsigned char)random_next();
            if (round % 4 == 0) memset(encoded.at, 0xff, encoded.bytes < 2 ? encoded.bytes : 2);
            encoding_decode(KERNEL_SCALAR, format, encoded.at, count,
                            place_make(&expected, bytes, 0));
            FOR_LEVELS(level)
            {
                encoding_decode(level, format, encoded.at, count,
                                place_make(&more, bytes, random_below(64)));
                place_check(&more);
                assert_memory_equal(more.at, expected.at, bytes);
            }
        }
}

/* Of a unit whose largest number is normal in the encoding, and no larger than it may be. */
static void no_error_is_beyond_the_bound(void **state)
{
    static float values[128], back[128];
    static unsigned char bytes[256];
    (void)state;
    for (int round = 0; round < 2000; round++)
        for (enum tutti_encoding encoding = 1; (unsigned)encoding < ENCODING_COUNT; encoding++) {
            const struct kernel_encoding *const format = encoding_of(encoding, TUTTI_FLOAT32);
            const double most = fmin(encoding_largest(encoding), 0x1p40);
            double largest = 0;
            for (unsigned i = 0; i < format->unit_elements; i++) {
                const double share = (double)random_below(1000001) / 500000 - 1;
                values[i] =
                    (float)(most * (round % 2 ? share : copysign(1 - share * share / 99, share)));
                largest = fmax(largest, fabs((double)values[i]));
            }
            if (largest < most / 1000) continue;
            encoding_encode(KERNEL_SCALAR, format, values, format->unit_elements, bytes);
            encoding_decode(KERNEL_SCALAR, format, bytes, format->unit_elements, back);
            for (unsigned i = 0; i < format->unit_elements; i++)
                assert_true(fabs((double)back[i] - (double)values[i]) <=
                            encoding_error_max(encoding) * largest);
        }
}

int main(void)
{
    print_message("seed %#llx\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_floats_that_are_wider_can_be_encoded),
        cmocka_unit_test(every_level_gives_the_bits_of_the_scalar_level),
        cmocka_unit_test(every_16_bit_element_keeps_its_bytes),
        cmocka_unit_test(any_bytes_decode_alike_at_every_level),
        cmocka_unit_test(no_error_is_beyond_the_bound),
    };
    return cmocka_run_group_tests_name("encoding", tests, NULL, NULL);
}
