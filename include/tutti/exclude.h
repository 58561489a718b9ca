/* exclude.h - ranks that are sick without being dead: too slow, stopped, with data that arrive changed,
 * with a failed GPU. The others put such a rank out, against its will. A rank's knowledge of another
 * one and a policy say when.
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

/* ---------------------------------------------------------------------------------- exclusion */

/* Why a rank is put out; all ranks are told. */
enum tutti_cause {
    TUTTI_CAUSE_NONE = 0, /* of a verdict: the rank is healthy; of an exclusion: not said */
    TUTTI_CAUSE_LATE,     /* it comes late to call after call */
    TUTTI_CAUSE_STALLED,  /* its process does not run */
    TUTTI_CAUSE_CORRUPT,  /* what it sends arrives changed */
    TUTTI_CAUSE_DEVICE    /* its GPU has failed */
};

struct tutti_exclude_options {
    size_t size_bytes; /* sizeof(struct tutti_exclude_options); TUTTI_EXCLUDE_OPTIONS_INIT sets it */
    enum tutti_cause cause; /* of ranks that call with the same list, the first one's counts */
    int whole_host; /* 1: no process of the listed ranks' hosts may join any more; 0: not these processes */
    const char *reason; /* more about it, for messages; copied, up to about 100 characters; or NULL */
    const struct tutti_comm_options *comm_options; /* as for tutti_comm_split; or NULL */
};
#define TUTTI_EXCLUDE_OPTIONS_INIT                                            \
    {                                                                         \
        sizeof(struct tutti_exclude_options), TUTTI_CAUSE_NONE, 0, NULL, NULL \
    }

/* Makes a communicator of the ranks that are left, in their old order, without the listed ranks, even
 * if these are alive and do not call. Collective over the other ranks that are alive, with the same
 * list on each. The first call ends all operations on comm, on all ranks, with EXCLUDED:
 * tutti_comm_failure names the first listed rank, and the message the caller and the reason. A rank
 * that hears so can take part by calling tutti_comm_exclude with the same list.
 *
 * More than half of the ranks of comm must call with the same list, or half of them with rank 0; then
 * all of these get the new communicator, or none does. The listed ranks have no part in that, whatever
 * they call: messages of theirs are not heard, and the new communicator meets under a key which they
 * are not told. Of several lists, and other calls such as tutti_comm_shrink at the same time, only one
 * can have such a majority. Ranks that called otherwise get DESYNC, and are left out. If none can have
 * one, nobody is put out, and all ranks get DESYNC, also listed ranks. An excluded rank gets EXCLUDED
 * from operations, and from tutti_comm_shrink and the other calls for recovery. Its process cannot
 * tutti_comm_join a team any more: the team keeps a list of such processes (by host and pid), or with
 * whole_host of their hosts, and refuses them. All must call with the same whole_host.
 *
 * Blocks until all ranks that are alive and not listed have called, at most for the communicator's
 * timeout. ranks, options (NULL: the defaults) and what they point to stay the caller's; one thread at
 * a time. On failure *created is NULL: INVALID_RANK (a rank of the list is none, or the caller's, or
 * twice there; or too few ranks would be left), DESYNC (too many ranks called something else),
 * EXCLUDED (the others exclude the calling rank; if the message says that it "is to be" put out, it
 * did not hear within some seconds whether they have decided it, and a further call tells),
 * PROC_FAILED (the others went on without the calling rank), MINORITY, TIMEOUT, or the status that
 * kept a rank from making it. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_exclude(struct tutti_comm *comm, const int *ranks, int rank_count,
                   const struct tutti_exclude_options *options, struct tutti_comm **created);

/* ---------------------------------------------------------------------------------- muster */

/* Agrees on *word as tutti_comm_agree does, and goes on without ranks that do not come because they are sick: their
 * process is stopped, or has not answered for seconds, or it runs and makes no call. A rank that waits for
 * another rank in a call of comm, or for processes that join, is not sick. Collective over the ranks of comm, which may have failed.
 *
 * A rank gets the communicator's timeout to come; none, if a call has ended with TIMEOUT or CORRUPT before. After
 * that, a rank that runs and makes no call gets one more. The ranks that have come agree on who is missing, and
 * vote: each judges by what it knows itself.
 *
 * OK: all came. PROC_FAILED: ranks are missing that are dead or have left. TIMEOUT: others are missing, and the step
 * of which *word tells must not count. Then sick[] holds the missing ranks, and *sick_count says how many, the same
 * on all ranks: all that have come may call tutti_comm_exclude with this list and *cause. *sick_count is 0 if there
 * was no majority for it. EXCLUDED: the others found the calling rank sick, or have put it out. Further: MINORITY,
 * NO_MEMORY, INVALID_BUFFER (an argument is NULL). sick: room for as many numbers as comm has ranks. Blocks for three
 * timeouts and some seconds at most, and three times as long if missing ranks come while the others vote: then all muster
 * again. One thread at a time.
 *
 * From then on tutti_comm_shrink, tutti_comm_exclude, tutti_comm_replace and tutti_comm_grow of comm go on without ranks
 * that do not run, or do not answer, when these have had the communicator's timeout to come. Such a rank gets PROC_FAILED
 * or MINORITY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_muster(struct tutti_comm *comm, uint64_t *word,
                                                             int *sick, int *sick_count,
                                                             enum tutti_cause *cause);

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
