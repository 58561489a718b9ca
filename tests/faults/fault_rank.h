/* fault_rank.h - what one rank of the fault runner does: it follows the schedule, and after each
 * failure it goes on with those that are left.
 *
 *     create ─► operations ─► agree ── all went well ─────────► free
 *                   ▲           │ somebody saw a failure
 *                   └─ shrink ◄─┘ behind the last operation that any of them began
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_RANK_H
#define TUTTI_TESTS_FAULTS_FAULT_RANK_H

#include "tests/faults/fault_history.h"

enum { FAULT_TIMEOUT_S = 30 }; /* of every call: longer than all that a schedule can hold up */

/* The life of that rank, in a process of its own with the environment of its host; writes its
 * history. Returns when it is over, unless a fault ends the process. */
void fault_rank_run(const struct fault_schedule *schedule, int rank, struct fault_record *record);

#endif
