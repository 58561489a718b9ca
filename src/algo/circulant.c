/* circulant.c - reduce_scatter and allgather on circulant graphs: the fewest rounds and the fewest
 * bytes at once, for any number of ranks.
 *
 *     reduce_scatter, p = 5, skips 5 3 2 1: what rank r still reduces, by local number
 *
 *       0 1 2 3 4                    local block i is the one of rank r+i; whoever has the blocks up
 *       0 1 2 | - -   3 4 to r+3     to t sends those from s on to the rank s further on, for which
 *       0 1 | -       2 to r+2       they are its first ones: everybody is left with s, and s is t
 *       0 | -         1 to r+1       divided by two, rounded up, until the own block is left
 *
 *     allgather is the same from the last line to the first, against the direction
 *
 * Cost: q alpha + (p-1)/p n beta [+ (p-1)/p n gamma] with q = ceil(log2 p), and p-1 blocks sent by
 * each rank; with k = radix-1 ports q = ceil(log_(k+1) p).  For small and medium blocks, where
 * halving.c must fold.
 *
 * A run of blocks that passes the last rank is two ranges of the user's buffers, so it travels as
 * two messages, the second over another channel; partial sums lie in scratch in local order. Blocks
 * that were sent are not touched again in the same run.
 *
 * Operands come in another order for each block: a commutative operation, and not one tree for all.
 * Any rank count; at most k ceil(log_(k+1) p) links each way.
 *
 * Source: Träff, "Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms",
 * arXiv:2410.14234, 2024; for k ports Bruck et al. 1997 (see bruck.c).
 */
#include "algo/circulant.h"

#include "algo/generators.h"

enum { CHANNEL_HEAD, CHANNEL_TAIL };

struct circulant circulant_of(int rank_count, int radix)
{
    int skips[CIRCULANT_ROUNDS_MAX + 1], count = 0;
    for (int skip = rank_count; skip > 1; skip = (skip + radix - 1) / radix) skips[count++] = skip;
    struct circulant circulant = {.round_count = count, .skips = {1}};
    for (int i = 0; i < count; i++) circulant.skips[count - i] = skips[i];
    return circulant;
}

struct circulant circulant_of_powers(int rank_count, int radix)
{
    struct circulant circulant = {.skips = {1}};
    for (int held = 1; held < rank_count;) {
        held = held > rank_count / radix ? rank_count : held * radix;
        circulant.skips[++circulant.round_count] = held;
    }
    return circulant;
}

static uint32_t smaller(int one, int other)
{
    return (uint32_t)(one < other ? one : other);
}

/* Consecutive blocks, in the order of ranks: first the blocks up to the last rank's, then the rest
 * from rank 0's on. */
struct arc {
    uint32_t first, head, tail;
};

static struct arc arc_of(int first, uint32_t count, int rank_count)
{
    const uint32_t head = smaller((int)count, rank_count - first);
    return (struct arc){(uint32_t)first, head, count - head};
}

static void send_arc(struct plan_builder *b, int peer, enum plan_buffer buffer, struct arc arc)
{
    plan_channel(b, CHANNEL_HEAD);
    plan_send_from(b, peer, buffer, arc.first, arc.head);
    if (arc.tail == 0) return;
    plan_channel(b, CHANNEL_TAIL);
    plan_send_from(b, peer, buffer, 0, arc.tail);
}

static void receive_arc(struct plan_builder *b, int peer, struct arc arc)
{
    plan_channel(b, CHANNEL_HEAD);
    plan_receive_to(b, peer, PLAN_OUTPUT, arc.first, arc.head);
    if (arc.tail == 0) return;
    plan_channel(b, CHANNEL_TAIL);
    plan_receive_to(b, peer, PLAN_OUTPUT, 0, arc.tail);
}

/* ------------------------------------------------------------------------------------ allgather */

static void send_own_block(struct plan_builder *b, int rank, const struct circulant *circulant)
{
    const int ranks = circulant->skips[circulant->round_count];
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, (uint32_t)rank);
    for (int distance = 1; distance < circulant->skips[1]; distance++)
        plan_send(b, rank_at(rank, -distance, ranks));
    plan_end(b);
}

void circulant_gather(struct plan_builder *b, int rank, const struct circulant *circulant)
{
    const int ranks = circulant->skips[circulant->round_count];
    plan_lane(b);
    send_own_block(b, rank, circulant);
    for (int round = 0; round < circulant->round_count; round++) {
        const int held = circulant->skips[round], wanted = circulant->skips[round + 1];
        for (int distance = held; round > 0 && distance < wanted; distance += held)
            send_arc(b, rank_at(rank, -distance, ranks), PLAN_OUTPUT,
                     arc_of(rank, smaller(held, wanted - distance), ranks));
        for (int distance = held; distance < wanted; distance += held) {
            const int peer = rank_at(rank, distance, ranks);
            receive_arc(b, peer, arc_of(peer, smaller(held, wanted - distance), ranks));
        }
    }
}

