/* verify_state.h - the state of the abstract run (verify.c), and what its files share.
 *
 *     verify.c             which step runs, and what it computes
 *     verify_order.c       whether what it reads and writes is ordered
 *     verify_placement.c   the same for results that go straight to their receivers' memory
 *     verify_results.c     whether the outputs are right
 *     verify_state.c       begins and ends
 *
 * Functions that return false have found a fault, which is in run->report, or have come to the end
 * of memory or of the budget.
 */
#ifndef TUTTI_PLAN_VERIFY_STATE_H
#define TUTTI_PLAN_VERIFY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/fault.h"
#include "plan/value.h"
#include "plan/vector_clock.h"
#include "plan/verify.h"
#include "plan/wiring.h"

/* Contributors of a value, and entries of a clock, that cost one look. */
enum { WORDS_A_LOOK = 4, ENTRIES_A_LOOK = 16 };

/* An access to a cell by a step of a lane, counted through both runs. */
struct access {
    uint32_t lane, step, position;
};

struct read {
    struct access access;
    uint32_t next;       /* in run.reads; 0 ends the list */
    bool until_consumed; /* by all receivers of what the step sends */
};

/* Memory of one chunk. */
struct cell {
    value value;
    struct access write; /* the last one */
    uint32_t reads;      /* since then */
    uint32_t placed_for; /* the last write was placed: 1 + the step, of all, that is to receive it; else 0 */
    bool written; /* by a step, not by the application */
};

struct verified_message {
    uint32_t references;
    struct clock *clock; /* the sender's start clock */
    uint32_t lane, step;
    uint32_t chunk_count;
    value values[];
};

struct lane_state {
    struct clock *clock; /* knows nothing of its own lane: `done` does */
    uint32_t done;       /* steps, through both runs */
    bool queued;
    bool posting;                      /* the step was executed and waits for room */
    struct verified_message *outgoing; /* the message that it posts, if any */
};

struct verified_rank {
    uint32_t lanes_running;
    uint32_t run;
    size_t first_cell; /* input, output, scratch */
};

struct verification {
    const struct plan *plan;
    const struct verify_options *options;
    struct verify_report *report;
    struct wiring wiring;
    struct clock_pool clocks;
    struct value_table *values;
    struct lane_state *lanes;
    struct verified_rank *ranks;
    struct cell *cells;
    unsigned char *placements; /* enum placement, of each step of all */
    struct read *reads;        /* index 0 is not used */
    uint32_t reads_used, reads_capacity, reads_free;
    struct verified_message **in_flight; /* of each link */
    uint32_t *waiting;                   /* receivers of each link that have not taken it yet */
    bool *taken;                         /* by port: the one in flight */
    struct clock **completed; /* of each step that others come after, while they have not */
    uint32_t *dependents;     /* of each step */
    uint32_t *queue;          /* ring of lanes that may be able to go on */
    uint32_t queue_head, queue_count;
    value *results; /* of the step being run */
    value *tree;    /* per chunk, or one for all when uniform: the others must look like it */
    int *tree_rank;
    struct plan_budget *budget;
    bool no_memory;
};

/* A step as the run meets it. */
struct verified_turn {
    const struct rank_plan *rank_plan;
    const struct plan_step *step;
    uint32_t index;    /* in rank_plan->steps */
    uint32_t all_step; /* among the steps of all ranks */
    uint32_t lane;     /* among all lanes */
    uint32_t when;     /* in the lane, counted through both runs */
    bool has_read;     /* its own reading of a position comes before what it does there */
    const struct clock *start;
};

static inline bool verify_out_of_memory(struct verification *run)
{
    run->no_memory = true;
    return false;
}

/* False when the budget has ended, which counts before everything else. */
static inline bool verify_look(const struct verification *run, uint64_t looks)
{
    return plan_budget_work(run->budget, looks);
}

