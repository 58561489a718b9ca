/* clock_sim.h - workers and the clock that holds them together (membership/worker_clock.h), in
 * virtual time, with a judge who looks at every step and at every worker that goes on.
 *
 * A seed makes one schedule: some workers, a rule (bounded, unbounded, quorum), how fast each
 * worker is, and the weather. A worker computes for a while, says that its clock has ended, and
 * says it again until it is told that a step has its update. Behind some clocks all workers ask
 * for another rule, and wait for it. Messages are lost, doubled, late and overtake each other. Workers crash,
 * leave and come back, and in some schedules workers come that were not there at the start. In the end the weather is
 * calm.
 *
 * The judge keeps books of its own: what each worker has really ended, what the server has
 * heard, and which updates are in which step.
 *
 * Holds always
 *   - no update is in two steps, and a worker's updates are in steps in the order of its clocks
 *   - bounded by s: a worker is at most s clocks ahead of each other worker; it has all updates of
 *     clocks below c - s, and its own; a step has the updates of one clock; with s = 0 it has those
 *     of all workers
 *   - quorum k: a step has k updates or more, or those of all workers that are left
 *   - no update waits that may be in a step, by what the server has heard
 *   - the rule changes when all workers that are left have asked for it, and no update waits then
 *   - a worker that comes begins in the lowest clock of all that are left
 * Holds in the end: every worker that is left has done all its clocks */
#ifndef TUTTI_TESTS_SIM_CLOCK_SIM_H
#define TUTTI_TESTS_SIM_CLOCK_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* How often what was seen. */
struct clock_sim_report {
    bool has_failed;
    char message[256];
    uint64_t fingerprint;
    uint64_t events, steps, updates;
    uint64_t blocked;  /* ends of clocks that had to wait for other workers */
    uint64_t bounded;  /* schedules with a bound above 0 */
    uint64_t at_bound; /* of these, in which a worker was as far ahead as it may be */
    uint64_t quorums;  /* schedules with a quorum */
    uint64_t late;     /* updates in a step with updates of later clocks */
    uint64_t crashed, left, joined, repeated;
    uint64_t came;    /* of those that joined, workers that were not there at the start */
    uint64_t changed; /* rules that were replaced */
};

/* Adds to the counts of *report. */
void clock_sim_run(uint64_t seed, bool is_verbose, struct clock_sim_report *report);

/* [--seeds N] [--seed S] [--verbose]: N schedules from S on; exit status 0: all held. */
int clock_sim_main(int argument_count, char **arguments);

#endif
