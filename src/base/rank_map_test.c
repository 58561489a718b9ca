#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rank_map.h"

/* Beside an array that has a place for every rank. */
static void it_holds_what_an_array_would(void **state)
{
    static const int sizes[] = {1, 2, 63, 64, 65, 1000};
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int size = sizes[s];
        void *array[1000] = {NULL};
        struct rank_map map;
        uint32_t random = (uint32_t)size;
        assert_true(rank_map_init(&map, size));
        for (int i = 0; i < size; i++) {
            random = random * 1664525 + 1013904223;
            const int rank = (int)(random >> 8) % size;
            void **const place = rank_map_place(&map, rank);
            assert_non_null(place);
            assert_ptr_equal(*place, array[rank]);
            *place = array[rank] = &array[rank];
            assert_ptr_equal(rank_map_place(&map, rank), place);
        }
        int at = 0, next = 0;
        for (void *found; (found = rank_map_next(&map, &at)) != NULL; next++) {
            while (array[next] == NULL) next++;
            assert_int_equal(at - 1, next);
            assert_ptr_equal(found, array[next]);
        }
        for (; next < size; next++) assert_null(array[next]);
        for (int r = 0; r < size; r++) assert_ptr_equal(rank_map_find(&map, r), array[r]);
        rank_map_release(&map);
    }
}

static void memory_of_a_rank_is_zeroed_once(void **state)
{
    (void)state;
    struct rank_map map;
    assert_true(rank_map_init(&map, 100));
    assert_null(rank_map_find(&map, 70));
    char *const memory = rank_map_get(&map, 70, 40);
    assert_non_null(memory);
    for (int i = 0; i < 40; i++) assert_int_equal(memory[i], 0);
    memset(memory, 7, 40);
    assert_ptr_equal(rank_map_get(&map, 70, 40), memory);
    assert_int_equal(memory[39], 7);
    assert_null(rank_map_find(&map, 71));
    free(memory);
    rank_map_release(&map);
}

static void a_map_of_few_ranks_among_many_is_small(void **state)
{
    (void)state;
    struct rank_map map;
    assert_true(rank_map_init(&map, 65536));
    for (int rank = 1; rank < 65536; rank *= 2) assert_non_null(rank_map_place(&map, rank));
    assert_in_range(rank_map_bytes(&map), 65536 / 8, 65536 / 8 + 11 * 600 + 64);
    rank_map_release(&map);
    assert_int_equal(rank_map_bytes(&map), 0);
    int at = 0;
    assert_null(rank_map_next(&map, &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_what_an_array_would),
        cmocka_unit_test(memory_of_a_rank_is_zeroed_once),
        cmocka_unit_test(a_map_of_few_ranks_among_many_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
