/* engine_world.h - collectives run by the engine in one thread, for its tests: every rank's program over links that are
 * slow, short of room and moody, on buffers that lie in one piece or in many, with blocks of one count or of counts of
 * their own; and whether the results are right. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_ENGINE_WORLD_H
#define TUTTI_TESTS_ENGINE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "engine/run.h"
#include "engine_dummy.h"
#include "transport/transport.h"

enum { ENGINE_RANKS_MAX = 8 };

/* ------------------------------------------------------------------------------------------- links */

struct engine_mood {
    size_t piece_bytes;
    unsigned pieces; /* under way on a link */
    unsigned delay;  /* of so many looks one finds something new; 1: each */
    enum link_reach reach;
    bool expects;    /* what is expected may be stored where it is, and now and then is not */
    unsigned shares; /* shared slots of each rank; 0: it has none */
    /* Of each rank; NULL: all are on one. The ranks of a host are a group, and only links between them share and advertise. */
    const int *host_of;
    const struct path_table *paths; /* within a host; NULL: those of shared memory */
    const struct engine_dummy
        *dummy;       /* in whose memory some ranks have their buffers and their places; or NULL */
    unsigned far;     /* those ranks, a bit each */
    bool reaches_far; /* links reach such memory, too */
};

struct engine_net; /* opaque: the links of all ranks */

struct engine_net *engine_net_create(int size, struct engine_mood mood, uint64_t seed);
/* The same over transports of somebody else, which stay his: `step` moves them before each look. */
struct engine_net *engine_net_over(int size, struct transport *const *transports,
                                   void (*step)(void *context), void *context, uint64_t seed);
void engine_net_free(struct engine_net *net);
struct transport *engine_net_transport(struct engine_net *net, int rank);
uint64_t engine_net_draw(struct engine_net *net);
/* The kind of memory of a rank; NULL: the host's. */
const struct memory_kind *engine_net_kind(const struct engine_net *net, int rank);
/* Sends what the programs did not, on the one link that this rank writes. */
void engine_net_put(struct engine_net *net, int rank, const void *data, size_t bytes);
/* Messages so far that were stored where they were expected. */
uint64_t engine_net_written(const struct engine_net *net);
/* Messages so far that were changed in place and forwarded. */
uint64_t engine_net_handed_on(const struct engine_net *net);
/* Shared slots that were filled and sent so far, and messages on multicast links. */
uint64_t engine_net_shared(const struct engine_net *net);
uint64_t engine_net_multicast(const struct engine_net *net);
/* Whatever was sent was read, and what was shared came back: the next operation finds its links empty. */
void engine_net_expect_empty(struct engine_net *net);

/* -------------------------------------------------------------------------------------------- jobs */

struct engine_job {
    const struct algorithm *algorithm;
    const struct engine_dummy
        *dummy; /* what programs run with, see engine_dummy.h; or NULL. Its memory is the mood's */
    const struct algo_levels *levels; /* or NULL */
    int size, root;
    size_t count;           /* elements (int32) in a block */
    unsigned in_place;      /* a bit a rank */
    bool is_cut;            /* buffers lie in segments, cut differently on each rank */
    const size_t *segments; /* elements of them, four counts in turn; NULL: any */
    bool varies;            /* blocks have counts of their own: */
    size_t counts[ENGINE_RANKS_MAX][ENGINE_RANKS_MAX]; /* [source][destination]; [0] where one will do */
};

/* Counts up to count_max for its blocks: none, one, few and many elements. */
void engine_job_vary(struct engine_job *job, size_t count_max, uint64_t seed);

struct engine_buffer {
    struct buffer buffer;
    size_t count;
    int32_t *memory; /* its own; NULL: part of the other one */
    size_t memory_count;
    const struct memory_kind *kind; /* of that; NULL: the host's */
    int32_t **elements;             /* where they are; NULL: in one piece */
    struct segment_of_buffer *segments;
};

struct engine_rank {
    struct program *program;
    struct operation operation;
    struct engine_buffer input, output;
    const struct engine_dummy *dummy;
    struct kernel_executor *executor;
    struct operation_gate *gate; /* of this run */
    const struct engine_job *job;
    int rank;
    bool done;
};

/* Plans, binds and makes ready to run; inputs have their values. The operation is initialised before. */
void engine_rank_prepare(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own);
/* Makes it ready once more. Where a gate is before it, its input has its values when that opens, and not earlier. */
void engine_rank_prepare_again(struct engine_net *net, int rank, struct engine_rank *own);
/* Its input has its values again, and its output none. */
void engine_rank_fill(const struct engine_job *job, int rank, struct engine_rank *own);
/* Other values everywhere: the buffers are the caller's, who uses them for something else. */
void engine_rank_scribble(struct engine_rank *own);
/* All ranks in any order, until all are done. */
void engine_run(const struct engine_job *job, struct engine_net *net, struct engine_rank *ranks);
/* Every element of the output is right, and nothing beside it was written. */
void engine_expect_right(const struct engine_job *job, int rank, const struct engine_rank *own);
void engine_rank_release(struct engine_rank *own);

/* All of it, over a net of that size. */
void engine_run_job_over(const struct engine_job *job, struct engine_net *net);
/* And over one of its own. */
void engine_run_job(const struct engine_job *job, struct engine_mood mood, uint64_t seed);

#endif
