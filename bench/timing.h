/* timing.h - functions for programs that time calls. */
#ifndef TUTTI_BENCH_TIMING_H
#define TUTTI_BENCH_TIMING_H

#include <stdlib.h>
#include <time.h>

static inline double read_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline double now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

/* Of doubles, for qsort. */
static inline int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static inline double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return values[count / 2];
}

#endif
