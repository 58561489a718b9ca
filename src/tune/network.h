/* network.h - what algorithms cost where ranks are on several hosts: the model behind the choice over a network.
 *
 *     ranks ── memory ── card ══ switch of the rack ══ uplink ══ other racks
 *              of a      of the
 *              host      host
 *
 * A host's ranks share its card, a rack's hosts its uplink, which is taken to carry what one card does: what suits that suits
 * wider ones. Costs are closed forms of what a plan sends, from which a time follows by alpha and beta; the same forms
 * are compared with the bytes of real plans in the tests.
 *
 * It measures nothing, and knows neither what links really carry nor what else is on them. Pure: the same on all ranks.
 */
#ifndef TUTTI_TUNE_NETWORK_H
#define TUTTI_TUNE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"

/* What a choice depends on. */
struct network_shape {
    int host_count;
    int host_ranks_min, host_ranks_max;
    int rack_count; /* 1: nothing is known above hosts */
    int rack_hosts_max;
};

/* From levels that were checked, whose first one is that of the hosts; NO_MEMORY. */
enum tutti_status network_shape_init(struct network_shape *shape, const struct algo_levels *levels,
                                     int rank_count);

struct network_cost {
    double rounds;   /* messages between hosts of which each waits for the one before */
    double messages; /* that the busiest rank sends across, or receives: time of its processor */
    double card_bytes, uplink_bytes; /* in one direction of the busiest one */
    double extra_bytes;  /* times of a card during which not all that has to be sent can be */
    double memory_bytes; /* that the ranks of a host copy and add one after the other */
    bool streams; /* rounds follow each other so closely that only the longer of both counts, they or the bytes */
};
double network_time_ns(const struct network_cost *cost);

struct network_candidate {
    enum collective collective;
    const char *name;
    bool needs_levels; /* only where some host has several ranks, or there are racks that it heeds */
    bool heeds_racks; /* the plan is to be made with all levels, otherwise with that of the hosts alone */
    /* block_bytes: of a block, as calls count: count times element size. */
    void (*cost)(const struct network_shape *shape, double rank_count, double block_bytes,
                 struct network_cost *cost);
};

static inline bool network_suits(const struct network_candidate *candidate,
                                 const struct network_shape *shape)
{
    return !candidate->needs_levels || shape->host_ranks_max > 1 ||
           (candidate->heeds_racks && shape->rack_count > 1);
}

/* In the order of preference where costs are the same. */
extern const struct network_candidate network_candidates[];
extern const int network_candidate_count;

/* For calls of which no rank knows all counts. */
enum { NETWORK_ASSUMED_BLOCK_BYTES = 256 << 10 };

#endif
