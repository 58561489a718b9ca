/* rank_set.h - sets of ranks: one bit for each rank, in the caller's words; rank 0 is the lowest
 * bit of the first word. */
#ifndef TUTTI_MEMBERSHIP_RANK_SET_H
#define TUTTI_MEMBERSHIP_RANK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of words that a set of that many ranks takes. */
static inline size_t rank_set_words(int size)
{
    return ((size_t)size + 63) / 64;
}

/* The bits of the i-th word that stand for ranks. */
static inline uint64_t rank_set_mask(int size, size_t i)
{
    const size_t bits = (size_t)size - i * 64;
    return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

static inline bool rank_set_has(const uint64_t *set, int rank)
{
    return set[rank / 64] >> (rank % 64) & 1;
}

static inline void rank_set_add(uint64_t *set, int rank)
{
    set[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static inline void rank_set_remove(uint64_t *set, int rank)
{
    set[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

static inline int rank_set_count(const uint64_t *set, int size)
{
    int count = 0;
    for (size_t i = 0; i < rank_set_words(size); i++) count += __builtin_popcountll(set[i]);
    return count;
}

#endif
