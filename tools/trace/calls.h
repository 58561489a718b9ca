/* calls.h - the calls of one communicator that are complete in all its dumps, laid side
 * by side: how long each call took, and for which rank it waited. Pure.
 *
 *     rank 0   ├───────────────────────────┤
 *     rank 1     ├─────────────────────────┤          skew      from the first begin to the last
 *     rank 2                    ├────────────┤        measured  from the last begin, when all are there, to the last end
 *              │      skew      │  measured  │
 *
 * 1. Ranks of one host share a clock. Hosts are compared by the wall clocks that their dumps name,
 *    unless the dumps show that these differ; for example, no rank leaves an allreduce before the
 *    last one has come.
 * 2. If clocks cannot be compared, calls that no rank leaves before all have come are taken to end
 *    everywhere at once: the rank that waited least came last. Then nothing is said of other calls.
 * 3. If hosts are compared by their clocks, a rank that such a call has waited for is late by the
 *    lesser of two times: that which the clocks say, and that by which the others waited longer
 *    than that rank. So a clock that is ahead makes no rank late.
 * 4. The recorder takes the time only once of a call that takes 2 us at most
 *    (docs/reference/dumps.md); such a call has no duration here.
 */
#ifndef TUTTI_TOOLS_TRACE_CALLS_H
#define TUTTI_TOOLS_TRACE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "studio/trace/trace_json.h"

/* The recorder does not distinguish times up to this one from 0. */
enum { CALLS_TIMED_NS = 2000 };

/* The way in which times of several hosts are compared. */
enum calls_clock {
    CALLS_ONE_CLOCK,   /* all ranks are on one host */
    CALLS_WALL_CLOCKS, /* by the hosts' clocks, which nothing contradicts */
    CALLS_NO_CLOCK     /* not at all: by how long each rank was in the call */
};

/* Calls that have the same collective, count, dtype, root and algorithm, and are all blocking or
 * all started. Ranks are indices of dumps; times are medians. */
struct call_kind {
    const struct trace_entry *first; /* in the first dump */
    enum collective collective;
    size_t count;
    uint64_t measured_ns, skew_ns;
    uint64_t least_ns; /* the time that any rank was in the call, by its own clock */
    bool is_timed;
    bool waits_for_all; /* no rank leaves before all have come */
    int late;           /* came last most often; -1: skews are too small to say */
    size_t late_count;  /* how often it was that one */
    uint64_t late_ns;   /* how long all others waited for it then */
    int last;           /* ended last most often; -1: clocks do not say */
    size_t last_count;
    uint64_t last_others_ns; /* the measured time of the others then */
};

struct call_rank {
    int late_permille;             /* how much of a call had passed when it came, in the middle */
    size_t late_count, last_count; /* how often it came last, and ended last, by 2 us and more */
    uint64_t late_ns;              /* how long all others waited for it in these calls, together */
};

/* One call of all ranks. */
struct call_times {
    uint64_t number, measured_ns, skew_ns;
    uint64_t late_ns; /* how long all others waited for the rank that came last */
    int late;         /* that rank: the index of its dump */
};

struct trace_calls {
    const struct trace_json *traces; /* the caller's, sorted by rank */
    size_t trace_count;
    enum calls_clock clock;
    uint64_t clock_error_ns; /* hosts' clocks differ by that much at least; 0: that is not known */
    int clock_ranks[2];      /* the two whose dumps show it; indices of dumps */
    /* Of each dump: what makes its times comparable with others, as far as they are; sums wrap.
     * Without wall clocks, the moments of the dumps are taken to be the same. */
    uint64_t *offsets_ns;
    size_t count;            /* of calls that are measured */
    struct call_times *each; /* of those, in the order of their numbers */
    struct call_kind *kinds;
    size_t kind_count;
    struct call_rank *ranks; /* of each dump */
    /* Calls that are left out: not in all dumps (counted in the longest one), not complete,
     * different on different ranks, of v forms, or not comparable. */
    size_t absent_count, unfinished_count, different_count, varying_count, unclocked_count;
};

/* Finds the calls in dumps of one communicator, sorted by rank, one dump per rank; the dumps stay
 * the caller's, and must last as long as *calls. The caller releases *calls after success.
 * NO_MEMORY. */
enum tutti_status calls_find(const struct trace_json *traces, size_t count,
                             struct trace_calls *calls);
void calls_release(struct trace_calls *calls);
/* Whether calls are of one kind. */
bool calls_are_alike(const struct trace_entry *one, const struct trace_entry *other);

#endif
