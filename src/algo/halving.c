/* halving.c - halve the range with every partner, so that each reduces less and less; then back.
 *
 *     member of 4    0 1 2 3   holds chunks      round 0, partner ^1      round 1, partner ^2
 *                    0         0 1 2 3     -->   0 1 . .            -->   0 . . .
 *                    1         0 1 2 3     -->   . . 2 3            -->   . . 2 .
 *                    2         0 1 2 3     -->   0 1 . .            -->   . 1 . .
 *                    3         0 1 2 3     -->   . . 2 3            -->   . . . 3
 *
 * Whoever has the round's bit keeps the upper half.  Ranges stay contiguous, so that a round is one
 * message each way.  The allgather takes the same way back.  Rank counts in between are folded into
 * pairs as in doubling.c.
 *
 * Cost: allreduce 2 log2(p) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma, reduce_scatter half of it;
 * folding adds 2 alpha + 2 n beta + n gamma.  For medium and large messages.
 *
 * Allreduce takes the partners in the order of doubling.c, lower ranks' operand first: rank order,
 * and one association tree for all elements, bit for bit the one of recursive doubling.  In
 * reduce_scatter the owner of a block is given, so partners come from far to near to keep ranges
 * contiguous; that is one tree for all elements as well, but not in rank order.
 *
 * Source: Rabenseifner, "Optimization of Collective Reduction Operations", ICCS 2004; Thakur et al.
 * 2005 (see mesh.c).
 */
#include "algo/generators.h"

struct cube {
    int size,
        extra; /* rank count = size + extra; the first `extra` pairs of ranks are one member each */
};

static struct cube cube_of(int rank_count)
{
    const int size = power_of_two_within(rank_count);
    return (struct cube){size, rank_count - size};
}

static bool is_paired(struct cube cube, int rank)
{
    return rank < 2 * cube.extra;
}

static int member_of(struct cube cube, int rank)
{
    return is_paired(cube, rank) ? rank / 2 : rank - cube.extra;
}

static int rank_of(struct cube cube, int member)
{
    return member < cube.extra ? 2 * member + 1 : member + cube.extra;
}

/* The peer's message and the local operand, the lower ranks' one first. */
static void begin_reduce(struct plan_builder *b, int rank, int peer, struct plan_location own,
                         uint32_t count)
{
    plan_begin(b, count);
    if (peer < rank) plan_receive(b, peer);
    plan_read(b, own.buffer, own.first);
    if (peer > rank) plan_receive(b, peer);
}

/* In place and out of place alike: a rank's operand, once sent, is overwritten only by results from
 * the rank that it was sent to, which has reduced it by then. */
void halving_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct cube cube = cube_of(params->rank_count);
    const uint32_t parts = (uint32_t)cube.size;
    const bool paired = is_paired(cube, rank);
    plan_parts(b, parts);
    plan_lane(b);
    if (paired && rank % 2 == 0) {
        plan_send_from(b, rank + 1, PLAN_INPUT, 0, parts);
        plan_receive_to(b, rank + 1, PLAN_OUTPUT, 0, parts);
        return;
    }
    enum plan_buffer at = PLAN_INPUT; /* where our partial result lies */
    if (paired) {
        begin_reduce(b, rank, rank - 1, (struct plan_location){at, 0}, parts);
        plan_write(b, PLAN_OUTPUT, 0);
        plan_end(b);
        at = PLAN_OUTPUT;
    }

    const uint32_t member = (uint32_t)member_of(cube, rank);
    uint32_t first = 0, count = parts;
    for (uint32_t distance = 1; distance < parts; distance *= 2) {
        const int peer = rank_of(cube, (int)(member ^ distance));
        count /= 2;
        const uint32_t kept = member & distance ? first + count : first;
        const uint32_t given = member & distance ? first : first + count;
        plan_send_from(b, peer, at, given, count);
        begin_reduce(b, rank, peer, (struct plan_location){at, kept}, count);
        plan_write(b, PLAN_OUTPUT, kept);
        if (count == 1) plan_final(b);
        plan_end(b);
        at = PLAN_OUTPUT;
        first = kept;
    }

    for (uint32_t distance = parts / 2; distance > 0; distance /= 2) {
        const int peer = rank_of(cube, (int)(member ^ distance));
        plan_send_from(b, peer, PLAN_OUTPUT, first, count);
        const uint32_t missing = member & distance ? first - count : first + count;
        plan_receive_to(b, peer, PLAN_OUTPUT, missing, count);
        if (missing < first) first = missing;
        count *= 2;
    }
    if (paired) plan_send_from(b, rank - 1, PLAN_OUTPUT, 0, parts);
}

/* The blocks of members before that one: a pair has two. */
static uint32_t blocks_before(struct cube cube, uint32_t member)
{
    return member + (member < (uint32_t)cube.extra ? member : (uint32_t)cube.extra);
}

/* Scratch for a run of blocks. */
static void declare_scratch(struct plan_builder *b, uint32_t first, uint32_t end)
{
    for (uint32_t block = first; block < end; block++) plan_scratch(b, block);
}

/* Members low .. low + 2 distance - 1 share the blocks that one of them still reduces. */
void halving_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct cube cube = cube_of(params->rank_count);
    const uint32_t blocks = (uint32_t)params->rank_count, half = (uint32_t)cube.size / 2;
    const bool paired = is_paired(cube, rank);
    plan_lane(b);
    if (paired && rank % 2 == 0) {
        plan_send_from(b, rank + 1, PLAN_INPUT, 0, blocks);
        plan_receive_to(b, rank + 1, PLAN_OUTPUT, 0, 1);
        return;
    }
    const uint32_t member = (uint32_t)member_of(cube, rank);
    enum plan_buffer at = PLAN_INPUT; /* where our partial result lies, from block `origin` on */
    uint32_t origin = 0, scratch_origin = 0;
    if (paired) {
        declare_scratch(b, 0, blocks);
        begin_reduce(b, rank, rank - 1, (struct plan_location){at, 0}, blocks);
        plan_write(b, PLAN_SCRATCH, 0);
        plan_end(b);
        at = PLAN_SCRATCH;
    } else {
        scratch_origin = member & half ? blocks_before(cube, half) : 0;
        declare_scratch(b, scratch_origin, member & half ? blocks : blocks_before(cube, half));
    }

    uint32_t low = 0;
    for (uint32_t distance = half; distance > 0; distance /= 2) {
        const int peer = rank_of(cube, (int)(member ^ distance));
        const uint32_t first = blocks_before(cube, low),
                       middle = blocks_before(cube, low + distance),
                       end = blocks_before(cube, low + 2 * distance);
        const bool upper = member & distance;
        const uint32_t kept = upper ? middle : first,
                       kept_count = upper ? end - middle : middle - first;
        const uint32_t given = upper ? first : middle;
        plan_send_from(b, peer, at, given - origin, end - first - kept_count);
        begin_reduce(b, rank, peer, (struct plan_location){at, kept - origin}, kept_count);
        if (distance == 1) plan_final(b);
        if (distance == 1 && !paired)
            plan_write(b, PLAN_OUTPUT, 0);
        else
            plan_write(b, PLAN_SCRATCH, kept - scratch_origin);
        plan_end(b);
        at = PLAN_SCRATCH;
        origin = scratch_origin;
        if (upper) low += distance;
    }
    if (paired) {
        plan_send_from(b, rank - 1, PLAN_SCRATCH, (uint32_t)rank - 1, 1);
        plan_copy(b, PLAN_SCRATCH, (uint32_t)rank, PLAN_OUTPUT, 0, 1);
    }
}
