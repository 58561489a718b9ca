#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/layout.h"

static const size_t counts[] = {0,  1,  2,  3,    15,   16,    17,
                                63, 64, 65, 1000, 4099, 65541, (size_t)1 << 40};
static const uint32_t part_counts[] = {1, 2, 3, 5, 7, 16, 33, 1000};
static const size_t element_sizes[] = {2, 4, 8};

typedef void layout_check(const struct layout *layout);

static void for_all(layout_check *check)
{
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t p = 0; p < sizeof part_counts / sizeof *part_counts; p++)
            for (size_t e = 0; e < sizeof element_sizes / sizeof *element_sizes; e++)
                check(&(struct layout){
                    .count = counts[c], .element_bytes = element_sizes[e], .parts = part_counts[p]});
}

static void check_cover(const struct layout *l)
{
    assert_int_equal(layout_part_begin(l, l->count, 0), 0);
    assert_int_equal(layout_part_begin(l, l->count, l->parts), l->count);
    size_t bytes = 0;
    for (uint32_t part = 0; part < l->parts; part++) {
        assert_true(layout_part_begin(l, l->count, part) <= layout_part_begin(l, l->count, part + 1));
        bytes += layout_class_bytes(l, part);
    }
    assert_int_equal(bytes, l->count * l->element_bytes);
}

static void parts_cover_a_block_exactly(void **state)
{
    (void)state;
    for_all(check_cover);
}

static void check_even(const struct layout *l)
{
    const size_t line = 64 / l->element_bytes, share = l->count / l->parts;
    for (uint32_t part = 0; part < l->parts; part++) {
        const size_t size =
            layout_part_begin(l, l->count, part + 1) - layout_part_begin(l, l->count, part);
        assert_true(size + line > share && size <= share + line + 1);
        if (share >= 4 * line) assert_int_equal(layout_part_begin(l, l->count, part) % line, 0);
    }
}

static void parts_are_nearly_equal_and_large_ones_begin_on_cache_lines(void **state)
{
    (void)state;
    for_all(check_even);
}

static void check_chunks(const struct layout *l)
{
    if (l->count > 100000) return;
    size_t expected = 0;
    for (uint32_t chunk = 0; chunk < 3 * l->parts; chunk++) {
        assert_int_equal(layout_chunk_offset(l, true, chunk), expected);
        expected += layout_class_bytes(l, chunk);
    }
    assert_int_equal(layout_chunk_offset(l, true, 3 * l->parts), 3 * l->count * l->element_bytes);
}

static void chunks_of_all_blocks_follow_each_other(void **state)
{
    (void)state;
    for_all(check_chunks);
}

/* 3 ranks, rank 1 of them, and counts of 7, 0 and 100. */
static void blocks_of_different_counts_follow_each_other(void **state)
{
    (void)state;
    static const size_t block_counts[] = {7, 0, 100}, begins[] = {0, 7, 7, 107};
    const struct layout l = {.count = 0,
                             .element_bytes = 4,
                             .parts = 2,
                             .collective = COLLECTIVE_ALLGATHER,
                             .rank = 1,
                             .rank_count = 3,
                             .output_counts = block_counts,
                             .output_begins = begins};
    static const size_t offsets[] = {0, 12, 28, 28, 28, 28 + 50 * 4},
                        bytes[] = {12, 16, 0, 0, 200, 200};
    for (uint32_t chunk = 0; chunk < 6; chunk++) {
        assert_int_equal(layout_chunk_offset(&l, false, chunk), offsets[chunk]);
        assert_int_equal(layout_class_bytes(&l, chunk), bytes[chunk]);
    }
    assert_int_equal(layout_chunk_offset(&l, true, 0), 0);
}

static void only_own_blocks_of_an_alltoall_are_known(void **state)
{
    (void)state;
    static const size_t sent[] = {1, 2, 3}, received[] = {4, 2, 5}, begins[] = {0, 0, 0, 0};
    const struct layout l = {.element_bytes = 1,
                             .parts = 1,
                             .collective = COLLECTIVE_ALLTOALL,
                             .rank = 1,
                             .rank_count = 3,
                             .input_counts = sent,
                             .output_counts = received,
                             .input_begins = begins,
                             .output_begins = begins};
    static const size_t bytes[] = {LAYOUT_UNKNOWN, 4, LAYOUT_UNKNOWN, 1, 2, 3,
                                   LAYOUT_UNKNOWN, 5, LAYOUT_UNKNOWN};
    for (uint32_t class = 0; class < 9; class ++)
        assert_int_equal(layout_class_bytes(&l, class), bytes[class]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_cover_a_block_exactly),
        cmocka_unit_test(parts_are_nearly_equal_and_large_ones_begin_on_cache_lines),
        cmocka_unit_test(chunks_of_all_blocks_follow_each_other),
        cmocka_unit_test(blocks_of_different_counts_follow_each_other),
        cmocka_unit_test(only_own_blocks_of_an_alltoall_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
