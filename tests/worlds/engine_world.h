/* engine_world.h - collectives run by the engine in one thread, for its tests: every rank's program
 * over the links of engine_net.h, on buffers that lie in one piece or in many, with blocks of one
 * count or of counts of their own; and whether the results are right. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_ENGINE_WORLD_H
#define TUTTI_TESTS_WORLDS_ENGINE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "engine/run.h"
#include "tests/engine/engine_dummy.h"
#include "tests/worlds/engine_net.h"

struct engine_job {
    const struct algorithm *algorithm;
    const struct engine_dummy
        *dummy; /* what programs run with, see engine_dummy.h; or NULL. Its memory is the mood's */
    const struct algo_levels *levels; /* or NULL */
    const int *places; /* of each rank: only links between different ones are encoded; NULL: all are */
    bool encodes_apart; /* the dummy's kernels are for steps with encoded links alone */
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

/* Plans, binds and makes ready to run; inputs have their values. The operation is initialised
 * before. */
void engine_rank_prepare(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own);
/* Makes it ready once more. Where a gate is before it, its input has its values when that opens,
 * and not earlier. */
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
