/* fault_operate.h - one operation of a schedule, on one rank: its buffers, the call, and whether
 * the result is right.
 *
 *     init          buffers, filled; what this rank does otherwise than the others
 *     begin         the call, or its start
 *     end           its status, when it is done; sets is_wrong
 *     release       gives the buffers back; only after end, where it has begun
 *
 * One thread. Waits have the deadlines of the communicator.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_OPERATE_H
#define TUTTI_TESTS_FAULTS_FAULT_OPERATE_H

#include <stdbool.h>

#include "tests/faults/fault_schedule.h"
#include "tests/kit/call.h"

struct fault_work {
    const struct fault_operation *operation;
    int index; /* in the schedule */
    int rank, size;
    struct test_call call; /* what this rank does: another one than the operation where it disagrees */
    bool disagrees;
    bool mapped;
    void *memory[2];
    enum tutti_status status; /* so far */
    struct tutti_request *requests[2];
    bool is_wrong;
};

/* difference: enum fault_difference, or -1; desync: another collective. False: no memory. */
bool fault_work_init(struct fault_work *work, const struct fault_operation *operation, int index,
                     struct tutti_comm *comm, int difference, bool desync);
void fault_work_begin(struct fault_work *work, struct tutti_comm *comm);
enum tutti_status fault_work_end(struct fault_work *work);
void fault_work_release(struct fault_work *work);

#endif
