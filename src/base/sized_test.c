/* Structs of versions other than the library's: shorter, longer, and of no version at all. */
#include "base/sized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* One struct through three versions; the library is of the second. */
struct first {
    size_t size_bytes;
    int32_t a, b;
};
struct second {
    size_t size_bytes;
    int32_t a, b;
    uint64_t c;
};
struct third {
    size_t size_bytes;
    int32_t a, b;
    uint64_t c;
    unsigned char d[16];
};
static const struct sized_type type = {"thing", sizeof(struct first), sizeof(struct second)};

static void fields_that_an_older_program_lacks_are_0(void **state)
{
    (void)state;
    const struct {
        struct first is;
        uint64_t behind;
    } given = {{sizeof(struct first), 1, 2}, UINT64_MAX};
    struct second own;
    memset(&own, 0x55, sizeof own);
    assert_int_equal(sized_read("options", &type, &given, &own), TUTTI_OK);
    assert_int_equal(own.a, 1);
    assert_int_equal(own.b, 2);
    assert_int_equal(own.c, 0);
    assert_int_equal(own.size_bytes, sizeof own);
}

static void a_struct_of_this_version_is_copied(void **state)
{
    (void)state;
    const struct second given = {sizeof given, 1, 2, 3};
    struct second own = {0};
    assert_int_equal(sized_read("options", &type, &given, &own), TUTTI_OK);
    assert_memory_equal(&own, &given, sizeof own);
}

static void fields_that_this_library_lacks_must_be_0(void **state)
{
    (void)state;
    struct third given = {sizeof given, 1, 2, 3, {0}};
    struct second own = {0};
    assert_int_equal(sized_read("options", &type, &given, &own), TUTTI_OK);
    assert_int_equal(own.c, 3);
    assert_int_equal(own.size_bytes, sizeof own);
    for (size_t i = 0; i < sizeof given.d; i++) {
        given.d[i] = 1;
        assert_int_equal(sized_read("options", &type, &given, &own), TUTTI_INVALID_OPTIONS);
        char byte[64];
        snprintf(byte, sizeof byte, ": byte %zu of struct thing is set",
                 offsetof(struct third, d) + i);
        assert_non_null(strstr(tutti_error_message(), byte));
        assert_non_null(strstr(tutti_error_message(), tutti_version_text()));
        assert_non_null(strstr(tutti_error_message(), "first 24 bytes"));
        given.d[i] = 0;
    }
}

static void sizes_of_no_version_are_refused(void **state)
{
    (void)state;
    const size_t wrong[] = {0, 1, 8, 15, 17, 23, 25, 4097, 4104, (size_t)1 << 40, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct second given = {wrong[i], 1, 2, 3};
        struct second own;
        char size[40];
        snprintf(size, sizeof size, ", is %zu", wrong[i]);
        assert_int_equal(sized_read("options", &type, &given, &own), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), size));
        assert_non_null(strstr(tutti_error_message(),
                               "options.size_bytes must be sizeof(struct thing), 16 or more"));
        assert_int_equal(sized_check_result("options", &type, &given), TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), size));
    }
    assert_int_equal(sized_check_result("the result", &type, NULL), TUTTI_INVALID_OPTIONS);
}

static void results_end_where_the_caller_s_do(void **state)
{
    (void)state;
    const struct second own = {sizeof own, 1, 2, 3};
    struct third place;
    const size_t sizes[] = {sizeof(struct first), sizeof(struct second), sizeof(struct third)};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(&place, 0x55, sizeof place);
        place.size_bytes = sizes[i];
        assert_int_equal(sized_check_result("the result", &type, &place), TUTTI_OK);
        sized_write(&type, &place, sizes[i], &own);
        assert_int_equal(place.size_bytes, sizes[i]);
        assert_int_equal(place.a, 1);
        assert_int_equal(place.b, 2);
        assert_int_equal(place.c, i > 0 ? 3 : 0x5555555555555555);
        for (size_t k = 0; k < sizeof place.d; k++) assert_int_equal(place.d[k], i > 1 ? 0 : 0x55);
    }
}

static void the_version_is_a_number_and_a_text(void **state)
{
    (void)state;
    char text[32];
    const int number = tutti_version();
    snprintf(text, sizeof text, "%d.%d.%d", number / 1000000, number / 1000 % 1000, number % 1000);
    assert_string_equal(tutti_version_text(), text);
    assert_int_equal(number, TUTTI_VERSION_NUMBER);
    assert_true(TUTTI_VERSION_OF(0, 1, 0) > TUTTI_VERSION_OF(0, 0, 999));
    assert_true(TUTTI_VERSION_OF(1, 0, 0) > TUTTI_VERSION_OF(0, 999, 999));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_that_an_older_program_lacks_are_0),
        cmocka_unit_test(a_struct_of_this_version_is_copied),
        cmocka_unit_test(fields_that_this_library_lacks_must_be_0),
        cmocka_unit_test(sizes_of_no_version_are_refused),
        cmocka_unit_test(results_end_where_the_caller_s_do),
        cmocka_unit_test(the_version_is_a_number_and_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
