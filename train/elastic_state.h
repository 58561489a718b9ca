/* elastic_state.h - what an elastic loop knows.
 *
 *     begin ──▶ team whole? ──yes──▶ state the same? ──yes──▶ step ──▶ commit ──┐
 *       ▲          │ no                  │ no                                   │
 *       │       elastic_team          elastic_sync                              │
 *       └──────────┴─────────────────────┴──────────────────────────────────────┘
 *
 *  1. A rank *holds* the state once all ranks of its communicator have agreed that they have it.
 *     Only a rank that holds it gives it to others, and until the next agreement it changes nothing
 *     that others may come to need: what arrives lies in memory of its own, or in that of a rank
 *     that does not hold the state.
 *  2. `layout` is the team by which shards are divided. It follows the communicator only with the
 *     agreement of (1); in between they differ.
 *  3. The *base* of an array is the state of the last step that counts: with UPDATE_BEFORE the second
 *     copy, otherwise the data that the program has.
 */
#ifndef TUTTI_TRAIN_ELASTIC_STATE_H
#define TUTTI_TRAIN_ELASTIC_STATE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/elastic.h"

/* Where a rank is in a team. */
struct elastic_place {
    int rank, size;
};

/* A rank's memory for one sharded array under one layout. NULL where the part is empty. */
struct elastic_shard {
    size_t first, count; /* elements */
    char *live, *copy;   /* copy: with UPDATE_BEFORE */
    /* The shard of another rank: as it was after the last step that counts, and as it will be. */
    char *partner, *partner_next;
    size_t partner_count;
};

struct elastic_array {
    char *name;
    enum tutti_elastic_kind kind;
    enum tutti_dtype dtype;
    size_t count, element_bytes;
    char *live, *copy;                  /* of a replicated array */
    struct elastic_shard shard, staged; /* staged: of the layout to come */
};

/* Numbers that come with the state, the same on all ranks that hold it. In checkpoints, too, so fields are
 * only ever added, behind the others. */
struct elastic_progress {
    uint64_t step, epoch, position;
    uint64_t samples, repeated, undone, failures, replaced, teams, checkpoints;
    uint64_t elapsed_ns; /* at the time at which it was written down */
    uint64_t productive_ns, checkpoint_ns, write_ns, outage_ns, outage_max_ns;
};
enum { ELASTIC_PROGRESS_NUMBERS = sizeof(struct elastic_progress) / sizeof(uint64_t) };
static_assert(ELASTIC_PROGRESS_NUMBERS <= 32, "they fit into the row of a checkpoint");

enum elastic_phase { ELASTIC_BETWEEN, ELASTIC_IN_STEP, ELASTIC_BROKEN };

struct tutti_elastic {
    struct tutti_elastic_options options;
    struct tutti_comm_options comm_options;
    struct tutti_store store;                  /* set is NULL: there is none */
    struct elastic_folder_store *folder_store; /* the object's own; or NULL */
    char *checkpoint_folder;
    struct elastic_array *arrays;
    size_t array_count;

    struct tutti_comm *comm;
    struct elastic_place place;  /* in comm */
    struct tutti_shards *shards; /* on comm, or NULL: elastic_shards.c */
    struct elastic_place layout;
    bool holds;
    bool is_new;     /* joined, and has not said so yet */
    bool is_lost;    /* some of the state is nowhere */
    bool mends;      /* comm takes the place of a team that lost ranks */
    bool is_broken;  /* comm has failed, or has lost ranks: a new one is needed */
    bool needs_sync; /* not all ranks of comm hold the state */
    int size_wanted;
    uint64_t fingerprint; /* of the arguments that all ranks have to give alike */
    uint64_t rotation;    /* by which another rank sends a slice than in the try before */

    enum elastic_phase phase;
    struct elastic_progress progress;
    uint64_t batch_first, batch_count; /* of the step that has begun */
    int attempt;                       /* of this step, on this rank */
    int failures_in_a_row;             /* of this step, with no rank dying */
    enum tutti_status broken_by;       /* in the phase BROKEN */
    char broken_message[ERROR_TEXT_MAX];

    struct tutti_checkpoints *checkpoints; /* on comm; or NULL */
    uint64_t saved_step;                   /* of the newest checkpoint; UINT64_MAX: none */
    bool save_is_due, grow_is_due;         /* as agreed */
    bool choice_is_due;                    /* a rank has a verdict: elastic_sick.h */
    bool probe_is_due;                     /* and it is on changed data */
    struct elastic_sick *sick;             /* NULL: no rank is put out */
    uint64_t next_save_ns, next_grow_ns;

    uint64_t counted_from_ns; /* elapsed_ns was as in `progress` then */
    uint64_t step_began_ns;   /* 0: not in a step that may come to count */
    bool last_step_counts;
    uint64_t failed_at_ns; /* notice of the failure that is not yet made good; 0: none */
    uint64_t received_bytes;
};

static inline bool elastic_keeps_copies(const struct tutti_elastic *e)
{
    return e->options.update == TUTTI_ELASTIC_UPDATE_BEFORE;
}

/* UINT64_MAX: never, as waits of UINT64_MAX have no end. */
static inline uint64_t elastic_time_after(uint64_t now_ns, uint64_t wait_ns)
{
    return wait_ns < UINT64_MAX - now_ns ? now_ns + wait_ns : UINT64_MAX;
}

/* Of a replicated array. */
static inline char *elastic_base(const struct tutti_elastic *e, const struct elastic_array *array)
{
    return elastic_keeps_copies(e) ? array->copy : array->live;
}

static inline char *elastic_shard_base(const struct tutti_elastic *e,
                                       const struct elastic_shard *shard)
{
    return elastic_keeps_copies(e) ? shard->copy : shard->live;
}

/* A communicator cannot be used any more, but the ranks that are left can make another. Other
 * failures end the loop. */
static inline bool elastic_may_recover(enum tutti_status status)
{
    return status == TUTTI_PROC_FAILED || status == TUTTI_REVOKED || status == TUTTI_CORRUPT;
}

#endif
