/* chance.h - numbers that follow from a seed alone, for tests that draw their inputs. */
#ifndef TUTTI_TESTS_KIT_CHANCE_H
#define TUTTI_TESTS_KIT_CHANCE_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/kit/elements.h"

struct chance {
    uint64_t seed, turn;
};

static inline uint64_t chance_draw(struct chance *chance)
{
    return elements_mixed(chance->seed, chance->turn++);
}

static inline int chance_below(struct chance *chance, int bound)
{
    return (int)(chance_draw(chance) % (uint64_t)bound);
}

/* The next number, of 31 bits, of the sequence in which *random is the state. A cheaper draw, for
 * worlds that take one in each step. */
static inline uint64_t chance_next(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

/* TUTTI_TEST_SEED, which repeats a run, or the usual one; printed. */
static inline uint64_t chance_seed(uint64_t usual)
{
    const char *const wanted = getenv("TUTTI_TEST_SEED");
    const uint64_t seed = wanted != NULL ? strtoull(wanted, NULL, 0) : usual;
    printf("TUTTI_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* Between 1 and max, of any order of magnitude. */
static inline size_t chance_of_any_size(struct chance *chance, size_t max)
{
    int bits = 0;
    while (max >> bits > 1) bits++;
    const size_t low = (size_t)1 << chance_below(chance, bits + 1);
    const size_t number = low + chance_draw(chance) % low;
    return number < max ? number : max;
}

#endif
