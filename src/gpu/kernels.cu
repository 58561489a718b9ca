/* kernels.cu - what devices run: compiled to kernels.ptx by `make kernels`, with clang alone. The driver compiles that for its device. */
#include "gpu/reduce_run.h"
#include "gpu/worker_run.h"

#define KERNEL extern "C" __attribute__((global, launch_bounds(512)))

/* worker.h; the address of a struct worker_home. */
KERNEL void tutti_worker(uint64_t home)
{
    worker_run(home);
}
