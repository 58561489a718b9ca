/* racks.h - racks that no file names, found by measuring.
 *
 * At the end of the creation of a communicator over several hosts, before any rank gets it, hosts
 * send to each other in pairs that change from round to round (topo/probe.h). A pair that shares an
 * uplink with others gets less of it than a pair that stays within a rack. All ranks then have the
 * same figures, and find the same racks by them.
 *
 *     rank 0's wish ──► rounds of pairs ──► rates of all ──► racks ──► levels, order of ranks, choice
 */
#ifndef TUTTI_COMM_RACKS_H
#define TUTTI_COMM_RACKS_H

#include "call/communicator.h"

/* Called by all ranks of a communicator that no caller has yet. Does nothing where hosts are fewer
 * than 4 or more than 64, where a file names racks on rank 0, or where its TUTTI_PROBE is 0.
 * Blocks: 15 ms per round at 1 Gbit/s, and as long as it takes to make connections and to leave
 * them, up to a second. Errors are those of the calls that it makes, and NO_MEMORY; the
 * communicator is of no use then. */
enum tutti_status comm_find_racks(struct tutti_comm *comm);

#endif
