/* engine_sim_world.h - the world of engine_sim.h, for the files that make it go round, and for
 * nobody else.
 *
 *     engine_sim.c            sets up, and lets one event after the other happen
 *     engine_sim_world.c      communicators, with what is to be run on them
 *     engine_sim_ranks.c      what ranks do while nothing fails
 *     engine_sim_control.c    how they find failures, and agree on who is left
 *     engine_sim_faults.c     what goes wrong
 *     engine_sim_judge.c      what must hold
 *
 * Nodes are numbered through the world, ranks through a communicator, `number` is a communicator's
 * index. All chance is drawn from the one simulation: another order of what is drawn is another
 * schedule for a seed. */
#ifndef TUTTI_TESTS_SIM_ENGINE_SIM_WORLD_H
#define TUTTI_TESTS_SIM_ENGINE_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "membership/agreement.h"
#include "membership/heartbeat.h"
#include "tests/sim/engine_sim.h"
#include "tests/sim/engine_sim_links.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_story.h"
#include "tests/sim/sim_task.h"

#define MILLISECOND UINT64_C(1000000)
/* Times are those of the library, a tenth as long. */
#define PERIOD_NS (10 * MILLISECOND)
#define LOST_NS (300 * PERIOD_NS)

enum { RANKS_MAX = 16, HOSTS_MAX = 6, COMMS_MAX = 8, ROUNDS_MAX = 5, JOBS_MAX = 4 };

enum event_kind {
    START = SIM_MESSAGE + 1, /* node begins its next round of the communicator `number` */
    NOTICE,                  /* node sees on its host's board that this one failed */
    BEAT,                    /* the heartbeats of that one are looked at */
    TICK,                    /* its agreement is due */
    LOOK,                    /* node looks who is silent */
    LEARN,                   /* node learns from a kernel that `number` ended */
    LOST,                    /* node has not reached `number` for long */
    CRASH,
    ARM,    /* node is to crash after `number` frames and messages */
    VANISH, /* the host `number`, with all on it */
    STALL,  /* for `number` ns */
    CUT, /* hosts by the bits of `number`: those with a 0 from those with a 1, or no more; `tag`: for long */
    RESET, /* some connection */
    HORIZON,
    NET /* and above: of a communicator's links */
};

/* Why a communicator failed. */
struct word {
    bool is_minority, is_verdict;
    uint16_t zero; /* no padding: a word is sent as it is, and what is sent is in the fingerprint */
    int culprit, reporter; /* nodes; culprit -1: has not failed */
};

struct round {
    int job_count;
    struct sim_job jobs[JOBS_MAX];
};

struct comm {
    uint64_t epoch;
    int size, host_count, round_count;
    int node_of[RANKS_MAX], rank_of[RANKS_MAX]; /* rank_of: -1: is no member */
    int host_of[RANKS_MAX];                     /* of ranks; numbered as their first ranks come */
    int firsts[HOSTS_MAX], counts[HOSTS_MAX];
    struct algo_levels levels;
    struct sim_links links;
    struct round rounds[ROUNDS_MAX];
    struct heartbeat *heartbeats[HOSTS_MAX]; /* NULL: not begun, or there is one host */
    bool is_judged[HOSTS_MAX],
        is_condemned[HOSTS_MAX][HOSTS_MAX]; /* by host of the first, the second */
    struct word boards[HOSTS_MAX];
};

enum state { ABSENT, AT_WORK, FINISHED, AGREEING, DECIDED };

/* A node's part in a communicator. */
struct seat {
    struct world *world;
    int node, comm;
    enum state state;
    int round, tasks_left; /* rounds begun */
    struct sim_task tasks[JOBS_MAX];
    struct word failure;
    struct agreement *agreement;
    uint64_t set, tick_ns, quorum_ns;
    uint64_t told_ns[RANKS_MAX]; /* unanswered since then; 0: nothing is */
};

struct world {
    struct sim *sim;
    enum engine_sim_carrier carrier;
    struct sim_grave *graves;
    struct sim_story story;
    struct engine_sim_report *report;
    uint64_t last_change_ns, next_look_ns;
    uint64_t moved_ns; /* when an operation went on last */
    int node_count, host_count, comm_count, fault_count;
    bool has_healed, has_stalled, has_planned_cut;
    int sides[2]; /* of hosts, by bits: as a long and a short cut part them; 0: none does */
    int host_of[RANKS_MAX], current[RANKS_MAX]; /* communicator of each node */
    bool is_mourned[RANKS_MAX], is_doubted[RANKS_MAX], has_vanished[HOSTS_MAX];
    bool knows_dead[RANKS_MAX][RANKS_MAX], gave_up[RANKS_MAX][RANKS_MAX];
    uint64_t apart_ns[RANKS_MAX][RANKS_MAX]; /* since when; 0: they reach each other */
    uint64_t poked_ns[RANKS_MAX][RANKS_MAX], answered_ns[RANKS_MAX][RANKS_MAX];
    struct comm comms[COMMS_MAX];
    struct seat seats[RANKS_MAX][COMMS_MAX];
};

