/* Hashes: ranks that compare them find the same, and differences show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/hash.h"

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random ^ *random >> 33;
}

/* Undoes taking a number. A hash that can be undone loses nothing. */
static uint64_t hash_before(uint64_t hash, uint64_t number)
{
    const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t inverse = factor; /* to 3 bits, and to twice as many each time */
    for (int i = 0; i < 5; i++) inverse *= 2 - factor * inverse;
    assert_true(factor * inverse == 1);
    hash ^= hash >> 32;
    return hash * inverse ^ number;
}

static void no_two_hashes_and_no_two_numbers_become_one(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 10000; i++) {
        const uint64_t hash = next_random(&random), number = next_random(&random);
        assert_true(hash_before(hash_take(hash, number), number) == hash);
        assert_true(hash_before(hash_take(hash, number), hash) == number);
    }
}

static void the_order_of_numbers_counts(void **state)
{
    (void)state;
    uint64_t random = 2;
    for (int i = 0; i < 10000; i++) {
        const uint64_t hash = next_random(&random), a = next_random(&random),
                       b = a + 1 + (uint64_t)i;
        assert_true(hash_take(hash_take(hash, a), b) != hash_take(hash_take(hash, b), a));
    }
}

/* A bit of a number changes about half of the bits two numbers later. */
static void a_bit_spreads(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int bit = 0; bit < 64; bit++) {
        int changed = 0;
        for (int i = 0; i < 1000; i++) {
            const uint64_t hash = next_random(&random), number = next_random(&random);
            const uint64_t one = hash_take(hash_take(hash_take(hash, number), 7), 7),
                           other = hash_take(
                               hash_take(hash_take(hash, number ^ UINT64_C(1) << bit), 7), 7);
            changed += __builtin_popcountll(one ^ other);
        }
        assert_in_range(changed, 16 * 1000, 48 * 1000);
    }
}

/* Ranks with another build of the library compare it, too. */
static void values_stay_as_they_are(void **state)
{
    (void)state;
    assert_true(hash_take(0, 0) == 0);
    assert_true(hash_take(1, 0) == UINT64_C(0x9e3779b9e17d05ac));
    assert_true(hash_take(hash_take(1, 0), UINT64_MAX) == UINT64_C(0xb6b1e78ecc4d5b41));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_hashes_and_no_two_numbers_become_one),
        cmocka_unit_test(the_order_of_numbers_counts),
        cmocka_unit_test(a_bit_spreads),
        cmocka_unit_test(values_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
