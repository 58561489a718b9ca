#include "server/table_initial.h"

/* Numbers that differ in one bit become numbers that differ in half of them (the finalizer of
 * Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#define STRIDE UINT64_C(0x9e3779b97f4a7c15)

/* In [-1, 1), a multiple of 2^-23. */
static inline float uniform(uint64_t word)
{
    return (float)((int32_t)(word >> 40) - (1 << 23)) * 0x1p-23f;
}

static inline int32_t quarters(uint64_t word)
{
    return (int32_t)((word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48));
}

/* Twelve numbers of 16 bits have the mean 12 * 65535 / 2, and nearly the deviation 65536. */
static inline float normal(uint64_t a, uint64_t b, uint64_t c)
{
    const int32_t sum = quarters(a) + quarters(b) + quarters(c);
    return (float)(2 * sum - 12 * 65535) * 0x1p-17f;
}

void table_initial_row(const struct table_initial *initial, uint64_t seed, uint64_t row,
                       size_t width, float *out)
{
    const uint64_t base = mixed(mixed(seed + STRIDE) ^ row * STRIDE);
    switch (initial->kind) {
    case TABLE_INITIAL_CONSTANT:
        for (size_t i = 0; i < width; i++) out[i] = initial->value;
        return;
    case TABLE_INITIAL_UNIFORM:
        for (size_t i = 0; i < width; i++)
            out[i] = initial->scale * uniform(mixed(base + (i + 1) * STRIDE));
        return;
    case TABLE_INITIAL_NORMAL:
        for (size_t i = 0; i < width; i++) {
            const uint64_t at = base + (3 * i + 1) * STRIDE;
            out[i] = initial->scale * normal(mixed(at), mixed(at + STRIDE), mixed(at + 2 * STRIDE));
        }
        return;
    }
}
