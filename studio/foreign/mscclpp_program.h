/* mscclpp_program.h - what one GPU does, in operations of MSCCL++: thread blocks, and the order
 * within and between them.
 *
 * The caller says for each lane, in order, what is copied, reduced, put, signalled and awaited. The
 * program adds what the runtime wants for that to mean what it says:
 *
 * 1. Threads of a block run apart. `nop` joins them: between a wait and what may use what was
 *    awaited, between work and the signal that announces it, and between two works of which one
 *    stores what the other touches.
 * 2. A thread block has few operations, channels and remote buffers. When one is full, the lane
 *    goes on in another, which waits for a semaphore that the first one releases at its end.
 * 3. Blocks wait for each other, so all must run at once: there is a limit to them, too.
 * 4. Announcements go out at the very beginning of a block, before it waits for anything.
 * 5. Memory channels reach GPUs whose memory is mapped here; port channels reach all others, by a
 *    proxy that moves data later. So a send over a port is one operation, which ends when the data
 *    has been read (pwsf: put with signal and flush). An operation is over channels of one type.
 *
 * Numbers of channels, remote buffers and semaphores are those of the GPU; a block counts its own,
 * which is translated here.
 */
#ifndef TUTTI_STUDIO_FOREIGN_MSCCLPP_PROGRAM_H
#define TUTTI_STUDIO_FOREIGN_MSCCLPP_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "tutti/tutti.h"

/* Limits of the runtime; all but the last are sizes of its arrays. */
enum {
    MSCCLPP_OPERATIONS_MAX = 64, /* of a thread block */
    MSCCLPP_CHANNELS_MAX = 16,   /* ... of each type */
    MSCCLPP_REMOTES_MAX = 16,    /* ..., remote buffers of each type */
    MSCCLPP_SIGNALS_MAX = 8,     /* channels of an operation */
    MSCCLPP_SEMAPHORES_MAX = 16, /* of an operation */
    MSCCLPP_PLACES_MAX = 10,     /* places that an operation reads; places that it stores to */
    MSCCLPP_TARGETS_MAX = 8,     /* ..., remote places */
    MSCCLPP_BLOCKS_MAX = 108     /* of a GPU: multiprocessors of an A100 */
};

/* X(enumerator, name) */
#define MSCCLPP_TYPE_LIST(X)          \
    X(MSCCLPP_NOP, "nop")             \
    X(MSCCLPP_COPY, "copy")           \
    X(MSCCLPP_REDUCE, "re")           \
    X(MSCCLPP_REDUCE_PUT, "res")      \
    X(MSCCLPP_PUT, "put")             \
    X(MSCCLPP_SEND, "pwsf")           \
    X(MSCCLPP_SIGNAL, "signal")       \
    X(MSCCLPP_WAIT, "wait")           \
    X(MSCCLPP_ACQUIRE, "sem_acquire") \
    X(MSCCLPP_RELEASE, "sem_release")

enum mscclpp_type {
#define X(enumerator, name) enumerator,
    MSCCLPP_TYPE_LIST(X)
#undef X
        MSCCLPP_TYPE_COUNT
};
extern const char *const mscclpp_type_names[MSCCLPP_TYPE_COUNT];

enum mscclpp_link { MSCCLPP_MEMORY, MSCCLPP_PORT, MSCCLPP_LINK_COUNT };
extern const char *const mscclpp_link_names[MSCCLPP_LINK_COUNT];

/* The first chunk of a range in the scratch of another GPU. */
struct mscclpp_target {
    int remote; /* of the GPU; in an operation of a block: of the block */
    uint32_t first;
    int channel; /* of a send */
};

struct mscclpp_operation {
    enum mscclpp_type type;
    enum mscclpp_link link; /* of its channels and targets */
    uint32_t chunk_count;
    struct plan_location sources[MSCCLPP_PLACES_MAX]; /* summed from left to right */
    int source_count;
    bool stores;
    struct plan_location destination;
    struct mscclpp_target targets[MSCCLPP_TARGETS_MAX];
    int target_count;
    int ids[MSCCLPP_SEMAPHORES_MAX]; /* channels of the block, or semaphores */
    int id_count;
};

