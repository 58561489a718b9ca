/* engine_dummies.h - all collectives with all stand-ins of engine_dummy.h, over the links of
 * engine_net.h: a seed draws the dummy, the collective and its algorithm, ranks, counts, buffers
 * and moods of links.
 *
 * Holds always
 *   - results are right when an operation is done, and its buffers are the caller's then, who
 *     overwrites them at once
 *   - the same operations run a second time
 *   - operations that are given up at any time leave nothing behind, once they do not compute any
 *     more
 *   - nothing gets stuck */
#ifndef TUTTI_TESTS_ENGINE_ENGINE_DUMMIES_H
#define TUTTI_TESTS_ENGINE_ENGINE_DUMMIES_H

#include <stdint.h>

/* So many seeds in a row see each dummy with each collective once. */
unsigned engine_dummies_round(void);

/* How often what was seen. */
struct engine_dummies_report {
    uint64_t written, handed_on, shared, multicast; /* see engine_net.h */
    unsigned done, given_up;                        /* operations */
};

/* Adds to the counts of *report. Assertions are cmocka's. */
void engine_dummies_run(uint64_t seed, struct engine_dummies_report *report);
/* [--seeds N] [--seed S]: exit status 0: all held; else the first line says which seed did not. */
int engine_dummies_main(int argument_count, char **arguments);

#endif
