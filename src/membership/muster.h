/* muster.h - a muster: some ranks do not come to a call that all ranks make. Are they sick, or does a third
 * rank hold them up? Pure functions: evidence goes in, the caller counts time.
 *
 *     evidence of one rank on another: has it come? is it in a call? does it run? for how long has it not answered?
 *        │ muster_judge        HERE, LOST, OPEN (wait on), or sick: STOPPED, SILENT, ABSENT
 *        │ muster_may_close    no rank is OPEN, and the ranks that are here are a majority
 *        ▼
 *     an agreement on the set of ranks that have come
 *        │ muster_opinion      each of them: does my own evidence say that all missing ranks are sick?
 *        ▼
 *     an agreement on these votes
 *        │ muster_outcome      more than half of the voters say so: the missing ranks are to be put out
 *
 *  1. A rank that waits in a call for another rank answers. It is OPEN, however long it waits: when its call
 *     ends, it comes. So the end of a chain of waits is sick, and no rank between.
 *  2. A rank that does not answer cannot say why. Its host may: the kernel knows whether a process is stopped,
 *     and acknowledges what the process does not read. Both count only when they last.
 *  3. No rank decides alone. The set is the same on all ranks that have come, and needs a majority of all ranks; the
 *     votes need a majority of those that have come. So a rank that lies, or is cut off, puts nobody out.
 *  4. In doubt nobody is put out, and the call ends as it does without a muster.
 */
#ifndef TUTTI_MEMBERSHIP_MUSTER_H
#define TUTTI_MEMBERSHIP_MUSTER_H

#include <stdbool.h>
#include <stdint.h>

/* How long a sign has to last. */
#define MUSTER_STOPPED_NS UINT64_C(1000000000)
#define MUSTER_SILENT_NS UINT64_C(3000000000)
/* With more ranks, the lowest of those that have come vote. */
enum { MUSTER_VOTERS_MAX = 63 };

/* The knowledge that one rank has of another. Times count only as far as the rank that looks has run. */
struct muster_sign {
    bool is_lost;    /* it is dead, or has left */
    bool has_come;   /* it takes part in the muster */
    bool is_in_call; /* it waits in an operation of the communicator, or in a call such as grow */
    uint64_t stopped_ns; /* for how long its kernel has said that its process does not run; same host */
    uint64_t silent_ns; /* for how long nothing has come of it, although it was asked; other hosts */
};

struct muster_time {
    uint64_t waited_ns;   /* in the muster */
    uint64_t patience_ns; /* no rank is sick before */
    uint64_t absent_ns; /* after that: a rank that runs, in no call, has to come within this time */
};

enum muster_verdict {
    MUSTER_HERE,
    MUSTER_LOST,
    MUSTER_OPEN,
    MUSTER_STOPPED,
    MUSTER_SILENT,
    MUSTER_ABSENT
};

enum muster_verdict muster_judge(const struct muster_sign *sign, const struct muster_time *time);
bool muster_is_sick(enum muster_verdict verdict);
/* Whether the ranks that are here may go on without the sick ranks, of which there is one at least. The
 * calling rank is HERE. */
bool muster_may_close(const enum muster_verdict *verdicts, int size);

/* -------------------------------------------------------------------------------------- votes */

/* A rank's opinion of the ranks that are missing from a set (membership/rank_set.h). */
enum muster_opinion {
    MUSTER_UNSURE,
    MUSTER_ALL_LOST, /* they are dead, or have left: no vote is needed to go on without them */
    MUSTER_ALL_SICK  /* or lost; one is sick at least */
};
enum muster_opinion muster_opinion(const enum muster_verdict *verdicts, const uint64_t *set,
                                   int size);
/* The opinion of a rank as a word of an agreement, which ands all words. A rank that is not in the set has no
 * vote. */
uint64_t muster_word(const uint64_t *set, int rank, enum muster_opinion opinion);
/* The opinion that counts: ALL_LOST if all ranks have it, ALL_SICK if more than half of the voters have it. */
enum muster_opinion muster_outcome(const uint64_t *set, int size, uint64_t word);

#endif
