/* swing.c - recursive halving with partners that swing from side to side, so that they are nearer.
 *
 *     round            0    1    2    3    4     ...
 *     even ranks go   +1   -1   +3   -5  +11           odd ranks the other way
 *     recursive halving would go  1, 2, 4, 8, 16
 *
 *     p = 8    round 0   0-1   2-3   4-5   6-7     halves of the vector
 *              round 1   7-0   1-2   3-4   5-6     quarters, still between neighbours on the ring
 *              round 2   0-3   2-5   4-7   6-1     eighths, three links away
 *
 * On a ring or torus messages share links, and far partners make many share one.  Counting the
 * busiest link of every round, the reduce_scatter of 64 ranks takes 1.55 n/B here and 3 n/B with
 * recursive halving (swing_test.c).  Elsewhere it costs the same as halving.
 *
 * Whoever shares a range of the vector before round s are the ranks that rounds s, s+1, ...
 * connect: even ones that agree modulo 2^(s+1), and the odd ones among their partners.  Every round
 * splits them and the range in two.  So chunks have an order in which all ranges are contiguous;
 * allreduce has its chunks in that order, while reduce_scatter and allgather, whose blocks have
 * owners, go through scratch that is in that order, and copy block by block.
 *
 * Cost: reduce_scatter lg p alpha + (p-1)/p n beta + (p-1)/p n gamma, allgather the same without
 * gamma, allreduce the sum of both.  swing_latency is recursive doubling with these partners:
 * lg p (alpha + n beta + n gamma).
 *
 * All need a commutative operation and a power of two of ranks.  The paper starts swing_latency
 * with the nearest partners, too, but then every rank has another association tree, and replicas
 * would differ in their last bits.  Starting with the farthest, partners have summed up the same
 * ranks in the same way whenever they meet: one tree for all.  The bytes on every link are the
 * same.
 *
 * The torus of more dimensions, several ports and other rank counts, which the paper has as well,
 * are not here.
 *
 * Source: De Sensi, Bonato, Saam, Hoefler, "Swing: Short-cutting Rings for Higher Bandwidth
 * Allreduce", NSDI 2024.
 */
#include "algo/negabinary.h"

/* A run of chunks, in the order in which ranges are contiguous. */
struct range {
    uint32_t first, count;
};

/* Whether the rank keeps the upper half of its range after that round. */
static bool keeps_upper(int rank, int round, int rounds)
{
    if (round == rounds - 1) return rank % 2 == 1;
    const int even = rank % 2 == 0 ? rank : rank - negabinary_distance(round + 1);
    return (unsigned)even >> (round + 1) & 1;
}

static struct range half(struct range range, bool upper)
{
    const uint32_t count = range.count / 2;
    return (struct range){upper ? range.first + count : range.first, count};
}

/* The range that the rank keeps after `passed` rounds. */
static struct range range_after(int rank, int passed, int rounds)
{
    struct range range = {0, 1U << rounds};
    for (int round = 0; round < passed; round++)
        range = half(range, keeps_upper(rank, round, rounds));
    return range;
}

/* The rank that is left with that chunk after all rounds. */
static uint32_t owner_of(uint32_t chunk, int rounds)
{
    uint32_t even = 0;
    for (int round = 0; round < rounds - 1; round++)
        even |= (chunk >> (rounds - 1 - round) & 1) << (round + 1);
    if (chunk % 2 == 0) return even;
    return (even + (unsigned)negabinary_distance(rounds - 1)) & ((1U << rounds) - 1);
}

/* The partner's message and what we have. */
static void begin_sum(struct plan_builder *b, int partner, enum plan_buffer at, struct range range)
{
    plan_begin(b, range.count);
    plan_receive(b, partner);
    plan_read(b, at, range.first);
}

/* As in halving.c, what was sent is stored over only by results that were made of it. */
void swing_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, rounds = negabinary_level_count(ranks);
    enum plan_buffer at = PLAN_INPUT; /* where our partial result lies */
    plan_parts(b, (uint32_t)ranks);
    plan_lane(b);
    for (int round = 0; round < rounds; round++) {
        const int partner = negabinary_partner(rank, round, ranks);
        const struct range kept = range_after(rank, round + 1, rounds);
        const struct range given = range_after(partner, round + 1, rounds);
        plan_send_from(b, partner, at, given.first, given.count);
        begin_sum(b, partner, at, kept);
        plan_write(b, PLAN_OUTPUT, kept.first);
        if (round == rounds - 1) plan_final(b);
        plan_end(b);
        at = PLAN_OUTPUT;
    }
    for (int round = rounds - 1; round >= 0; round--) {
        const int partner = negabinary_partner(rank, round, ranks);
        const struct range held = range_after(rank, round + 1, rounds);
        const struct range missing = range_after(partner, round + 1, rounds);
        plan_send_from(b, partner, PLAN_OUTPUT, held.first, held.count);
        plan_receive_to(b, partner, PLAN_OUTPUT, missing.first, missing.count);
    }
}

