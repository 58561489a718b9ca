/* between.h - turns the results of --probe about the network of a job into numbers of a
 * calibration. */
#ifndef TUTTI_TOOLS_TOPO_BETWEEN_H
#define TUTTI_TOOLS_TOPO_BETWEEN_H

#include "model/calibration.h"
#include "probe.h"

/* Sets the latencies between hosts and the costs of a byte for cards and uplinks; if no racks were
 * found, their numbers stay as they are. The key gets the job's hosts and ranks. To be called on a
 * rank that has the whole result. NO_MEMORY. */
enum tutti_status measure_between(const struct probe_result *result,
                                  struct calibration *calibration);

#endif
