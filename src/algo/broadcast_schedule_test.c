#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algo/broadcast_schedule.h"
#include "plan/plan.h"

static struct broadcast_schedule *schedules_of(int ranks)
{
    struct broadcast_schedule *schedules = calloc((size_t)ranks, sizeof *schedules);
    assert_non_null(schedules);
    for (int rank = 0; rank < ranks; rank++) broadcast_schedule_init(&schedules[rank], ranks, rank);
    return schedules;
}

/* In a phase: a base block and all of the phase before but that one. Returns the base block. */
static int check_receives(const struct broadcast_schedule *schedule)
{
    const int count = schedule->circulant.round_count;
    uint32_t blocks = 0; /* bit i: block i - count */
    int base = -1;
    for (int k = 0; k < count; k++) {
        const int block = schedule->receives[k];
        assert_in_range(block + count, 0, 2 * count - 1);
        blocks |= UINT32_C(1) << (block + count);
        if (block >= 0) base = block;
    }
    assert_in_range(base, 0, count - 1);
    assert_int_equal(blocks, ((UINT32_C(1) << count) - 1) ^ (UINT32_C(1) << base) ^
                                 (UINT32_C(1) << (base + count)));
    return base;
}

static bool has_received(const struct broadcast_schedule *schedule, int round, int block)
{
    for (int k = 0; k < round; k++)
        if (schedule->receives[k] == block) return true;
    return false;
}

/* Both ends agree; the root sends block k in round k, all others what they have. */
static void check_sends(const struct broadcast_schedule *schedules, int rank)
{
    const struct broadcast_schedule *schedule = &schedules[rank];
    const int count = schedule->circulant.round_count;
    const int base = rank == 0 ? 0 : check_receives(schedule);
    for (int k = 0; k < count; k++) {
        const int to = (rank + schedule->circulant.skips[k]) % schedule->rank_count;
        if (to == 0) continue;
        assert_int_equal(schedule->sends[k], schedules[to].receives[k]);
        if (rank == 0)
            assert_int_equal(schedule->sends[k], k);
        else if (schedule->sends[k] != base - count)
            assert_true(has_received(schedule, k, schedule->sends[k]));
    }
}

static void check(int ranks)
{
    struct broadcast_schedule *schedules = schedules_of(ranks);
    for (int rank = 0; rank < ranks; rank++) check_sends(schedules, rank);
    free(schedules);
}

static void schedules_are_right_for_any_number_of_ranks(void **state)
{
    (void)state;
    const char *is_long = getenv("TUTTI_LONG");
    const int most = is_long != NULL && strcmp(is_long, "1") == 0 ? 1100 : 260;
    for (int ranks = 2; ranks <= most; ranks++) check(ranks);
}

static void schedules_are_right_for_many_ranks(void **state)
{
    (void)state;
    static const int rank_counts[] = {511, 512, 513, 1000, 1365, 2049, 4095, 10923, PLAN_RANKS_MAX};
    for (size_t i = 0; i < sizeof rank_counts / sizeof *rank_counts; i++) check(rank_counts[i]);
}

/* Round by round, as ranks would: nobody sends what it has not, and everyone gets every block once,
 * in S-1+q rounds. */
static void check_broadcast(int ranks, int block_count)
{
    struct broadcast_schedule *schedules = schedules_of(ranks);
    uint64_t *held = calloc((size_t)ranks, sizeof *held),
             *next = calloc((size_t)ranks, sizeof *next);
    assert_true(held != NULL && next != NULL);
    next[0] = (UINT64_C(1) << block_count) - 1;
    const int round_count = broadcast_schedule_round_count(&schedules[0], block_count);
    assert_int_equal(round_count, block_count - 1 + schedules[0].circulant.round_count);
    for (int i = 0; i < round_count; i++) {
        for (int rank = 0; rank < ranks; rank++) held[rank] = next[rank];
        for (int rank = 0; rank < ranks; rank++) {
            const struct broadcast_round round =
                broadcast_schedule_round(&schedules[rank], block_count, i);
            const struct broadcast_round theirs =
                broadcast_schedule_round(&schedules[round.to], block_count, i);
            assert_int_equal(theirs.from, rank);
            assert_int_equal(theirs.receive_block, round.send_block);
            if (round.send_block == BROADCAST_NOTHING) continue;
            const uint64_t block = UINT64_C(1) << round.send_block;
            assert_true(round.to != 0 && (held[rank] & block) != 0 && (next[round.to] & block) == 0);
            next[round.to] |= block;
        }
    }
    for (int rank = 0; rank < ranks; rank++) assert_true(next[rank] == next[0]);
    free(held);
    free(next);
    free(schedules);
}

static void any_number_of_blocks_takes_the_fewest_rounds(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 70; ranks++)
        for (int blocks = 1; blocks <= 20; blocks++) check_broadcast(ranks, blocks);
    check_broadcast(1000, 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_right_for_any_number_of_ranks),
        cmocka_unit_test(schedules_are_right_for_many_ranks),
        cmocka_unit_test(any_number_of_blocks_takes_the_fewest_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
