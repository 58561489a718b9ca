/* Memory in huge pages is told from memory in small pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "os/huge_pages.h"

enum { HUGE_PAGE = HUGE_PAGE_BYTES, PAGE = 4096 };

static char *memory; /* two huge pages, aligned */

static int map(void **state)
{
    (void)state;
    char *all =
        mmap(NULL, 3 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return -1;
    memory = all + (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    return 0;
}

/* False: this kernel has no such pages. */
static bool take_pages(int advice)
{
    if (madvise(memory, 2 * HUGE_PAGE, MADV_DONTNEED) != 0 ||
        madvise(memory, 2 * HUGE_PAGE, advice) != 0)
        return false;
    memset(memory, 1, 2 * HUGE_PAGE);
    return true;
}

static void small_pages_are_not_huge(void **state)
{
    (void)state;
    if (!take_pages(MADV_NOHUGEPAGE)) skip();
    assert_false(huge_pages_hold(memory, 2 * HUGE_PAGE));
    assert_false(huge_pages_hold(memory + 1000, 100000));
}

/* The kernel need not have a huge page for us: then there is nothing to see. */
static void huge_pages_are_huge_until_a_part_is_small(void **state)
{
    (void)state;
    if (!take_pages(MADV_HUGEPAGE) || !huge_pages_hold(memory, 2 * HUGE_PAGE)) skip();
    assert_true(huge_pages_hold(memory + 1000, 100000));
    assert_true(huge_pages_hold(memory + HUGE_PAGE - 5000, 10000));
    /* The second one is cut into small pages where one of its parts gets other rights. */
    assert_int_equal(mprotect(memory + HUGE_PAGE, PAGE, PROT_READ), 0);
    assert_false(huge_pages_hold(memory, 2 * HUGE_PAGE));
    assert_true(huge_pages_hold(memory, HUGE_PAGE + HUGE_PAGE / 8)); /* one part in nine */
    assert_true(huge_pages_hold(memory, HUGE_PAGE));
    assert_int_equal(mprotect(memory + HUGE_PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
}

/* An answer is given again for a while, and then the kernel is asked anew. */
static void answers_are_kept_for_a_while(void **state)
{
    (void)state;
    struct huge_pages_known known = {0};
    const bool before = huge_pages_ask(&known, memory, HUGE_PAGE);
    assert_int_equal(before, huge_pages_hold(memory, HUGE_PAGE));
    assert_int_equal(madvise(memory, HUGE_PAGE, MADV_DONTNEED), 0); /* nothing is there any more */
    assert_int_equal(huge_pages_ask(&known, memory, HUGE_PAGE), before);
    const bool after = huge_pages_hold(memory, HUGE_PAGE);
    for (int i = 0; i < 100; i++) (void)huge_pages_ask(&known, memory, HUGE_PAGE);
    assert_int_equal(huge_pages_ask(&known, memory, HUGE_PAGE), after);
}

/* Where nothing is mapped there are no small pages either. */
static void what_lies_beside_the_memory_does_not_count(void **state)
{
    enum { SHARE = HUGE_PAGE / 8 };
    struct huge_pages_known known = {0};
    (void)state;
    if (!take_pages(MADV_NOHUGEPAGE) || huge_pages_hold(memory, SHARE)) skip();
    assert_int_equal(munmap(memory + SHARE, HUGE_PAGE - SHARE), 0);
    assert_false(huge_pages_ask(&known, memory, SHARE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pages_are_not_huge),
        cmocka_unit_test(huge_pages_are_huge_until_a_part_is_small),
        cmocka_unit_test(answers_are_kept_for_a_while),
        cmocka_unit_test(what_lies_beside_the_memory_does_not_count),
    };
    return cmocka_run_group_tests(tests, map, NULL);
}
