/* circulant.h - circulant graphs: every rank has peers at the same distances.
 *
 *     p = 11, skips 1 2 3 6 11        blocks held before and after each of 4 rounds
 *
 *       holds 3:  0 1 2               local block i of a rank is the one of the rank i further on;
 *       gets      | 0 1 2             from the rank at distance 3, which holds its own 3
 *       holds 6:  0 1 2 3 4 5
 *
 * A skip is at most the radix times the one before it: with k = radix - 1 ports, a rank that holds
 * s blocks gets up to s more from each of the ranks at s, 2s, .. ks.
 */
#ifndef TUTTI_ALGO_CIRCULANT_H
#define TUTTI_ALGO_CIRCULANT_H

#include "plan/build.h"

enum { CIRCULANT_ROUNDS_MAX = 16 }; /* of PLAN_RANKS_MAX with one port */

struct circulant {
    int round_count;                     /* ceil(log_radix p) */
    int skips[CIRCULANT_ROUNDS_MAX + 1]; /* 1 = skips[0] < .. < skips[round_count] = p */
};

/* Each skip is the next one divided by the radix, rounded up: all rounds grow alike. */
struct circulant circulant_of(int rank_count, int radix);
/* Each skip is a power of the radix. The last round may lack part of a power; nothing is sent for
 * that part. */
struct circulant circulant_of_powers(int rank_count, int radix);

/* Every rank's block to every rank, in round_count rounds. */
void circulant_gather(struct plan_builder *b, int rank, const struct circulant *circulant);

#endif
