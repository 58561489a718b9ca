#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transport/local/nearness.h"

enum { RANKS_MAX = 64 };

/* The word of a place, given by the lowest CPU of each part; -1: not bound from there on. */
static uint64_t word(int package, int cache, int core, int cpu)
{
    const struct cpu_binding place = {{(uint16_t)(1 + package), (uint16_t)(1 + cache),
                                       (uint16_t)(1 + core), (uint16_t)(1 + cpu)}};
    return nearness_word(&place);
}

static void expect_order(const uint64_t *words, int rank_count, const int *expected)
{
    uint64_t copy[RANKS_MAX];
    int order[RANKS_MAX];
    memcpy(copy, words, sizeof *words * (size_t)rank_count);
    assert_true(nearness_order(copy, rank_count, order));
    assert_memory_equal(order, expected, sizeof *expected * (size_t)rank_count);
}

static void expect_as_numbered(const uint64_t *words, int rank_count)
{
    uint64_t copy[RANKS_MAX];
    int order[RANKS_MAX];
    memcpy(copy, words, sizeof *words * (size_t)rank_count);
    assert_false(nearness_order(copy, rank_count, order));
    for (int r = 0; r < rank_count; r++) assert_int_equal(order[r], r);
}

static void ranks_on_one_core_stand_side_by_side(void **state)
{
    (void)state;
    const uint64_t words[] = {word(0, 0, 0, 0), word(0, 0, 1, 1), word(0, 0, 0, 0),
                              word(0, 0, 1, 1), word(0, 0, 0, 0), word(0, 0, 1, 1)};
    expect_order(words, 6, (const int[]){0, 2, 4, 1, 3, 5});
    expect_order(words + 1, 5, (const int[]){1, 3, 0, 2, 4});
}

/* Threads of a core have numbers far apart: CPU 0 and 4 are one core, as are 1 and 5. */
static void larger_parts_come_before_smaller_ones(void **state)
{
    (void)state;
    const uint64_t threads[] = {word(0, 0, 0, 0), word(0, 0, 1, 1), word(0, 0, 0, 4),
                                word(0, 0, 1, 5)};
    expect_order(threads, 4, (const int[]){0, 2, 1, 3});
    const uint64_t caches[] = {word(0, 0, 0, 0), word(0, 1, 1, 1), word(0, 0, 2, 2),
                               word(0, 1, 3, 3)};
    expect_order(caches, 4, (const int[]){0, 2, 1, 3});
    const uint64_t packages[] = {word(1, 2, 3, 3), word(0, 4, 4, 4), word(1, 1, 5, 5),
                                 word(0, 0, 2, 2)};
    expect_order(packages, 4, (const int[]){3, 1, 2, 0});
}

static void ranks_that_are_in_order_stay_as_they_are_numbered(void **state)
{
    (void)state;
    const uint64_t words[] = {word(0, 0, 0, 0), word(0, 0, 0, 0), word(0, 0, 1, 1),
                              word(1, 4, 4, 4)};
    expect_as_numbered(words, 4);
    expect_as_numbered(words, 1);
}

static void only_parts_that_no_rank_can_leave_count(void **state)
{
    (void)state;
    /* Rank 1 is bound to a package of several cores. */
    const uint64_t words[] = {word(1, 2, 3, 3), word(0, -1, -1, -1), word(1, 2, 2, 2),
                              word(0, 0, 0, 0)};
    expect_order(words, 4, (const int[]){1, 3, 0, 2});
    /* Bound to cores, with both of their threads. */
    const uint64_t cores[] = {word(0, 0, 1, -1), word(0, 0, 0, -1), word(0, 0, 1, -1)};
    expect_order(cores, 3, (const int[]){1, 0, 2});
    const uint64_t in_one_cache[] = {word(0, 0, 1, 1), word(0, 0, -1, -1), word(0, 0, 0, 0)};
    expect_as_numbered(in_one_cache, 3);
}

static void one_rank_that_may_run_anywhere_leaves_all_as_they_are_numbered(void **state)
{
    (void)state;
    const uint64_t words[] = {word(1, 2, 3, 3), word(0, 0, 0, 0), word(-1, -1, -1, -1)};
    expect_order(words, 2, (const int[]){1, 0});
    expect_as_numbered(words, 3);
}

static void a_word_that_makes_no_sense_leaves_all_as_they_are_numbered(void **state)
{
    (void)state;
    const uint64_t wrong[] = {0,
                              UINT64_MAX,
                              word(CPU_COUNT_MAX, 0, 0, 0),
                              word(0, 0, 0, CPU_COUNT_MAX),
                              word(-1, 0, 0, 0),
                              word(0, -1, 0, 0),
                              word(0, 0, -1, 0),
                              word(-1, -1, -1, 0)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int where = 0; where < 3; where++) {
            uint64_t words[] = {word(0, 0, 1, 1), word(0, 0, 0, 0), word(0, 0, 1, 1)};
            words[where] = wrong[i];
            expect_as_numbered(words, 3);
        }
    const uint64_t last =
        word(CPU_COUNT_MAX - 1, CPU_COUNT_MAX - 1, CPU_COUNT_MAX - 1, CPU_COUNT_MAX - 1);
    expect_order((const uint64_t[]){last, word(0, 0, 0, 0)}, 2, (const int[]){1, 0});
}

/* Whatever the words are, no rank is lost. */
static void every_order_has_every_rank_once(void **state)
{
    (void)state;
    uint64_t random = 12345;
    for (int trial = 0; trial < 1000; trial++) {
        uint64_t words[RANKS_MAX];
        int order[RANKS_MAX], count = 1 + trial % RANKS_MAX, seen[RANKS_MAX] = {0};
        for (int r = 0; r < count; r++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            const int cpu = (int)(random >> 60);
            words[r] = trial % 4 == 0 ? random : word(cpu / 8 * 8, cpu / 4 * 4, cpu / 2 * 2, cpu);
        }
        nearness_order(words, count, order);
        for (int i = 0; i < count; i++) {
            assert_in_range(order[i], 0, count - 1);
            assert_int_equal(seen[order[i]]++, 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_on_one_core_stand_side_by_side),
        cmocka_unit_test(larger_parts_come_before_smaller_ones),
        cmocka_unit_test(ranks_that_are_in_order_stay_as_they_are_numbered),
        cmocka_unit_test(only_parts_that_no_rank_can_leave_count),
        cmocka_unit_test(one_rank_that_may_run_anywhere_leaves_all_as_they_are_numbered),
        cmocka_unit_test(a_word_that_makes_no_sense_leaves_all_as_they_are_numbered),
        cmocka_unit_test(every_order_has_every_rank_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
