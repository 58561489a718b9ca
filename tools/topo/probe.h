/* probe.h - measures the links between the hosts of a running job, as --probe does on
 * every rank. */
#ifndef TUTTI_TOOLS_TOPO_PROBE_H
#define TUTTI_TOOLS_TOPO_PROBE_H

#include <stdbool.h>
#include <stdio.h>

#include "topo/topo.h"

enum { PROBE_HOSTS_MAX = 256 };

struct probe_result {
    int rank_count, host_count, rack_count, tournament_count;
    char (*host_names)[TOPO_NAME_SIZE];
    int *rack_of;             /* each host's */
    double *latency_ns;       /* between two hosts, one way */
    double *bytes_per_second; /* a matrix a tournament, see topo/probe.h */
    /* The bytes that pass at once after a rest, between two hosts of one rack and of two racks; 0:
     * none, or there are no such hosts. */
    double rack_burst_bytes, cluster_burst_bytes;
    struct topo topo;
};

/* Joins the ranks of the launcher's environment and measures. Collective over them; takes a few
 * seconds. *result is complete on the first rank of each host, and *shows is true there; rank 0 is
 * one of these. On other ranks it has no latencies. The caller releases it, also after a failure,
 * whose message tutti_error_message returns. UNSUPPORTED: all ranks are on one host, or there are
 * too many hosts. */
enum tutti_status probe_measure(struct probe_result *result, bool *shows);
/* Prints matrices of latencies and rates, and the racks. */
enum tutti_status probe_print(const struct probe_result *result, FILE *file);
void probe_release(struct probe_result *result);

#endif
