/* perf_check_test.c - what tutti-perf takes for right is right, and it finds whatever is wrong.
 *
 * The ranks live in one process here: a collective is computed from their send buffers, with a plain loop in
 * the dtype itself, then spoilt, then checked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../tools/tutti-perf_buffer.c"
#include "../tools/tutti-perf_operation.c"
#include "../tools/tutti-perf_value.c"

enum { RANKS = 5, ROOT = 3, COUNT = 37 };

struct world {
    const struct operation *operation;
    struct pattern pattern;
    struct buffers buffers[RANKS];
};

static void world_init(struct world *world, const char *name, enum tutti_dtype dtype, tutti_op op,
                       bool in_place)
{
    world->operation = operation_find(name);
    world->pattern = (struct pattern){dtype, world->operation->reduces, op, RANKS, 11};
    for (int rank = 0; rank < RANKS; rank++) {
        const struct shape shape = {RANKS, rank, ROOT, COUNT};
        assert_int_equal(buffers_init(&world->buffers[rank], world->operation, &shape,
                                      tutti_dtype_size(dtype), in_place, false, 1),
                         TUTTI_OK);
        buffers_fill(&world->buffers[rank], 0, &world->pattern);
    }
}

static void world_release(struct world *world)
{
    for (int rank = 0; rank < RANKS; rank++) buffers_release(&world->buffers[rank]);
}

static size_t wrong_at(const struct world *world, int rank)
{
    char text[160];
    const size_t wrong = buffers_check(&world->buffers[rank], 0, &world->pattern, text, sizeof text);
    assert_int_equal(wrong > 0, text[0] != '\0');
    return wrong;
}

static size_t wrong_in(const struct world *world)
{
    size_t wrong = 0;
    for (int rank = 0; rank < RANKS; rank++) wrong += wrong_at(world, rank);
    return wrong;
}

/* ---------------------------------------------------------------------------------- the plain computation */

static float widened(uint16_t half)
{
    return float_from_bfloat16(half);
}

#define COMBINE(type, a, b)                         \
    do {                                            \
        const type x = (a), y = (b);                \
        total = op == TUTTI_PROD  ? x * y           \
                : op == TUTTI_MIN ? (y < x ? y : x) \
                : op == TUTTI_MAX ? (y > x ? y : x) \
                                  : x + y;          \
    } while (0)

/* into = into op from, as a rank would do it: rounded to the dtype each time. */
static void combine(enum tutti_dtype dtype, tutti_op op, void *into, const void *from, size_t i)
{
    if (dtype == TUTTI_FLOAT32) {
        float total;
        COMBINE(float, ((float *)into)[i], ((const float *)from)[i]);
        ((float *)into)[i] = total;
    } else if (dtype == TUTTI_FLOAT64) {
        double total;
        COMBINE(double, ((double *)into)[i], ((const double *)from)[i]);
        ((double *)into)[i] = total;
    } else if (dtype == TUTTI_BFLOAT16) {
        float total;
        COMBINE(float, widened(((uint16_t *)into)[i]), widened(((const uint16_t *)from)[i]));
        ((uint16_t *)into)[i] = bfloat16_from_float(total);
    } else if (op == TUTTI_MIN || op == TUTTI_MAX) {
        int64_t total;
        const bool narrow = dtype == TUTTI_INT32;
        COMBINE(int64_t, narrow ? ((int32_t *)into)[i] : ((int64_t *)into)[i],
                narrow ? ((const int32_t *)from)[i] : ((const int64_t *)from)[i]);
        store_integer(dtype, (uint64_t)total, into, i);
    } else {
        uint64_t total;
        const bool narrow = dtype == TUTTI_INT32;
        COMBINE(uint64_t, narrow ? ((uint32_t *)into)[i] : ((uint64_t *)into)[i],
                narrow ? ((const uint32_t *)from)[i] : ((const uint64_t *)from)[i]);
        store_integer(dtype, total, into, i);
    }
}

