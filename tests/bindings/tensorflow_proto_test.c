/* tensorflow_proto_test.c - fields of protocol buffers are found and written as TensorFlow does, and
 * messages that are broken off or changed are refused without a read beyond their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bindings/tensorflow/front/proto.c" /* no library has it */
#include "tests/kit/chance.h"

/* A NodeDef of TensorFlow's: name "n", op "Op", inputs "a" and "b", device "/cpu:0", an attribute. */
static const uint8_t node[] = "\x0a\x01n\x12\x02Op\x1a\x01"
                              "a\x1a\x01"
                              "b\x22\x06/cpu:0\x2a\x05\x0a\x03key";

/* In memory of just that size, so that a sanitizer sees a read beyond its end. */
static bool get(const void *message, size_t bytes, unsigned field, char *text, size_t text_size)
{
    void *const exact = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(exact);
    memcpy(exact, message, bytes);
    const bool is_good = proto_get(exact, bytes, field, text, text_size);
    free(exact);
    return is_good;
}

static void a_field_is_found(void **state)
{
    (void)state;
    char text[16];
    assert_true(get(node, sizeof node - 1, 4, text, sizeof text));
    assert_string_equal(text, "/cpu:0");
    assert_true(get(node, sizeof node - 1, 3, text, sizeof text));
    assert_string_equal(text, "b"); /* the last */
    assert_true(get(node, sizeof node - 1, 9, text, sizeof text));
    assert_string_equal(text, "");
    assert_false(get(node, sizeof node - 1, 4, text, 6)); /* no room for the 0 */
    assert_true(get(node, sizeof node - 1, 4, text, 7));
    assert_true(get(node, 0, 4, text, sizeof text));
    static const uint8_t numbers[] = "\x20\xff\x01\x21"
                                     "12345678\x25"
                                     "1234\x22\x01x";
    assert_true(get(numbers, sizeof numbers - 1, 4, text, sizeof text));
    assert_string_equal(text, "x");
}

static void what_is_written_is_found(void **state)
{
    (void)state;
    char message[512], text[300], value[300];
    size_t bytes = 0;
    memset(value, 'v', sizeof value);
    assert_true(proto_put_number(message, sizeof message, &bytes, 1, 20));
    assert_true(proto_put(message, sizeof message, &bytes, 2, NULL, 0));
    assert_true(proto_put(message, sizeof message, &bytes, 14, value, 299));
    assert_int_equal(bytes, 2 + 2 + 3 + 299);
    assert_memory_equal(message, "\x08\x14\x12\x00\x72\xab\x02", 7);
    assert_true(get(message, bytes, 14, text, sizeof text));
    assert_int_equal(strlen(text), 299);
    const size_t before = bytes;
    assert_false(proto_put(message, sizeof message, &bytes, 3, value, 299));
    assert_false(proto_put(message, bytes, &bytes, 3, NULL, 0));
    assert_int_equal(bytes, before);
}

static void broken_messages_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\x22",
                                        "\x22\x07/cpu:0",
                                        "\x22\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                                        "\x23",
                                        "\x24",
                                        "\x26",
                                        "\x27",
                                        "\x21"
                                        "1234567",
                                        "\x25"
                                        "123",
                                        "\xff\xff"};
    char text[16];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(get(wrong[i], strlen(wrong[i]), 4, text, sizeof text));
        assert_string_equal(text, "");
    }
    assert_false(get("\x22\x02"
                     "a\0",
                     4, 4, text, sizeof text)); /* a 0 inside */
    for (size_t bytes = 0; bytes < sizeof node; bytes++)
        (void)get(node, bytes, 4, text, sizeof text);
    uint64_t random = chance_seed(20261129);
    for (int i = 0; i < 20000; i++) {
        uint8_t changed[sizeof node];
        memcpy(changed, node, sizeof node);
        for (int k = 0; k < 3; k++)
            changed[chance_next(&random) % sizeof changed] = (uint8_t)chance_next(&random);
        if (!get(changed, chance_next(&random) % sizeof changed, 4, text, sizeof text))
            assert_string_equal(text, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_found),
        cmocka_unit_test(what_is_written_is_found),
        cmocka_unit_test(broken_messages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
