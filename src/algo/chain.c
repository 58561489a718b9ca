/* chain.c - pipelined chains: one fused step a rank, through which a chunk streams piece by piece.
 *
 *     broadcast   root --> root+1 --> root+2 --> ... --> root-1
 *     reduce      root+1 --> root+2 --> ... --> root-1 --> root
 *
 *     allreduce   half 0   0 ==> 1 ==> 2 ==> 3     reduced on the way there,
 *                          0 <-- 1 <-- 2 <-- 3     the result on the way back
 *                 half 1   0 <== 1 <== 2 <== 3     the other way round, so that both
 *                          0 --> 1 --> 2 --> 3     directions of a link carry the same
 *
 *     relay       the same, but the last one hands the result to all at once: where memory is
 *                 shared the piece that was handed along lies there for everybody to read
 *
 * Cost with S pieces: (S+p-2) (alpha + n/S beta) for broadcast, with gamma for reduce; allreduce
 * (S+2p-3) (alpha + n/S beta + n/(2S) gamma): two halves, there and back, share each direction.
 * Near n beta for messages much longer than p pieces, whatever p; nobody has more than two
 * neighbours.
 *
 * relay's is (S+p-1) (alpha + n/S beta + n/(2S) gamma) where one message reaches all.
 *
 * The reduction is in ring order from root+1 to root, hence commutative operations (though one tree
 * for all elements). Allreduce keeps rank order, but its halves have different trees. Relay goes from rank
 * to rank in the order of nearness, if there is one: a piece then crosses from core to core once, while
 * the ranks that share a core find it in their cache.
 *
 * Source: Pjesivac-Grbovic et al., "Performance Analysis of MPI Collective Operations", Cluster
 * Computing 10(2), 2007 (pipeline).
 */
#include "algo/generators.h"

enum { CHANNEL_REDUCE, CHANNEL_RESULT };

void chain_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, next = rank_at(rank, 1, ranks);
    plan_lane(b);
    plan_begin(b, 1);
    if (rank == params->root)
        plan_read(b, PLAN_INPUT, 0);
    else
        plan_receive(b, rank_at(rank, -1, ranks));
    plan_write(b, PLAN_OUTPUT, 0);
    if (next != params->root) plan_send(b, next);
    plan_end(b);
}

void chain_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, previous = rank_at(rank, -1, ranks);
    plan_lane(b);
    plan_begin(b, 1);
    if (previous != params->root) plan_receive(b, previous);
    plan_read(b, PLAN_INPUT, 0);
    if (rank == params->root) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    } else {
        plan_send(b, rank_at(rank, 1, ranks));
    }
    plan_end(b);
}

/* A step that adds this rank's half to what comes from `before` (-1: nobody), in the order of ranks; not ended. */
static void begin_half(struct plan_builder *b, uint32_t half, int before)
{
    plan_lane(b);
    plan_begin(b, 1);
    if (before >= 0 && half == 0) plan_receive(b, before);
    plan_read(b, PLAN_INPUT, half);
    if (before >= 0 && half == 1) plan_receive(b, before);
}

/* What was begun is passed on, and another lane's step begins for its result; not ended. */
static void pass_half_on(struct plan_builder *b, int after)
{
    plan_send(b, after);
    plan_end(b);
    plan_lane(b);
    plan_channel(b, CHANNEL_RESULT);
    plan_begin(b, 1);
}

/* What was begun is the result: stored, and to be sent. */
static void complete_half(struct plan_builder *b, uint32_t half)
{
    plan_write(b, PLAN_OUTPUT, half);
    plan_final(b);
    plan_channel(b, CHANNEL_RESULT);
}

/* One half of the buffer: `before` is the neighbour that reduces first, `after` the one that
 * reduces next; -1 where the chain ends.  Two lanes, since results come back while later pieces are
 * still on their way there. */
static void reduce_there_and_back(struct plan_builder *b, uint32_t half, int before, int after)
{
    begin_half(b, half, before);
    if (after >= 0) {
        pass_half_on(b, after);
        plan_receive(b, after);
        plan_write(b, PLAN_OUTPUT, half);
        if (before >= 0) plan_send(b, before);
    } else {
        complete_half(b, half);
        plan_send(b, before);
    }
    plan_end(b);
}

void chain_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int lower = rank - 1, higher = rank + 1 < params->rank_count ? rank + 1 : -1;
    plan_parts(b, 2);
    reduce_there_and_back(b, 0, lower, higher);
    reduce_there_and_back(b, 1, higher, lower);
}

/* The rank at a place of the chain. */
static int ranked(const struct algo_params *params, int at)
{
    return params->order != NULL ? params->order[at] : at;
}

/* Half of the buffer: `before` and `after` are the neighbours in the order of reduction, -1 where the chain ends;
 * `last` is the one that completes it. */
static void relay_half(struct plan_builder *b, uint32_t half, int before, int after, int last,
                       int all)
{
    begin_half(b, half, before);
    if (after >= 0) {
        pass_half_on(b, after);
        plan_receive_group(b, last, all);
        plan_write(b, PLAN_OUTPUT, half);
    } else {
        complete_half(b, half);
        plan_send_group(b, all);
    }
    plan_end(b);
}

void relay_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    int at = rank;
    if (params->order != NULL)
        for (at = 0; params->order[at] != rank;) at++;
    const int lower = at == 0 ? -1 : ranked(params, at - 1),
              higher = at == ranks - 1 ? -1 : ranked(params, at + 1);
    plan_parts(b, 2);
    const int all = plan_group_all(b);
    relay_half(b, 0, lower, higher, ranked(params, ranks - 1), all);
    relay_half(b, 1, higher, lower, ranked(params, 0), all);
}
