/* probe.h - properties of a network, from the measurements of pairs of its hosts while all other
 * pairs sent as well.
 *
 * Hosts meet in rounds, a tournament: every round pairs all hosts (with an odd number one sits
 * out), and over the rounds each meets each once (the circle method: one host stays, all others
 * move on by one place).
 *
 *     round 0:  0 1 2     round 1:  0 5 1     ...   above against below; 0 stays
 *               5 4 3               4 3 2
 *
 * Several tournaments with the hosts in other orders pair them differently. Pairs of one rack then
 * get the same rate in every round; pairs of different racks share the uplinks with all others that
 * cross these at that time, and get less.
 *
 * 1. All of this is pure: the same numbers give the same answer, on every rank.
 * 2. It sees an uplink only when what crosses it in a round is more than it carries. About half of
 *    a rack's hosts have a partner elsewhere, so uplinks that carry half of what their hosts can
 *    send, or more, look like none.
 * 3. Racks of one host, and two hosts, tell nothing: there is no pair to compare with.
 */
#ifndef TUTTI_TOPO_PROBE_H
#define TUTTI_TOPO_PROBE_H

#include "topo/topo.h"

/* The number of rounds of a tournament of that many hosts. */
int probe_round_count(int host_count);
/* The number of tournaments that fit into rounds_max rounds, at most tournaments_max and at least
 * one. */
int probe_tournament_count(int host_count, int tournaments_max, int rounds_max);
/* Fills order[host_count] with the hosts in the order of that tournament: 0 is that of their
 * numbers. */
void probe_order(int host_count, int tournament, int *order);
/* The host that `host` meets in a round, with the hosts in that order; -1: it sits out. */
int probe_partner(const int *order, int host_count, int round, int host);

/* The measurements. Matrices are of host_count x host_count, symmetric; the diagonal means
 * nothing. */
struct probe {
    int host_count, tournament_count;
    const double *latency_ns; /* one way; NULL, where only racks are asked for: not measured */
    const double *bytes_per_second; /* one matrix a tournament; in each direction, both at once; 0: that pair did not meet */
};

/* Puts hosts together by average linkage: the two groups whose hosts are on average the most alike
 * become one, until the best pair of groups is less alike than `part` (0 to 1) of what is usual
 * between a host and its next one. Fills group_of[host_count] with numbers in the order of the
 * groups' first hosts; returns how many groups there are. likeness is a matrix of numbers above 0.
 * -1: out of memory. */
int probe_cluster(const double *likeness, int host_count, double part, int *group_of);

/* Racks, by the rates or, where these tell nothing apart, by the latencies. Fills
 * rack_of[host_count]; one rack when nothing tells hosts apart, also when that would leave every
 * host alone. -1: out of memory. */
int probe_racks(const struct probe *probe, int *rack_of);

/* A number that was measured several times. */
struct probe_figure {
    int count;                   /* of the samples; 0: nothing was measured, and the rest is 0 */
    double least, middle, upper; /* upper: a quarter of the samples are larger */
};

/* The capacity and latency of the links between hosts, in nanoseconds: for a byte that a host sends
 * while all others send; for a byte on the uplink of a rack, or less if the uplink was never full;
 * for a message within a rack, and to another rack. */
struct probe_links {
    struct probe_figure host_byte_ns, uplink_byte_ns, rack_ns, cluster_ns;
};

/* rack_of: of each host, from 0. Cells that are 0 were not measured; an uplink needs a round in
 * which all pairs that crossed it were. NO_MEMORY. */
enum tutti_status probe_links_find(const struct probe *probe, const int *rack_of, int rack_count,
                                   struct probe_links *links);

/* A topology of racks, each with a switch and its machines, whose links to it carry the best that
 * the host got; and, with several racks, a switch that joins these, with links that carry what
 * crossed them in the rounds in which the most pairs did. Names are the hosts'. host_of_rank: where
 * ranks stand. On failure *topo is empty: NO_MEMORY, UNSUPPORTED. */
enum tutti_status probe_topo(const struct probe *probe, const int *rack_of, int rack_count,
                             const char *const *host_names, const int *host_of_rank, int rank_count,
                             struct topo *topo);

#endif