static void divide(enum tutti_dtype dtype, void *elements, size_t i)
{
    switch (dtype) {
    case TUTTI_FLOAT32: ((float *)elements)[i] /= RANKS; break;
    case TUTTI_FLOAT64: ((double *)elements)[i] /= RANKS; break;
    case TUTTI_BFLOAT16:
        ((uint16_t *)elements)[i] = bfloat16_from_float(widened(((uint16_t *)elements)[i]) / RANKS);
        break;
    case TUTTI_INT32: ((int32_t *)elements)[i] /= RANKS; break;
    case TUTTI_INT64: ((int64_t *)elements)[i] /= RANKS; break;
    default: break;
    }
}

/* allreduce over the ranks, starting with `first`: another order of the same sum. */
static void allreduce(struct world *world, int first)
{
    const enum tutti_dtype dtype = world->pattern.dtype;
    const tutti_op op = world->pattern.op;
    const size_t bytes = COUNT * tutti_dtype_size(dtype);
    uint64_t total[COUNT];
    memcpy(total, world->buffers[first].sets[0].send, bytes);
    for (int k = 1; k < RANKS; k++)
        for (size_t i = 0; i < COUNT; i++)
            combine(dtype, op, total, world->buffers[(first + k) % RANKS].sets[0].send, i);
    for (size_t i = 0; op == TUTTI_AVG && i < COUNT; i++) divide(dtype, total, i);
    for (int rank = 0; rank < RANKS; rank++)
        memcpy(world->buffers[rank].sets[0].recv, total, bytes);
}

static void alltoall(struct world *world)
{
    const size_t bytes = COUNT * tutti_dtype_size(world->pattern.dtype);
    for (int to = 0; to < RANKS; to++)
        for (int from = 0; from < RANKS; from++)
            memcpy(world->buffers[to].sets[0].recv + (size_t)from * bytes,
                   world->buffers[from].sets[0].send + (size_t)to * bytes, bytes);
}

/* ------------------------------------------------------------------------------------------------- tests */

static void right_reductions_pass_in_any_order(void **state)
{
    (void)state;
    for (int dtype = TUTTI_FLOAT32; dtype <= TUTTI_INT64; dtype++)
        for (int op = 0; op < 5; op++)
            for (int first = 0; first < RANKS; first++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    struct world world;
                    world_init(&world, "allreduce", (enum tutti_dtype)dtype,
                               (tutti_op)(uintptr_t)(1 + op), in_place);
                    allreduce(&world, first);
                    assert_int_equal(wrong_in(&world), 0);
                    world_release(&world);
                }
}

static void every_untouched_output_is_wrong(void **state)
{
    (void)state;
    for (int i = 0; i < operation_count; i++) {
        struct world world;
        world_init(&world, operation_list[i].name, TUTTI_BFLOAT16, TUTTI_SUM, false);
        for (int rank = 0; rank < RANKS; rank++)
            assert_int_equal(wrong_at(&world, rank),
                             world.operation->recv_blocks(&world.buffers[rank].shape) * COUNT);
        world_release(&world);
    }
}

static void one_wrong_bit_is_one_wrong_element(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "allreduce", TUTTI_FLOAT32, TUTTI_SUM, false);
    allreduce(&world, 0);
    world.buffers[2].sets[0].recv[COUNT * sizeof(float) - 1] ^= 1;
    assert_int_equal(wrong_at(&world, 2), 1);
    assert_int_equal(wrong_in(&world), 1);
    world_release(&world);
}

/* A rank's input replaced by another's counts as missing and doubled at once. */
static void a_missing_contribution_is_found(void **state)
{
    (void)state;
    for (int dtype = TUTTI_FLOAT32; dtype <= TUTTI_INT64; dtype++)
        for (int op = 0; op < 5; op++) {
            struct world world;
            world_init(&world, "allreduce", (enum tutti_dtype)dtype, (tutti_op)(uintptr_t)(1 + op),
                       false);
            const size_t bytes = world.buffers[0].send_bytes;
            memcpy(world.buffers[1].sets[0].send, world.buffers[4].sets[0].send, bytes);
            allreduce(&world, 0);
            assert_true(wrong_at(&world, 0) > 0);
            world_release(&world);
        }
}

