/* pairwise.c - one exchange at a time: in every round each rank sends one block and receives one.
 *
 *     alltoall         r <-> r^k           p a power of two
 *                      r <-> (k-r) mod p   else; partners swap, whoever meets itself rests:
 *
 *                      0   1   2   3   4   p = 5, round 0
 *                      o   |   +---+   |
 *                          +-----------+
 *
 *     alltoall         r-k --> r --> r+k   where ranks are on several hosts, in the order of nearness:
 *                                          of a host or rack of m ranks min(k, m, p-k) leave it in
 *                                          round k and as many enter it, so that its card or uplink
 *                                          is as busy in every round as it has to be, where
 *                                          partners that swap leave it idle in some rounds and all
 *                                          want it in the others; two rounds at once
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
static void swap_with_partners(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
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

/* Rounds under way at once: a rank that is late in one round leaves its partners something to do in
 * the other. */
enum { LANES = 2 };

/* Rounds first, first + LANES, ... up to the last. */
static void send_further(const struct circle *circle, int first, struct plan_builder *b)
{
    for (int k = first; k < circle->rank_count; k += LANES) {
        const int to = circle_at(circle, k), from = circle_at(circle, -k);
        plan_send_from(b, to, PLAN_INPUT, (uint32_t)to, 1);
        plan_receive_to(b, from, PLAN_OUTPUT, (uint32_t)from, 1);
    }
}

/* The block of round k lies where the block of round p-k arrives. In the first half of the rounds
 * it has left by then: the rank that sends the arriving block has received it before. In the other
 * half it is sent from a copy. So rounds come one by one. */
static void send_further_in_place(const struct circle *circle, int rank, struct plan_builder *b)
{
    const int ranks = circle->rank_count;
    uint32_t first_copy = 0;
    for (int k = ranks - 1; 2 * k >= ranks; k--) {
        const uint32_t peer = (uint32_t)circle_at(circle, k);
        const uint32_t copy = plan_scratch(b, (uint32_t)rank * (uint32_t)ranks + peer);
        if (k == ranks - 1) first_copy = copy;
    }
    for (int k = 1; k < ranks; k++) {
        const int to = circle_at(circle, k), from = circle_at(circle, -k);
        const bool is_copied = 2 * k >= ranks;
        const uint32_t copy = first_copy + (uint32_t)(ranks - 1 - k);
        if (2 * k == ranks) plan_copy(b, PLAN_INPUT, (uint32_t)to, PLAN_SCRATCH, copy, 1);
        plan_send_from(b, to, is_copied ? PLAN_SCRATCH : PLAN_INPUT,
                       is_copied ? copy : (uint32_t)to, 1);
        if (!is_copied)
            plan_copy(b, PLAN_INPUT, (uint32_t)from, PLAN_SCRATCH, first_copy + (uint32_t)k - 1, 1);
        plan_receive_to(b, from, PLAN_OUTPUT, (uint32_t)from, 1);
    }
}

void pairwise_alltoall(const struct algo_params *params, int rank, struct plan_builder *b)
{
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, (uint32_t)rank, PLAN_OUTPUT, (uint32_t)rank, 1);
    if (params->levels == NULL) {
        swap_with_partners(params, rank, b);
        return;
    }
    const struct circle circle = circle_of(params, rank);
    if (params->in_place) {
        send_further_in_place(&circle, rank, b);
        return;
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (lane > 0) plan_lane(b);
        send_further(&circle, 1 + lane, b);
    }
}

void pairwise_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    const struct circle circle = circle_of(params, rank);
    plan_lane(b);
    for (int k = 1; k < ranks; k++) {
        const int to = circle_at(&circle, k);
        plan_send_from(b, to, PLAN_INPUT, (uint32_t)to, 1);
        plan_begin(b, 1);
        plan_receive(b, circle_at(&circle, -k));
        if (k == 1)
            plan_read(b, PLAN_INPUT, (uint32_t)rank);
        else
            plan_read(b, PLAN_OUTPUT, 0);
        plan_write(b, PLAN_OUTPUT, 0);
        if (k == ranks - 1) plan_final(b);
        plan_end(b);
    }
}
