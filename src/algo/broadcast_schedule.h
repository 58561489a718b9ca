/* broadcast_schedule.h - the block that each rank sends in each round, for a broadcast of blocks in
 * the fewest rounds.
 *
 * In round t rank v, counted from the root on, sends to v + skips[k] and hears from v - skips[k],
 * k = t mod q. Rounds come in phases of q; from phase to phase a rank does the same with the blocks
 * that are q further on. So a schedule is one number for each k: the block, counted from the first
 * one that the root sends in that phase.
 *
 *     p = 5, skips 1 2 3 5       v   receives in rounds 0 1 2     negative: from the phase before
 *                                1             0  -1  -2
 *                                2            -3   1  -1          what a rank sends is what the
 *                                3            -2  -3   2          other one receives
 *                                4            -1  -2   0
 *
 * Invariants, which make it right (broadcast_schedule_test.c):
 *   1. In a phase a rank receives its base block b, from 0 to q-1, and every block of the phase
 *      before but b-q, which it has: so all blocks, each once.
 *   2. A block that is sent in round k was received in an earlier round, or is the base block of
 *      the phase before, or the sender is the root, which sends block k.
 */
#ifndef TUTTI_ALGO_BROADCAST_SCHEDULE_H
#define TUTTI_ALGO_BROADCAST_SCHEDULE_H

#include "algo/circulant.h"

struct broadcast_schedule {
    int rank_count, rank;
    struct circulant circulant;
    int sends[CIRCULANT_ROUNDS_MAX], receives[CIRCULANT_ROUNDS_MAX];
};

/* The root is rank 0 here. It receives nothing and nothing is sent to it: its entries there mean
 * nothing. */
void broadcast_schedule_init(struct broadcast_schedule *schedule, int rank_count, int rank);

/* Rounds of a broadcast of that many blocks. */
int broadcast_schedule_round_count(const struct broadcast_schedule *schedule, int block_count);

enum { BROADCAST_NOTHING = -1 };

struct broadcast_round {
    int to, send_block; /* ranks as counted from the root; block or BROADCAST_NOTHING */
    int from, receive_block;
};

/* Round 0 .. round_count-1 for blocks 0 .. block_count-1. */
struct broadcast_round broadcast_schedule_round(const struct broadcast_schedule *schedule,
                                                int block_count, int round);

#endif