void circulant_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circulant circulant = circulant_of(params->rank_count, radix_of(params));
    circulant_gather(b, rank, &circulant);
}

/* ------------------------------------------------------------------------------- reduce_scatter */

/* One round's reduction of the local blocks 0 .. count-1. */
struct reduction {
    int rank, rank_count;
    int skip, first_port, port_end; /* a message from the rank at port * skip before us, for each */
    bool from_input, last;          /* where our operand lies; whether the own block is complete */
};

/* Reduces a range of blocks, from block `input` of the input and from local block `local` on. */
static void reduce_range(struct plan_builder *b, const struct reduction *reduction, uint32_t input,
                         uint32_t local, uint32_t count)
{
    plan_begin(b, count);
    if (reduction->from_input)
        plan_read(b, PLAN_INPUT, input);
    else
        plan_read(b, PLAN_SCRATCH, local);
    for (int port = reduction->first_port; port < reduction->port_end; port++)
        plan_receive(b, rank_at(reduction->rank, -port * reduction->skip, reduction->rank_count));
    if (reduction->last) {
        plan_write(b, PLAN_OUTPUT, 0);
        plan_final(b);
    } else {
        plan_write(b, PLAN_SCRATCH, local);
    }
    plan_end(b);
}

/* Split where the sender had to: only in the first round, which is from input to scratch. */
static void reduce(struct plan_builder *b, const struct reduction *reduction, bool split,
                   uint32_t count)
{
    if (count == 0 || reduction->first_port == reduction->port_end) return;
    const struct arc arc = arc_of(reduction->rank, count, reduction->rank_count);
    plan_channel(b, CHANNEL_HEAD);
    if (!split || arc.tail == 0) {
        reduce_range(b, reduction, arc.first, 0, count);
        return;
    }
    reduce_range(b, reduction, arc.first, 0, arc.head);
    plan_channel(b, CHANNEL_TAIL);
    reduce_range(b, reduction, 0, arc.head, arc.tail);
}

/* From every port a message of `kept` blocks, but from the last one what is left of them: the full
 * ones are added in one go. */
static void reduce_round(struct plan_builder *b, int rank, const struct circulant *circulant,
                         int round)
{
    const int ranks = circulant->skips[circulant->round_count];
    const int kept = circulant->skips[round], sent = circulant->skips[round + 1] - kept;
    const int full = sent / kept;
    const bool first = round + 1 == circulant->round_count;
    struct reduction reduction = {.rank = rank,
                                  .rank_count = ranks,
                                  .skip = kept,
                                  .first_port = 1,
                                  .port_end = 1 + full,
                                  .from_input = first,
                                  .last = round == 0};
    reduce(b, &reduction, first, (uint32_t)kept);
    reduction.first_port = reduction.port_end++;
    reduction.from_input = first && full == 0;
    reduce(b, &reduction, first, (uint32_t)(sent % kept));
}

/* Nobody sends us an operand of our last local block in the first round when the blocks are odd and
 * there is one port: it joins the others as it is. */
static void copy_what_is_left(struct plan_builder *b, int rank, int ranks, int kept)
{
    if (ranks >= 2 * kept) return;
    const int last = kept - 1;
    plan_copy(b, PLAN_INPUT, (uint32_t)rank_at(rank, last, ranks), PLAN_SCRATCH, (uint32_t)last, 1);
}

void circulant_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count;
    const struct circulant circulant = circulant_of(ranks, radix_of(params));
    const int first_round = circulant.round_count - 1, kept_first = circulant.skips[first_round];
    for (int i = 0; first_round > 0 && i < kept_first; i++)
        plan_scratch(b, (uint32_t)rank_at(rank, i, ranks));
    plan_lane(b);
    for (int round = first_round; round >= 0; round--) {
        const int kept = circulant.skips[round], held = circulant.skips[round + 1];
        for (int distance = kept; distance < held; distance += kept) {
            const int peer = rank_at(rank, distance, ranks);
            const uint32_t count = smaller(kept, held - distance);
            if (round == first_round) {
                send_arc(b, peer, PLAN_INPUT, arc_of(peer, count, ranks));
            } else {
                plan_channel(b, CHANNEL_HEAD);
                plan_send_from(b, peer, PLAN_SCRATCH, (uint32_t)distance, count);
            }
        }
        reduce_round(b, rank, &circulant, round);
        if (round == first_round) copy_what_is_left(b, rank, ranks, kept);
    }
}
