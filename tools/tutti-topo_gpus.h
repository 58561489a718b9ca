/* tutti-topo_gpus.h - the GPUs of this host, as their driver knows them. */
#ifndef TUTTI_TOPO_GPUS_H
#define TUTTI_TOPO_GPUS_H

#include "topo/topo.h"

/* Where the process uses a driver (gpu/gpu.h): an accelerator at the address of one of its GPUs
 * gets the GPU's number, name and memory. A GPU that was not found otherwise is added to the
 * machine. Without a driver, nothing. An error of TUTTI_CUDA_DRIVER's, or of the driver. Opens no
 * GPU. */
enum tutti_status gpus_add(struct topo *topo);

#endif
