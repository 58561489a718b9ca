/* step_sim_world.h - what the files of the simulation of servers with backups share (step_sim.h):
 *
 *     step_sim.c           the schedule: deaths, lines that end, deliveries
 *       step_sim_worker.c  workers: push, tick, pull, ask; begin with spare seats
 *         step_sim_seat.c  seats: requests, entries, what seats say to each other
 *           step_sim_fill.c    spares: a base, pieces of a share, what waits for what
 *             step_sim_judge.c what must hold
 *               step_sim_lines.c   lines between two ends, and how they end
 */
#ifndef TUTTI_TESTS_SIM_STEP_SIM_WORLD_H
#define TUTTI_TESTS_SIM_STEP_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "membership/rank_set.h"
#include "membership/seat_fill.h"
#include "membership/seat_map.h"
#include "membership/step_leader.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_story.h"
#include "tests/sim/step_sim.h"

enum {
    SHARES_MAX = 4,
    SPARES_MAX = 2,
    SEATS_MAX = (2 + SPARES_MAX) * SHARES_MAX,
    WORKERS_MAX = 5,
    ENDS_MAX = SEATS_MAX + WORKERS_MAX
};
enum { CLOCKS_MAX = 10, PUSHES_MAX = 2, ENTRIES_MAX = 256, EVENTS_MAX = 100000 };
enum { QUEUE_MAX = 16, HELD_MAX = 512, RANGES = 3, WORDS_MAX = 64 };
enum { ROUNDS_MAX = CLOCKS_MAX + 1 };
enum { DELIVER = 1, ENDED, COMPUTED, CRASH, CUT, GIVE_UP, COPY, COME, LINK };

#define MILLISECOND UINT64_C(1000000)

/* Messages: of workers and to them; between seats. */
enum {
    PUSH,
    TICK,
    PULL,
    PROBE,
    WISH,
    BEGIN,
    LEAVE,
    ENTER,
    ACK,
    TICKED,
    VALUES,
    PROBED,
    ANSWERED,
    INVITE,
    ENTERED,
    FAIL
};
enum { HAS = FAIL + 1, LOST, LINKED, BEGUN, FILLED, ENTRY, CONFIRM, RESUME, GONE, BASE, PIECE };

struct message {
    int kind;
    int from, to; /* ends: seats, then workers */
    int worker;
    uint64_t clock, push, index, round;
    struct worker_clock_rule rule;
    struct step_entry entry;
    uint64_t members;
    uint64_t *words;                /* BASE; ENTERED: of each seat, 1 + its share, if it counts */
    uint8_t (*applied)[CLOCKS_MAX]; /* PIECE: pushes of [worker][clock] in that range; NULL: it is empty */
};

struct line { /* from one end to another */
    uint64_t last_at, cut_at;
    bool is_over; /* its reader has heard of the end */
    bool is_slow;
};

/* A worker as one seat sees it. */
struct seen {
    unsigned open, ended; /* pushes, a bit each */
    bool has_ended, is_gone, has_left, awaits_tick, awaits_pull, awaits_probe, asks, is_invited;
    bool is_linked, is_in;  /* it has a line to the worker; and an entry said that it has come */
    uint64_t first, rounds; /* the clock in which it came, and the rounds before */
    uint64_t asks_round;
    uint64_t begun; /* a spare: 1 + the clock from which it has all updates; 0: not yet */
    uint64_t ticked, decided, pull_clock, probe_clock;
    struct message queue[QUEUE_MAX]; /* behind a tick that came before its step, or an early wish */
    int queued;
    uint8_t applied[RANGES][CLOCKS_MAX];
};

struct step_sim_seat {
    struct step_leader leader; /* of seats with a clock */
    bool has_leader;
    struct seat_map map; /* behind the entries that it has carried out */
    struct seat_fill fill;
    int ranges; /* that it has */
    int fill_to, next_range;
    uint64_t named; /* in the last piece */
    uint64_t heard, steps;
    bool is_broken;
    struct seen of[WORKERS_MAX];
    int held[HELD_MAX], held_count; /* messages of other seats that wait */
    struct message early;           /* the planted bug: to be kept later */
    bool has_early;
};

enum role { IS_AWAY, ENTERS, COMPUTES, AWAITS_TICK, AWAITS_PULL, AWAITS_RULE, IS_DONE, HAS_FAILED };