static inline const char *verify_buffer_name(enum plan_buffer buffer)
{
    static const char *const names[PLAN_BUFFER_COUNT] = {"input", "output", "scratch"};
    return names[buffer];
}

/* In place, an output chunk may be an input chunk: that one's index, or the number of inputs. */
static inline uint32_t aliased_input(const struct plan_shape *shape, int rank, uint32_t output)
{
    const uint32_t none = plan_chunk_count(shape, rank, PLAN_INPUT);
    const uint32_t at = output + plan_begin_in_place(shape, rank, PLAN_OUTPUT);
    const uint32_t begin = plan_begin_in_place(shape, rank, PLAN_INPUT);
    return at >= begin && at - begin < none ? at - begin : none;
}

static inline bool verify_is_in_place(const struct verification *run, int rank)
{
    return run->options->ranks_in_place != NULL ? run->options->ranks_in_place[rank]
                                                : run->options->in_place;
}

static inline struct cell *verify_cell_at(const struct verification *run, int rank,
                                          enum plan_buffer buffer, uint32_t chunk)
{
    const struct plan_shape *shape = &run->plan->shape;
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    size_t index = chunk;
    if (buffer == PLAN_OUTPUT) {
        const uint32_t alias =
            verify_is_in_place(run, rank) ? aliased_input(shape, rank, chunk) : inputs;
        index = alias < inputs ? alias : (size_t)inputs + chunk;
    } else if (buffer == PLAN_SCRATCH) {
        index = (size_t)inputs + plan_chunk_count(shape, rank, PLAN_OUTPUT) + chunk;
    }
    return &run->cells[run->ranks[rank].first_cell + index];
}

static inline struct cell *verify_turn_cell(const struct verification *run,
                                            const struct verified_turn *turn,
                                            const struct plan_location *place, uint32_t position)
{
    return verify_cell_at(run, turn->rank_plan->rank, place->buffer, place->first + position);
}

static inline uint32_t seen(const struct verified_turn *turn, uint32_t lane)
{
    return lane == turn->lane ? 2 * turn->when + turn->has_read : turn->start->entries[lane];
}

static inline bool verify_comes_before(const struct verified_turn *turn, uint32_t lane,
                                       uint32_t step, bool same_position)
{
    const uint32_t entry = seen(turn, lane);
    return entry >= clock_completed(step) || (same_position && entry == clock_before(step));
}

/* verify_state.c */

/* Memory of the rank: input, output and scratch. */
uint64_t verify_cells_of(const struct rank_plan *rank_plan);
/* verify_tear_down is due whatever becomes of it. */
bool verify_set_up(struct verification *run);
void verify_tear_down(struct verification *run);
void verify_drop_message(struct verification *run, struct verified_message *message);

/* verify_order.c: whether everything that has to come before the step's access does. */

bool verify_check_read(struct verification *run, const struct verified_turn *turn,
                       const struct plan_location *place, uint32_t position);
bool verify_check_write(struct verification *run, const struct verified_turn *turn,
                        const struct plan_location *place, uint32_t position);
bool verify_add_read(struct verification *run, struct cell *cell, const struct access *access,
                     bool until_consumed);
void verify_forget_reads(struct verification *run, struct cell *cell);
/* The receiver (a rank) that may not have taken what that step sends; -1 when all have, or the
 * budget has ended. */
int verify_receiver_not_before(const struct verification *run, const struct verified_turn *turn,
                               const struct access *access, bool same_position);
/* For messages: " of the second run", or nothing. */
const char *verify_run_of(const struct verification *run, const struct access *access);

/* verify_placement.c: invariant 6 of verify.c. */

bool verify_find_placements(struct verification *run);
bool verify_place(struct verification *run, const struct verified_turn *turn);

/* verify_results.c: at the end of a run of a rank. */

bool verify_check_output(struct verification *run, int rank, uint32_t chunk);
/* The joined clock knows of a beginning on every other rank, in this run. */
bool verify_check_barrier(struct verification *run, int rank);

#endif
