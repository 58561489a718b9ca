/* kernels.c - see kernels.h. */
#include "gpu/kernels.h"

#include "base/embedded.h"

EMBEDDED_FILE(gpu_kernels_ptx, EMBEDDED_FOLDER "kernels.ptx");