struct mscclpp_block {
    int first_operation,
        operation_count; /* without announcements, and what ties it to its neighbours */
    /* For each type of channel: */
    int channels[MSCCLPP_LINK_COUNT][MSCCLPP_CHANNELS_MAX], channel_count[MSCCLPP_LINK_COUNT];
    int remotes[MSCCLPP_LINK_COUNT][MSCCLPP_REMOTES_MAX], remote_count[MSCCLPP_LINK_COUNT];
    int announced[MSCCLPP_LINK_COUNT][MSCCLPP_CHANNELS_MAX]; /* of `channels` */
    int announced_count[MSCCLPP_LINK_COUNT];
    int before,
        after; /* the semaphore that it waits for at first, that it releases at last; or -1 */
};

/* The memory that was touched since the last nop. */
struct mscclpp_access {
    struct plan_location place;
    uint32_t chunk_count;
    bool is_store;
};

struct mscclpp_program {
    struct plan_shape shape;
    int rank;
    bool in_place;
    const bool *is_port; /* of each channel of the GPU; the caller's. NULL: all are memory channels */
    struct mscclpp_operation *operations; /* block after block */
    int operation_count, operation_room;
    struct mscclpp_block *blocks; /* lane after lane */
    int block_count, block_room;
    int semaphore_count;

    /* of the block at hand */
    bool is_open;
    bool has_waited; /* since the last nop */
    bool has_worked; /* ... */
    struct mscclpp_access *accesses;
    int access_count, access_room;

    enum tutti_status status; /* the first failure; all calls after it do nothing */
    char *message;            /* says what that was */
    size_t message_bytes;
};

/* An empty program for a GPU; shape, rank and in_place are as in the plan. Release after any
 * outcome. One thread at a time uses a program; no call blocks. */
void mscclpp_program_init(struct mscclpp_program *program, const struct plan_shape *shape, int rank,
                          bool in_place, char *message, size_t message_bytes);
void mscclpp_program_release(struct mscclpp_program *program);

/* The operations that follow belong to another lane. */
void mscclpp_program_next_lane(struct mscclpp_program *program);
int mscclpp_program_new_semaphore(struct mscclpp_program *program);

/* Waits for signals of these channels. Before it waits for a channel with announces[i], it tells
 * the other GPU that this one has begun. */
void mscclpp_program_wait(struct mscclpp_program *program, const int *channels,
                          const bool *announces, int count);
void mscclpp_program_signal(struct mscclpp_program *program, const int *channels, int count);
void mscclpp_program_acquire(struct mscclpp_program *program, const int *semaphores, int count);
void mscclpp_program_release_all(struct mscclpp_program *program, const int *semaphores, int count);
/* Copies, unless both are the same memory. */
void mscclpp_program_copy(struct mscclpp_program *program, struct plan_location source,
                          struct plan_location destination, uint32_t chunk_count);
/* From one place to any number of targets over memory channels. */
void mscclpp_program_put(struct mscclpp_program *program, struct plan_location source,
                         const struct mscclpp_target *targets, int target_count,
                         uint32_t chunk_count);
/* The same over port channels, and signals each of them. */
void mscclpp_program_send(struct mscclpp_program *program, struct plan_location source,
                          const struct mscclpp_target *targets, int target_count,
                          uint32_t chunk_count);
/* Stores the sum of 2 to MSCCLPP_PLACES_MAX sources at the destination, and puts it at up to
 * MSCCLPP_TARGETS_MAX targets over memory channels. */
void mscclpp_program_reduce(struct mscclpp_program *program, const struct plan_location *sources,
                            int source_count, struct plan_location destination,
                            const struct mscclpp_target *targets, int target_count,
                            uint32_t chunk_count);

/* All operations of a block in order, with announcements and semaphores: the k-th one is written to
 * *operation; false: there are no more. */
bool mscclpp_program_operation(const struct mscclpp_program *program,
                               const struct mscclpp_block *block, int k,
                               struct mscclpp_operation *operation);

#endif
