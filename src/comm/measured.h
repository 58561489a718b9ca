/* measured.h - what a communicator over several hosts finds out of the network as it is made: which
 * hosts share a rack, where no file says so; and what links between hosts carry, and how long a
 * message takes, where nobody calibrated that.
 *
 *     rank 0's wish ──► rounds of pairs (tournament.h) ──► figures of all ──► rank 0: racks, numbers ──► all ranks: levels, order, choice
 *
 * 1. Racks: a pair that shares an uplink with others gets less of it than a pair that stays within
 *    a rack (topo/probe.h).
 * 2. Numbers take the place of those of the calibration that are assumed (model/between.h).
 *    Calibrated numbers stay. The measured numbers are coarse, so that starts on the same hosts
 *    mostly choose alike.
 * 3. Rank 0 alone judges what was measured, and the others take its words: all ranks have the same,
 *    bit for bit.
 * 4. Rank 0's user keeps what was steady, for the next start on the same hosts
 *    (format/network_file.h). Once two starts have found the same, the next ones play two rounds,
 *    and measure anew only if these tell something else.
 * 5. At most 64 hosts take part, however many there are. Racks are looked for among 4 to 64 hosts,
 *    and take as many rounds as there are hosts; numbers take six.
 */
#ifndef TUTTI_COMM_MEASURED_H
#define TUTTI_COMM_MEASURED_H

#include "call/communicator.h"

/* Called by all ranks of a communicator that no caller has yet. Does nothing on one host, where
 * rank 0's TUTTI_PROBE is 0, or where nothing is unknown. Blocks: some 10 ms for each round, longer
 * on networks below 200 Mbit/s, and as long as it takes to make connections and to leave them, up
 * to a second. Errors are those of the calls that it makes, and NO_MEMORY; the communicator is of
 * no use then. But if the communicator has failed as a whole by the end, this returns OK: calls on
 * it return that failure. */
enum tutti_status comm_measure(struct tutti_comm *comm);

#endif
