/* fault_history.h - what the ranks of a run of the fault runner saw, in memory that they share with
 * who started them.
 *
 * Each rank writes its own history, and the time at which a fault of its own struck; it is read
 * when the rank is gone. What a rank wrote before it was killed counts. Times are of the monotonic
 * clock.
 */
#ifndef TUTTI_TESTS_FAULTS_FAULT_HISTORY_H
#define TUTTI_TESTS_FAULTS_FAULT_HISTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/faults/fault_schedule.h"
#include "tests/kit/belongings.h"

enum { FAULT_EPOCHS_MAX = 1 + FAULT_FAULTS_MAX };

/* An operation of the schedule. */
struct fault_call_history {
    bool called, returned;
    bool is_wrong; /* it was OK, and its result is not */
    int epoch;
    enum tutti_status status;
    uint64_t begin_ns, end_ns;
};

/* A communicator, from when it was made to when the ranks that were left went on without it, or all
 * was done. */
struct fault_epoch_history {
    int rank, size;
    int first_operation;
    bool failed;                          /* a call on it, or on a communicator made from it */
    bool agrees, agreed, shrinks, shrunk; /* that it began to, that it came back */
    enum tutti_status agree_status, shrink_status;
    uint64_t word;                                 /* agreed on */
    uint64_t recovery_ns, agreed_ns, recovered_ns; /* when it began, had agreed, had shrunk */
    enum tutti_status again;                       /* of one more call after the failure */
    struct tutti_failure failure;                  /* in the end */
};

enum fault_fate { FAULT_EXITED, FAULT_SIGNALLED, FAULT_HUNG };

struct fault_history {
    pid_t pid;
    enum fault_fate fate; /* who started it writes this, and the value */
    int value;            /* exit status or signal */
    bool finished;        /* it did all that it had to */
    bool left;            /* by FAULT_LEAVE */
    uint64_t frees_ns;    /* when it began to free its last communicator; 0: it did not */
    int child_status;     /* of children that used what they inherited; 0: as they should */
    enum tutti_status created;
    int epoch_count;
    struct fault_epoch_history epochs[FAULT_EPOCHS_MAX];
    struct fault_call_history calls[FAULT_OPERATIONS_MAX];
    struct belongings before, after;
};

struct fault_record {
    struct tutti_id id;
    struct fault_history ranks[FAULT_RANKS_MAX];
    _Atomic uint64_t struck_ns[FAULT_FAULTS_MAX]; /* 0: not */
    int orphans;                                  /* processes that outlived the ranks */
};

/* The word that ranks agree on at the end of an epoch: whether all went well, and where the next
 * one begins. */
static inline uint64_t fault_word(bool failed, int next_operation)
{
    return (failed ? 0 : 1) | ~UINT64_C(1) << next_operation;
}

static inline bool fault_word_is_good(uint64_t word)
{
    return (word & 1) != 0;
}

static inline int fault_word_operation(uint64_t word)
{
    return __builtin_ctzll(word >> 1);
}

#endif
