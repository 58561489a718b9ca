/* tutti-topo_pair.h - what it takes from one process to another one: of the same core, and of others. */
#ifndef TUTTI_TOOLS_TOPO_PAIR_H
#define TUTTI_TOOLS_TOPO_PAIR_H

#include "model/calibration.h"

/* Sets turn_ps of the calibration: two processes of one core, each of which yields until it is its turn. */
enum tutti_status measure_turn(struct calibration *calibration);
/* Sets latency_near_ps and latency_far_ps: a line goes from core to core. If there are no two cores of that kind, the latency stays
 * assumed. */
enum tutti_status measure_latencies(struct calibration *calibration);

#endif
