#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/block.h"

enum { MIB = 1 << 20 };

static struct block *take(struct block_pool *pool, size_t bytes)
{
    struct block *const block = block_take(pool, bytes);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block_memory(block) % 64, 0);
    memset(block_memory(block), 1, bytes);
    return block;
}

static void large_blocks_are_used_again(void **state)
{
    (void)state;
    struct block_pool pool = {0};
    struct block *const one = take(&pool, 3 * MIB);
    void *const bytes = block_memory(one);
    block_give(one);
    struct block *const again = take(&pool, 2 * MIB);
    assert_ptr_equal(block_memory(again), bytes);
    block_give(again);
    struct block *const small = take(&pool, MIB); /* that block would be half empty */
    assert_ptr_not_equal(block_memory(small), bytes);
    block_give(small);
    block_give(NULL);
    block_pool_release(&pool);
}

static void a_pool_has_no_more_than_was_in_use_at_once(void **state)
{
    (void)state;
    struct block_pool pool = {0};
    for (size_t i = 1; i <= 20; i++) {
        struct block *const one = take(&pool, i * MIB), *const other = take(&pool, 100 * i);
        assert_true(pool.kept_bytes + pool.used_bytes <= pool.used_bytes_max);
        block_give(one);
        block_give(other);
    }
    assert_int_equal(pool.used_bytes, 0);
    assert_true(pool.kept_bytes <= 20 * MIB);
    block_pool_release(&pool);
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
