/* hosts.h - which ranks are on which host, according to the command line of
 * tutti-plan. */
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

/* Reads lists of sizes, or of COUNTxSIZE, separated by commas: "4x2", "2,1,5", "3x2,8". They are
 * the numbers of ranks of the hosts, and of hosts of the racks (NULL: no racks). False and *why
 * (static text) if that is impossible; then there is nothing to release. */
bool hosts_parse(struct hosts *hosts, const char *host_sizes, const char *rack_sizes,
                 struct hosts_dealing dealing, const char **why);
/* Makes hosts for so many ranks: of 3, 1 and 2 ranks in turn, in racks of 2 and 1 hosts. False when
 * out of memory. */
bool hosts_generate(struct hosts *hosts, int rank_count, bool interleaved);
void hosts_release(struct hosts *hosts);

#endif
