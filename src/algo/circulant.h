/* circulant.h - circulant graphs: everyone has peers at the same distances, the skips.
 *
 *     p = 11, skips 1 2 3 6 11        rank r at the distances 1, 2, 3, 6
 *
 * Between the skips s and t, with k = radix - 1 ports, t <= (k+1) s: whoever holds s blocks and gets up to s more
 * from each of the ranks at s, 2s, .. ks holds t.  Local block i of a rank is the one of the rank i further on.
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
/* Each skip is a power of the radix: what the last round lacks of one is not sent. */
struct circulant circulant_of_powers(int rank_count, int radix);

/* Everyone's block to everyone, in round_count rounds. */
void circulant_gather(struct plan_builder *b, int rank, const struct circulant *circulant);

#endif
