/* encode_test.c - the functions of tutti/encode.h: sizes, round trips, and refusals that say why.
 *
 * ctest: label=notsan */
#include "tutti/encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static size_t size_of(enum tutti_encoding encoding, enum tutti_dtype dtype, size_t count)
{
    size_t bytes = 12345;
    assert_int_equal(tutti_encoded_size(encoding, dtype, count, &bytes), TUTTI_OK);
    return bytes;
}

static void assert_message_has(const char *part)
{
    if (strstr(tutti_error_message(), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, tutti_error_message());
}

static void encodings_are_found_by_name(void **state)
{
    (void)state;
    for (int e = TUTTI_ENCODING_FLOAT16; e <= TUTTI_ENCODING_MXFP4; e++) {
        enum tutti_encoding found;
        const char *const name = tutti_encoding_name((enum tutti_encoding)e);
        assert_int_equal(tutti_encoding_find(name, &found), TUTTI_OK);
        assert_int_equal(found, e);
    }
    assert_string_equal(tutti_encoding_name(TUTTI_ENCODING_NONE), "none");
    assert_string_equal(tutti_encoding_name((enum tutti_encoding)77), "unknown");
    static const char *const bad[] = {"none", "", "INT8", "fp8", NULL};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum tutti_encoding found = TUTTI_ENCODING_INT8;
        assert_int_equal(tutti_encoding_find(bad[i], &found), TUTTI_INVALID_OPTIONS);
        assert_int_equal(found, TUTTI_ENCODING_NONE);
        assert_message_has("float16, bfloat16, fp8_e4m3");
    }
    assert_int_equal(tutti_encoding_find("int8", NULL), TUTTI_INVALID_BUFFER);
}

static void sizes_are_those_of_whole_units(void **state)
{
    (void)state;
    assert_int_equal(size_of(TUTTI_ENCODING_BFLOAT16, TUTTI_FLOAT32, 1000), 2000);
    assert_int_equal(size_of(TUTTI_ENCODING_FP8_E5M2, TUTTI_BFLOAT16, 1000), 1000);
    assert_int_equal(size_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 0), 0);
    assert_int_equal(size_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 1), 132);
    assert_int_equal(size_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 128), 132);
    assert_int_equal(size_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 129), 264);
    assert_int_equal(size_of(TUTTI_ENCODING_INT4, TUTTI_FLOAT32, 256), 136);
    assert_int_equal(size_of(TUTTI_ENCODING_MXFP8, TUTTI_FLOAT16, 33), 66);
    assert_int_equal(size_of(TUTTI_ENCODING_MXFP4, TUTTI_FLOAT32, 32), 17);
    /* The shares of float32 that the header names. */
    assert_int_equal(size_of(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 1 << 20) * 10000 / (4 << 20), 2578);
    assert_int_equal(size_of(TUTTI_ENCODING_INT4, TUTTI_FLOAT32, 1 << 20) * 10000 / (4 << 20), 1328);
}

static void what_cannot_be_encoded_is_refused_by_name(void **state)
{
    (void)state;
    size_t bytes = 7;
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_INT8, TUTTI_INT32, 1, &bytes),
                     TUTTI_UNSUPPORTED);
    assert_message_has("encoding int8 takes elements of float32 alone, not of int32");
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_INT4, TUTTI_BFLOAT16, 1, &bytes),
                     TUTTI_UNSUPPORTED);
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_MXFP8, TUTTI_FLOAT64, 1, &bytes),
                     TUTTI_UNSUPPORTED);
    assert_message_has("mxfp8 takes elements of float32, bfloat16 and float16, not of float64");
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_NONE, TUTTI_FLOAT32, 1, &bytes),
                     TUTTI_INVALID_OPTIONS);
    assert_message_has("is 0 (none)");
    assert_int_equal(tutti_encoded_size((enum tutti_encoding) - 1, TUTTI_FLOAT32, 1, &bytes),
                     TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_INT8, (enum tutti_dtype)99, 1, &bytes),
                     TUTTI_INVALID_DTYPE);
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, SIZE_MAX / 4 + 1, &bytes),
                     TUTTI_INVALID_COUNT);
    assert_int_equal(tutti_encoded_size(TUTTI_ENCODING_INT8, TUTTI_FLOAT32, 1, NULL),
                     TUTTI_INVALID_BUFFER);
    assert_int_equal(bytes, 7);
    /* The largest count that fits. */
    assert_int_equal(
        tutti_encoded_size(TUTTI_ENCODING_BFLOAT16, TUTTI_FLOAT32, SIZE_MAX / 4, &bytes), TUTTI_OK);
}

static void buffers_that_cannot_be_are_refused(void **state)
{
    (void)state;
    float elements[128] = {0}, rest[128];
    unsigned char encoded[132];
    const enum tutti_encoding int8 = TUTTI_ENCODING_INT8;
    const enum tutti_dtype f = TUTTI_FLOAT32;
    void *const inside = (char *)elements + 4;
    assert_int_equal(tutti_encode(int8, f, NULL, 1, encoded), TUTTI_INVALID_BUFFER);
    assert_message_has("elements must be the address of 4 bytes, is NULL");
    assert_int_equal(tutti_encode(int8, f, elements, 1, NULL), TUTTI_INVALID_BUFFER);
    assert_message_has("encoded must be the address of 132 bytes");
    assert_int_equal(tutti_encode(int8, f, elements, 128, elements), TUTTI_INVALID_BUFFER);
    assert_message_has("overlap");
    assert_int_equal(tutti_decode(int8, f, inside, 64, elements), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_decode(int8, f, encoded, 128, NULL), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_encode_residual(int8, f, elements, 64, encoded, inside),
                     TUTTI_INVALID_BUFFER);
    assert_message_has("elements (256 bytes) and residual (256 bytes) overlap");
    assert_int_equal(tutti_encode_residual(int8, f, elements, 8, rest, rest), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_encode_residual(int8, f, elements, 8, encoded, NULL),
                     TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_encode(int8, f, NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tutti_decode(int8, f, NULL, 0, NULL), TUTTI_OK);
    assert_int_equal(tutti_encode_residual(int8, f, NULL, 0, NULL, NULL), TUTTI_OK);
}

static void elements_come_back_and_the_residual_has_the_rest(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    float elements[COUNT], decoded[COUNT], rest[COUNT];
    unsigned char encoded[COUNT * 4];
    for (int i = 0; i < COUNT; i++) elements[i] = (float)(i * i % 97 - 48) / 7;
    for (int e = TUTTI_ENCODING_FLOAT16; e <= TUTTI_ENCODING_MXFP4; e++) {
        const enum tutti_encoding encoding = (enum tutti_encoding)e;
        assert_int_equal(
            tutti_encode_residual(encoding, TUTTI_FLOAT32, elements, COUNT, encoded, rest),
            TUTTI_OK);
        assert_int_equal(tutti_decode(encoding, TUTTI_FLOAT32, encoded, COUNT, decoded), TUTTI_OK);
        for (int i = 0; i < COUNT; i++) {
            assert_true(decoded[i] + rest[i] == elements[i]);
            assert_true(decoded[i] - elements[i] <= 1 && elements[i] - decoded[i] <= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodings_are_found_by_name),
        cmocka_unit_test(sizes_are_those_of_whole_units),
        cmocka_unit_test(what_cannot_be_encoded_is_refused_by_name),
        cmocka_unit_test(buffers_that_cannot_be_are_refused),
        cmocka_unit_test(elements_come_back_and_the_residual_has_the_rest),
    };
    return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
