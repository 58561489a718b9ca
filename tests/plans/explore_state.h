/* explore_state.h - the model of a plan that is explored (explore.h), and the functions that its
 * files share.
 *
 *     explore.c           the search through all orders
 *     explore_enabled.c   which processes may act
 *     explore_causes.c    what an action touches, and what comes before it
 *     explore_act.c       what an action does, and whether results are right
 *     explore_place.c     which results are placed in the memory of their receivers
 *     explore_set_up.c    how the model begins and ends
 *
 * One thread. The model has all its memory; plan, options and report are the caller's.
 */
#ifndef TUTTI_TESTS_PLANS_EXPLORE_STATE_H
#define TUTTI_TESTS_PLANS_EXPLORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/placement.h"
#include "plan/plan.h"
#include "tests/plans/explore.h"

enum {
    EXPLORE_PIECES = 2, /* of a chunk */
    EXPLORE_PROCESSES_MAX = 64,
    EXPLORE_RANKS_MAX = 8,
    EXPLORE_CAPACITY_MAX = 2,
    EXPLORE_NOBODY = -1
};

struct explore_content {
    enum { EXPLORE_UNDEFINED, EXPLORE_VALID, EXPLORE_POISON } state;
    uint32_t class;  /* with the number of the run in the upper bits */
    uint64_t counts; /* a byte for each rank: how often it is in */
    uint64_t tree;   /* a hash of how it was added up */
    bool final;
};

struct explore_lane {
    int rank;
    uint32_t first_step, step_count; /* in the rank's steps */
    uint32_t step, read, written;    /* pieces of the step */
    uint32_t placed;              /* ranks in whose memory the step stores, once it has begun to */
    struct explore_content *held; /* read, and not yet stored and posted; of each piece */
    uint32_t *held_event;         /* that read it */
};

/* A process does one action at a time. A lane is two processes: its reader takes pieces of sources,
 * its writer stores and posts them, so that taking a message never waits for room to pass it on. A
 * rank's application begins and ends its runs. */
struct explore_process {
    enum { EXPLORE_APPLICATION, EXPLORE_READER, EXPLORE_WRITER } kind;
    int rank;
    struct explore_lane *lane; /* of readers and writers */
    uint32_t run;              /* of applications */
    bool running;
    uint32_t event_count;
    uint16_t clock[EXPLORE_PROCESSES_MAX]; /* events of each process that come before its next one */
};

struct explore_piece {
    int location; /* where it is read when it is taken; EXPLORE_NOBODY: the content is here */
    int placed[EXPLORE_RANKS_MAX]; /* the same for each receiver, in its own memory; or EXPLORE_NOBODY */
    struct explore_content content;
    uint32_t event; /* that posted it */
};

struct explore_link {
    int source, channel, to; /* to a rank, or `group` (bit mask of ranks) */
    uint32_t group;
    int writer, readers[EXPLORE_RANKS_MAX]; /* lanes */
    /* state */
    uint32_t begun, posted; /* messages; pieces of the last one */
    uint32_t lengths[EXPLORE_CAPACITY_MAX];
    struct explore_piece *pieces[EXPLORE_CAPACITY_MAX];
    uint32_t taken[EXPLORE_RANKS_MAX], taken_pieces[EXPLORE_RANKS_MAX]; /* by each receiver */
    uint32_t taken_event[EXPLORE_CAPACITY_MAX][EXPLORE_RANKS_MAX];
};

/* An access of an action. */
struct explore_access {
    int location;
    bool writes;
};

struct explore_location {
    struct explore_content content;
    uint32_t write;                        /* event; 0: none */
    uint32_t reads[EXPLORE_PROCESSES_MAX]; /* events since then */
};

/* A state on the path, and the event that left it. */
struct explore_node {
    uint64_t enabled, backtrack, done, sleep;
    int process;
    uint32_t index; /* of the event within its process */
    uint16_t clock[EXPLORE_PROCESSES_MAX];
};

struct explore_model {
    const struct plan *plan;
    const struct explore_options *options;
    struct explore_report *report;
    int rank_count, process_count, lane_count;
    struct explore_process
        processes[EXPLORE_PROCESSES_MAX]; /* applications in the order of ranks, then lanes */
    struct explore_lane lanes[EXPLORE_PROCESSES_MAX / 2];
    struct explore_link *links;
    int link_count, location_count;
    int *links_of_step[EXPLORE_RANKS_MAX]; /* of each source, each target, each step's group */
    enum placement *placements[EXPLORE_RANKS_MAX]; /* of each step */
    uint32_t longest;
    struct explore_location *locations;
    int first_location[EXPLORE_RANKS_MAX], output_location[EXPLORE_RANKS_MAX],
        scratch_location[EXPLORE_RANKS_MAX];
    int *alias[EXPLORE_RANKS_MAX];          /* output chunk -> input chunk or EXPLORE_NOBODY */
    uint32_t *completed[EXPLORE_RANKS_MAX]; /* event that completed each step in this run */
    uint32_t unread[EXPLORE_RANKS_MAX]; /* pieces still to be read from input or output of that rank */
    uint16_t read_clock[EXPLORE_RANKS_MAX][EXPLORE_PROCESSES_MAX];
    uint64_t *trees; /* [run][output location of a rank]: of an allreduce; 0 unknown */
    int tree_count;
    struct explore_access *accesses, *other_accesses;
    struct explore_node *path;
    uint32_t depth, depth_max;
    bool wrong;
};

