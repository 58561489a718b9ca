/* Every rank v > 0 is a sum of different skips, the largest that fit taken first. The smallest of them is its *base
 * block*: block e goes from the root to skips[e] in round e, and on by ever larger skips, so that after the q rounds
 * of a phase everybody has its base block, first of all.
 *
 * In the next phase everybody needs the other q-1 blocks and the new base block. The rank v - skips[k] from which it
 * hears in round k has heard from the ranks down to v - skips[k+1], exclusive, or from one at that: somebody among
 * these has a base block that v still lacks. v takes the nearest one, round by round further away, such that
 * the sum for it has only skips of blocks that v lacks. Ranks before the root are those at the end of
 * the circle, so sums are for v + p; the root itself stands for the new base block, and is the skip p.
 *
 * O(q^3) for a rank, since what it sends is what others receive. */
#include "algo/broadcast_schedule.h"

static int base_block(const struct circulant *circulant, int rank)
{
    int block = circulant->round_count;
    while (rank > 0) {
        block--;
        if (circulant->skips[block] <= rank) rank -= circulant->skips[block];
    }
    return block;
}

/* The largest sum of missing blocks' skips within `nearest` that the summands, the largest first, reach; no more of
 * them than are needed to come beyond `farthest`. Returns the last summand's block. */
static int nearest_source(const struct circulant *circulant, uint32_t missing, int farthest,
                          int nearest, int *source)
{
    int last = BROADCAST_NOTHING;
    *source = 0;
    for (int block = circulant->round_count; block >= 0 && *source <= farthest; block--) {
        if ((missing >> block & 1) == 0 || *source + circulant->skips[block] > nearest) continue;
        *source += circulant->skips[block];
        last = block;
    }
    return last;
}

/* Of round 0 .. round_end-1. */
static void find_receives(const struct circulant *circulant, int rank, int round_end, int *receives)
{
    const int count = circulant->round_count, ranks = circulant->skips[count];
    const int base = base_block(circulant, rank);
    uint32_t missing = ((UINT32_C(2) << count) - 1) & ~(UINT32_C(1) << base);
    int source = 2 * ranks;
    for (int round = 0; round < round_end; round++) {
        const int sender = ranks + rank - circulant->skips[round];
        const int farthest = ranks + rank - circulant->skips[round + 1];
        const int nearest = sender < source - 1 ? sender : source - 1;
        const int block = nearest_source(circulant, missing, farthest, nearest, &source);
        missing &= ~(UINT32_C(1) << block);
        receives[round] = block == count ? base : block - count;
    }
}

void broadcast_schedule_init(struct broadcast_schedule *schedule, int rank_count, int rank)
{
    *schedule = (struct broadcast_schedule){
        .rank_count = rank_count, .rank = rank, .circulant = circulant_of(rank_count, 2)};
    const struct circulant *circulant = &schedule->circulant;
    if (rank > 0) find_receives(circulant, rank, circulant->round_count, schedule->receives);
    for (int round = 0; round < circulant->round_count; round++) {
        const int to = (rank + circulant->skips[round]) % rank_count;
        int receives[CIRCULANT_ROUNDS_MAX] = {0};
        if (to > 0) find_receives(circulant, to, round + 1, receives);
        schedule->sends[round] = receives[round];
    }
}

int broadcast_schedule_round_count(const struct broadcast_schedule *schedule, int block_count)
{
    return block_count - 1 + schedule->circulant.round_count;
}

/* A block before the first is nothing; those after the last one are the last one once more, which so reaches
 * everybody in the last phase. */
static int within(int block, int block_count)
{
    if (block < 0) return BROADCAST_NOTHING;
    return block < block_count ? block : block_count - 1;
}

/* The last round is the last one of a phase; the first phase lacks what is too much. */
struct broadcast_round broadcast_schedule_round(const struct broadcast_schedule *schedule,
                                                int block_count, int round)
{
    const int phase_rounds = schedule->circulant.round_count, ranks = schedule->rank_count;
    const int excess = (phase_rounds - (block_count - 1) % phase_rounds) % phase_rounds;
    const int k = (round + excess) % phase_rounds, first = round - k;
    const int skip = schedule->circulant.skips[k];
    struct broadcast_round result = {.to = (schedule->rank + skip) % ranks,
                                     .from = (schedule->rank - skip + ranks) % ranks,
                                     .send_block = BROADCAST_NOTHING,
                                     .receive_block = BROADCAST_NOTHING};
    if (result.to > 0) result.send_block = within(first + schedule->sends[k], block_count);
    if (schedule->rank > 0)
        result.receive_block = within(first + schedule->receives[k], block_count);
    return result;
}
