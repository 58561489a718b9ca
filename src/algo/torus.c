/* torus.c - rings along every dimension of a torus, all of them at once.
 *
 *     3 x 4 ranks        0   1   2   3         one share of the vector first goes around the
 *                        4   5   6   7         columns, then the third of it that is left around
 *                        8   9  10  11         the rows; another share the other way round
 *
 *     2 dimensions, reduce_scatter     first        then
 *     share 0                          columns      rows
 *     share 1                          rows         columns
 *     shares 2, 3                      the same against the direction of 0, 1
 *
 * A ring of all ranks takes p-1 rounds.  Rings along dimensions of d0, d1, ... ranks take d0-1 +
 * d1-1 + ..., and where links lead to neighbours in all dimensions, one share for each dimension
 * and direction, each with its dimensions in another order, keeps all of them busy.  Every share
 * has a lane of its own.  Allgather is the way back, allreduce is both.
 *
 * The ranks are numbered row by row.  Their number is cut into three factors, at least 3 and at
 * most twice the shortest (the fewest rounds win), else into the two that are nearest to each
 * other; a prime is one ring, in both directions.
 *
 * A ring's message is a bucket: the chunks that are left to the ranks at one coordinate. In the
 * order of the coordinates, in which the share goes around first coming first, a bucket is a run of
 * chunks. Allreduce has its chunks in that order. In reduce_scatter and allgather blocks have
 * owners, so their shares go through scratch in that order, copied block by block while other
 * buckets are under way; a prime needs none of that, since its buckets are single chunks.
 *
 * Cost in time, for D dimensions of sizes d_i, a link a dimension and direction: reduce_scatter
 * sum(d_i - 1) alpha + (p-1)/p n/2D beta + (p-1)/p n gamma, allgather the same without gamma,
 * allreduce the sum of both.  Through one port it is n beta in place of n/2D beta, and 2D alpha in
 * place of alpha.  The bytes are a ring's.
 *
 * Needs a commutative operation.  Any rank count.
 *
 * Source: Jain, Sabharwal, "Optimal Bucket Algorithms for Large MPI Collectives on Torus
 * Interconnects", ICS 2010; Sack, Gropp, "Faster Topology-aware Collective Algorithms through
 * Non-minimal Communication", PPoPP 2012.
 */
#include "algo/generators.h"

enum { DIMENSIONS_MAX = 3 };

struct torus {
    int ranks, dimensions, sizes[DIMENSIONS_MAX]; /* the last one's neighbours are rank +-1 */
};

/* ----------------------------------------------------------------------------------- the torus */

static int rounds_of(const struct torus *torus)
{
    int rounds = 0;
    for (int i = 0; i < torus->dimensions; i++) rounds += torus->sizes[i] - 1;
    return rounds;
}

/* The factor of count that is next to its root, from below. */
static int middle_factor(int count)
{
    int found = 1;
    for (int factor = 2; factor <= count / factor; factor++)
        if (count % factor == 0) found = factor;
    return found;
}

static struct torus torus_of(int ranks)
{
    const int shorter = middle_factor(ranks);
    struct torus best = {ranks, 2, {shorter, ranks / shorter}};
    if (shorter == 1) best = (struct torus){ranks, 1, {ranks}};
    for (int a = 3; a <= ranks / a / a; a++) {
        if (ranks % a != 0) continue;
        const int b = middle_factor(ranks / a), c = ranks / a / b;
        const struct torus cube = {ranks, 3, {a, b, c}};
        if (a <= b && c <= 2 * a && rounds_of(&cube) < rounds_of(&best)) best = cube;
    }
    return best;
}

static int stride_of(const struct torus *torus, int dimension)
{
    int stride = 1;
    for (int i = dimension + 1; i < torus->dimensions; i++) stride *= torus->sizes[i];
    return stride;
}

static int coordinate_of(const struct torus *torus, int rank, int dimension)
{
    return rank / stride_of(torus, dimension) % torus->sizes[dimension];
}

/* The rank so far on in that dimension. */
static int neighbour_of(const struct torus *torus, int rank, int dimension, int distance)
{
    const int own = coordinate_of(torus, rank, dimension);
    const int there = rank_at(own, distance, torus->sizes[dimension]);
    return rank + (there - own) * stride_of(torus, dimension);
}

/* ----------------------------------------------------------------------------------- one share
 *
 * Phase 0 is the one with the largest buckets: the first of reduce_scatter, the last of allgather.
 * Position i is the chunk that comes i-th in the order in which buckets are runs. */

struct share {
    const struct torus *torus;
    int rank, number;
    int direction;  /* 1 or -1 */
    bool in_order;  /* the user's buffers are: allreduce */
    uint32_t parts; /* shares in a block, where they are not */
};

