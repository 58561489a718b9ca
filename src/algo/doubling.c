/* doubling.c - exchange with partners at distance 1, 2, 4, ...: after q, all know of 2^q ranks.
 *
 *     round 0   0<->1   2<->3   4<->5   6<->7
 *     round 1   0<---->2    1<---->3   4<---->6 ...
 *     round 2   0<---------->4   1<---------->5 ...
 *
 *     p = 2^q + e: each of the first e pairs (0,1), (2,3), ... of ranks counts as one
 *
 *       0 --> 1 <-> ... --> 0     the even rank hands its operand to the odd one before the rounds
 *                                 and gets the result after them
 *
 * Cost: allreduce ceil(log2 p) (alpha + n beta + n gamma), and 2 alpha + 2 n beta + n gamma for
 * pairs: the fewest rounds, for small messages. Allgather log2(p) alpha + (p-1)/p n beta.
 * Dissemination barrier ceil(log2 p) alpha for any p, with k ports ceil(log_(k+1) p) alpha.
 *
 * Every rank reduces the lower ranks' operand with the higher ranks' one: rank order, and one
 * association tree for all elements on all ranks, the same as in halving.c. Allgather needs a power
 * of two.
 *
 * A partial result is never stored over the one before it, which a slow partner may still be
 * reading: that is one scratch chunk a round, and in place one more for what is sent first.
 *
 * Source: Thakur, Rabenseifner, Gropp 2005 (see mesh.c); Hensgen, Finkel, Manber, "Two Algorithms
 * for Barrier Synchronization", IJPP 17(1), 1988.
 */
#include "algo/circulant.h"
#include "algo/generators.h"

/* Rank of the member of the power-of-two cube. */
static int rank_of(int member, int extra)
{
    return member < extra ? 2 * member + 1 : member + extra;
}

void doubling_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int cube = power_of_two_within(params->rank_count), extra = params->rank_count - cube;
    const bool paired = rank < 2 * extra;
    plan_lane(b);
    if (paired && rank % 2 == 0) {
        plan_send_from(b, rank + 1, PLAN_INPUT, 0, 1);
        plan_receive_to(b, rank + 1, PLAN_OUTPUT, 0, 1);
        return;
    }
    const int member = paired ? rank / 2 : rank - extra;
    struct plan_location partial = {PLAN_INPUT, 0};
    const bool stored = paired || params->in_place;
    if (stored) partial = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
    plan_begin(b, 1);
    if (paired) plan_receive(b, rank - 1);
    plan_read(b, PLAN_INPUT, 0);
    if (stored) plan_write(b, partial.buffer, partial.first);
    plan_send(b, rank_of(member ^ 1, extra));
    plan_end(b);

    for (int distance = 1; distance < cube; distance *= 2) {
        const int peer = rank_of(member ^ distance, extra);
        const bool last = distance * 2 == cube;
        struct plan_location next = {PLAN_OUTPUT, 0};
        if (!last) next = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
        plan_begin(b, 1);
        if (peer < rank) plan_receive(b, peer);
        plan_read(b, partial.buffer, partial.first);
        if (peer > rank) plan_receive(b, peer);
        plan_write(b, next.buffer, next.first);
        if (!last)
            plan_send(b, rank_of(member ^ (distance * 2), extra));
        else if (paired)
            plan_send(b, rank - 1);
        if (last) plan_final(b);
        plan_end(b);
        partial = next;
    }
}

/* Before the round of that distance a rank holds the aligned run of `distance` blocks that its own
 * is in. */
void doubling_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, (uint32_t)rank);
    plan_send(b, rank ^ 1);
    plan_end(b);
    plan_receive_to(b, rank ^ 1, PLAN_OUTPUT, (uint32_t)rank ^ 1, 1);
    for (int distance = 2; distance < params->rank_count; distance *= 2) {
        const int peer = rank ^ distance;
        const uint32_t count = (uint32_t)distance, held = (uint32_t)rank & ~(count - 1);
        plan_send_from(b, peer, PLAN_OUTPUT, held, count);
        plan_receive_to(b, peer, PLAN_OUTPUT, held ^ count, count);
    }
}

/* In a round everyone tells the peers at the multiples of a power of the radix that all those of
 * which it has heard are there. */
void doubling_barrier(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    const struct circulant circulant = circulant_of_powers(ranks, radix_of(params));
    const int *skips = circulant.skips, round_count = circulant.round_count;
    plan_lane(b);
    for (int round = 0; round <= round_count; round++) {
        plan_begin(b, 0);
        if (round == 0) plan_read(b, PLAN_INPUT, 0);
        for (int d = 1; round > 0 && d * skips[round - 1] < skips[round]; d++)
            plan_receive(b, rank_at(rank, -d * skips[round - 1], ranks));
        for (int d = 1; round < round_count && d * skips[round] < skips[round + 1]; d++)
            plan_send(b, rank_at(rank, d * skips[round], ranks));
        if (round == round_count) plan_write(b, PLAN_OUTPUT, 0);
        plan_end(b);
    }
}
