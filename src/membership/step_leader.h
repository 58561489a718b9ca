/* step_leader.h - which server decides the steps of a parameter server, and who takes over when it
 * dies: a pure state machine around the workers' clock (worker_clock.h).
 *
 *     shares   0 1 2          Each share of the tables lies on `copy_count` servers, 1 or 2. A share on
 *     seats    0 1 2          a server is a *seat* (seat_map.h): seat v has share v % share_count, and
 *              3 4 5          seats from share_count on are backups.
 *
 * Workers send all that they push to every seat of a share, so each seat has each update from the
 * worker itself, and applies the same updates in the same steps: its values are those of the other
 * seat. The seats have to agree on the list of *entries*: steps and their members, and workers that
 * are gone, and seats that come and go; and between two entries the end of a round of wishes for another
 * rule. Seat 0 leads: it makes the list. Seat share_count stands by: it hears each entry first.
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
 * Spares.  A share whose other seat is gone gets a spare one, which becomes its seat by four entries:
 *
 *     INVITED   The leader gives the spare a *base*: all that it knows at this entry. The spare hears the
 *               list from here on, and asks workers to push to it, too. Each begins with one of its clocks.
 *     JOINED    Each worker that is left has begun, with a clock that is not in a step yet. So each later
 *               step can need the spare's updates, and does. The FULL seat copies the share to it.
 *     FULL      The spare has said that the copy is whole.
 *     OUT       A seat, this one or another, is gone.
 *
 * A spare with share 0 learns what the clock does: it is told each entry behind the leader's carrying it out,
 * so that the copy, which the leader makes, has all entries that it was told, and no others. FULL is the
 * first entry that it confirms: it stands by then.
 *
 *     LEARNS ──FULL──► STANDS_BY
 *
 * A leader that has taken over gives invited spares a base again: the old leader may have died before it did.
 *
 * Workers that come.  The last `place_count` workers are not there at first. Each seat tells those with a clock when
 * it has a line to such a worker. When all seats that hear the list have one, the leader makes an entry:
 *
 *     CAME      The worker is in that clock, the lowest of all workers that are left. Later steps need its updates
 *               on each seat that counts, and a spare that is invited asks it to push there, too.
 *
 * Until then nothing waits for it. If a line to it ends before, an entry LOST says that it does not come. A place
 * is used once, so no late word of a worker is taken for one of another worker.
 *
 * Invariants
 *   1. An entry that any seat but the standby has carried out has been heard by the standby, if there
 *      is one: no answer tells of a step that a later leader decides otherwise. The same holds for the end of
 *      a round: a rule that a worker knows of holds after a takeover.
 *   2. All seats carry out the same entries in the same order, each once.
 *   3. A step has an update only if every seat that is left has it; and no update twice.
 *   4. One entry, or end of a round, is proposed at a time, so an entry that the leader took with it into death was in no
 *      clock but its own.
 *   5. A FULL seat lacks at most 3 * worker_count entries of workers: each worker has at most one update that
 *      waits there, comes at most once, and is lost at most once. Each seat has at most four entries. So many
 *      are kept.
 *   6. A share is lost only if all its FULL seats are gone: no step and no answer counts on a seat before
 *      that.
 *   7. A worker comes when each seat that is to have its updates can get them. All seats agree on its first clock.
 *
 * Time does not matter here. Messages between two seats keep their order and come once; when a line
 * ends, its last messages may be lost.
 *
 * Source: Oki and Liskov, Viewstamped Replication, PODC 1988, for two servers and without a vote: a
 * server that has died stays dead, and those that are left say so. */
#ifndef TUTTI_MEMBERSHIP_STEP_LEADER_H
#define TUTTI_MEMBERSHIP_STEP_LEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "membership/seat_map.h"
#include "membership/worker_clock.h"

enum step_role { STEP_LEADS, STEP_STANDS_BY, STEP_LEARNS, STEP_WAITS };
enum step_entry_kind {
    STEP_DECIDED, /* a step, and its members */
    STEP_LOST,    /* a worker has died: its pushes since its last step are dropped */
    STEP_LEFT,    /* a worker has left */
    STEP_CAME,    /* a worker has come */
    STEP_INVITED, /* a spare seat is to get a share, and so on: see above */
    STEP_JOINED,
    STEP_FULL,
    STEP_OUT,
    /* No entries, but ends of a round of wishes; their index is 0. */
    STEP_CHANGED, /* the rule is another one from here on */
    STEP_KEPT     /* two workers asked for different rules, and the rule stays */
};

struct step_entry {
    uint64_t index; /* from 1 */
    enum step_entry_kind kind;
    uint64_t number; /* of the step, the worker, or the seat; CHANGED: the staleness; KEPT: a worker */
    uint64_t left_count; /* workers that were left; of a seat: its share; CAME: the worker's clock; CHANGED: the
                            quorum; KEPT: the other worker */
    const uint64_t *members; /* a set (rank_set.h); until the next call. CHANGED, KEPT: NULL */
    uint64_t round;          /* CHANGED, KEPT; CAME: rounds that are over */
};

/* Of the end of a round, on its way. */
enum step_round {
    STEP_ROUND_NONE,
    STEP_ROUND_PROPOSED, /* the leader is to tell the standby */
    STEP_ROUND_TOLD,     /* and waits for it */
    STEP_ROUND_HEARD,    /* the standby is to confirm it */
    STEP_ROUND_AGREED    /* to be carried out */
};

