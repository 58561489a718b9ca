/* pair.h - measures what it takes to go from one process to another, on the same core
 * and on different cores. */
#ifndef TUTTI_TOOLS_TOPO_PAIR_H
#define TUTTI_TOOLS_TOPO_PAIR_H

#include "model/calibration.h"

/* Sets turn_ps of the calibration, by two processes on one core, each of which yields until it is
 * its turn. */
enum tutti_status measure_turn(struct calibration *calibration);
/* Sets latency_near_ps and latency_far_ps, by a cache line that goes from core to core. If there
 * are no two cores of that kind, the latency stays assumed. */
enum tutti_status measure_latencies(struct calibration *calibration);
/* Sets retake_near_byte_fs and retake_far_byte_fs: how much longer a sum takes that is stored where
 * another core has just read. They stay assumed where latencies do. */
enum tutti_status measure_retakes(struct calibration *calibration);

#endif
