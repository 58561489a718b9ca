/* fault_judge.h - whether what the ranks saw is what may happen when those faults strike.
 *
 * Rules, for each communicator (epoch) that the ranks had:
 *  1. right       an operation that returned OK has the right result.
 *  2. end         no rank hangs, crashes, or gives up.
 *  3. named       a failure is of a kind that a fault explains which struck: PROC_FAILED names a rank that died or left; MISMATCH
 *                 and DESYNC a pair with the one that called otherwise; CORRUPT the sender; REVOKED
 *                 and ABORTED somebody asked for, or a communicator made from this one failed. All
 *                 failed calls have that status, and so has a call after it. What only holds ranks
 *                 up explains nothing.
 *  4. agreed      all survivors have the same failure, with the same culprit, and the same word. Of two failures at once, hosts may
 *                 have different ones.
 *  5. noticed     who died did not take part in what is agreed on; after a disagreement, an abort or a revocation the
 *                 communicator has failed; all that is agreed to be done was OK.
 *  6. in time     from the fault, or from the call if that came later, to the call's return: FAULT_PATIENCE times what is
 *                 promised, and the pauses that the schedule makes.
 *  7. shrunk      the next communicator has the survivors, in their order, and otherwise only ranks that died meanwhile.
 *  8. no rests    descriptors, mappings and threads are as before, and no process is left. Provider tcp;ofi_rxm may keep descriptors of connections that
 *                 were reset, or led to a rank that is gone, or that closed its endpoint because a
 *                 communicator failed.
 *
 * Where connections of network cards were reset, somebody who is alive counts as dead, and nobody
 * can tell at one end of a path whose card it is. So there rule 3 asks of PROC_FAILED that the
 * culprit, or the one who names it, is the rank whose connections were reset. Ranks may have
 * different failures, and may be left out, but not most of them if nobody died. Rules 4 and 7 hold
 * for the ranks that go on, which are one communicator and not two. But a rank that was left out
 * goes on alone when the others have ended, at their end or by a fault: that is not judged, but for
 * its results.
 *
 * Pure: any thread, no clock, no I/O.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_JUDGE_H
#define TUTTI_TESTS_FAULTS_FAULT_JUDGE_H

#include "tests/faults/fault_history.h"

enum { FAULT_PATIENCE = 10, FAULT_DETECTIONS_MAX = FAULT_EPOCHS_MAX * FAULT_RANKS_MAX };

struct fault_verdict {
    int complaint_count;
    char text[2048]; /* complaints, a line each, as far as they fit */
    /* How long survivors took to know, where nothing held them up. */
    int detection_count;
    struct fault_detection {
        enum fault_kind kind;
        uint64_t took_ns;
    } detections[FAULT_DETECTIONS_MAX];
};

void fault_judge(const struct fault_schedule *schedule, const struct fault_record *record,
                 struct fault_verdict *verdict);

/* Whether the rank is not expected to come to its end: a fault that struck ended it. */
bool fault_rank_is_gone(const struct fault_schedule *schedule, const struct fault_record *record,
                        int rank);

#endif