static int share_count(const struct torus *torus)
{
    return 2 * torus->dimensions;
}

static struct share share_of(const struct torus *torus, int rank, int number, bool in_order)
{
    return (struct share){.torus = torus,
                          .rank = rank,
                          .number = number,
                          .direction = number < torus->dimensions ? 1 : -1,
                          .in_order = in_order,
                          .parts = (uint32_t)share_count(torus)};
}

static int dimension_of(const struct share *share, int phase)
{
    return (share->number + phase) % share->torus->dimensions;
}

static int size_of(const struct share *share, int phase)
{
    return share->torus->sizes[dimension_of(share, phase)];
}

/* Chunks in a bucket of that phase. */
static uint32_t bucket_size(const struct share *share, int phase)
{
    uint32_t count = 1;
    for (int i = phase + 1; i < share->torus->dimensions; i++) count *= (uint32_t)size_of(share, i);
    return count;
}

/* The position of the bucket that is so far on from our own one in the phase's dimension and the
 * share's direction. */
static uint32_t bucket_at(const struct share *share, int phase, int distance)
{
    uint32_t first = 0;
    for (int i = 0; i <= phase; i++) {
        const int own = coordinate_of(share->torus, share->rank, dimension_of(share, i));
        const int on = i == phase ? share->direction * distance : 0;
        first += (uint32_t)rank_at(own, on, size_of(share, i)) * bucket_size(share, i);
    }
    return first;
}

/* The owner of a position. */
static int owner_of(const struct share *share, uint32_t position)
{
    int owner = 0;
    for (int phase = 0; phase < share->torus->dimensions; phase++) {
        const uint32_t size = bucket_size(share, phase);
        owner += (int)(position / size) * stride_of(share->torus, dimension_of(share, phase));
        position %= size;
    }
    return owner;
}

/* The user's chunk at a position of the share. */
static uint32_t user_chunk(const struct share *share, uint32_t position)
{
    if (share->in_order) return (uint32_t)(share->number * share->torus->ranks) + position;
    return (uint32_t)owner_of(share, position) * share->parts + (uint32_t)share->number;
}

static bool needs_scratch(const struct share *share)
{
    return !share->in_order && share->torus->dimensions > 1;
}

/* A run of positions, in a user's buffer or in the scratch that stands for it. */
static struct plan_location place_at(const struct share *share, enum plan_buffer user,
                                     uint32_t position)
{
    const uint32_t scratch = (uint32_t)(share->number * share->torus->ranks) + position;
    if (needs_scratch(share)) return (struct plan_location){PLAN_SCRATCH, scratch};
    return (struct plan_location){user, user_chunk(share, position)};
}

static void declare_scratch(struct plan_builder *b, const struct share *share)
{
    for (int i = 0; needs_scratch(share) && i < share->torus->ranks; i++)
        plan_scratch(b, user_chunk(share, (uint32_t)i));
}

static void copy_in(struct plan_builder *b, const struct share *share, uint32_t bucket)
{
    for (uint32_t i = bucket; needs_scratch(share) && i < bucket + bucket_size(share, 0); i++)
        plan_copy(b, PLAN_INPUT, user_chunk(share, i), PLAN_SCRATCH,
                  place_at(share, PLAN_INPUT, i).first, 1);
}

static void copy_out(struct plan_builder *b, const struct share *share, uint32_t bucket)
{
    for (uint32_t i = bucket; needs_scratch(share) && i < bucket + bucket_size(share, 0); i++)
        plan_copy(b, PLAN_SCRATCH, place_at(share, PLAN_OUTPUT, i).first, PLAN_OUTPUT,
                  user_chunk(share, i), 1);
}

/* ------------------------------------------------------------------------------------ the rings */

/* As many channels as transports have. Shares with the same channel go in opposite directions,
 * where the neighbours differ; there are more than four shares only in three dimensions. */
enum { CHANNELS = 4 };

/* All links of a ring are full after the first send. A partial sum that is stored waits in its
 * place until there is room to pass it on; if it is not stored, the next message takes another
 * channel. */
static void choose_channel(struct plan_builder *b, const struct share *share, int message)
{
    const int each = share->torus->dimensions == 1 ? 2 : 1;
    plan_channel(b, (share->number * each + message % each) % CHANNELS);
}

static void receive_message(struct plan_builder *b, const struct share *share, int phase,
                            int message)
{
    choose_channel(b, share, message);
    plan_receive(
        b, neighbour_of(share->torus, share->rank, dimension_of(share, phase), -share->direction));
}

static void send_message(struct plan_builder *b, const struct share *share, int phase, int message)
{
    choose_channel(b, share, message);
    plan_send(
        b, neighbour_of(share->torus, share->rank, dimension_of(share, phase), share->direction));
}

