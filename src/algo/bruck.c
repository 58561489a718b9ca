/* bruck.c - Bruck's allgather and all-to-all, both in the digits of distances.
 *
 *     all-to-all, radix 2: in round k a block goes 2^k ranks on if its distance has that bit
 *
 *       distance    0  1  2  3  4  5  6  7      the block for the rank i further on has the distance i;
 *       round 0   x     x     x     x      one message carries all that go along
 *       round 1      x  x        x  x
 *       round 2            x  x  x  x
 *
 *     allgather, radix 2: hold 1, 2, 4, ... blocks, get as many from the rank that far on
 *
 * Cost for p blocks of n/p bytes, radix r: all-to-all (r-1) ceil(log_r p) alpha + (r-1)/r
 * ceil(log_r p) n beta, with k = r-1 ports at once ceil(log_r p) alpha; a larger radix moves fewer
 * bytes in more messages.  Allgather ceil(log_r p) alpha + (p-1)/p n beta with k ports.  For small
 * blocks, where alpha is all.
 *
 * All-to-all copies the blocks that travel together into scratch, in about 2p runs, and sends them
 * as one message. A block has scratch of its own at each hop, coming and going: up to 2 (r-1)/r p
 * ceil(log_r p) blocks. Blocks that have arrived are stored at the end, since in place there is
 * input still to be sent before.
 *
 * Any rank count; (r-1) ceil(log_r p) links each way.
 *
 * Source: Bruck, Ho, Kipnis, Weathersby, "Efficient Algorithms for All-to-All Communications in
 * Multiport Message-Passing Systems", TPDS 8(11), 1997.
 */
#include "algo/circulant.h"
#include "algo/generators.h"

void bruck_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circulant circulant = circulant_of_powers(params->rank_count, radix_of(params));
    circulant_gather(b, rank, &circulant);
}

/* ----------------------------------------------------------------------------------- all-to-all */

enum { POSITIONS_MAX = 16 };

/* A block's *distance* is how much further on its destination is than its source, a number to base
 * `radix`.  A *batch* is all blocks with a certain digit, other than 0, at a certain position of
 * their distances: they go one hop together, in one message. */
struct bruck {
    struct plan_builder *builder;
    uint32_t rank, rank_count, radix;
    int position_count;
    uint32_t powers[POSITIONS_MAX + 1]; /* of the radix, by position */
    uint32_t scratch[POSITIONS_MAX]; /* by position: the batches that come in, then those that go out */
};

enum direction { COMING, GOING };

