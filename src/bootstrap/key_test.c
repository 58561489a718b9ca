#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/key.h"

static void the_same_key_and_bytes_derive_the_same_key(void **state)
{
    (void)state;
    struct rendezvous_key key, first, second;
    assert_int_equal(rendezvous_key_create(&key), TUTTI_OK);
    rendezvous_key_derive(&key, "abc", 3, &first);
    rendezvous_key_derive(&key, "abc", 3, &second);
    assert_memory_equal(&first, &second, sizeof first);
    assert_memory_not_equal(&first, &key, sizeof first);
    second = key;
    rendezvous_key_derive(&second, "abc", 3, &second); /* in place */
    assert_memory_equal(&first, &second, sizeof first);
}

static int by_first_lanes(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

/* The first half names the socket: it alone has to differ. */
static void small_differences_derive_other_names(void **state)
{
    (void)state;
    enum { PARENTS = 8, NUMBERS = 2000, LENGTHS = 9 };
    struct rendezvous_key *const keys = calloc(PARENTS * (NUMBERS + LENGTHS), sizeof *keys);
    assert_non_null(keys);
    size_t count = 0;
    for (int p = 0; p < PARENTS; p++) {
        struct rendezvous_key parent = {{0}};
        parent.bytes[p * 4] = 1;
        for (uint32_t n = 0; n < NUMBERS; n++) {
            const uint32_t what[3] = {1, n / 40, n % 40};
            rendezvous_key_derive(&parent, what, sizeof what, &keys[count++]);
        }
        static const unsigned char zeros[LENGTHS];
        for (size_t bytes = 0; bytes < LENGTHS; bytes++)
            rendezvous_key_derive(&parent, zeros, bytes, &keys[count++]);
    }
    qsort(keys, count, sizeof *keys, by_first_lanes);
    for (size_t i = 1; i < count; i++) assert_memory_not_equal(&keys[i - 1], &keys[i], 16);
    free(keys);
}

static void created_keys_differ(void **state)
{
    (void)state;
    struct rendezvous_key a, b;
    assert_int_equal(rendezvous_key_create(&a), TUTTI_OK);
    assert_int_equal(rendezvous_key_create(&b), TUTTI_OK);
    assert_memory_not_equal(&a, &b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_key_and_bytes_derive_the_same_key),
        cmocka_unit_test(small_differences_derive_other_names),
        cmocka_unit_test(created_keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
