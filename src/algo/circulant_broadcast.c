/* circulant_broadcast.c - broadcast and reduce of S blocks in S-1+q rounds, the fewest there can
 * be.
 *
 *     p = 5, S = 3: the block that arrives in the rounds 0 .. 4, and from whom
 *
 *       rank 1     .        .     2 from 0  1 from 4  0 from 3      root 0; distances 2, 3, 1, 2, 3
 *       rank 2  0 from 0    .        .      2 from 0  1 from 4
 *       rank 3     .     1 from 0  0 from 2    .      2 from 0
 *       rank 4     .        .     1 from 3  0 from 2  2 from 1
 *
 * Everyone sends and receives one block a round, with peers at distances that all ranks share:
 * broadcast_schedule.h says which.  Reduce is the same backwards in time: a block's partial sum
 * goes to the rank that it would have come from, after those have come that it would have gone to.
 *
 * Cost: (S-1+q) (alpha + n/S beta [+ n/S gamma]), q = ceil(log2 p): near n beta for long messages
 * as with a chain, after q and not p-1 rounds; for medium to large messages and many ranks.
 *
 * Every block has another tree, and children come in the order of rounds: reduce needs a
 * commutative operation.  Any rank count and root; at most q links each way.
 *
 * Source: Träff, "Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction", arXiv:2407.18004, 2024.
 */
#include "algo/broadcast_schedule.h"
#include "algo/generators.h"

enum { BLOCKS = 16 };

static int actual_rank(const struct algo_params *params, int counted_from_root)
{
    return rank_at(params->root, counted_from_root, params->rank_count);
}

static void schedule_of(const struct algo_params *params, int rank,
                        struct broadcast_schedule *schedule)
{
    broadcast_schedule_init(schedule, params->rank_count,
                            rank_at(rank, -params->root, params->rank_count));
}

void circulant_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct broadcast_schedule schedule;
    schedule_of(params, rank, &schedule);
    const int round_count = broadcast_schedule_round_count(&schedule, BLOCKS);
    const bool is_root = rank == params->root;
    int stored = 0; /* the root stores each block that it sends for the first time */
    plan_parts(b, BLOCKS);
    plan_lane(b);
    for (int i = 0; i < round_count; i++) {
        const struct broadcast_round round = broadcast_schedule_round(&schedule, BLOCKS, i);
        if (round.send_block != BROADCAST_NOTHING) {
            const uint32_t block = (uint32_t)round.send_block;
            plan_begin(b, 1);
            plan_read(b, is_root ? PLAN_INPUT : PLAN_OUTPUT, block);
            if (is_root && round.send_block == stored) {
                plan_write(b, PLAN_OUTPUT, block);
                stored++;
            }
            plan_send(b, actual_rank(params, round.to));
            plan_end(b);
        }
        if (round.receive_block != BROADCAST_NOTHING)
            plan_receive_to(b, actual_rank(params, round.from), PLAN_OUTPUT,
                            (uint32_t)round.receive_block, 1);
    }
}

/* A block's sum: the input until something was added, then what lies in `sums`. */
struct partial_sums {
    enum plan_buffer sums;
    bool added[BLOCKS];
};

static enum plan_buffer place_of(const struct partial_sums *partial, uint32_t block)
{
    return partial->added[block] ? partial->sums : PLAN_INPUT;
}

/* In a broadcast the root sends block i in round i and the last one in all rounds from then on, so
 * that here round i completes block i. */
void circulant_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct broadcast_schedule schedule;
    schedule_of(params, rank, &schedule);
    const bool is_root = rank == params->root;
    struct partial_sums partial = {.sums = is_root ? PLAN_OUTPUT : PLAN_SCRATCH};
    plan_parts(b, BLOCKS);
    for (uint32_t block = 0; block < BLOCKS && !is_root; block++) plan_scratch(b, block);
    plan_lane(b);
    for (int i = broadcast_schedule_round_count(&schedule, BLOCKS) - 1; i >= 0; i--) {
        const struct broadcast_round round = broadcast_schedule_round(&schedule, BLOCKS, i);
        if (round.receive_block != BROADCAST_NOTHING) {
            const uint32_t block = (uint32_t)round.receive_block;
            plan_send_from(b, actual_rank(params, round.from), place_of(&partial, block), block, 1);
        }
        if (round.send_block != BROADCAST_NOTHING) {
            const uint32_t block = (uint32_t)round.send_block;
            plan_begin(b, 1);
            plan_read(b, place_of(&partial, block), block);
            plan_receive(b, actual_rank(params, round.to));
            plan_write(b, partial.sums, block);
            if (is_root && round.send_block == i) plan_final(b);
            plan_end(b);
            partial.added[block] = true;
        }
    }
}
