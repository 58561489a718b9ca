/* fault_strike.h - faults that a rank brings upon itself, at the place that its schedule says.
 *
 * A fault in the middle of something waits in a thread of its own, which is joined before that
 * something is over; the others strike in the calling thread. One set of strikes a process, used by
 * one thread.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_STRIKE_H
#define TUTTI_TESTS_FAULTS_FAULT_STRIKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "tests/faults/fault_history.h"

struct fault_strikes {
    const struct fault_schedule *schedule;
    struct fault_record *record;
    int rank;
    struct tutti_comm *comm; /* whom it concerns now */
    bool leaves;             /* FAULT_LEAVE has struck: the caller is to go */
    struct fault_pending {
        struct fault_strikes *strikes;
        int fault;
        bool waits; /* its thread is to be joined */
        pthread_t thread;
    } pending[FAULT_FAULTS_MAX];
};

/* Faults of this rank with that operation and phase, now. Kill and exit do not return. */
void fault_strike(struct fault_strikes *strikes, int operation, enum fault_phase phase);
/* The same after their delays; RECOVERY: all that are for an operation before this one. */
void fault_strike_soon(struct fault_strikes *strikes, int operation, enum fault_phase phase);
/* Blocks until those have struck. */
void fault_strike_join(struct fault_strikes *strikes);

/* What this rank does otherwise in that operation: FAULT_MISMATCH, FAULT_DESYNC or
 * FAULT_DESCRIPTORS; NULL: nothing. Counts as struck. */
const struct fault *fault_strike_in_call(struct fault_strikes *strikes, int operation);
/* Leaves no free descriptor to the process, or gives them back. */
void fault_descriptors_limit(bool limited);

/* Whether to flip a bit of what is sent now; for the program's own sendmsg(). Any thread. */
bool fault_takes_flip(void);
/* From here on nothing is flipped. */
void fault_flips_end(void);

#endif
