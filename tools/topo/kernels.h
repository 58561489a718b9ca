/* kernels.h - measures the time that a core takes to copy and to add, with the kernels
 * of the library. */
#ifndef TUTTI_TOOLS_TOPO_KERNELS_H
#define TUTTI_TOOLS_TOPO_KERNELS_H

#include "model/calibration.h"
#include "studio/load.h"

/* Sets copy_... and reduce_... of the calibration, whose key must be set. NO_MEMORY. */
enum tutti_status measure_kernels(struct calibration *calibration, struct load *load);

/* The size that a buffer must have so that it does not stay in the last cache, if `count` of them
 * are used; bounded by the memory that is free. */
size_t measure_far_bytes(const struct hardware *hardware, size_t count);

#endif
