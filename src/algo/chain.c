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
 * for all elements). Allreduce keeps rank order, but its halves have different trees.
 *
 * All go from rank to rank in the order of nearness, if there is one: a piece then crosses from
 * core to core once, while the ranks that share a core find it in their cache, and leaves a host or
 * a rack once.
 *
 * Source: Pjesivac-Grbovic et al., "Performance Analysis of MPI Collective Operations", Cluster
 * Computing 10(2), 2007 (pipeline).
 */
#include "algo/generators.h"

enum { CHANNEL_REDUCE, CHANNEL_RESULT };

void chain_broadcast(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank);
    const int next = circle_at(&circle, 1);
    plan_lane(b);
    plan_begin(b, 1);
    if (rank == params->root)
        plan_read(b, PLAN_INPUT, 0);
    else
        plan_receive(b, circle_at(&circle, -1));
    plan_write(b, PLAN_OUTPUT, 0);
    if (next != params->root) plan_send(b, next);
    plan_end(b);
}

void chain_reduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank);
    const int previous = circle_at(&circle, -1);
    plan_lane(b);
    plan_begin(b, 1);
    if (previous != params->root) plan_receive(b, previous);
    plan_read(b, PLAN_INPUT, 0);
    if (rank == params->root) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    } else {
        plan_send(b, circle_at(&circle, 1));
    }
    plan_end(b);
}

/* The neighbours in the chain of all ranks; -1 where it ends. */
static int before_in_chain(const struct circle *circle)
{
    return circle->self > 0 ? circle_at(circle, -1) : -1;
}

static int after_in_chain(const struct circle *circle)
{
    return circle->self + 1 < circle->rank_count ? circle_at(circle, 1) : -1;
}

/* A step that adds this rank's half to what comes from `before` (-1: nobody), in the order of
 * ranks; not ended. */
static void begin_half(struct plan_builder *b, uint32_t half, int before)
{
    plan_lane(b);
    plan_begin(b, 1);
    if (before >= 0 && half == 0) plan_receive(b, before);
    plan_read(b, PLAN_INPUT, half);
    if (before >= 0 && half == 1) plan_receive(b, before);
}

/* Passes on the half whose step has begun, and begins a step in another lane for its result; does
 * not end that step. */
static void pass_half_on(struct plan_builder *b, int after)
{
    plan_send(b, after);
    plan_end(b);
    plan_lane(b);
    plan_channel(b, CHANNEL_RESULT);
    plan_begin(b, 1);
}

/* Makes the step that has begun yield the result: stores it, ready to be sent. */
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
    const struct circle circle = circle_of(params, rank);
    const int lower = before_in_chain(&circle), higher = after_in_chain(&circle);
    plan_parts(b, 2);
    reduce_there_and_back(b, 0, lower, higher);
    reduce_there_and_back(b, 1, higher, lower);
}

/* Half of the buffer: `before` and `after` are the neighbours in the order of reduction, -1 where
 * the chain ends; `last` is the one that completes it. */
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
    const struct circle circle = circle_of(params, rank);
    const int lower = before_in_chain(&circle), higher = after_in_chain(&circle);
    const int first = circle_at(&circle, -circle.self), last = circle_at(&circle, -circle.self - 1);
    plan_parts(b, 2);
    const int all = plan_group_all(b);
    relay_half(b, 0, lower, higher, last, all);
    relay_half(b, 1, higher, lower, first, all);
}
