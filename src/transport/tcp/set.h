/* set.h - a set of links of a pair, by their index. */
#ifndef TUTTI_TRANSPORT_TCP_SET_H
#define TUTTI_TRANSPORT_TCP_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/tcp/link.h"

enum { TCP_SET_WORDS = (TCP_LINK_COUNT + 63) / 64 };

/* All zero is the empty set. */
struct tcp_set {
    uint64_t filled; /* a bit for each word that is not 0 */
    uint64_t words[TCP_SET_WORDS];
};
static_assert(TCP_SET_WORDS < 64, "each word has a bit");

static inline void tcp_set_add(struct tcp_set *set, unsigned index)
{
    set->words[index / 64] |= UINT64_C(1) << index % 64;
    set->filled |= UINT64_C(1) << index / 64;
}

static inline void tcp_set_remove(struct tcp_set *set, unsigned index)
{
    set->words[index / 64] &= ~(UINT64_C(1) << index % 64);
    if (set->words[index / 64] == 0) set->filled &= ~(UINT64_C(1) << index / 64);
}

static inline void tcp_set_join(struct tcp_set *set, const struct tcp_set *others)
{
    for (unsigned w = 0; w < TCP_SET_WORDS; w++) set->words[w] |= others->words[w];
    set->filled |= others->filled;
}

static inline bool tcp_set_has(const struct tcp_set *set, unsigned index)
{
    return (set->words[index / 64] >> index % 64 & 1) != 0;
}

static inline bool tcp_set_is_empty(const struct tcp_set *set)
{
    return set->filled == 0;
}

/* The first from an index on; -1: none. */
static inline int tcp_set_next(const struct tcp_set *set, unsigned from)
{
    const unsigned w = from / 64;
    if (set->filled == 0 || w >= TCP_SET_WORDS) return -1;
    const uint64_t word = set->words[w] & UINT64_MAX << from % 64;
    if (word != 0) return (int)(w * 64) + __builtin_ctzll(word);
    const uint64_t filled = set->filled & UINT64_MAX << w << 1;
    if (filled == 0) return -1;
    const int next = __builtin_ctzll(filled);
    return next * 64 + __builtin_ctzll(set->words[next]);
}

/* The same in a circle. */
static inline int tcp_set_turn(const struct tcp_set *set, unsigned from)
{
    const int found = tcp_set_next(set, from);
    return found >= 0 || from == 0 ? found : tcp_set_next(set, 0);
}

#endif