/* Block of owner_of(i) in chunk i. */
static void declare_scratch(struct plan_builder *b, int rounds)
{
    for (uint32_t i = 0; i < 1U << rounds; i++) plan_scratch(b, owner_of(i, rounds));
}

static void copy_in(struct plan_builder *b, struct range range, int rounds)
{
    for (uint32_t i = range.first; i < range.first + range.count; i++)
        plan_copy(b, PLAN_INPUT, owner_of(i, rounds), PLAN_SCRATCH, i, 1);
}

static void copy_out(struct plan_builder *b, struct range range, int rounds)
{
    for (uint32_t i = range.first; i < range.first + range.count; i++)
        plan_copy(b, PLAN_SCRATCH, i, PLAN_OUTPUT, owner_of(i, rounds), 1);
}

/* Each rank copies first the chunks that it sends in the first round, and the others while these
 * are under way. */
void swing_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, rounds = negabinary_level_count(ranks);
    declare_scratch(b, rounds);
    plan_lane(b);
    for (int round = 0; round < rounds; round++) {
        const int partner = negabinary_partner(rank, round, ranks);
        const struct range kept = range_after(rank, round + 1, rounds);
        const struct range given = range_after(partner, round + 1, rounds);
        if (round == 0) copy_in(b, given, rounds);
        plan_send_from(b, partner, PLAN_SCRATCH, given.first, given.count);
        if (round == 0) copy_in(b, kept, rounds);
        begin_sum(b, partner, PLAN_SCRATCH, kept);
        if (round == rounds - 1) {
            plan_write(b, PLAN_OUTPUT, 0);
            plan_final(b);
        } else {
            plan_write(b, PLAN_SCRATCH, kept.first);
        }
        plan_end(b);
    }
}

/* The way back; each rank copies out the chunks of a round while the next round is under way. */
void swing_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, rounds = negabinary_level_count(ranks);
    struct range brought = range_after(rank, rounds, rounds);
    declare_scratch(b, rounds);
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_SCRATCH, brought.first);
    plan_send(b, negabinary_partner(rank, rounds - 1, ranks));
    plan_end(b);
    for (int round = rounds - 1; round >= 0; round--) {
        const int partner = negabinary_partner(rank, round, ranks);
        const struct range held = range_after(rank, round + 1, rounds);
        if (round < rounds - 1) plan_send_from(b, partner, PLAN_SCRATCH, held.first, held.count);
        copy_out(b, brought, rounds);
        brought = range_after(partner, round + 1, rounds);
        plan_receive_to(b, partner, PLAN_SCRATCH, brought.first, brought.count);
    }
    copy_out(b, brought, rounds);
}

/* As in doubling.c, a partial result is never stored over the one before, which the partner may
 * still be reading, and in place the first message is sent from a copy. */
void swing_latency_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const int ranks = params->rank_count, levels = negabinary_level_count(ranks);
    struct plan_location partial = {PLAN_INPUT, 0};
    if (params->in_place) partial = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    if (params->in_place) plan_write(b, partial.buffer, partial.first);
    plan_send(b, negabinary_partner(rank, levels - 1, ranks));
    plan_end(b);

    for (int level = levels - 1; level >= 0; level--) {
        const int partner = negabinary_partner(rank, level, ranks);
        struct plan_location next = {PLAN_OUTPUT, 0};
        if (level > 0) next = (struct plan_location){PLAN_SCRATCH, plan_scratch(b, 0)};
        plan_begin(b, 1);
        if (partner < rank) plan_receive(b, partner);
        plan_read(b, partial.buffer, partial.first);
        if (partner > rank) plan_receive(b, partner);
        plan_write(b, next.buffer, next.first);
        if (level > 0)
            plan_send(b, negabinary_partner(rank, level - 1, ranks));
        else
            plan_final(b);
        plan_end(b);
        partial = next;
    }
}
