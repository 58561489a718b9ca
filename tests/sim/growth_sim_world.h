/* growth_sim_world.h - the world of a simulated growth, as its events (growth_sim.c) and its judge
 * (growth_sim_judge.c) see it. */
#ifndef TUTTI_TESTS_SIM_GROWTH_SIM_WORLD_H
#define TUTTI_TESTS_SIM_GROWTH_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "membership/agreement.h"
#include "membership/growth.h"
#include "tests/sim/growth_sim.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_story.h"

#define MILLISECOND UINT64_C(1000000)

enum { NODES_MAX = 12, VOTES_MAX = 128, TEAMS_MAX = 32 };

/* An agreement: among these nodes, by their ranks in it. */
struct vote {
    bool is_of_team;
    int number; /* of an agreement of the old team: which; else the team */
    uint64_t epoch, voters;
    int size;
    int node_of[NODES_MAX], rank_of[NODES_MAX]; /* -1: it is not in */
};

/* A new team to be. */
struct team {
    int number; /* of the agreement on its survivors; the dead may have had another decision */
    uint64_t survivors, joiners; /* nodes; survivors are old ranks, too */
    uint64_t arrived, left;      /* nodes that have come; that have given the meeting up */
    int vote;
};

enum outcome { NOTHING, IS_MADE, IS_NOWHERE };

struct seat {
    struct world *world;
    int node, vote;
    struct agreement *agreement; /* NULL: has not called */
    enum agreement_state state;
    uint64_t tick_ns;
};

struct process {
    enum growth_step step;
    bool is_waiting; /* a joiner for admission, or on the way there */
    bool has_ended, is_late;
    int calls;  /* agreements of the old team */
    int rounds; /* that came to nothing */
    int vote;   /* that it waits for */
    int who;    /* the agreement on the survivors of this round */
    uint64_t survivors, joiners;
    uint64_t admission_ns;
    int team; /* -1: none */
    enum outcome outcomes[TEAMS_MAX];
    uint64_t met; /* teams whose meeting succeeded */
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct growth_sim_report *report;
    int member_count, node_count, host_count;
    int wanted; /* joiners */
    bool keeps_ranks, is_cut_for_long;
    int host_of[NODES_MAX];
    unsigned meeting_fails_permille;
    int vote_count, team_count;
    struct vote votes[VOTES_MAX];
    struct team teams[TEAMS_MAX];
    struct seat seats[NODES_MAX][VOTES_MAX];
    struct process processes[NODES_MAX];
    bool is_mourned[NODES_MAX];
    bool suspects[NODES_MAX][NODES_MAX], buries[NODES_MAX][NODES_MAX];
    uint64_t left_old; /* members that have the new team, and have left the old one */
    int direct_to;     /* a message is heard at once there; SIM_NOBODY: none is */
    uint64_t last_change_ns;
};

static inline bool is_member(const struct world *w, int node)
{
    return node < w->member_count;
}

static inline uint64_t nodes_of(const struct team *team)
{
    return team->survivors | team->joiners;
}

static inline struct growth_team describe(const struct world *w, const struct team *team)
{
    return (struct growth_team){.old_size = w->member_count,
                                .survivors = &team->survivors,
                                .joiner_count = __builtin_popcountll(team->joiners),
                                .keeps_ranks = w->keeps_ranks};
}

/* --------------------------------------------------------------------------------- growth_sim_judge.c
 *
 * Each fails the story if something is not as growth_sim.h says. */

/* A node has its team. */
void judge_made(struct world *w, int node);
/* A node has decided that a team does not exist. */
void judge_nowhere(struct world *w, int node, int number);
/* A node has given up without a decision on its team. */
void judge_undecided(struct world *w, int node);
/* The ranks that members, and then joiners, have in a team. */
void judge_places(struct world *w, const struct team *team, const int *places);
/* Nothing happens any more. */
void growth_judge_end(struct world *w);

#endif
