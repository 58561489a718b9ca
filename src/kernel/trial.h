/* trial.h - random elements for trials of kernels, in tests and in bench/gpu_check: of any dtype,
 * and often such that they round, cancel, overflow or are special. They are the same in each run.
 */
#ifndef TUTTI_KERNEL_TRIAL_H
#define TUTTI_KERNEL_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). One
 * thread at a time. */
static uint64_t random_state = 0x7455747469ull;

static inline uint64_t random_next(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline unsigned random_below(unsigned bound)
{
    return (unsigned)(random_next() % bound);
}

/* 0: integers. */
static inline unsigned trial_exponent_bits(enum tutti_dtype dtype)
{
    switch (dtype) {
    case TUTTI_FLOAT64: return 11;
    case TUTTI_FLOAT32:
    case TUTTI_BFLOAT16: return 8;
    case TUTTI_FLOAT16:
    case TUTTI_FLOAT8_E5M2: return 5;
    case TUTTI_FLOAT8_E4M3: return 4;
    case TUTTI_INT32:
    case TUTTI_INT64:
    case TUTTI_INT8:
    case TUTTI_INT16:
    case TUTTI_UINT8:
    case TUTTI_UINT16:
    case TUTTI_UINT32:
    case TUTTI_UINT64: break;
    }
    return 0;
}

/* Its bits. */
static inline uint64_t trial_element(enum tutti_dtype dtype)
{
    const unsigned bits = 8 * (unsigned)dtype_size(dtype), e = trial_exponent_bits(dtype);
    const uint64_t all = ~(uint64_t)0 >> (64 - bits), any = random_next() & all;
    if (e == 0) {
        switch (random_below(5)) {
        case 0: return 0;
        case 1: return (uint64_t)1 << (bits - 1);
        case 2: return ((uint64_t)random_below(9) - 4) & all;
        default: return any;
        }
    }
    const unsigned m = bits - 1 - e;
    const uint64_t sign = any & (uint64_t)1 << (bits - 1), mantissa = any & (((uint64_t)1 << m) - 1);
    const uint64_t largest = ((uint64_t)1 << e) - 1, bias = largest / 2;
    switch (random_below(10)) {
    case 0: return sign;
    case 1: return sign | largest << m;                  /* infinity */
    case 2: return sign | mantissa;                      /* denormals */
    case 3: return sign | (largest - 1) << m | mantissa; /* huge */
    case 4: return sign | largest << m | mantissa;       /* NaN, mostly */
    case 5: return any;
    default: return sign | (bias - 2 + random_below(5)) << m | mantissa;
    }
}

static inline bool trial_is_nan(enum tutti_dtype dtype, uint64_t bits)
{
    const unsigned width = 8 * (unsigned)dtype_size(dtype), e = trial_exponent_bits(dtype);
    if (e == 0) return false;
    const uint64_t magnitude = bits & (((uint64_t)1 << (width - 1)) - 1);
    if (dtype == TUTTI_FLOAT8_E4M3) return magnitude == 0x7f;
    return magnitude > (((uint64_t)1 << e) - 1) << (width - 1 - e);
}

#endif
