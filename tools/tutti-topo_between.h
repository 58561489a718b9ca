/* tutti-topo_between.h - what --probe found out about the network of a job, as numbers of a calibration. */
#ifndef TUTTI_TOOLS_TOPO_BETWEEN_H
#define TUTTI_TOOLS_TOPO_BETWEEN_H

#include "model/calibration.h"
#include "tutti-topo_probe.h"

/* Sets latencies between hosts and what a byte costs cards and uplinks; racks that were not found leave theirs as they are. The key gets the
 * job's hosts and ranks. On a rank on which the result is whole. NO_MEMORY. */
enum tutti_status measure_between(const struct probe_result *result,
                                  struct calibration *calibration);

#endif
