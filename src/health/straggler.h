/* straggler.h - who holds up call after call, though each time too briefly to be late (report.c).
 *
 *     about to sleep in a call: who has not called it? ──► it goes on ──► a wait: for whom, how long
 *     the last ten waits ──► always for the same rank, about as long each time, and it waits for nobody ──► it is named
 *
 * Only a rank that is about to sleep looks: calls that end before cost nothing. Waits of less than
 * a millisecond do not count.
 *
 * Ranks that are all irregular wait for each other in turn. So the waits of the one that is waited
 * for count against naming it, as waits of no length: with m the mean length and s the deviation it
 * is named where m > 2.5 s. That bears one exception in ten. One long wait is no reason against it,
 * so none counts as longer than twice the median. All waits together must be a twentieth of the
 * time at least.
 *
 * A rank that the machine holds up is no straggler: its thread could have run, and had no
 * processor, because there are more ranks than cores, or other programs. The kernel counts that of
 * each thread. The delay that a rank had more than this one, since this one last waited for it, is
 * taken off the wait. If nothing is left, it is a wait for nobody. Ranks that are all delayed alike
 * are judged as they were.
 *
 * Two ranks that take each other for stragglers are none: the second one names nobody, nor do both
 * from then on, for half a minute after each such finding.
 *
 * Of a rank of another host it is not seen whether it has called: after a wait it is asked how long
 * ago it did, how often it waited itself, how long it was delayed, and whom it has named. So the
 * name comes back along the path of the waiting.
 *
 * Threads: with the domain held; held_ns may be read by any.
 */
#ifndef TUTTI_HEALTH_STRAGGLER_H
#define TUTTI_HEALTH_STRAGGLER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

struct health;

enum { STRAGGLER_WAITS = 10 };

/* A wait for a rank that came later than this one. */
struct straggler_wait {
    int rank;            /* -1: none, it was the machine */
    uint64_t rank_waits; /* its own waits by then */
    uint64_t since_ns, ns;
};

struct straggler_name {
    int rank;             /* -1: none */
    unsigned held, calls; /* it delayed `held` of the last `calls` */
    uint64_t mean_ns;
    uint64_t named_ns; /* when */
};

/* The delays by which the machine has kept a rank, and this one, from running, as of the last time
 * that this rank waited for that rank. In units of STRAGGLER_DELAY_NS, modulo 2^32; 0: not
 * known. */
enum { STRAGGLER_DELAY_NS = 10000 };
struct straggler_delays {
    uint32_t its, own;
};

struct straggler {
    struct straggler_wait waits[STRAGGLER_WAITS]; /* wait i at i % STRAGGLER_WAITS */
    uint64_t wait_count;
    /* The call that sleeps: its present wait, and its longest wait. */
    uint64_t sequence;                   /* of the call; 0: none */
    struct straggler_wait open, longest; /* rank -1: none */
    uint64_t woken_ns;                   /* from the last sleep */
    /* The wait for a rank of another host that was asked about it. */
    struct straggler_wait asked;
    int asked_slot;
    uint64_t asked_begun; /* 0: none */
    struct straggler_name name;
    _Atomic uint64_t *held_ns;       /* how long each rank has held up this one, in all */
    struct straggler_delays *delays; /* of each rank */
    int blamed_by; /* the rank of another host that took this one for a straggler last; -1: none */
    uint64_t blamed_ns;
};

/* A rank's answer about a call. */
struct straggler_answer {
    uint64_t age_ns; /* since it began it; 0: it has not */
    uint64_t waits;
    uint32_t delay; /* as in struct straggler_delays */
    struct straggler_name name;
};

/* NO_MEMORY. */
enum tutti_status straggler_init(struct straggler *straggler, int size);
void straggler_release(struct straggler *straggler);

/* A call that has begun. */
struct straggler_call {
    int slot;
    uint64_t begun, sequence; /* its number in the slot, and of all */
    int root;                 /* -1: all ranks do the same */
};
/* This rank is about to sleep in a call in which nothing has moved since then; a message or room of
 * `peer` is missing, or (-1) that is not known. */
void straggler_sleep(struct health *health, const struct straggler_call *call, int peer,
                     uint64_t since_ns);
/* This rank woke up then. */
static inline void straggler_wake(struct straggler *straggler, uint64_t now_ns)
{
    straggler->woken_ns = now_ns;
}
/* A call is over, perhaps one in which it slept. */
void straggler_end(struct health *health, const struct straggler_call *call);
/* How long that rank has held this one up in all. Any thread. */
static inline uint64_t straggler_held_ns(const struct straggler *straggler, int rank)
{
    return atomic_load_explicit(&straggler->held_ns[rank], memory_order_relaxed);
}
/* The answer for a rank of another host, and from it: about the call of that number in a slot. */
struct straggler_answer straggler_answer(const struct health *health, int slot, uint64_t begun);
void straggler_hear(struct health *health, int peer, int slot, uint64_t begun,
                    const struct straggler_answer *answer);

/* Takes off a wait for a rank the time for which the machine is to blame, as far as both delays are
 * known, now and when this rank last waited for that rank. If less is left than counts, it is a
 * wait for nobody. */
void straggler_excuse(struct straggler *straggler, struct straggler_wait *wait,
                      const struct straggler_delays *now);
/* Adds a wait. */
void straggler_add(struct straggler *straggler, const struct straggler_wait *wait);
/* Whether the rank of the newest wait, which has waited so often itself by now, is to be named.
 * Fills in all of *name but the time. */
bool straggler_judge(const struct straggler *straggler, uint64_t rank_waits, uint64_t now_ns,
                     struct straggler_name *name);
/* Whether a rank that took this one for a straggler at that time is no straggler itself, if this
 * rank takes it for a straggler now. */
bool straggler_is_mutual(uint64_t then_ns, uint64_t now_ns);

#endif
