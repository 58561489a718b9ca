/* collective.h - the one list of collectives. */
#ifndef TUTTI_BASE_COLLECTIVE_H
#define TUTTI_BASE_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>

/* X(enumerator, name, reduces, rooted) */
#define COLLECTIVE_LIST(X)                                      \
    X(COLLECTIVE_ALLREDUCE, "allreduce", true, false)           \
    X(COLLECTIVE_REDUCE, "reduce", true, true)                  \
    X(COLLECTIVE_BROADCAST, "broadcast", false, true)           \
    X(COLLECTIVE_GATHER, "gather", false, true)                 \
    X(COLLECTIVE_SCATTER, "scatter", false, true)               \
    X(COLLECTIVE_ALLGATHER, "allgather", false, false)          \
    X(COLLECTIVE_REDUCE_SCATTER, "reduce_scatter", true, false) \
    X(COLLECTIVE_ALLTOALL, "alltoall", false, false)            \
    X(COLLECTIVE_BARRIER, "barrier", false, false)

enum collective {
#define X(enumerator, name, reduces, rooted) enumerator,
    COLLECTIVE_LIST(X)
#undef X
        COLLECTIVE_COUNT
};

/* By collective. */
extern const char *const collective_names[COLLECTIVE_COUNT];
static inline const char *collective_name(enum collective collective)
{
    return collective_names[collective];
}
static inline bool collective_reduces(enum collective collective)
{
#define X(enumerator, name, reduces, rooted) [enumerator] = reduces,
    static const bool they_reduce[COLLECTIVE_COUNT] = {COLLECTIVE_LIST(X)};
#undef X
    return they_reduce[collective];
}
bool collective_is_rooted(enum collective collective);
/* Blocks of a buffer on one rank; 0 where it is not looked at. */
static inline size_t collective_blocks_sent(enum collective collective, bool is_root, int rank_count)
{
    switch (collective) {
    case COLLECTIVE_BROADCAST: return is_root;
    case COLLECTIVE_SCATTER: return is_root ? (size_t)rank_count : 0;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL: return (size_t)rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return 1;
}
static inline size_t collective_blocks_received(enum collective collective, bool is_root,
                                                int rank_count)
{
    switch (collective) {
    case COLLECTIVE_REDUCE: return is_root;
    case COLLECTIVE_GATHER: return is_root ? (size_t)rank_count : 0;
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLTOALL: return (size_t)rank_count;
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_BROADCAST:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return 1;
}
/* Each rank gives its block, or gets it. This defines "in place": the input of a collective that
 * gathers is the rank's own block of its output, and the output of a collective that scatters is
 * the rank's own block of its input; in all others both begin at the same place. */
static inline bool collective_gathers(enum collective collective)
{
    return collective == COLLECTIVE_GATHER || collective == COLLECTIVE_ALLGATHER;
}
static inline bool collective_scatters(enum collective collective)
{
    return collective == COLLECTIVE_SCATTER || collective == COLLECTIVE_REDUCE_SCATTER;
}
/* Every rank knows the counts of all blocks of the v form; else each end of a transfer knows its
 * own. */
static inline bool collective_knows_all_counts(enum collective collective)
{
    return collective == COLLECTIVE_ALLGATHER || collective == COLLECTIVE_REDUCE_SCATTER;
}
/* COLLECTIVE_COUNT when there is none of that name. */
enum collective collective_from_name(const char *name);

#endif
