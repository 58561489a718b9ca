/* round.h - what the rounds of shrinking and growing have in common: survivors agree who is left,
 * meet, and agree whether all have met. */
#ifndef TUTTI_COMM_ROUND_H
#define TUTTI_COMM_ROUND_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/status.h"
#include "membership/rank_set.h"

enum { ROUNDS_MAX = 16 };

/* The ranks of the set, in order, to be freed; NULL: no memory. */
static inline int *round_list_ranks(const uint64_t *set, int size, int *count)
{
    int *ranks = calloc((size_t)size, sizeof *ranks);
    *count = 0;
    for (int r = 0; ranks != NULL && r < size; r++)
        if (rank_set_has(set, r)) ranks[(*count)++] = r;
    return ranks;
}

static inline bool round_are_all_in(const uint64_t *set, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        if (!rank_set_has(set, ranks[i])) return false;
    return true;
}

/* The word by which a rank says how it met the others: all bits but the bit of its failure. */
static inline uint64_t round_word_of(enum tutti_status status)
{
    static_assert(STATUS_COUNT <= 64, "a bit for each");
    return status == TUTTI_OK ? UINT64_MAX : ~(UINT64_C(1) << status);
}

/* The status of a rank that lacks something, or has it wrong, as it will in the next round, too;
 * else OK. */
static inline enum tutti_status round_shortage_in(uint64_t word)
{
    static const enum tutti_status shortages[] = {TUTTI_NO_MEMORY,         TUTTI_NO_SPACE,
                                                  TUTTI_NO_DESCRIPTORS,    TUTTI_INVALID_OPTIONS,
                                                  TUTTI_INVALID_ALGORITHM, TUTTI_UNSUPPORTED};
    for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++)
        if ((word & round_word_of(shortages[i])) == word) return shortages[i];
    return TUTTI_OK;
}

#endif
