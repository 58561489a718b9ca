/* local_state.h - the state that the files of local training share.
 *
 *                     start                        wait                     apply
 *     phase    REST ─────────► UNDER_WAY ────────────────────► ARRIVED ───────────────► REST
 *              delta = global - own    delta = average of all,      global, own = outer step
 *                                      the same on all ranks
 *
 * Invariants
 *   1. Ranks start allreduces in one order: by step, and at one step in the order of fragments.
 *   2. What depends on phases is decided alike on all ranks: phases change at the same steps.
 *   3. global, momentum and rounds are the same on all ranks, unless a step has failed.
 */
#ifndef TUTTI_TRAIN_LOCAL_STATE_H
#define TUTTI_TRAIN_LOCAL_STATE_H

#include <stdbool.h>

#include "tutti/train/local.h"

enum local_phase { LOCAL_REST, LOCAL_UNDER_WAY, LOCAL_ARRIVED };

struct local_tensor {
    char *name;
    float *data;
    size_t count; /* elements */
    int fragment;
    size_t offset; /* in the arrays of its fragment */
};

struct local_fragment {
    size_t count;                    /* elements */
    float *global;                   /* as of the last synchronisation */
    float *momentum;                 /* NULL: the outer optimizer has none */
    float *delta;                    /* pseudo-gradients, from tutti_mem_alloc; NULL: no elements */
    struct tutti_prepared *prepared; /* the allreduce of delta; NULL: no elements */
    struct tutti_request *request;   /* NULL: not started, or waited for */
    enum local_phase phase;
    uint64_t rounds; /* synchronisations that were applied or dropped */
};

struct tutti_local {
    struct tutti_local_options options; /* encoding: of encoding_text, or NULL */
    char *encoding_text;
    struct tutti_comm *comm;
    int rank, size;
    struct local_tensor *tensors;
    size_t tensor_count;
    struct local_fragment *fragments;
    size_t fragment_count;
    uint64_t steps, base; /* base: the step behind which the schedule began */
    uint64_t dropped, sent_bytes, waited_ns;
    bool has_begun;            /* a step was taken, or state came from elsewhere */
    bool is_broken, has_given; /* given: its state, to another one */
    uint64_t saved_ranks;      /* the number of ranks, as a checkpoint has it */
    uint64_t *numbers;         /* counts, as a checkpoint has them */
    char (*part_names)[200];   /* of parts for checkpoints */
};

/* Whether the object can be used. */
enum tutti_status local_check_works(const struct tutti_local *local, const char *function);
/* Waits for the fragment's average, if it is under way. */
enum tutti_status local_arrive(struct tutti_local *local, struct local_fragment *fragment);
/* Applies the average that has arrived. Cannot fail; returns whether it was dropped. */
bool local_apply(struct tutti_local *local, struct local_fragment *fragment, double mixing);
/* Sets the parameters of a fragment to its global values. */
void local_reset(struct tutti_local *local, const struct local_fragment *fragment);
/* Waits for what is under way, and applies what arrives. What fails counts as not begun. */
void local_settle(struct tutti_local *local);

#endif
