/* step_leader.h - which server decides the steps of a parameter server, and who takes over when it
 * dies: a pure state machine around the workers' clock (worker_clock.h).
 *
 *     shares   0 1 2          Each share of the tables lies on `copy_count` servers, 1 or 2. A share on
 *     seats    0 1 2          a server is a *seat*: seat v has share v % share_count, and seats from
 *              3 4 5          share_count on are backups.
 *
 * Workers send all that they push to every seat of a share, so each seat has each update from the
 * worker itself, and applies the same updates in the same steps: its values are those of the other
 * seat. The seats have to agree on the list of *entries*: steps and their members, and workers that
 * are gone; and between two entries the end of a round of wishes for another rule. Seat 0 leads: it makes the list. Seat share_count stands by: it hears each entry first.
 *
 *     a seat            the leader                          the standby            all other seats
 *       has an update ──► HAS ─────────────────────────────► HAS, too
 *       lost a worker ──► LOST ────────────────────────────► LOST, too
 *                         proposes entry i ──── entry i ───►  keeps it, carries it out
 *                         agreed ◄──────────── CONFIRM i ───
 *                         carries it out ────────────────── entry i ──────────────► carries it out
 *
 * The end of a round of wishes goes the same way from the leader to the standby, and is confirmed. Other
 * seats need not know the rule, so it is no entry: it has the number of its round.
 *
 *     LEADS     ──standby is gone─► WAITS ──all seats that are left have said RESUME──► LEADS, alone
 *     STANDS_BY ──leader is gone──► WAITS ──all seats that are left have said RESUME──► LEADS, alone
 *
 * A seat whose line to one of these two has ended says RESUME to the other one, with the number of the
 * last entry that it has heard, and hears those that it lacks. A seat that has lost both stops. So a seat
 * says RESUME to one of them only, and nobody leads twice where the line between the two has ended and
 * both live. The leader tells the other seats when it loses the standby, and the standby when it loses
 * another seat; they end their lines to it, too. Without backups the leader agrees with itself.
 *
 * Invariants
 *   1. An entry that any seat but the standby has carried out has been heard by the standby, if there
 *      is one: no answer tells of a step that a later leader decides otherwise. The same holds for the end of
 *      a round: a rule that a worker knows of holds after a takeover.
 *   2. All seats carry out the same entries in the same order, each once.
 *   3. A step has an update only if every seat that is left has it; and no update twice.
 *   4. One entry, or end of a round, is proposed at a time, so an entry that the leader took with it into death was in no
 *      clock but its own.
 *   5. A seat lacks at most 2 * worker_count entries: each worker has at most one update that waits
 *      there, and is lost at most once. So many are kept.
 *
 * Time does not matter here. Messages between two seats keep their order and come once; when a line
 * ends, its last messages may be lost.
 *
 * Source: Oki and Liskov, Viewstamped Replication, PODC 1988, for two servers and without a vote: a
 * server that has died stays dead, and those that are left say so. */
#ifndef TUTTI_MEMBERSHIP_STEP_LEADER_H
#define TUTTI_MEMBERSHIP_STEP_LEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "membership/worker_clock.h"

enum step_role { STEP_LEADS, STEP_STANDS_BY, STEP_WAITS };
enum step_entry_kind {
    STEP_DECIDED, /* a step, and its members */
    STEP_LOST,    /* a worker has died: its pushes since its last step are dropped */
    STEP_LEFT,    /* a worker has left */
    /* No entries, but ends of a round of wishes; their index is 0. */
    STEP_CHANGED, /* the rule is another one from here on */
    STEP_KEPT     /* two workers asked for different rules, and the rule stays */
};

struct step_entry {
    uint64_t index; /* from 1 */
    enum step_entry_kind kind;
    uint64_t number;     /* of the step, or of the worker; CHANGED: the staleness; KEPT: a worker */
    uint64_t left_count; /* workers that were left; CHANGED: the quorum; KEPT: the other worker */
    const uint64_t *members; /* a set (rank_set.h); until the next call. CHANGED, KEPT: NULL */
    uint64_t round;          /* CHANGED, KEPT */
};

/* Of the end of a round, on its way. */
enum step_round {
    STEP_ROUND_NONE,
    STEP_ROUND_PROPOSED, /* the leader is to tell the standby */
    STEP_ROUND_TOLD,     /* and waits for it */
    STEP_ROUND_HEARD,    /* the standby is to confirm it */
    STEP_ROUND_AGREED    /* to be carried out */
};

/* A seat's number among all, and whether the seat is one of these two. */
static inline int step_seats(int share_count, int copy_count)
{
    return share_count * copy_count;
}
static inline bool step_seat_has_clock(int seat, int share_count)
{
    return seat % share_count == 0;
}

struct step_leader_config {
    struct worker_clock_rule rule;
    int worker_count, share_count, copy_count;
    int seat; /* 0 or share_count */
};

struct step_leader {
    struct step_leader_config config;
    enum step_role role;
    struct worker_clock clock;
    struct worker_clock_worker *workers;
    struct step_seat *seats;
    struct step_absence *absences; /* of workers */
    uint64_t *has;                 /* seats that have a worker's update, a set for each worker */
    struct step_kept *kept;        /* ring of entries */
    uint64_t *kept_members;
    uint64_t proposed, agreed, carried, confirmed; /* indices */
    enum step_round round_state;
    struct step_entry round; /* unless NONE */
};

/* False: no memory; it is to be released in any case. */
bool step_leader_init(struct step_leader *leader, const struct step_leader_config *config);
void step_leader_release(struct step_leader *leader);

/* Events. A seat has the whole update of a worker's clock; said again, it changes nothing. False:
 * that clock cannot be. */
bool step_leader_has(struct step_leader *leader, int seat, int worker, uint64_t clock);
/* A worker is gone, as this seat has found or another one has said. */
void step_leader_report(struct step_leader *leader, int worker, bool has_left);
/* The line to a seat has ended. Whether each share still has a seat. */
bool step_leader_gone(struct step_leader *leader, int seat);
/* A worker asks this seat for another rule: as worker_clock_wish, but KNOWN: that round has been carried
 * out here. */
enum worker_clock_end step_leader_wish(struct step_leader *leader, int worker, uint64_t round,
                                       const struct worker_clock_rule *rule);
/* The standby has heard that entry; index 0: the end of that round. */
void step_leader_confirm(struct step_leader *leader, uint64_t index, uint64_t round);
/* The standby hears an entry, or the end of a round. False: some are missing before it. */
bool step_leader_hear(struct step_leader *leader, const struct step_entry *entry);
/* A seat has lost the leader or the standby, the other one of which this is, and has heard so many
 * entries. False: it knows of more than this one, or lacks more than are kept: the steps cannot go on. */
bool step_leader_resume(struct step_leader *leader, int seat, uint64_t index);

/* Actions that are due. */
enum step_action_kind {
    STEP_NOTHING,
    STEP_TELL,     /* the entry, or end of a round, to a seat */
    STEP_CONFIRM,  /* it, to the leader */
    STEP_CARRY_OUT /* it, on this seat */
};
struct step_action {
    enum step_action_kind kind;
    int seat;
    struct step_entry entry;
};
/* The next action, which the caller carries out before the next call. Ask until there is nothing,
 * after every change. */
struct step_action step_leader_next(struct step_leader *leader);

/* Whether that seat's line has not ended. */
bool step_leader_is_there(const struct step_leader *leader, int seat);

#endif
