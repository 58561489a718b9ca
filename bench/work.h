/* work.h - computing that stays in registers, for programs that measure how communication slows it
 * down. */
#ifndef TUTTI_BENCH_WORK_H
#define TUTTI_BENCH_WORK_H

#include <stdint.h>

#include "timing.h"

/* xorshift: each step needs the one before, so neither the compiler nor the core can shorten it. */
static inline void work(uint64_t steps)
{
    uint64_t x = UINT64_C(88172645463325252) + steps;
    for (uint64_t i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    __asm__ volatile("" : : "r"(x)); /* so that the compiler keeps it */
}

/* The number of steps per microsecond on an idle core: the best of a few trials of this process. */
static inline double work_steps_a_us(void)
{
    enum { STEPS = 1 << 20, TRIALS = 5 };
    double best_us = 1e30;
    for (int trial = 0; trial < TRIALS; trial++) {
        const double begin_us = now_us();
        work(STEPS);
        const double us = now_us() - begin_us;
        if (us < best_us) best_us = us;
    }
    return STEPS / best_us;
}

#endif
