/* path.h - the path from a node to every other one, and what it can carry.
 *
 * A path goes over links, and inside a machine from what contains something to what it contains and
 * back. Of all paths the one with the fewest hops is taken, then the one whose narrowest link is
 * the widest, then the fastest one. Ranks, processors and accelerators hand nothing on: paths begin
 * and end there. (Handing on is work for a plan.)
 */
#ifndef TUTTI_STUDIO_TOPO_PATH_H
#define TUTTI_STUDIO_TOPO_PATH_H

#include "topo/topo.h"

struct topo_reach {
    int hops;                /* 0: the node itself; -1: it cannot be reached */
    int link_count;          /* hops over links; the others stay inside a machine */
    int previous;            /* the node before this one on the way, or -1 */
    double bytes_per_second; /* of the narrowest link; 0: no link of the path has told */
    double latency_ns;       /* of all links together */
    enum topo_known known; /* of the links on the way, as the weakest is; MEASURED when there are none */
};

/* Fills reach[node_count]: the paths from that node. NO_MEMORY leaves it undefined. Any thread. */
enum tutti_status topo_reach_all(const struct topo *topo, int from, struct topo_reach *reach);
/* The path between two ranks: INVALID_RANK when one is not there; reach->hops is -1 when nothing
 * joins them. */
enum tutti_status topo_path(const struct topo *topo, int from_rank, int to_rank,
                            struct topo_reach *reach);

#endif
