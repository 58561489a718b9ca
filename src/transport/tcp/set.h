/* set.h - a set of links of a pair, by their index. */
#ifndef TUTTI_TRANSPORT_TCP_SET_H
#define TUTTI_TRANSPORT_TCP_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/tcp/link.h"

enum { TCP_SET_WORDS = (TCP_LINK_COUNT + 63) / 64 };

struct tcp_set {
    uint64_t words[TCP_SET_WORDS];
};

static inline void tcp_set_add(struct tcp_set *set, unsigned index)
{
    set->words[index / 64] |= UINT64_C(1) << index % 64;
}

static inline void tcp_set_remove(struct tcp_set *set, unsigned index)
{
    set->words[index / 64] &= ~(UINT64_C(1) << index % 64);
}

static inline bool tcp_set_has(const struct tcp_set *set, unsigned index)
{
    return (set->words[index / 64] >> index % 64 & 1) != 0;
}

static inline bool tcp_set_is_empty(const struct tcp_set *set)
{
    uint64_t all = 0;
    for (unsigned w = 0; w < TCP_SET_WORDS; w++) all |= set->words[w];
    return all == 0;
}

/* The first from an index on; -1: none. */
static inline int tcp_set_next(const struct tcp_set *set, unsigned from)
{
    for (unsigned w = from / 64; w < TCP_SET_WORDS; w++) {
        uint64_t word = set->words[w];
        if (w == from / 64) word &= UINT64_MAX << from % 64;
        if (word != 0) return (int)(w * 64) + __builtin_ctzll(word);
    }
    return -1;
}

/* The same in a circle. */
static inline int tcp_set_turn(const struct tcp_set *set, unsigned from)
{
    const int found = tcp_set_next(set, from);
    return found >= 0 || from == 0 ? found : tcp_set_next(set, 0);
}

#endif
