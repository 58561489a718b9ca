#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/file.h"

/* Reads a file of that size; NULL as file_read_all. */
static char *read_one_of(size_t bytes, size_t size_max, size_t *size)
{
    FILE *const file = tmpfile();
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++) fputc('a' + (int)(i % 26), file);
    rewind(file);
    char *const text = file_read_all(file, size_max, size);
    const int error = errno;
    fclose(file);
    errno = error;
    return text;
}

static void a_file_is_read_up_to_its_bound_and_no_byte_beyond(void **state)
{
    (void)state;
    static const size_t bounds[] = {0, 1, 26, 65534, 65535, 65536, 65537, 200000};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        size_t size;
        char *const text = read_one_of(bounds[i], bounds[i], &size);
        assert_non_null(text);
        assert_int_equal(size, bounds[i]);
        assert_int_equal(strlen(text), size);
        if (size > 0) assert_int_equal(text[size - 1], 'a' + (size - 1) % 26);
        free(text);
        for (size_t more = 1; more < 100000; more = 3 * more + 1) {
            errno = 0;
            assert_null(read_one_of(bounds[i] + more, bounds[i], &size));
            assert_int_equal(errno, EFBIG);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_up_to_its_bound_and_no_byte_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
