#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/payload.h"

enum { MIB = 1 << 20 };

static struct payload *take(struct payload_pool *pool, size_t bytes)
{
    struct payload *const payload = payload_take(pool, bytes);
    assert_non_null(payload);
    assert_int_equal((uintptr_t)payload_bytes(payload) % 64, 0);
    memset(payload_bytes(payload), 1, bytes);
    return payload;
}

static void large_blocks_are_used_again(void **state)
{
    (void)state;
    struct payload_pool pool = {0};
    struct payload *const one = take(&pool, 3 * MIB);
    void *const bytes = payload_bytes(one);
    payload_give(one);
    struct payload *const again = take(&pool, 2 * MIB);
    assert_ptr_equal(payload_bytes(again), bytes);
    payload_give(again);
    struct payload *const small = take(&pool, MIB); /* that block would be half empty */
    assert_ptr_not_equal(payload_bytes(small), bytes);
    payload_give(small);
    payload_give(NULL);
    payload_pool_release(&pool);
}

static void a_pool_has_no_more_than_was_in_use_at_once(void **state)
{
    (void)state;
    struct payload_pool pool = {0};
    for (size_t i = 1; i <= 20; i++) {
        struct payload *const one = take(&pool, i * MIB), *const other = take(&pool, 100 * i);
        assert_true(pool.kept_bytes + pool.used_bytes <= pool.used_bytes_max);
        payload_give(one);
        payload_give(other);
    }
    assert_int_equal(pool.used_bytes, 0);
    assert_true(pool.kept_bytes <= 20 * MIB);
    payload_pool_release(&pool);
    assert_int_equal(pool.kept_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_blocks_are_used_again),
        cmocka_unit_test(a_pool_has_no_more_than_was_in_use_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
