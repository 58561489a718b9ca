/* plan.h - the plan: the sends, receives, reductions and copies of every rank, as data.
 *
 * A plan cuts the buffers of a collective into *chunks* and says, for each rank, which steps act on
 * them. It knows nothing of counts, dtypes, addresses or transports; binding (engine/bind.h) adds
 * those.
 *
 * Buffers.  A block is one rank's `count` elements; each block is cut into `parts` chunks, so chunk
 * index = block * parts + part.  How many blocks a rank has in `input` and `output` depends on the
 * collective:
 *
 *     collective       input            output           chunk class of input i / output i on rank r
 *     allreduce        1                1                i            i
 *     reduce           1                1 on root        i            i
 *     broadcast        1 on root        1                i            i
 *     gather           1                n on root        r*parts + i  i
 *     scatter          n on root        1                i            r*parts + i
 *     allgather        1                n                r*parts + i  i
 *     reduce_scatter   n                1                i            r*parts + i
 *     alltoall         n                n                (r*n + i/parts)*parts + i%parts
 *                                                                     ((i/parts)*n + r)*parts +
 *                                                                     i%parts
 *     barrier          0                0                (steps act on zero chunks: they carry only order)
 *
 * The *class* of a chunk says what it is a part of: only chunks of one class are ever added, sent
 * onto each other or copied onto each other, and all chunks of a class have the same size on all
 * ranks.  A scratch chunk is declared to be `like` a class.  In place, input and output chunks of
 * one class on one rank are the same memory; for alltoall the same memory holds input chunk i and
 * output chunk i.
 *
 * A step reads `sources` in order, reduces them left to right when there are several, stores the
 * result at `destination` (if any) and sends it to `targets` (if any).  A source is a range of
 * chunks here or the next message of a link.  So the classic kinds are:
 *
 *     send              1 local source               -> targets
 *     recv              1 link source                -> destination
 *     copy              1 local source               -> destination
 *     reduce            2+ local sources             -> destination
 *     recv_reduce       some of both                 -> destination
 *     recv_send         1 link source                -> destination?, targets
 *     recv_reduce_send  some of both                 -> destination?, targets
 *
 * A message is the range of one step; sender and receiver name ranges of the same classes.
 *
 * Links.  A link is (source rank, destination, channel) or, for a send to a whole group, (source
 * rank, group, channel): FIFO in messages, written by one lane, read by one lane of each
 * destination.  Groups are declared (plan_group) so that both sides know that a message is a
 * multicast; "one by one" is the same without group.
 *
 * Meaning.  Steps of a lane run in order; other orders are explicit dependencies (`after`) or
 * follow from messages.  A send completes when it is posted, but reads its source until all its
 * receivers have consumed it; every link takes one message without blocking its lane (capacity 1).
 * Fused steps work piece by piece: order through chains of messages alone holds between accesses to
 * the same position of the range; any other order needs a completed step (program order or
 * `after`).
 *
 * A fused step takes its messages first and then waits for room to post: the engine can hold one
 * result beside an earlier message that has not been read yet. A copy of a chunk onto itself stores
 * nothing. A rank's next run of the plan begins when what it sent from memory was consumed.
 *
 * In place the root of a broadcast or a scatter stores nothing in its output, where all is already:
 * its memory may be such that it can only be read.
 *
 * `final` marks the step whose result is a complete reduction (all ranks' contributions): an
 * average is scaled there, once.  Marked exactly once on the way of every output chunk of a
 * reducing collective on more than one rank, by the step that completes it, before it is passed on.
 */
#ifndef TUTTI_PLAN_PLAN_H
#define TUTTI_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"

enum plan_buffer { PLAN_INPUT, PLAN_OUTPUT, PLAN_SCRATCH, PLAN_BUFFER_COUNT };

enum { PLAN_NO_GROUP = -1, PLAN_RANKS_MAX = 1 << 16, PLAN_LANES_MAX = 64, PLAN_CHANNELS_MAX = 16 };

/* The first chunk of a range; the step says how many. */
struct plan_location {
    enum plan_buffer buffer;
    uint32_t first;
};

struct plan_source {
    bool is_link;
    struct plan_location location; /* !is_link */
    int peer;                      /* is_link: whose message */
    int group;                     /* is_link: the group it was sent to, or PLAN_NO_GROUP */
    int channel;
};

struct plan_step {
    uint32_t chunk_count;                /* 0 in barriers only */
    uint32_t first_source, source_count; /* in rank_plan.sources, in the order of reduction */
    bool has_destination;
    bool final;
    struct plan_location destination;
    uint32_t first_target,
        target_count; /* in rank_plan.targets: peers sent to one by one; 0 with a group */
    int target_group; /* or PLAN_NO_GROUP: every other member of that group */
    int target_channel;
    uint32_t first_after,
        after_count; /* in rank_plan.afters: steps of this rank completed before it starts */
    uint32_t lane;
};

struct plan_lane {
    uint32_t first_step, step_count; /* in rank_plan.steps */
};

struct plan_group {
    uint32_t first_member, member_count; /* in rank_plan.members, ascending */
};

struct plan_shape {
    enum collective collective;
    int rank_count;
    int root;       /* 0 for collectives without one */
    uint32_t parts; /* chunks in a block, at least 1 */
};

/* One rank's steps. Owned by the caller that got it from plan_builder_finish; plan_rank_free gives
 * it back. */
struct rank_plan {
    struct plan_shape shape;
    int rank;
    uint32_t lane_count, step_count, source_count, target_count, after_count, group_count,
        member_count;
    uint32_t scratch_count;
    struct plan_lane *lanes;
    struct plan_step *steps; /* lane after lane */
    struct plan_source *sources;
    int *targets;
    uint32_t *afters; /* indexes into steps */
    struct plan_group *groups;
    int *members;
    uint32_t *scratch_like; /* class of each scratch chunk */
};

/* The plan of all ranks: ranks[r]->rank == r. */
struct plan {
    struct plan_shape shape;
    struct rank_plan **ranks; /* shape.rank_count of them */
};

/* A copy, the caller's; NULL: out of memory. */
struct rank_plan *plan_rank_copy(const struct rank_plan *rank_plan);
void plan_rank_free(struct rank_plan *rank_plan);
void plan_free(struct plan *plan);

/* Chunks of a buffer of that rank; scratch is the rank plan's own matter. */
uint32_t plan_chunk_count(const struct plan_shape *shape, int rank, enum plan_buffer buffer);
/* The chunk at which the input or the output begins in the memory that input and output share in
 * place (base/collective.h). */
uint32_t plan_begin_in_place(const struct plan_shape *shape, int rank, enum plan_buffer buffer);
/* The class of an input or output chunk, see the table above. */
uint32_t plan_chunk_class(const struct plan_shape *shape, int rank, enum plan_buffer buffer,
                          uint32_t chunk);
/* Whether that rank is the root of a broadcast or a scatter: it has all results in its input from
 * the start, where a chunk has its class's number, and in place in its output, too. */
bool plan_has_all(const struct plan_shape *shape, int rank);
/* The same as plan_chunk_class, scratch included. */
uint32_t plan_location_class(const struct rank_plan *rank_plan, enum plan_buffer buffer,
                             uint32_t chunk);
/* "recv_reduce_send" and so on. */
const char *plan_step_kind(const struct rank_plan *rank_plan, const struct plan_step *step);

#endif
