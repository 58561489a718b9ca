/* step_sim.h - servers with backups, and their workers, in virtual time: which seat decides steps, and
 * which takes over (membership/step_leader.h), with a judge who keeps a ledger of all pushes.
 *
 * A seed makes one schedule: some servers with two seats each, some workers, a rule of the clock, and
 * who dies when. Lines keep their order and lose nothing, but for the last messages of an end that
 * dies; each line is slow or fast by itself, and learns of a death by itself. A worker pushes once or
 * twice, ends its clock, and pulls from a share; all of that goes to all seats, or to the first seat
 * that it still has, as server/worker.c does it.
 *
 * The line between two seats may end while both live, too: then the leader puts the other seat out, by
 * saying GONE to the seats that have lines to it; and a seat without a leader stops, so that its workers
 * go on with the other seat of the share.
 *
 * In most schedules servers have spare seats, and a share that has lost a seat gets one of these, while
 * pushes, deaths and wishes go on. A share is three ranges, which are copied one by one.
 *
 * In some schedules workers come later: each seat gets its line to them at a time of its own, they ask the first seats
 * which clock they are in, and die half-way like any other.
 *
 * Between two clocks workers may ask for another rule, all for the same or not, wait for the answer for a
 * while, and then give up and go on.
 *
 * Holds always
 *   - all seats carry out the same entries in the same order, and none twice
 *   - a seat that applies a step has each member's update whole: all pushes of the clock, once
 *   - a round of wishes ends in the same way on both seats that have the clock, and no seat that leads
 *     later takes it for open
 *   - the values that a worker pulls have all its steps, and the steps of no other list
 *   - all seats let a worker in with the same clock
 * Holds in the end
 *   - while each share has a FULL seat left that has not stopped: every worker that lives has done all its clocks, and each
 *     push that was acknowledged and whose clock is over has been applied, once, on every seat left
 *   - and each spare that has its whole share is FULL
 *   - otherwise every worker that lives has been told so
 *
 * Planted bugs (enum step_bug) show that the judge sees them. That seats tell a new seat with the clock again what they
 * have said has no bug of its own: a spare hears of each update by itself, since a worker's tick waits for the step
 * before it; the repetition makes other spares FULL sooner. */
#ifndef TUTTI_TESTS_SIM_STEP_SIM_H
#define TUTTI_TESTS_SIM_STEP_SIM_H

#include <stdbool.h>
#include <stdint.h>

enum step_bug {
    STEP_BUG_NONE,
    STEP_BUG_UNCONFIRMED,    /* the leader carries out what the standby has not heard */
    STEP_BUG_EARLY_CONFIRM,  /* the standby confirms an entry, and keeps it later */
    STEP_BUG_HASTY,          /* the standby leads before all seats have resumed */
    STEP_BUG_HAS_ONCE,       /* seats tell the leader alone of updates */
    STEP_BUG_LOST_ONCE,      /* and of workers that died */
    STEP_BUG_DROPS_EARLY,    /* a seat drops an update when it loses the worker */
    STEP_BUG_HALF_PUSH,      /* a worker's second push goes to one seat */
    STEP_BUG_RESUME_BEHIND,  /* a seat resumes one entry too early, and carries it out again */
    STEP_BUG_WAITS_FOR_DEAD, /* seats that are gone must still have updates */
    STEP_BUG_EARLY_PULL,     /* a pull does not wait for the step */
    STEP_BUG_NO_GONE,        /* the leader puts nobody out */
    STEP_BUG_RULE_ALONE, /* the leader carries out another rule that the standby has not heard of */
    STEP_BUG_HASTY_JOIN, /* a spare joins before workers have begun with it */
    STEP_BUG_EARLY_FULL, /* and says that its copy is whole before the last range */
    STEP_BUG_NO_MARK,    /* and carries out entries that the seat which copies has not named */
    STEP_BUG_MID_CLOCK,  /* a worker begins with a clock that it has pushed in already */
    STEP_BUG_EARLY_WISH, /* a wish does not wait until the new standby knows of the rounds before */
    STEP_BUG_HASTY_ENTRY, /* a worker is let in when one seat has a line to it */
    STEP_BUG_LINKED_ONCE, /* seats tell the leader alone of lines to workers that come */
    STEP_BUG_FIRST_CLOCK, /* a seat takes a worker that comes for one of clock 0 */
    STEP_BUG_FIRST_SEATS, /* a worker that comes pushes to no spare that counts */
    STEP_BUG_NO_FAREWELL, /* a seat that loses a worker before it is in tells nobody */
    STEP_BUG_END
};

/* How often what was seen. */
struct step_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    uint64_t events, entries, steps, updates;
    uint64_t changed, kept; /* rounds of wishes for another rule */
    uint64_t servers_died, workers_died;
    uint64_t taken_over;                 /* schedules in which the standby led */
    uint64_t resumed;                    /* entries that a seat heard from the new leader */
    uint64_t ended;                      /* schedules in which a share lost all its seats */
    uint64_t moved;                      /* pulls that went to another seat after a death */
    uint64_t cut;                        /* lines between seats that ended while both lived */
    uint64_t invited, refilled, learned; /* spares; that became FULL; and of these with the clock */
    uint64_t served;                     /* pulls from such a seat */
    uint64_t stopped;                    /* seats that stopped, and whose share had another seat */
    uint64_t came, refused; /* workers that came later; that died before an entry said so */
    uint64_t came_late;     /* of those that came, behind the first clock */
};

/* Adds to the counts of *report. */
void step_sim_run(uint64_t seed, enum step_bug bug, bool is_verbose, struct step_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int step_sim_main(int argument_count, char **arguments);

#endif