static uint32_t smaller(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* Distances below `end` that have one of so many digits, from the first one on, there. */
static uint32_t distances_with(const struct bruck *bruck, uint32_t end, int position,
                               uint32_t digit, uint32_t digit_count)
{
    const uint32_t power = bruck->powers[position], cycle = power * bruck->radix;
    const uint32_t rest = end % cycle, before = digit * power;
    return end / cycle * power * digit_count +
           (rest > before ? smaller(rest - before, power * digit_count) : 0);
}

static uint32_t batch_size(const struct bruck *bruck, int position, uint32_t digit)
{
    return distances_with(bruck, bruck->rank_count, position, digit, 1);
}

/* Scratch of a batch. */
static uint32_t batch_at(const struct bruck *bruck, enum direction direction, int position,
                         uint32_t digit)
{
    uint32_t at = bruck->scratch[position];
    if (direction == GOING)
        at += distances_with(bruck, bruck->rank_count, position, 1, bruck->radix - 1);
    return at + distances_with(bruck, bruck->rank_count, position, 1, digit - 1);
}

/* Scratch of the block with that way: the longest comes first, so that blocks that have arrived are
 * in the order of the ranks they come from. */
static uint32_t block_at(const struct bruck *bruck, enum direction direction, int position,
                         uint32_t digit, uint32_t distance)
{
    return batch_at(bruck, direction, position, digit) + batch_size(bruck, position, digit) - 1 -
           distances_with(bruck, distance, position, digit, 1);
}

/* Before it goes a block has gone the digits below the position, and with it when it has come. */
static void declare_batch(const struct bruck *bruck, enum direction direction, int position,
                          uint32_t digit)
{
    const uint32_t ranks = bruck->rank_count, power = bruck->powers[position];
    const uint32_t cycle = power * bruck->radix;
    for (uint32_t high = ranks / cycle + 1; high-- > 0;)
        for (uint32_t low = power; low-- > 0;) {
            const uint32_t distance = high * cycle + digit * power + low;
            if (distance >= ranks) continue;
            const uint32_t gone = direction == GOING ? low : digit * power + low;
            const uint32_t source = (bruck->rank + ranks - gone) % ranks;
            plan_scratch(bruck->builder, source * ranks + (source + distance) % ranks);
        }
}

/* Digits at that position of which there is a batch. */
static uint32_t digit_end(const struct bruck *bruck, int position)
{
    const uint32_t power = bruck->powers[position];
    return smaller(bruck->radix, (bruck->rank_count + power - 1) / power);
}

static struct bruck bruck_of(const struct algo_params *params, int rank, struct plan_builder *b)
{
    struct bruck bruck = {.builder = b,
                          .rank = (uint32_t)rank,
                          .rank_count = (uint32_t)params->rank_count,
                          .radix = (uint32_t)radix_of(params),
                          .powers = {1}};
    uint32_t scratch_count = 0;
    while (bruck.powers[bruck.position_count] < bruck.rank_count) {
        const int position = bruck.position_count++;
        bruck.powers[position + 1] = bruck.powers[position] * bruck.radix;
        bruck.scratch[position] = scratch_count;
        for (enum direction direction = COMING; direction <= GOING; direction++)
            for (uint32_t digit = 1; digit < digit_end(&bruck, position); digit++) {
                declare_batch(&bruck, direction, position, digit);
                scratch_count += batch_size(&bruck, position, digit);
            }
    }
    return bruck;
}

/* Blocks whose distances are `distance` and up to count-1 more, which have come with that digit and
 * now go. */
static void pack_run(const struct bruck *bruck, int from, uint32_t from_digit, int to,
                     uint32_t to_digit, uint32_t distance)
{
    if (distance >= bruck->rank_count) return;
    const uint32_t count = smaller(bruck->powers[from], bruck->rank_count - distance);
    const uint32_t longest = distance + count - 1;
    plan_copy(bruck->builder, PLAN_SCRATCH, block_at(bruck, COMING, from, from_digit, longest),
              PLAN_SCRATCH, block_at(bruck, GOING, to, to_digit, longest), count);
}

/* A block is in the input until it has come here by the highest digit below this one. */
static void pack(const struct bruck *bruck, int position, uint32_t digit)
{
    const uint32_t power = bruck->powers[position], ranks = bruck->rank_count;
    for (uint32_t distance = digit * power; distance < ranks; distance += power * bruck->radix) {
        plan_copy(bruck->builder, PLAN_INPUT, (bruck->rank + distance) % ranks, PLAN_SCRATCH,
                  block_at(bruck, GOING, position, digit, distance), 1);
        for (int from = 0; from < position; from++)
            for (uint32_t below = 1; below < bruck->radix; below++)
                pack_run(bruck, from, below, position, digit,
                         distance + below * bruck->powers[from]);
    }
}

/* The blocks of the batch that have no higher digit. */
static void unpack(const struct bruck *bruck, int position, uint32_t digit)
{
    const uint32_t power = bruck->powers[position], ranks = bruck->rank_count;
    const uint32_t count = smaller(power, ranks - digit * power);
    const uint32_t longest = digit * power + count - 1;
    const uint32_t first = (bruck->rank + ranks - longest) % ranks;
    const uint32_t head = smaller(count, ranks - first);
    const uint32_t from = block_at(bruck, COMING, position, digit, longest);
    plan_copy(bruck->builder, PLAN_SCRATCH, from, PLAN_OUTPUT, first, head);
    if (head < count)
        plan_copy(bruck->builder, PLAN_SCRATCH, from + head, PLAN_OUTPUT, 0, count - head);
}

void bruck_alltoall(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct bruck bruck = bruck_of(params, rank, b);
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, bruck.rank, PLAN_OUTPUT, bruck.rank, 1);
    for (int position = 0; position < bruck.position_count; position++) {
        const int power = (int)bruck.powers[position];
        const uint32_t end = digit_end(&bruck, position);
        for (uint32_t digit = 1; digit < end; digit++) {
            pack(&bruck, position, digit);
            plan_send_from(b, rank_at(rank, (int)digit * power, params->rank_count), PLAN_SCRATCH,
                           batch_at(&bruck, GOING, position, digit),
                           batch_size(&bruck, position, digit));
        }
        for (uint32_t digit = 1; digit < end; digit++)
            plan_receive_to(b, rank_at(rank, -(int)digit * power, params->rank_count), PLAN_SCRATCH,
                            batch_at(&bruck, COMING, position, digit),
                            batch_size(&bruck, position, digit));
    }
    for (int position = 0; position < bruck.position_count; position++)
        for (uint32_t digit = 1; digit < digit_end(&bruck, position); digit++)
            unpack(&bruck, position, digit);
}
