/* lay_rank.h - one rank's steps of trees, in the order of a timetable (timetable.h).
 *
 *     from 1 ──► lane 0 ─┐ after
 *     from 3 ──► lane 1 ─┼────────► lane 2 ──► to 2
 *                        └────────► lane 3 ──► to 4
 *
 *     down:  a rank stores what it receives in its output, and sends it from there to each child when the edge to it is free
 *     up:    a rank adds what it receives to what it has, and sends the sum on when all children's parts are in it
 *
 * 1. A lane only receives, or only sends, and has one peer; where a rank has more peers than lanes,
 *    some share one, in the timetable's order. So whatever a rank waits for keeps no other peer
 *    waiting.
 * 2. Sums are in the output where that has all blocks (allreduce), else in scratch: a partial sum
 *    has to wait somewhere.
 */
#ifndef TUTTI_STUDIO_SYNTH_LAY_RANK_H
#define TUTTI_STUDIO_SYNTH_LAY_RANK_H

#include "studio/synth/lay.h"
#include "studio/synth/timetable.h"

/* A range of a root's chunks that takes one tree up, and one tree down. */
struct lay_segment {
    int root;
    int64_t first, count;
    const struct forest_tree *up, *down; /* or NULL */
};

struct lay_out {
    const struct lay *lay;
    int rank_count, root; /* 0 where there is none */
    int64_t k;            /* chunks of a root and piece */
    uint32_t parts;
    struct lay_segment *segments;
    int segment_count;
    struct timetable_entry *entries; /* sorted by the rank whose step it is */
    size_t *begins;                  /* of each rank, and the end */
};

const struct forest_tree *lay_tree(const struct lay_out *layout,
                                   const struct timetable_entry *entry);
/* The rank plan is the caller's. TIMEOUT; NO_MEMORY. */
enum tutti_status lay_rank(const struct lay_out *layout, int rank, struct rank_plan **made);

#endif
