/* worker_clock.h - the clocks of workers that change parameters together: whose update is
 * applied when, and who may go on. A pure state machine; server 0 has it, and tells the others
 * what it decided (server/serve.h).
 *
 *     a worker            clock 0 ──ends──► waits ──a step has it──► clock 1 ──ends──► ...
 *
 *     staleness 1, three workers; ▒ waits
 *
 *         worker 0    │ clock 0 │ clock 1 │▒▒▒▒▒▒▒▒▒│ clock 2          may begin clock 2 when all have
 *         worker 1    │ clock 0    │ clock 1   │▒▒▒▒│ clock 2          ended clock 0
 *         worker 2    │ clock 0                     │ clock 1
 *
 * A *step* is a set of workers, whose updates are applied together. An update waits from when
 * its clock has ended until a step has it; its worker waits as long. Each worker has at most
 * one.
 *
 *     bounded by s   the update of clock c may be in a step when all workers have ended clock c - s.
 *                    A step has the updates of one clock, the lowest there is. So s = 0 makes one
 *                    step of each clock, with the updates of all workers (synchronous); without
 *                    a bound each update is a step (asynchronous).
 *     quorum k       a step has all updates that wait, as soon as there are k, or as many as there are
 *                    workers left that may end a clock.
 *
 * The rule changes between two steps, when all workers that are left have asked for the same other
 * rule. A worker that has asked ends no clock until then, so no update waits when the rule changes:
 *
 *     a worker            works ──asks──► wishes ──all have asked──► works, by the other rule
 *
 * A worker may come later. It begins in the lowest clock of the workers that are left, so it is beside the
 * slowest one, and nobody waits for a clock that it cannot reach:
 *
 *     a place             awaited ──joins──► works, in the lowest clock
 *
 * Invariants
 *   1. Each update is in at most one step, and in no step once its worker has been removed.
 *   2. A worker's updates are in steps in the order of its clocks.
 *   3. Bounded by s: a worker in clock c has all updates of clocks below c - s behind it, of all
 *      workers that are left, and its own. No worker is in a clock more than s ahead of another one's.
 *   4. Quorum: every step has at least k updates, or all workers that are left and do not wish.
 *   5. With two messages of the same end of a clock, or of the same wish, the second changes nothing.
 *   6. Every update is in a step by the rule that held when its clock began. Workers that ask for
 *      different rules get none of them: the rule stays.
 *   7. Nobody waits for a worker before it has joined. A worker that joins has the updates of all clocks
 *      below its first one behind it, as far as invariant 3 says, and no update of its own before that.
 *
 * Sources: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter
 * Server, NIPS 2013; the rule for applying updates late is ours: it gives every reader its own
 * updates, and nobody an update from more than s clocks ahead of the slowest worker. /
 */
#ifndef TUTTI_MEMBERSHIP_WORKER_CLOCK_H
#define TUTTI_MEMBERSHIP_WORKER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* No bound: every update is applied when its clock ends. */
#define WORKER_CLOCK_UNBOUNDED UINT64_MAX

struct worker_clock_rule {
    uint64_t staleness; /* s, without a quorum */
    int quorum;         /* k; 0: bounded by s */
};

enum worker_state {
    WORKER_WORKS,  /* in its clock */
    WORKER_WAITS,  /* has ended its clock; no step has its update yet */
    WORKER_WISHES, /* in its clock, and waits for another rule */
    WORKER_GONE,   /* left, or died */
    WORKER_AWAITED /* a place: the worker has not come yet */
};

struct worker_clock_worker {
    enum worker_state state;
    uint64_t clock; /* in which it is, or which it has just ended: so many updates are in steps */
    struct worker_clock_rule wish;
};

struct worker_clock {
    struct worker_clock_rule rule;
    int worker_count, left_count; /* all there ever may be; that have come, and are not gone */
    uint64_t steps;               /* that were decided */
    uint64_t changes;             /* rounds of wishes that are over */
    uint64_t agreed;              /* of these, up to the last one that changed the rule */
    struct worker_clock_worker *workers;
};

/* workers: room for worker_count (at least 1), which stays the caller's. The first first_count (at least 1)
 * work, in clock 0; the others are awaited. */
void worker_clock_init(struct worker_clock *clock, const struct worker_clock_rule *rule,
                       int worker_count, int first_count, struct worker_clock_worker *workers);

enum worker_clock_end {
    WORKER_CLOCK_NEW,    /* its update waits now */
    WORKER_CLOCK_KNOWN,  /* said again; a step may have it already */
    WORKER_CLOCK_REFUSED /* it is gone, or cannot be in that clock */
};
/* A worker ends a clock. */
enum worker_clock_end worker_clock_end(struct worker_clock *clock, int worker, uint64_t number);

/* A worker is gone: nobody waits for it any more, and its update that waits is dropped. */
void worker_clock_remove(struct worker_clock *clock, int worker);
/* A worker that is awaited comes, or one that is gone comes back: in the lowest clock of the workers that are
 * left, or in its old clock if that is higher. If none is left, in the highest clock that any worker has had. */
void worker_clock_join(struct worker_clock *clock, int worker);
/* Takes that from another clock of the same workers: it is in that clock now. False: it is there already. */
bool worker_clock_follow_join(struct worker_clock *clock, int worker, uint64_t number);

/* A worker asks for another rule, in the round of that number: the first is 0. KNOWN: that round is
 * over (worker_clock_has_changed). REFUSED: it is gone, its update waits, or there is no such round yet.
 * A worker that ends its clock instead has given up its wish. */
enum worker_clock_end worker_clock_wish(struct worker_clock *clock, int worker, uint64_t round,
                                        const struct worker_clock_rule *rule);
enum worker_clock_change {
    WORKER_CLOCK_STAYS,  /* a worker that is left has not asked */
    WORKER_CLOCK_AGREES, /* the round is over, and the rule is what all asked for */
    WORKER_CLOCK_DIFFERS /* the round is over, and the rule as before: two asked for different rules */
};
/* Ends a round of wishes, if it is to end; differing: then two workers. Ask after every wish, and when a
 * worker is gone. */
enum worker_clock_change worker_clock_change(struct worker_clock *clock, int differing[2]);
/* Whether a round that is over, and that a worker which is left asked in, changed the rule. */
bool worker_clock_has_changed(const struct worker_clock *clock, uint64_t round);
/* Takes the end of a round from another clock of the same workers. rule: NULL: it changed nothing. */
void worker_clock_follow_change(struct worker_clock *clock, const struct worker_clock_rule *rule);

/* Decides the next step, if there is one: its members (a set of worker_count, rank_set.h) are
 * overwritten. Ask until there is none, after every change. */
bool worker_clock_decide(struct worker_clock *clock, uint64_t *members);
/* Takes a step that another clock of the same workers has decided. */
void worker_clock_follow(struct worker_clock *clock, const uint64_t *members);

/* The clock that every worker that is left has reached; UINT64_MAX if none is left. */
uint64_t worker_clock_lowest(const struct worker_clock *clock);
/* The workers for which that worker's update or wish waits: a set, which is overwritten; empty if it
 * does not wait. */
void worker_clock_awaited(const struct worker_clock *clock, int worker, uint64_t *awaited);

#endif
