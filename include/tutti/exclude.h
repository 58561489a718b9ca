/* exclude.h - when is a rank so sick that the others should put it out? A rank's knowledge of
 * another one, and a policy that judges it.
 *
 *     tutti_comm_signs ──► struct tutti_signs ──► tutti_exclude_judge ──► a cause, for tutti_comm_exclude
 *       what is known        now                    thresholds, history      or TUTTI_CAUSE_NONE
 *
 *     struct tutti_exclude_policy policy = TUTTI_EXCLUDE_POLICY_INIT;
 *     static struct tutti_exclude_history history[RANKS];             // all 0 at first
 *     ...                                                             // every second or so, for each rank:
 *     if (tutti_comm_signs(comm, rank, &signs) == TUTTI_OK)
 *         options.cause = tutti_exclude_judge(&policy, &history[rank], &signs);
 *     if (options.cause != TUTTI_CAUSE_NONE)
 *         tutti_comm_exclude(comm, &rank, 1, &options, &smaller);
 *
 * A policy is a function of what goes in: you can write another one. This one has hysteresis: a rank has to
 * be clearly sick for a while before it is judged so, and then clearly healthy before that is taken
 * back, so that it does not change its mind on a rank that is at a threshold.
 */
#ifndef TUTTI_EXCLUDE_H
#define TUTTI_EXCLUDE_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------- signs */

/* One rank's knowledge of another. */
struct tutti_signs {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_signs) */
    uint64_t now_ns;   /* when, of CLOCK_MONOTONIC */
    uint64_t held_ns; /* how long it has held this rank up in all; the machine's part is taken off */
    uint64_t corrupt_count; /* frames and messages from it that arrived changed, in all */
    int is_stalled;         /* 1: its process does not run, as far as is visible without asking */
    int has_failed_device;  /* 1: the communicator failed because its GPU failed */
};

/* Fills in *signs about a rank of comm, which may have failed. Any thread, also while a call is
 * blocked; does not block: if another thread has the communicator, what only that thread may look at
 * is taken as healthy. INVALID_RANK: it is none, or the calling rank. INVALID_OPTIONS:
 * signs->size_bytes is not set. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_signs(struct tutti_comm *comm, int rank,
                                                            struct tutti_signs *signs);

/* ------------------------------------------------------------------------------------- policy */

/* The thresholds. 0 means the default, which TUTTI_EXCLUDE_POLICY_INIT leaves. */
struct tutti_exclude_policy {
    size_t size_bytes;  /* sizeof(struct tutti_exclude_policy); TUTTI_EXCLUDE_POLICY_INIT sets it */
    uint64_t window_ns; /* signs are counted in windows of this length: 10 s */
    double late_share_max; /* a window is late if the rank held this one up for this share: 0.25 */
    double late_share_min; /* and healthy below this share: 0.1; at most late_share_max */
    int late_windows;      /* so many late windows, with no healthy one between, are a verdict: 6 */
    int reserved;          /* 0 */
    uint64_t stalled_ns;   /* not running for so long is a verdict: 60 s */
    uint64_t corrupt_count_max; /* so many changes in one window are a verdict: 16 */
};
#define TUTTI_EXCLUDE_POLICY_INIT                                    \
    {                                                                \
        sizeof(struct tutti_exclude_policy), 0, 0.0, 0.0, 0, 0, 0, 0 \
    }

/* The memory of a policy for one rank: the caller's, all 0 at first. Its members are the policy's. */
struct tutti_exclude_history {
    uint64_t window_begin_ns, held_ns, corrupt_count; /* at the beginning of the window */
    uint64_t stalled_since_ns;                        /* 0: it runs */
    int late_windows;
    int verdict; /* enum tutti_cause */
};

/* Judges one rank: TUTTI_CAUSE_NONE, or why it should be put out. The same signs and history always
 * give the same verdict. The first call begins the first window. Of several causes the first in this order
 * counts: DEVICE, CORRUPT, STALLED, LATE. A verdict stays until a whole window was healthy in all
 * respects; of a failed GPU it stays for good. Signs that are older than the window change
 * nothing. policy NULL: the defaults. With thresholds that make no sense (a share below 0 or
 * late_share_min above late_share_max) the defaults hold for these. Any thread, with its own history;
 * does not block. */
TUTTI_API enum tutti_cause tutti_exclude_judge(const struct tutti_exclude_policy *policy,
                                               struct tutti_exclude_history *history,
                                               const struct tutti_signs *signs);

#ifdef __cplusplus
}
#endif

#endif
