/* explore.h - runs a small plan in every order that matters, with values, and looks at the results.
 *
 * This is the verifier's independent witness: it shares neither its clocks over steps nor its
 * values, and decides by executing. A chunk is two pieces; a lane reads a piece, then stores and
 * posts it, as two actions, perhaps after it has read the next one. What is sent from memory is
 * read by the receiver when it takes it, at any later time (or copied when it is posted, in eager
 * runs). Orders that differ only in actions that commute are run once: dynamic partial-order
 * reduction (Flanagan, Godefroid, POPL 2005) with sleep sets.
 *
 * With a rule of placement (plan/placement.h) a step that places stores its result also in the
 * memory of each receiver that has begun and advertises; what comes of that message is then what
 * that memory holds when the receiver looks. The engine places only where all receivers advertise;
 * here each is on its own, which is more.
 */
#ifndef TUTTI_TESTS_PLANS_EXPLORE_H
#define TUTTI_TESTS_PLANS_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/placement.h"
#include "plan/plan.h"

enum explore_outcome {
    EXPLORE_RIGHT,     /* every order ends with the right results */
    EXPLORE_WRONG,     /* some order does not; the report tells which fault */
    EXPLORE_MALFORMED, /* not a plan this model can run: indexes out of bounds, shared links */
    EXPLORE_BOUND      /* events_max was reached without finding a fault */
};

struct explore_options {
    bool in_place;
    bool eager;                /* sent bytes are copied when posted */
    bool scratch_outlives_run; /* as in verify_options */
    int run_count;             /* the plan, so many times in succession */
    int capacity;              /* messages a link takes without blocking: 1 or 2 */
    uint64_t events_max;       /* over all orders */
    placement_rule *placement; /* NULL: nothing is placed */
};

struct explore_report {
    uint64_t executions, events;
    char message[200];
};

enum explore_outcome explore(const struct plan *plan, const struct explore_options *options,
                             struct explore_report *report);

#endif
