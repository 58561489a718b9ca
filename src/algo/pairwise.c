/* pairwise.c - one exchange at a time: in every round each rank sends one block and receives one.
 *
 *     alltoall         r <-> r^k           p a power of two
 *                      r <-> (k-r) mod p   else; partners swap, whoever meets itself rests:
 *
 *                      0   1   2   3   4   p = 5, round 0
 *                      o   |   +---+   |
 *                          +-----------+
 *
 *     reduce_scatter   r-k --> r --> r+k
 *
 * Cost: alltoall (p-1) alpha + (p-1)/p n beta for p blocks of n/p bytes, reduce_scatter the same
 * and gamma.  For large blocks: little is under way at once, so nobody is flooded and caches hold
 * what is being moved.
 *
 * Reduce_scatter adds the operands from rank r-1 downwards: another tree for each block, and a
 * commutative operation.  Any rank count; p-1 links a rank.
 *
 * Source: Thakur et al. 2005 (see mesh.c).
 */
#include "algo/generators.h"

/* In place a block arrives where the block to the same partner lay: that one is sent from a copy.
 */
void pairwise_alltoall(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, (uint32_t)rank, PLAN_OUTPUT, (uint32_t)rank, 1);
    for (int k = 0; k < ranks; k++) {
        const int partner = is_power_of_two(ranks) ? rank ^ k : rank_at(k, -rank, ranks);
        if (partner == rank) continue;
        uint32_t copy = 0;
        if (params->in_place)
            copy = plan_scratch(b, (uint32_t)rank * (uint32_t)ranks + (uint32_t)partner);
        plan_begin(b, 1);
        plan_read(b, PLAN_INPUT, (uint32_t)partner);
        if (params->in_place) plan_write(b, PLAN_SCRATCH, copy);
        plan_send(b, partner);
        plan_end(b);
        plan_receive_to(b, partner, PLAN_OUTPUT, (uint32_t)partner, 1);
    }
}

void pairwise_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    plan_lane(b);
    for (int k = 1; k < ranks; k++) {
        const int to = rank_at(rank, k, ranks);
        plan_send_from(b, to, PLAN_INPUT, (uint32_t)to, 1);
        plan_begin(b, 1);
        plan_receive(b, rank_at(rank, -k, ranks));
        if (k == 1)
            plan_read(b, PLAN_INPUT, (uint32_t)rank);
        else
            plan_read(b, PLAN_OUTPUT, 0);
        plan_write(b, PLAN_OUTPUT, 0);
        if (k == ranks - 1) plan_final(b);
        plan_end(b);
    }
}
