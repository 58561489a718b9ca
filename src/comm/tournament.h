/* tournament.h - hosts send to each other in pairs that change from round to round (topo/probe.h),
 * and time it.
 *
 *     round:  barrier ── a byte to and fro ── barrier ── both ways at once: some bytes ── so many more, which are timed
 *
 * 1. All pairs of a round begin together, and send equally much: what shares a link shares it for
 *    as long.
 * 2. The time counts from when the first bytes are received until all are: neither a rank that
 *    comes late out of the barrier, nor latency, nor what a network card passes at once after a
 *    rest makes a link look slower or faster than it is.
 * 3. 1 MiB is timed, or as much as takes about 10 ms on a faster network, up to 16 MiB.
 */
#ifndef TUTTI_COMM_TOURNAMENT_H
#define TUTTI_COMM_TOURNAMENT_H

#include "call/communicator.h"

struct tournament {
    int host_count;          /* that take part, one rank of each */
    int tournament_count;    /* in other orders */
    int round_count;         /* of each, the first ones: at most probe_round_count */
    double bytes_per_second; /* that are expected; 0: the first round tells */
};

/* Collective over the ranks of a communicator that no caller has yet; `host` is the number of a
 * rank that takes part, in the order of ranks, and -1 on all others, which come back at once. Fills
 * in the cells of the pairs that this rank was part of: bytes_per_second[tournament][host][other],
 * what came from the other; and latency_ns[host][other], half of the fastest round trip. Other
 * cells stay as they are. Blocks as long as the rounds take, and as long as it takes to make
 * connections and to leave them; a host that does not come fails the communicator at its timeout.
 * Errors are those of the calls that it makes, and NO_MEMORY. */
enum tutti_status tournament_play(struct tutti_comm *comm, int host,
                                  const struct tournament *tournament, double *bytes_per_second,
                                  double *latency_ns);

#endif
