/* host_levels.h - which ranks of a communicator stand together: on one host, behind one switch, in
 * one rack.
 *
 *     who is on which host (the rank discovery)  ─┐
 *                                            ├──► levels for plans, an order of ranks
 *     TUTTI_TOPO_FILE: racks and switches   ─┘
 *
 * 1. The first level is that of the hosts, even where each has one rank. Further ones come from the
 *    topology, from the finest to the coarsest, where they tell hosts apart and nest: racks,
 *    switches, clusters (topo_place_of_machine).
 * 2. Machines of the topology are found by the names of hosts: exactly, or by the part before the
 *    first dot where just one machine fits so. Ranks that the topology has are not looked at: the
 *    host of each rank is known.
 * 3. Pure but for the file: ranks with the same hosts and the same file get the same of everything.
 *    Whether they have is what the fingerprint is for: ranks that do not agree make plans that do
 *    not fit each other.
 */
#ifndef TUTTI_TEAM_HOST_LEVELS_H
#define TUTTI_TEAM_HOST_LEVELS_H

#include <stdint.h>

#include "algo/algo.h"
#include "topo/topo.h"

struct host_levels {
    struct algo_levels levels; /* of all ranks; points to memory of this struct's own */
    int *order;                /* all ranks, near ones side by side */
    int host_count;            /* 1: all are on one host, and levels are of no use */
    uint64_t fingerprint;      /* of all of this */
    int rank_count;
    int *groups;
};

/* Reads the file that TUTTI_TOPO_FILE names, in the form of topo/racks.h, which needs no library
 * (tutti-topo writes it from JSON and XML); *topo, which is overwritten, is empty where nothing is
 * named, and after a failure: SYSTEM, INVALID_OPTIONS, UNSUPPORTED or NO_MEMORY, with the file's
 * name in the message. */
enum tutti_status host_levels_read_topology(struct topo *topo);

/* host_of: of each rank the number of its host, of any kind; host_names: of each rank its host's
 * name, looked at only where there is a topology, which may be empty. INVALID_OPTIONS: the topology
 * does not have a host, or has it twice; NO_MEMORY. Nothing to release then. */
enum tutti_status host_levels_init(struct host_levels *levels, int rank_count, const int *host_of,
                                   const char *const *host_names, const struct topo *topo);
/* Makes levels from the rack of each host, of any number. Racks tell nothing if there is only one,
 * or as many as hosts. NO_MEMORY, and nothing to release. */
enum tutti_status host_levels_init_racks(struct host_levels *levels, int rank_count,
                                         const int *host_of, const int *rack_of);
/* Makes levels for a communicator of some of the ranks: its rank i is ranks[i] of the whole
 * communicator. NO_MEMORY, and nothing to release. */
enum tutti_status host_levels_select(struct host_levels *part, const struct host_levels *whole,
                                     const int *ranks, int rank_count);
void host_levels_release(struct host_levels *levels);

#endif