/* The state of a seat behind an entry; false: the entry is not about a seat. */
bool step_entry_moves(enum step_entry_kind kind, enum seat_state *state);

struct step_leader_config {
    struct worker_clock_rule rule;
    int worker_count, share_count, copy_count;
    int place_count; /* of the workers: the last ones, which come later */
    int spare_count; /* of each server; 0 without backups */
    int seat;        /* 0 or share_count; or a spare that has been given a base */
};

struct step_leader {
    struct step_leader_config config;
    enum step_role role;
    int leads, standby;  /* seats, as far as this one knows; -1: there is none */
    int followed;        /* the leader before this one; -1: there was none */
    int lost;            /* WAITS: the seat whose end all seats are to have heard of */
    struct seat_map map; /* behind the last entry that was proposed or heard */
    struct worker_clock clock;
    struct worker_clock_worker *workers;
    struct step_seat *seats;
    struct step_absence *absences; /* of workers */
    uint64_t *has;   /* [worker][seat]: clocks of which that seat has the whole update */
    uint64_t *begun; /* [worker][seat]: 1 + the clock from which a spare has them; 0: not yet */
    bool *linked;    /* [worker][seat]: of a worker that comes: that seat has a line to it */
    bool *resumed;   /* [seat][lost seat] */
    struct step_kept *kept; /* ring of entries */
    uint64_t *kept_members;
    uint64_t proposed, agreed, carried, confirmed; /* indices */
    enum step_round round_state;
    bool round_was_taught;   /* the spare that learns was told of it */
    struct step_entry round; /* unless NONE */
};

/* False: no memory; it is to be released in any case. */
bool step_leader_init(struct step_leader *leader, const struct step_leader_config *config);
void step_leader_release(struct step_leader *leader);

/* Events. A seat has the whole update of a worker's clock; said again, it changes nothing. False:
 * that clock cannot be. */
bool step_leader_has(struct step_leader *leader, int seat, int worker, uint64_t clock);
/* A worker pushes to a spare, too, from that clock on. */
void step_leader_begun(struct step_leader *leader, int seat, int worker, uint64_t clock);
/* A seat has a line to a worker that comes. */
void step_leader_linked(struct step_leader *leader, int seat, int worker);
/* A seat that has joined has the whole share. */
void step_leader_filled(struct step_leader *leader, int seat);
/* A worker is gone, or will not come, as this seat has found or another one has said. */
void step_leader_report(struct step_leader *leader, int worker, bool has_left);
/* The line to a seat has ended. Whether each share still has a seat. */
bool step_leader_gone(struct step_leader *leader, int seat);
/* Whether a seat whose line to this one ends now is to be told to all as gone: this one leads, and has not
 * just lost the leader itself. */
bool step_leader_puts_out(const struct step_leader *leader);
/* A worker asks this seat for another rule: as worker_clock_wish, but KNOWN: that round has been carried
 * out here. A spare that learns must not be asked before it knows of the rounds before
 * (step_leader_is_early). */
enum worker_clock_end step_leader_wish(struct step_leader *leader, int worker, uint64_t round,
                                       const struct worker_clock_rule *rule);
bool step_leader_is_early(const struct step_leader *leader, uint64_t round);
/* The standby has heard that entry; index 0: the end of that round. */
void step_leader_confirm(struct step_leader *leader, uint64_t index, uint64_t round);
/* The standby, or a spare that learns, hears an entry, or the end of a round. False: some are missing
 * before it. */
bool step_leader_hear(struct step_leader *leader, const struct step_entry *entry);

enum step_resume {
    STEP_RESUMED,
    STEP_PUT_OUT, /* a spare that is not FULL lacks more entries than are kept: its line is to end */
    STEP_CANNOT /* it knows of more than this seat, or lacks more than are kept: the steps cannot go on */
};
/* A seat has lost the leader or the standby, `lost`, and this is the other one. The seat has heard so many
 * entries. */
enum step_resume step_leader_resume(struct step_leader *leader, int seat, int lost, uint64_t index);

/* The base that a spare begins with, in so many words. */
size_t step_base_words(int worker_count, int seat_count);
void step_leader_base(const struct step_leader *leader, uint64_t *words);
struct step_base {
    uint64_t index, steps, changes, agreed;
    struct worker_clock_rule rule;
};
/* Takes the words apart: fills in the clocks of workers (GONE: an entry says so; AWAITED: none says that it has
 * come), and seats. False: they make no sense. Pure. */
bool step_base_read(const uint64_t *words, int worker_count, struct step_base *base,
                    struct worker_clock_worker *workers, struct seat_map *map);
/* This seat, a spare that is to have share 0, learns from there on; LEARNS, or just initialised. */
bool step_leader_learn(struct step_leader *leader, int leads, const uint64_t *words);

/* Actions that are due. */
enum step_action_kind {
    STEP_NOTHING,
    STEP_GIVE_BASE, /* to a seat: step_leader_base, as it is now */
    STEP_TELL,      /* the entry, or end of a round, to a seat */
    STEP_CONFIRM,   /* it, to the leader */
    STEP_CARRY_OUT  /* it, on this seat */
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
