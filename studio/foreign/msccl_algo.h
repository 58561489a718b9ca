/* msccl_algo.h - an MSCCL schedule as its file says it: GPUs, their thread blocks, their steps.
 *
 *     <algo name coll nchannels nchunksperloop ngpus inplace>
 *       <gpu id i_chunks o_chunks s_chunks>
 *         <tb id send recv chan>
 *           <step s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep/>
 *
 * Everything lies in one array of its sort, in the order of the file, so that what belongs to one
 * element lies side by side.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCL_ALGO_H
#define TUTTI_STUDIO_FOREIGN_MSCCL_ALGO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/collective.h"

enum {
    MSCCL_GPUS_MAX = 1024,
    MSCCL_CHUNKS_MAX = 1 << 16, /* of one buffer, and of one step */
    MSCCL_STEPS_MAX = 1 << 20
};

/* X(enumerator, name, receives, sends, reads its source, stores) */
#define MSCCL_TYPE_LIST(X)                                    \
    X(MSCCL_SEND, "s", false, true, true, false)              \
    X(MSCCL_RECV, "r", true, false, false, true)              \
    X(MSCCL_RECV_SEND, "rcs", true, true, false, true)        \
    X(MSCCL_RECV_REDUCE, "rrc", true, false, true, true)      \
    X(MSCCL_RECV_REDUCE_PASS, "rrs", true, true, true, false) \
    X(MSCCL_RECV_REDUCE_SEND, "rrcs", true, true, true, true) \
    X(MSCCL_COPY, "cpy", false, false, true, true)            \
    X(MSCCL_REDUCE, "re", false, false, true, true)           \
    X(MSCCL_NOP, "nop", false, false, false, false)

enum msccl_type {
#define X(enumerator, name, receives, sends, reads, stores) enumerator,
    MSCCL_TYPE_LIST(X)
#undef X
        MSCCL_TYPE_COUNT
};

struct msccl_traits {
    const char *name;
    bool receives, sends, reads, stores;
};
extern const struct msccl_traits msccl_types[MSCCL_TYPE_COUNT];

enum msccl_buffer { MSCCL_INPUT, MSCCL_OUTPUT, MSCCL_SCRATCH };

struct msccl_step {
    int line;
    enum msccl_type type;
    enum msccl_buffer source_buffer,
        destination_buffer; /* of those that read, of those that store */
    int source, destination, count;
    int after_block, after_step; /* of the same GPU; -1: none */
    bool is_awaited;             /* hasdep */
};

struct msccl_block {
    int line, gpu, send, receive, channel; /* peers, or -1 */
    int first_step, step_count;
};

struct msccl_gpu {
    int line;
    int chunks[3]; /* of each msccl_buffer */
    int first_block, block_count;
};

struct msccl_algo {
    enum collective collective;
    int root, channel_count, chunk_count, gpu_count;
    bool in_place;
    struct msccl_gpu *gpus;     /* by id */
    struct msccl_block *blocks; /* of one GPU side by side */
    struct msccl_step *steps;   /* of one block side by side */
    int block_count, step_count;
};

/* Frees the arrays. */
void msccl_algo_release(struct msccl_algo *algo);

#endif