static inline struct comm *comm_of(const struct seat *seat)
{
    return &seat->world->comms[seat->comm];
}

static inline int rank_of(const struct seat *seat)
{
    return comm_of(seat)->rank_of[seat->node];
}

static inline int host_in(const struct comm *comm, int node)
{
    return comm->host_of[comm->rank_of[node]];
}

static inline bool is_near(const struct world *w, int one, int other)
{
    return w->host_of[one] == w->host_of[other];
}

static inline bool is_member(const struct comm *comm, int node)
{
    return comm->rank_of[node] >= 0;
}

static inline bool reaches(const struct world *w, int one, int other)
{
    return sim_is_up(w->sim, other) && !sim_is_cut(w->sim, one, other);
}

static inline uint64_t within(struct world *w, uint64_t from_ns, uint64_t to_ns)
{
    return sim_now_ns(w->sim) + sim_between(w->sim, from_ns, to_ns);
}

/* The word that a node is dead, or does not answer any more. */
static inline struct word loss_of(int culprit, int reporter)
{
    return (struct word){.culprit = culprit, .reporter = reporter};
}

/* ---------------------------------------------------------------------------------------- world */

/* With the nodes of that set; returns its number. */
int world_create_comm(struct world *w, uint64_t epoch, uint64_t nodes);

/* ---------------------------------------------------------------------------------------- ranks */

/* The node goes on with that communicator, and learns what it knows of its members. */
void rank_enter(struct world *w, int node, int number);
void rank_start_round(struct world *w, struct seat *seat);
/* Something happened at that node: it runs what it has begun as far as that goes. */
void rank_work(struct world *w, int node);
void rank_end_tasks(struct seat *seat);
/* The links are stopped: nobody may touch the memory of its operations any more. */
void rank_bury_tasks(struct seat *seat);

/* -------------------------------------------------------------------------------------- control */

/* A node finds that a communicator failed; the first word on a host's board stays. */
void control_find_failure(struct world *w, int node, int number, const struct word *word);
void control_tell_others(struct world *w, const struct seat *seat);
void control_begin_heartbeat(struct world *w, int node, int number);
/* These are events of the same names. */
void control_notice(struct world *w, struct seat *seat);
void control_beat(struct world *w, int node, int number);
void control_tick(struct world *w, struct seat *seat);
void control_look(struct world *w, struct seat *seat);
void control_learn(struct world *w, int node, int other);
void control_lose(struct world *w, int node, int other);
/* A message. */
void control_hear(struct world *w, const struct sim_event *event);

/* --------------------------------------------------------------------------------------- faults */

void faults_set_weather(struct world *w);
void faults_plan(struct world *w);
/* A death, seen from outside. */
void faults_mourn(struct world *w, int node);
void faults_vanish(struct world *w, int host);
/* By the bits of sides, or, without any, a cut that is over. */
void faults_change_cut(struct world *w, int sides, bool is_long);
/* Any connection; rather one that is used. */
void faults_reset_some(struct world *w);
void faults_stall(struct world *w, int node, uint64_t span_ns);

/* ---------------------------------------------------------------------------------------- judge */

/* Of an operation that is done. */
void judge_result(struct world *w, const struct seat *seat, const struct sim_task *task);
/* Somebody is named. */
void judge_culprit(struct world *w, int number, int culprit);
void judge_decision(struct world *w, const struct seat *seat);
/* The node is left out. */
void judge_exclusion(struct world *w, int node);
/* The seat's agreement came to no end. */
void judge_giving_up(struct world *w, const struct seat *seat);
/* Heartbeats take those around the seat for the smaller part. */
void judge_minority(struct world *w, const struct seat *seat);
void judge_links(struct world *w, const struct sim_links *links);
/* Whether nothing is left to do; the links are looked at now and then. */
bool judge_is_over(struct world *w);
void judge_horizon(struct world *w);
void judge_end(struct world *w);

#endif
