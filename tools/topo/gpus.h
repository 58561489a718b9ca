/* gpus.h - the GPUs of this host, as their driver knows them. */
#ifndef TUTTI_TOOLS_TOPO_GPUS_H
#define TUTTI_TOOLS_TOPO_GPUS_H

#include "topo/topo.h"

/* If the process uses a driver (gpu/gpu.h), an accelerator at the address of one of its GPUs gets
 * the GPU's number, name and memory, and a GPU that was not found otherwise is added to the
 * machine. Without a driver it does nothing. Returns errors of TUTTI_CUDA_DRIVER or of the driver.
 * Opens no GPU. */
enum tutti_status gpus_add(struct topo *topo);

#endif
