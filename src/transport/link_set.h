/* link_set.h - a set of links between two ranks, by their index: slot * TRANSPORT_CHANNEL_COUNT +
 * channel. */
#ifndef TUTTI_TRANSPORT_LINK_SET_H
#define TUTTI_TRANSPORT_LINK_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/transport.h"

enum { LINK_SET_WORDS = (TRANSPORT_LINK_COUNT + 63) / 64 };

/* All zero is the empty set. */
struct link_set {
    uint64_t filled; /* a bit for each word that is not 0 */
    uint64_t words[LINK_SET_WORDS];
};
static_assert(LINK_SET_WORDS < 64, "each word has a bit");

static inline void link_set_add(struct link_set *set, unsigned index)
{
    set->words[index / 64] |= UINT64_C(1) << index % 64;
    set->filled |= UINT64_C(1) << index / 64;
}

static inline void link_set_remove(struct link_set *set, unsigned index)
{
    set->words[index / 64] &= ~(UINT64_C(1) << index % 64);
    if (set->words[index / 64] == 0) set->filled &= ~(UINT64_C(1) << index / 64);
}

static inline void link_set_join(struct link_set *set, const struct link_set *others)
{
    for (unsigned w = 0; w < LINK_SET_WORDS; w++) set->words[w] |= others->words[w];
    set->filled |= others->filled;
}

static inline bool link_set_has(const struct link_set *set, unsigned index)
{
    return (set->words[index / 64] >> index % 64 & 1) != 0;
}

static inline bool link_set_is_empty(const struct link_set *set)
{
    return set->filled == 0;
}

/* The first link from an index on; -1: none. */
static inline int link_set_next(const struct link_set *set, unsigned from)
{
    const unsigned w = from / 64;
    if (set->filled == 0 || w >= LINK_SET_WORDS) return -1;
    const uint64_t word = set->words[w] & UINT64_MAX << from % 64;
    if (word != 0) return (int)(w * 64) + __builtin_ctzll(word);
    const uint64_t filled = set->filled & UINT64_MAX << w << 1;
    if (filled == 0) return -1;
    const int next = __builtin_ctzll(filled);
    return next * 64 + __builtin_ctzll(set->words[next]);
}

/* The same, but the search goes on from index 0. */
static inline int link_set_turn(const struct link_set *set, unsigned from)
{
    const int found = link_set_next(set, from);
    return found >= 0 || from == 0 ? found : link_set_next(set, 0);
}

#endif
