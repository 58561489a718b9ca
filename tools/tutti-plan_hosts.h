/* tutti-plan_hosts.h - which ranks are on one host, as the command line of tutti-plan says it. */
#ifndef TUTTI_TOOLS_PLAN_HOSTS_H
#define TUTTI_TOOLS_PLAN_HOSTS_H

#include "algo/algo.h"

struct hosts {
    struct algo_levels levels; /* points to the following */
    int rank_count;            /* 0: nothing was said */
    int *host_of, *rack_of;    /* of each rank; rack_of is NULL without racks */
};

/* The places of ranks: one host after the other is filled with ranks, and one rack after the other
 * with hosts; or they get theirs in turns. */
struct hosts_dealing {
    bool ranks_in_turns, hosts_in_turns;
};

/* Lists with commas of sizes, or of COUNTxSIZE: "4x2", "2,1,5", "3x2,8". Hosts of so many ranks, racks of so many of
 * those hosts (NULL: no racks). False
 * and *why (static text) when that cannot be; nothing to release then. */
bool hosts_parse(struct hosts *hosts, const char *host_sizes, const char *rack_sizes,
                 struct hosts_dealing dealing, const char **why);
/* Some for so many ranks: of 3, 1 and 2 ranks, in racks of 2 and 1 hosts. False when out of memory. */
bool hosts_generate(struct hosts *hosts, int rank_count, bool interleaved);
void hosts_release(struct hosts *hosts);

#endif
