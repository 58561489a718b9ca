/* bandwidth.h - measures the bandwidth of a host's memory when all of its cores use
 * it. */
#ifndef TUTTI_TOOLS_TOPO_BANDWIDTH_H
#define TUTTI_TOOLS_TOPO_BANDWIDTH_H

#include "model/calibration.h"
#include "studio/load.h"

/* Sets memory_byte_fs of the calibration, whose key must be set, using all processors on which this
 * process may run. */
enum tutti_status measure_bandwidth(struct calibration *calibration, struct load *load);

#endif
