/* runner.h - a kernel that runs until it is told to end. */
#ifndef TUTTI_BENCH_GPU_FACTS_RUNNER_H
#define TUTTI_BENCH_GPU_FACTS_RUNNER_H

#include <stdint.h>

/* Loads it, unless it is there already. */
void runner_make(void);
void runner_begin(void);
void runner_end(void);
/* Pinned memory that the kernel leaves alone. */
enum { RUNNER_SPARE_BYTES = 64 };
uintptr_t runner_spare(void);

#endif
