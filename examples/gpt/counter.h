/* counter.h - random numbers that are functions of their place.
 *
 * Nothing here has a state. A number is asked for by a key and a place, and a number may be the key
 * of further ones:
 *
 *     seed ── what it is for ── step ── layer ── sample ── position ── feature
 *
 * So any rank can draw the numbers of any element, in any order, and they do not depend on how
 * ranks share the work.
 */
#ifndef GPT_COUNTER_H
#define GPT_COUNTER_H

#include <math.h>
#include <stdint.h>

/* Uses of random numbers: the first place after the seed. */
enum counter_purpose {
    COUNTER_PARAMETERS,
    COUNTER_DROPOUT,
    COUNTER_ORDER,
    COUNTER_WRITING,
    COUNTER_CHECK
};

/* 64 random bits: SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number
 * generators, 2014), whose state after `place` turns is known without taking them. */
static inline uint64_t counter_bits(uint64_t key, uint64_t place)
{
    uint64_t z = key + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Evenly in [0, 1). */
static inline double counter_unit(uint64_t key, uint64_t place)
{
    return (double)(counter_bits(key, place) >> 11) * 0x1p-53;
}

/* Normal, with mean 0 and deviation 1 (Box and Muller 1958). */
static inline double counter_normal(uint64_t key, uint64_t place)
{
    const double radius = sqrt(-2 * log(1 - counter_unit(key, 2 * place)));
    return radius * cos(6.283185307179586 * counter_unit(key, 2 * place + 1));
}

/* Where `index` goes in a random order of [0, count): a Feistel network permutes the next power of
 * four, and what falls outside goes through it again (Black and Rogaway, Ciphers with arbitrary
 * finite domains, 2002). Expects index < count; takes fewer than four turns in the mean. */
static inline uint64_t counter_permuted(uint64_t key, uint64_t count, uint64_t index)
{
    unsigned half = 1; /* bits */
    while (half < 32 && UINT64_C(1) << 2 * half < count) half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < 6; round++) {
            const uint64_t mixed = left ^ (counter_bits(counter_bits(key, round), right) & mask);
            left = right;
            right = mixed;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

#endif
