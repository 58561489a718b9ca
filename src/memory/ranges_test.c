/* The set of ranges finds the same ranges as a search of a list from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory/ranges.h"
#include "tests/kit/chance.h"

enum { COUNT = 200, TURNS = 20000, SPACE = 1000 };

static struct range nodes[COUNT];
static bool is_in[COUNT];

static bool is_before(const struct range *a, const struct range *b)
{
    return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

static const struct range *slow_next(uintptr_t begin, uintptr_t end, const struct range *after)
{
    const struct range *best = NULL;
    for (int i = 0; i < COUNT; i++) {
        const struct range *const each = &nodes[i];
        if (!is_in[i] || each->begin >= end || each->end <= begin) continue;
        if (after != NULL && !is_before(after, each)) continue;
        if (best == NULL || is_before(each, best)) best = each;
    }
    return best;
}

static bool slow_covers(uintptr_t begin, uintptr_t end)
{
    for (int i = 0; i < COUNT; i++)
        if (is_in[i] && nodes[i].begin <= begin && nodes[i].end >= end) return true;
    return false;
}

static int height(const struct range *node)
{
    if (node == NULL) return 0;
    const int left = height(node->left), right = height(node->right);
    return 1 + (left > right ? left : right);
}

static void compare(const struct ranges *set, struct chance *chance)
{
    const uintptr_t begin = (uintptr_t)chance_below(chance, SPACE);
    const uintptr_t end = begin + 1 + (uintptr_t)chance_below(chance, 40);
    const struct range *const covering = ranges_covering(set, begin, end);
    assert_int_equal(covering != NULL, slow_covers(begin, end));
    if (covering != NULL) assert_true(covering->begin <= begin && covering->end >= end);
    const struct range *fast = NULL;
    do {
        const struct range *const slow = slow_next(begin, end, fast);
        fast = ranges_next(set, begin, end, fast);
        assert_ptr_equal(fast, slow);
    } while (fast != NULL);
}

static void finds_what_a_list_finds(void **state)
{
    (void)state;
    struct chance chance = {.seed = chance_seed(1)};
    struct ranges set = {0};
    for (int turn = 0; turn < TURNS; turn++) {
        const int i = chance_below(&chance, COUNT);
        if (is_in[i]) {
            ranges_remove(&set, &nodes[i]);
        } else {
            nodes[i].begin = (uintptr_t)chance_below(&chance, SPACE);
            nodes[i].end = nodes[i].begin + chance_of_any_size(&chance, SPACE);
            ranges_add(&set, &nodes[i]);
        }
        is_in[i] = !is_in[i];
        if (turn % 8 == 0) compare(&set, &chance);
    }
}

static void ordered_insertions_make_no_list(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct range *const many = calloc(MANY, sizeof *many);
    assert_non_null(many);
    struct ranges set = {0};
    for (uintptr_t i = 0; i < MANY; i++) {
        many[i].begin = i;
        many[i].end = i + 1;
        ranges_add(&set, &many[i]);
    }
    assert_true(height(set.root) < 100); /* about 40 are to be expected */
    for (uintptr_t i = 0; i < MANY; i++)
        assert_ptr_equal(ranges_covering(&set, i, i + 1), &many[i]);
    free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_a_list_finds),
        cmocka_unit_test(ordered_insertions_make_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
