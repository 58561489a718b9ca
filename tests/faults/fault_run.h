/* fault_run.h - starts the ranks of a schedule as processes, lets those go on that stop, and waits
 * for all of them.
 *
 * Invariants
 *  1. fault_run returns within FAULT_RUN_S plus the pauses of the schedule; what is still there
 *     then is killed, after its stacks were printed, where gdb is there to do that.
 *  2. No process is left when it returns, and none outlives the program.
 *
 * One thread of the program, which has no other children and becomes the reaper of its descendants.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_RUN_H
#define TUTTI_TESTS_FAULTS_FAULT_RUN_H

#include "tests/faults/fault_history.h"

enum { FAULT_RUN_S = 100 };

/* Zeroed memory that children share; NULL: there is none. */
struct fault_record *fault_record_create(void);
void fault_record_free(struct fault_record *record);

/* Runs the schedule; the record holds nothing but this run. Returns false, after printing why, when
 * processes could not be started. */
bool fault_run(const struct fault_schedule *schedule, struct fault_record *record);

#endif