struct worker {
    enum role role;
    uint64_t clock;
    int share_of[SEATS_MAX];     /* -1: it does not push to that seat */
    int invited[SEATS_MAX];      /* the share for which a spare has asked for updates; -1: none */
    unsigned pushed[CLOCKS_MAX]; /* pushes of each clock that it made */
    uint64_t sent;               /* seats to which pushes and tick of this clock went */
    uint64_t acks_missing[PUSHES_MAX];
    uint64_t ticks_missing, answers_missing, probes_missing; /* seats, a bit each */
    uint64_t rounds;                                         /* of wishes that were answered */
    bool was_answered;
    int pull_share, pulls_from;
    int enters_at; /* the seat that it has asked for its first clock */
};

struct world {
    struct sim *sim;
    struct sim_story story;
    struct step_sim_report *report;
    enum step_bug bug;
    int shares, spares, seats, workers, places; /* of the workers: the last ones, which come later */
    uint64_t clocks;
    struct line lines[ENDS_MAX][ENDS_MAX];
    struct step_sim_seat seat[SEATS_MAX];
    struct worker worker[WORKERS_MAX];
    struct message *messages;
    int message_count;
    struct {
        bool is_known;
        enum step_entry_kind kind;
        uint64_t number, members, left_count;
    } canon[ENTRIES_MAX];
    struct step_entry rounds[ROUNDS_MAX]; /* how each ended; DECIDED: it has not */
    bool is_full[SEATS_MAX];              /* an entry said so, to any seat */
    int wishes;  /* workers ask for another rule behind every so many clocks; 0: never */
    int strikes; /* times that the leader dies when it has just carried that out: */
    enum step_entry_kind strikes_at;
    bool has_taken_over;
    bool was_cut[SEATS_MAX]; /* from a seat with the clock, while both lived */
};

/* ---------------------------------------------------------------------------------- step_sim_lines.c */

int step_node_of(const struct world *w, int end);
bool step_is_up(const struct world *w, int end);
int step_end_of_worker(const struct world *w, int worker);
/* Its index among the messages; -1: the line has ended. */
void step_send(struct world *w, struct message message);
/* Both ways; an end that closes it hears of nothing. */
void step_close_line(struct world *w, int one, int other);
/* While both ends live. */
void step_cut(struct world *w, int one, int other);
void step_crash(struct world *w, int node);
/* Perhaps the leader, which carries that out, is to die at once. */
void step_strike(struct world *w, int seat, enum step_entry_kind at);

/* ---------------------------------------------------------------------------------- step_sim_judge.c */

void step_judge_entry(struct world *w, int seat, const struct step_entry *entry, uint64_t members);
void step_judge_round(struct world *w, int seat, const struct step_entry *end);
/* The seat applies a worker's update to the ranges that it has. */
void step_judge_update(struct world *w, int seat, int worker);
void step_judge_values(struct world *w, int worker, const struct message *message);
void step_judge_end(struct world *w);

/* ----------------------------------------------------------------------------------- step_sim_fill.c */

/* Whether a message of another seat must wait. */
bool step_must_wait(const struct world *w, int seat, const struct message *message);
void step_take_base(struct world *w, int seat, const struct message *message);
void step_take_piece(struct world *w, int seat, const struct message *message);
/* An entry about a seat, which is carried out here. */
void step_move_seat(struct world *w, int seat, const struct step_entry *entry);
/* A worker begins with this spare. */
void step_take_begin(struct world *w, int seat, int worker, uint64_t clock);
/* A spare asks a worker to push to it. */
void step_invite(struct world *w, int seat, int worker);
/* Sends a piece, if this seat copies its share. */
void step_copy_on(struct world *w, int seat, bool has_room);

/* ----------------------------------------------------------------------------------- step_sim_seat.c */

/* As this seat knows. */
bool step_has_clock(const struct world *w, int seat);
void step_act(struct world *w, int seat);
void step_stop(struct world *w, int seat, bool is_everywhere);
/* An end of a line that this seat had. */
void step_lose(struct world *w, int seat, int other);
void step_hear_at_seat(struct world *w, int seat, int message);
/* A line of this seat has ended: stops if that was the last hope for its base. */
void step_stop_without_base(struct world *w, int seat);
void step_tell_clocks(struct world *w, int seat, struct message message);
void step_answer_waiting(struct world *w, int seat, int worker);
/* This seat gets its line to a worker that comes. */
void step_link(struct world *w, int seat, int worker);
/* To the other seat that has the clock: it has lost this one. False: there is no other one. */
bool step_resume_without(struct world *w, int seat, int lost);

/* --------------------------------------------------------------------------------- step_sim_worker.c */

/* It was not there before. */
void step_come(struct world *w, int worker);
void step_compute(struct world *w, int worker);
void step_work(struct world *w, int worker);
void step_give_up_wish(struct world *w, int worker, uint64_t clock);
void step_forget_seat(struct world *w, int worker, int seat);
void step_hear_at_worker(struct world *w, int worker, const struct message *message);

#endif