static void read_place(struct plan_builder *b, struct plan_location place)
{
    plan_read(b, place.buffer, place.first);
}

static void write_place(struct plan_builder *b, struct plan_location place)
{
    plan_write(b, place.buffer, place.first);
}

/* The place of our operand for a bucket, before the phase. */
static struct plan_location operand_at(const struct share *share, int phase, uint32_t bucket)
{
    return place_at(share, phase == 0 ? PLAN_INPUT : PLAN_OUTPUT, bucket);
}

/* The place for a bucket's sum, while it is under way and as the result. */
static struct plan_location sum_at(const struct share *share, uint32_t bucket, bool is_final)
{
    if (is_final && !share->in_order)
        return (struct plan_location){PLAN_OUTPUT, (uint32_t)share->number};
    return place_at(share, PLAN_OUTPUT, bucket);
}

/* Reduces bucket after bucket around a ring; our own bucket is the one to which all ranks have
 * added. */
static void reduce_around(struct plan_builder *b, const struct share *share, int phase)
{
    const int ranks = size_of(share, phase);
    const bool is_last_phase = phase == share->torus->dimensions - 1;
    const uint32_t count = bucket_size(share, phase), first = bucket_at(share, phase, -1);
    if (phase == 0) copy_in(b, share, first);
    plan_begin(b, count);
    read_place(b, operand_at(share, phase, first));
    send_message(b, share, phase, 0);
    plan_end(b);
    for (int message = 0; message < ranks - 1; message++) {
        const bool is_result = message == ranks - 2;
        const uint32_t bucket = bucket_at(share, phase, -2 - message);
        if (phase == 0) copy_in(b, share, bucket);
        plan_begin(b, count);
        receive_message(b, share, phase, message);
        read_place(b, operand_at(share, phase, bucket));
        if (share->in_order || needs_scratch(share) || is_result)
            write_place(b, sum_at(share, bucket, is_result && is_last_phase));
        if (!is_result) send_message(b, share, phase, message + 1);
        if (is_result && is_last_phase) plan_final(b);
        plan_end(b);
    }
}

/* Sends our bucket around a ring and stores the others'. */
static void gather_around(struct plan_builder *b, const struct share *share, int phase,
                          int first_message)
{
    const int ranks = size_of(share, phase);
    const uint32_t count = bucket_size(share, phase), own = bucket_at(share, phase, 0);
    const bool is_input = !share->in_order && phase == share->torus->dimensions - 1;
    plan_begin(b, count);
    if (is_input) {
        plan_read(b, PLAN_INPUT, (uint32_t)share->number);
        write_place(b, place_at(share, PLAN_OUTPUT, own));
    } else {
        read_place(b, place_at(share, PLAN_OUTPUT, own));
    }
    send_message(b, share, phase, first_message);
    plan_end(b);
    if (phase == 0) copy_out(b, share, own);
    for (int k = 1; k < ranks; k++) {
        const int message = first_message + k - 1;
        const uint32_t bucket = bucket_at(share, phase, -k);
        plan_begin(b, count);
        receive_message(b, share, phase, message);
        write_place(b, place_at(share, PLAN_OUTPUT, bucket));
        if (k < ranks - 1) send_message(b, share, phase, message + 1);
        plan_end(b);
        if (phase == 0) copy_out(b, share, bucket);
    }
}

void torus_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct torus torus = torus_of(params->rank_count);
    plan_parts(b, (uint32_t)(share_count(&torus) * torus.ranks));
    for (int number = 0; number < share_count(&torus); number++) {
        const struct share share = share_of(&torus, rank, number, true);
        plan_lane(b);
        for (int phase = 0; phase < torus.dimensions; phase++) reduce_around(b, &share, phase);
        for (int phase = torus.dimensions - 1; phase >= 0; phase--)
            gather_around(b, &share, phase, size_of(&share, phase) - 1);
    }
}

void torus_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct torus torus = torus_of(params->rank_count);
    plan_parts(b, (uint32_t)share_count(&torus));
    for (int number = 0; number < share_count(&torus); number++) {
        const struct share share = share_of(&torus, rank, number, false);
        declare_scratch(b, &share);
        plan_lane(b);
        for (int phase = 0; phase < torus.dimensions; phase++) reduce_around(b, &share, phase);
    }
}

void torus_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct torus torus = torus_of(params->rank_count);
    plan_parts(b, (uint32_t)share_count(&torus));
    for (int number = 0; number < share_count(&torus); number++) {
        const struct share share = share_of(&torus, rank, number, false);
        declare_scratch(b, &share);
        plan_lane(b);
        for (int phase = torus.dimensions - 1; phase >= 0; phase--)
            gather_around(b, &share, phase, 0);
    }
}
