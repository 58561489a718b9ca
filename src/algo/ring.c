/* ring.c - every rank hears from its left neighbour and tells its right one.
 *
 *     reduce-scatter of chunk c, p = 4          allgather of chunk c
 *       c+1 --> c+2 --> c+3 --> c                 c --> c+1 --> c+2 --> c+3
 *       own     +own    +own    +own = result     result stored on the way
 *
 *     +---> 0 ---> 1 ---> 2 ---> 3 ---+         all chunks go round at once, one step apart:
 *     +-------------------------------+         every link is busy all the time
 *
 *     two ways   3 <--- 4 <--- 0 ---> 1 ---> 2  block 0 goes half way round to either side
 *
 * Cost: reduce-scatter (p-1) alpha + (p-1)/p n beta + (p-1)/p n gamma, allgather the same without
 * gamma, allreduce the sum of both: bandwidth is optimal, latency is linear. For large messages on
 * few ranks, and where links lead to neighbours only.  Two ways: floor(p/2) (alpha + n/p beta) with
 * a link to each side, half the rounds of the ring.
 *
 * The ring goes through the ranks in the order of nearness, if there is one: then it enters
 * every host and every rack once and leaves it once.
 *
 * Needs a commutative operation: the operands of chunk c start with rank c+1, so that every chunk
 * has another association tree. Any rank count; one neighbour on each side.
 *
 * Source: Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations",
 * JPDC 69(2), 2009.  Two ways: Fraigniaud, Lazard, "Methods and Problems of Communication in Usual
 * Networks", Discrete Applied Mathematics 53, 1994 (gossiping in cycles, full duplex).
 */
#include "algo/generators.h"

/* All links are full after the first send. A step takes its message before it sends, so one channel
 * would not block; but message k goes over channel k mod 2, so that there is room for it while
 * message k-1 is under way, also where a step takes a message only when it can send. */
static void receive_message(struct plan_builder *b, const struct circle *ring, int message)
{
    plan_channel(b, message % 2);
    plan_receive(b, circle_at(ring, -1));
}

static void send_message(struct plan_builder *b, const struct circle *ring, int message)
{
    plan_channel(b, message % 2);
    plan_send(b, circle_at(ring, 1));
}

/* Message 0 of a reduction: our operand of the chunk that ends at our left neighbour. */
static void send_first_operand(struct plan_builder *b, const struct circle *ring)
{
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, (uint32_t)circle_at(ring, -1));
    send_message(b, ring, 0);
    plan_end(b);
}

/* Begins a step that adds our operand to the message. */
static void begin_reduce(struct plan_builder *b, const struct circle *ring, int message,
                         uint32_t chunk)
{
    plan_begin(b, 1);
    receive_message(b, ring, message);
    plan_read(b, PLAN_INPUT, chunk);
}

/* The results of all others, from the left; all but the last are passed on. */
static void receive_results(struct plan_builder *b, const struct circle *ring, int first_message)
{
    const int ranks = ring->rank_count;
    for (int k = 1; k < ranks; k++) {
        const int message = first_message + k - 1;
        plan_begin(b, 1);
        receive_message(b, ring, message);
        plan_write(b, PLAN_OUTPUT, (uint32_t)circle_at(ring, -k));
        if (k < ranks - 1) send_message(b, ring, message + 1);
        plan_end(b);
    }
}

/* Chunk c is the result of rank c. Partial sums lie in the output, where the result will come as
 * well: by then the sum has gone all the way round, past every rank that read the old content. */
void ring_allreduce(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank), *ring = &circle;
    const int ranks = ring->rank_count;
    plan_parts(b, (uint32_t)ranks);
    plan_lane(b);
    send_first_operand(b, ring);
    for (int message = 0; message < ranks - 1; message++) {
        const uint32_t chunk = (uint32_t)circle_at(ring, -2 - message);
        begin_reduce(b, ring, message, chunk);
        plan_write(b, PLAN_OUTPUT, chunk);
        send_message(b, ring, message + 1);
        if (message == ranks - 2) plan_final(b);
        plan_end(b);
    }
    receive_results(b, ring, ranks - 1);
}

void ring_reduce_scatter(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank), *ring = &circle;
    const int ranks = ring->rank_count;
    plan_lane(b);
    send_first_operand(b, ring);
    for (int message = 0; message < ranks - 1; message++) {
        begin_reduce(b, ring, message, (uint32_t)circle_at(ring, -2 - message));
        if (message < ranks - 2) {
            send_message(b, ring, message + 1);
        } else {
            plan_write(b, PLAN_OUTPUT, 0);
            plan_final(b);
        }
        plan_end(b);
    }
}

void ring_allgather(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank), *ring = &circle;
    plan_lane(b);
    plan_begin(b, 1);
    plan_read(b, PLAN_INPUT, 0);
    plan_write(b, PLAN_OUTPUT, (uint32_t)rank);
    send_message(b, ring, 0);
    plan_end(b);
    receive_results(b, ring, 0);
}

/* Blocks that go that way round (1 or -1), each to `hops` ranks: ours first, then those of the
 * ranks behind us.  Channels alternate as in receive_message. */
static void pass_one_way(struct plan_builder *b, const struct circle *ring, int way, int hops)
{
    plan_lane(b);
    plan_send_from(b, circle_at(ring, way), PLAN_INPUT, 0, 1);
    for (int k = 1; k <= hops; k++) {
        plan_channel(b, (k - 1) % 2);
        plan_begin(b, 1);
        plan_receive(b, circle_at(ring, -way));
        plan_write(b, PLAN_OUTPUT, (uint32_t)circle_at(ring, -way * k));
        plan_channel(b, k % 2);
        if (k < hops) plan_send(b, circle_at(ring, way));
        plan_end(b);
    }
}

/* One lane a direction, so that neither waits for the other. With an even number of ranks, the
 * opposite rank is reached to the right. */
void ring_allgather_two_ways(const struct algo_params *params, int rank, struct plan_builder *b)
{
    const struct circle circle = circle_of(params, rank), *ring = &circle;
    const int ranks = ring->rank_count, left_hops = (ranks - 1) / 2;
    pass_one_way(b, ring, 1, ranks - 1 - left_hops);
    if (left_hops > 0) pass_one_way(b, ring, -1, left_hops);
    plan_lane(b);
    plan_copy(b, PLAN_INPUT, 0, PLAN_OUTPUT, (uint32_t)rank, 1);
}