static void swapped_blocks_are_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "alltoall", TUTTI_BFLOAT16, TUTTI_SUM, false);
    alltoall(&world);
    assert_int_equal(wrong_in(&world), 0);
    const size_t bytes = COUNT * sizeof(uint16_t);
    unsigned char kept[COUNT * sizeof(uint16_t)], *const recv = world.buffers[0].sets[0].recv;
    memcpy(kept, recv, bytes);
    memcpy(recv, recv + bytes, bytes);
    memcpy(recv + bytes, kept, bytes);
    assert_true(wrong_in(&world) > COUNT);
    world_release(&world);
}

static void writing_to_the_input_is_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "alltoall", TUTTI_INT64, TUTTI_SUM, false);
    alltoall(&world);
    world.buffers[1].sets[0].send[0] ^= 1;
    assert_int_equal(wrong_in(&world), 1);
    world_release(&world);
}

static void writing_to_the_input_beside_an_output_in_place_is_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "scatter", TUTTI_INT32, TUTTI_SUM, true);
    const struct buffer_set *const at_root = &world.buffers[ROOT].sets[0];
    const size_t bytes = COUNT * sizeof(int32_t);
    value_inputs(&world.pattern, ROOT, (size_t)ROOT * COUNT, COUNT, at_root->recv);
    assert_int_equal(wrong_at(&world, ROOT), 0);
    at_root->send[(size_t)ROOT * bytes - 1] ^= 1;
    at_root->send[(size_t)(ROOT + 1) * bytes] ^= 1;
    assert_int_equal(wrong_at(&world, ROOT), 2);
    world_release(&world);
}

static void writing_past_the_end_is_found(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct world world;
        world_init(&world, "allreduce", TUTTI_FLOAT64, TUTTI_MAX, in_place);
        allreduce(&world, 0);
        world.buffers[3].sets[0].recv[COUNT * sizeof(double)] = 0;
        assert_int_equal(wrong_at(&world, 3), 1);
        world_release(&world);
    }
}

static void stale_results_are_found(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, "allreduce", TUTTI_FLOAT32, TUTTI_SUM, false);
    allreduce(&world, 0);
    world.pattern.salt++;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct buffer_set *const set = &world.buffers[rank].sets[0];
        value_inputs(&world.pattern, rank, 0, COUNT, set->send);
        assert_true(wrong_at(&world, rank) > COUNT / 2);
    }
    world_release(&world);
}

static void sums_stay_exact_with_more_ranks_than_integers(void **state)
{
    (void)state;
    const struct pattern pattern = {TUTTI_BFLOAT16, true, TUTTI_SUM, 1000, 5};
    uint16_t result[COUNT];
    bool varies = false;
    value_reduced(&pattern, 0, COUNT, result);
    for (size_t i = 0; i < COUNT; i++) {
        uint16_t total = 0, value;
        for (int rank = 0; rank < pattern.rank_count; rank++) {
            value_inputs(&pattern, rank, i, 1, &value);
            total = bfloat16_from_float(widened(total) + widened(value));
        }
        assert_int_equal(total, result[i]);
        varies |= result[i] != result[0];
    }
    assert_true(varies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_reductions_pass_in_any_order),
        cmocka_unit_test(every_untouched_output_is_wrong),
        cmocka_unit_test(one_wrong_bit_is_one_wrong_element),
        cmocka_unit_test(a_missing_contribution_is_found),
        cmocka_unit_test(swapped_blocks_are_found),
        cmocka_unit_test(writing_to_the_input_is_found),
        cmocka_unit_test(writing_to_the_input_beside_an_output_in_place_is_found),
        cmocka_unit_test(writing_past_the_end_is_found),
        cmocka_unit_test(stale_results_are_found),
        cmocka_unit_test(sums_stay_exact_with_more_ranks_than_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