static inline const struct plan_step *explore_step_of(const struct explore_model *m,
                                                      const struct explore_lane *p)
{
    return &m->plan->ranks[p->rank]->steps[p->first_step + p->step];
}

static inline int explore_location_of(const struct explore_model *m, int rank,
                                      enum plan_buffer buffer, uint32_t chunk, uint32_t piece)
{
    int first = m->first_location[rank];
    if (buffer == PLAN_OUTPUT && m->options->in_place && m->alias[rank][chunk] != EXPLORE_NOBODY)
        chunk = (uint32_t)m->alias[rank][chunk];
    else if (buffer == PLAN_OUTPUT)
        first = m->output_location[rank];
    else if (buffer == PLAN_SCRATCH)
        first = m->scratch_location[rank];
    return first + (int)(chunk * EXPLORE_PIECES + piece);
}

/* The location of a piece of a step, counted through the chunks of that place. */
static inline int explore_place_location(const struct explore_model *m, int rank,
                                         const struct plan_location *place, uint32_t piece)
{
    return explore_location_of(m, rank, place->buffer, place->first + piece / EXPLORE_PIECES,
                               piece % EXPLORE_PIECES);
}

static inline uint32_t explore_piece_count(const struct plan_step *step)
{
    return step->chunk_count == 0 ? 1 : step->chunk_count * EXPLORE_PIECES;
}

static inline int explore_source_link(const struct explore_model *m, const struct explore_lane *p,
                                      uint32_t i)
{
    const struct plan_step *step = explore_step_of(m, p);
    return m->links_of_step[p->rank][step->first_source + i];
}

/* Targets come behind all sources. A group counts as the first target. */
static inline int explore_target_link(const struct explore_model *m, const struct explore_lane *p,
                                      uint32_t i)
{
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    const struct plan_step *step = explore_step_of(m, p);
    const uint32_t at = rank_plan->source_count + step->first_target + i;
    return step->target_group == PLAN_NO_GROUP
               ? m->links_of_step[p->rank][at]
               : m->links_of_step[p->rank][rank_plan->source_count + rank_plan->target_count +
                                           p->first_step + p->step];
}

static inline uint32_t explore_target_count(const struct plan_step *step)
{
    return step->target_group == PLAN_NO_GROUP ? step->target_count : 1;
}

static inline const struct plan_source *explore_sources_of(const struct explore_model *m,
                                                           const struct explore_lane *p)
{
    return &m->plan->ranks[p->rank]->sources[explore_step_of(m, p)->first_source];
}

/* A pure send only posts the memory that it names. */
static inline bool explore_posts_memory_only(const struct explore_model *m,
                                             const struct explore_lane *p)
{
    const struct plan_step *step = explore_step_of(m, p);
    return !m->options->eager && !step->has_destination && step->source_count == 1 &&
           !explore_sources_of(m, p)[0].is_link && step->chunk_count > 0;
}

/* In place, a copy of a chunk onto itself stores nothing. */
static inline bool explore_stores_nothing(const struct explore_model *m,
                                          const struct explore_lane *p)
{
    const struct plan_step *step = explore_step_of(m, p);
    return step->chunk_count == 0 ||
           (step->has_destination && step->source_count == 1 &&
            !explore_sources_of(m, p)[0].is_link &&
            explore_place_location(m, p->rank, &explore_sources_of(m, p)[0].location, 0) ==
                explore_place_location(m, p->rank, &step->destination, 0));
}

static inline void explore_join(const struct explore_model *m, uint16_t *clock,
                                const uint16_t *other)
{
    for (int i = 0; i < m->process_count; i++)
        if (clock[i] < other[i]) clock[i] = other[i];
}

/* Where that receiver finds a piece. */
static inline int explore_location_for(const struct explore_piece *piece, int rank)
{
    return piece->placed[rank] != EXPLORE_NOBODY ? piece->placed[rank] : piece->location;
}

/* explore_set_up.c */

/* False: this model cannot run the plan. explore_tear_down is due either way, and frees the model,
 * too. */
bool explore_set_up(struct explore_model *m);
void explore_tear_down(struct explore_model *m);

/* explore_place.c */

/* The ranks that may advertise for the message that the step sends on that link. */
uint32_t explore_offering(const struct explore_model *m, const struct explore_lane *p, int link);
/* The ranks in whose memory a piece of the step's result is placed: decided with its first
 * piece. */
uint32_t explore_places_in(const struct explore_model *m, const struct explore_lane *p, int link);
int explore_placed_location(const struct explore_model *m, const struct explore_lane *p, int link,
                            int rank);

/* explore_enabled.c */

bool explore_is_enabled(const struct explore_model *m, const struct explore_process *p);

/* explore_causes.c. Both are about the next action of an enabled process. */

/* Fills in its accesses, and returns how many there are. */
int explore_accesses_of(const struct explore_model *m, const struct explore_process *p,
                        struct explore_access *accesses);
/* Joins the clock with all that comes before the action, but for conflicting accesses: program
 * order, dependencies, messages, room. */
void explore_join_causes(const struct explore_model *m, const struct explore_process *p,
                         uint16_t *clock);

/* explore_act.c. Both write the first fault into the report, and set `wrong`. */

/* Does the next action of an enabled process; event: its number. */
void explore_act(struct explore_model *m, struct explore_process *p, uint32_t event);
/* Checks what is left when no process is enabled any more. */
void explore_check_end(struct explore_model *m);

#endif
