/* tutti-topo_bandwidth.h - what the memory of a host carries when all of its cores want it. */
#ifndef TUTTI_TOOLS_TOPO_BANDWIDTH_H
#define TUTTI_TOOLS_TOPO_BANDWIDTH_H

#include "model/calibration.h"
#include "tutti-topo_load.h"

/* Sets memory_byte_fs of the calibration, whose key it needs, with all processors on which this process may run. */
enum tutti_status measure_bandwidth(struct calibration *calibration, struct load *load);

#endif
