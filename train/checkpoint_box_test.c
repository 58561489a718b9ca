/* checkpoint_box_test.c - boxes agree with counting single elements: random small ones of up to
 * four dimensions.
 *
 * ctest: label=notsan
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint_rest.h"
#include "tests/kit/elements.h"

enum { ROUNDS = 3000, ELEMENTS_MAX = 5 * 5 * 5 * 5 };

static uint64_t draw(uint64_t round, uint64_t what, uint64_t below)
{
    return elements_mixed(round, what) % below;
}

static struct box draw_box(uint64_t round, uint64_t what, const struct box *inside)
{
    struct box box = {.dims = inside->dims};
    for (int d = 0; d < box.dims; d++) {
        const uint64_t at = draw(round, what + 2 * (uint64_t)d, inside->extent[d]);
        box.first[d] = inside->first[d] + at;
        box.extent[d] = 1 + draw(round, what + 2 * (uint64_t)d + 1, inside->extent[d] - at);
    }
    return box;
}

static struct box draw_tensor(uint64_t round, uint64_t shape[BOX_DIMS])
{
    const int dims = 1 + (int)draw(round, 0, 4);
    for (int d = 0; d < dims; d++) shape[d] = 1 + draw(round, 1 + (uint64_t)d, 5);
    return box_whole(dims, shape);
}

/* The place in the tensor of an element of a box. */
static uint64_t place_of(const struct box *tensor, const struct box *box, uint64_t index)
{
    uint64_t place = 0, stride = 1;
    for (int d = box->dims - 1; d >= 0; d--) {
        place += (box->first[d] - tensor->first[d] + index % box->extent[d]) * stride;
        index /= box->extent[d];
        stride *= tensor->extent[d];
    }
    return place;
}

static void mark(const struct box *tensor, const struct box *box, unsigned char *marks)
{
    for (uint64_t i = 0; i < box_count(box); i++) marks[place_of(tensor, box, i)]++;
}

static void ranges_are_boxes_in_their_order(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t shape[BOX_DIMS];
        const struct box tensor = draw_tensor(round, shape);
        const struct box box = draw_box(round, 10, &tensor);
        const uint64_t count = draw(round, 30, box_count(&box) + 1);
        const uint64_t begin = draw(round, 31, box_count(&box) - count + 1);
        struct box pieces[BOX_PIECES_MAX];
        uint64_t at = begin;
        const size_t made = box_of_range(&box, begin, count, pieces);
        assert_true(made <= 2 * (size_t)box.dims - 1);
        for (size_t p = 0; p < made; p++) {
            assert_true(box_fits(&pieces[p], shape));
            for (uint64_t i = 0; i < box_count(&pieces[p]); i++, at++)
                assert_int_equal(place_of(&tensor, &pieces[p], i), place_of(&tensor, &box, at));
        }
        assert_int_equal(at, begin + count);
    }
}

static void what_is_common_and_what_is_left_is_all(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t shape[BOX_DIMS];
        const struct box tensor = draw_tensor(round, shape);
        const struct box a = draw_box(round, 10, &tensor), b = draw_box(round, 20, &tensor);
        unsigned char of_a[ELEMENTS_MAX] = {0}, of_b[ELEMENTS_MAX] = {0}, got[ELEMENTS_MAX] = {0};
        struct box common, rest[2 * BOX_DIMS];
        mark(&tensor, &a, of_a);
        mark(&tensor, &b, of_b);
        const bool is_some = box_intersect(&a, &b, &common);
        if (is_some) mark(&tensor, &common, got);
        for (size_t i = 0; i < ELEMENTS_MAX; i++) assert_int_equal(got[i], of_a[i] && of_b[i]);
        if (!is_some) continue;
        const size_t made = box_subtract(&a, &common, rest);
        assert_true(made <= 2 * (size_t)a.dims);
        for (size_t p = 0; p < made; p++) mark(&tensor, &rest[p], got);
        for (size_t i = 0; i < ELEMENTS_MAX; i++) assert_int_equal(got[i], of_a[i]);
    }
}

static void runs_have_no_gaps(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t shape[BOX_DIMS], run, at = 0;
        const struct box tensor = draw_tensor(round, shape);
        const struct box box = draw_box(round, 10, &tensor), part = draw_box(round, 20, &box);
        const int dimension = box_run_dimension(&box, &part);
        const uint64_t runs = box_runs(&part, dimension, &run);
        for (uint64_t r = 0; r < runs; r++)
            for (uint64_t i = 0; i < run; i++, at++)
                assert_int_equal(
                    place_of(&tensor, &box, box_run_place(&box, &part, dimension, r) + i),
                    place_of(&tensor, &part, at));
        assert_int_equal(at, box_count(&part));
    }
}

/* Boxes come until nothing is missing; each element was taken once. */
static void what_is_missing_gets_less(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < ROUNDS / 10; round++) {
        uint64_t shape[BOX_DIMS];
        const struct box tensor = draw_tensor(round, shape);
        const struct box wanted = draw_box(round, 10, &tensor);
        unsigned char missing[ELEMENTS_MAX] = {0}, taken[ELEMENTS_MAX] = {0};
        struct rest rest;
        assert_int_equal(rest_init(&rest, "x", &wanted, 6), TUTTI_OK);
        mark(&tensor, &wanted, missing);
        for (uint64_t comes = 0; comes < 6; comes++) {
            const struct box box = draw_box(round, 100 + 10 * comes, &tensor);
            struct box common;
            bool is_taken = true;
            rest_come(&rest);
            while (is_taken) {
                assert_int_equal(rest_take(&rest, &box, &common, &is_taken), TUTTI_OK);
                if (is_taken) mark(&tensor, &common, taken);
            }
            for (uint64_t i = 0; i < box_count(&box); i++) missing[place_of(&tensor, &box, i)] = 0;
            unsigned char left[ELEMENTS_MAX] = {0};
            for (size_t i = 0; i < rest.count; i++) mark(&tensor, &rest.boxes[i], left);
            assert_memory_equal(left, missing, sizeof left);
        }
        for (size_t i = 0; i < ELEMENTS_MAX; i++) assert_true(taken[i] <= 1);
        rest_release(&rest);
    }
}

static void boxes_that_fit_are_not_absurd(void **state)
{
    (void)state;
    const uint64_t shape[2] = {4, UINT64_C(1) << 58}, large[2] = {8, UINT64_C(1) << 58};
    struct box box = box_whole(2, shape);
    assert_true(box_fits(&box, shape));
    assert_false(box_fits(&box, large));
    box.first[1] = 1;
    assert_false(box_fits(&box, shape));
    box.first[1] = UINT64_MAX;
    assert_false(box_fits(&box, shape));
    box = box_whole(2, shape);
    box.extent[0] = 0;
    assert_false(box_fits(&box, shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_boxes_in_their_order),
        cmocka_unit_test(what_is_common_and_what_is_left_is_all),
        cmocka_unit_test(runs_have_no_gaps),
        cmocka_unit_test(what_is_missing_gets_less),
        cmocka_unit_test(boxes_that_fit_are_not_absurd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
