/* Every rank v > 0 is a sum of different skips, the largest that fits taken first. The smallest one
 * is its *base block*: in a phase block e goes from the root to skips[e] in round e, and on by ever
 * larger skips, so that it is the first of the phase's blocks that such ranks get.
 *
 *     p = 11, skips 1 2 3 6    rank  1  2  3  4  5  6  7  8  9 10
 *                        base block  0  1  2  0  1  3  0  1  2  0
 *
 * In a phase v needs its new base block and the phase before's others, one in each round. The rank
 * v - skips[k], from which it hears in round k, may have what one of the ranks above v - skips[k+1]
 * up to itself began the phase with: so v looks there for a base block that it still lacks. It
 * takes the nearest rank that is a sum of skips of such blocks, and nearer to none than before.
 * Ranks before the root are those at the end of the circle, therefore it is v + p that is looked
 * from; and the root, which is the skip p, has the new base block.
 *
 * That this choice always exists and that the sender then has the block is Träff's theorem (see
 * circulant_broadcast.c); the test looks at all ranks of many circles. O(q^3) for a rank, since
 * what it sends is what others receive. */
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

/* The sum of missing blocks' skips, taken from the largest on where they fit below `nearest`, until
 * it is beyond `farthest`. Returns the last one's block, which is that rank's base block. */
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

/* Finds the block that a rank receives in each of the rounds 0 .. round_end-1. */
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

/* Blocks before the first are nothing. Blocks after the last stand for the last block again, which
 * so reaches all ranks in the last phase. */
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
