/* adapt.h - training that adapts itself: policies see how a job runs, and may change the batch
 * size, the learning rate, the encoding and the synchrony, at a call on which all ranks agree.
 *
 *     each rank:  step time, gradient norms, staleness, link ─┐
 *     each rank:  ...                                        ─┼─► the same view on all ranks
 *                                                             │        │ policies: pure functions
 *     program  ◄── settings, and the reason of each change ◄──┴────────┘
 *
 * The idea is KungFu's (Mai et al., OSDI 2020): monitoring and decisions are part of the program,
 * and a decision takes effect between two steps, on all ranks at once.
 *
 *     struct tutti_batch_by_noise noise = TUTTI_BATCH_BY_NOISE_INIT;
 *     struct tutti_bounded_when_slow slow = TUTTI_BOUNDED_WHEN_SLOW_INIT;
 *     const struct tutti_adapt_policy policies[] = {
 *         {"batch by noise", tutti_batch_by_noise_decide, &noise},
 *         {"bounded when slow", tutti_bounded_when_slow_decide, &slow}};
 *     struct tutti_adapt_settings settings = TUTTI_ADAPT_SETTINGS_INIT;
 *     settings.batch = 64, settings.rate = 0.1;
 *     tutti_adapt_create(policies, 2, &settings, NULL, comm, &adapt);
 *     for (each step) {
 *         train;
 *         if (step % 20 == 19) {
 *             tutti_adapt_observe(adapt, &sample, &decision);
 *             if (decision.changed) apply(tutti_adapt_current(adapt));
 *         }
 *     }
 *
 * The program applies settings: Tutti does not know its optimizer and its samples. tutti_local_change
 * (tutti/train/local.h) applies a synchrony.
 *
 * A policy decides from the view, and from its own memory, which only views have changed, and from
 * nothing else: no clock, no random number, no file. So all ranks decide alike. Ranks compare what
 * they decided, and a policy that breaks the rule ends in MISMATCH.
 *
 * Calls are on a communicator of their own, so they need no order with other calls. For one thread
 * at a time. docs/how-to/adapt.md tells how to write a policy.
 */
#ifndef TUTTI_TRAIN_ADAPT_H
#define TUTTI_TRAIN_ADAPT_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------- gradient noise scale */

/* An estimate of the gradient noise scale (McCandlish, Kaplan, Amodei et al., arXiv 1812.06162):
 * the batch size, in samples, up to which a larger batch makes steps better in proportion. From the
 * squared norms of the mean gradients of a small batch b and of a large batch B,
 *
 *     |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)          the true gradient's
 *     S     = (|g_b|^2 - |g_B|^2) / (1/b - 1/B)          the trace of the covariance of a sample's
 *
 * and the noise scale is S / |G|^2. Both are smoothed before they are divided, since a single
 * quotient is biased. Fields are read with tutti_noise_scale; a checkpoint may have them all. */
struct tutti_noise {
    size_t size_bytes;     /* sizeof(struct tutti_noise); TUTTI_NOISE_INIT sets it */
    double smoothing;      /* share of the past that a new estimate keeps; from 0 to below 1 */
    double squared, trace; /* smoothed |G|^2 and S, times a common factor */
    uint64_t count;        /* of estimates */
};
#define TUTTI_NOISE_INIT                                       \
    {                                                          \
        sizeof(struct tutti_noise), 0.9, 0.0, 0.0, (uint64_t)0 \
    }

/* Adds an estimate to *noise, from two batches: the small one of small_batch samples, whose mean
 * gradient has the squared norm small_squared, and the large one. Local; does not block.
 * INVALID_OPTIONS: batches are not 0 < small < large, a norm is negative or not finite, or
 * noise->smoothing is not from 0 to below 1; *noise is as it was. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_noise_add(struct tutti_noise *noise,
                                                           double small_batch, double small_squared,
                                                           double large_batch, double large_squared);
/* The noise scale in samples. 0: there is no estimate, or no noise; INFINITY: the gradient cannot be
 * told from noise. Local; does not block. */
TUTTI_API double tutti_noise_scale(const struct tutti_noise *noise);

/* ----------------------------------------------------------------------------- views and settings */

/* How ranks keep their parameters together. */
enum tutti_synchrony {
    TUTTI_SYNCHRONY_FULL,   /* every step averages gradients */
    TUTTI_SYNCHRONY_LOCAL,  /* ranks synchronise every `every` steps */
    TUTTI_SYNCHRONY_BOUNDED /* no rank is more than `staleness` steps ahead of the slowest */
};

/* The settings that policies may change. */
struct tutti_adapt_settings {
    size_t size_bytes; /* sizeof(struct tutti_adapt_settings); TUTTI_ADAPT_SETTINGS_INIT sets it */
    uint64_t batch;    /* samples of a step, of all ranks together; 1 or more */
    double rate;       /* learning rate; above 0 */
    enum tutti_synchrony synchrony;
    int every;         /* with LOCAL: 1 or more */
    int staleness;     /* with BOUNDED: 0 or more */
    int reserved;      /* 0 */
    char encoding[64]; /* as struct tutti_call_options has it; "": none */
};
#define TUTTI_ADAPT_SETTINGS_INIT                                                                 \
    {                                                                                             \
        sizeof(struct tutti_adapt_settings), (uint64_t)1, 1e-3, TUTTI_SYNCHRONY_FULL, 1, 0, 0, "" \
    }

/* The observations of this rank since its last call. A number that is not known is 0. */
struct tutti_adapt_sample {
    size_t size_bytes;  /* sizeof(struct tutti_adapt_sample); TUTTI_ADAPT_SAMPLE_INIT sets it */
    double step_s;      /* seconds that this rank computed for a step, without waiting for others */
    double staleness;   /* steps by which its parameters were behind */
    double small_batch; /* samples in this rank's own gradient */
    double small_squared; /* its squared norm */
    double large_batch;   /* samples in the average of all ranks' gradients */
    double large_squared; /* its squared norm */
};
#define TUTTI_ADAPT_SAMPLE_INIT                                         \
    {                                                                   \
        sizeof(struct tutti_adapt_sample), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 \
    }

/* A rank, as all ranks see it. */
struct tutti_adapt_rank {
    double step_s, staleness; /* as the rank gave them */
    /* Seconds that options.probe_bytes took from the rank before it (the last rank for rank 0), at
     * the call before. 0: not known. */
    double link_s;
};

/* All that a policy may look at. The same on all ranks. */
struct tutti_adapt_view {
    size_t size_bytes;                    /* sizeof(struct tutti_adapt_view); Tutti sets it */
    uint64_t call;                        /* the number of this call, from 1 */
    const struct tutti_adapt_rank *ranks; /* rank_count of them */
    int rank_count;
    int reserved;
    double noise_scale;   /* as tutti_noise_scale has it, from the means of all ranks' norms */
    uint64_t noise_count; /* estimates behind it */
    const struct tutti_adapt_settings *settings; /* as they are, with the changes of the policies
                                                    before this one */
};

/* A policy: may change *wanted, which begins as *view->settings, and then writes into `reason`, of
 * reason_bytes bytes, why: a text without line ends. Not collective; must not call Tutti. */
typedef void tutti_adapt_decide(const struct tutti_adapt_view *view,
                                struct tutti_adapt_settings *wanted, char *reason,
                                size_t reason_bytes, void *context);
struct tutti_adapt_policy {
    const char *name; /* for messages */
    tutti_adapt_decide *decide;
    void *context; /* passed to it: its options and memory; stays the caller's */
};

/* -------------------------------------------------------------------------------------- decisions */

struct tutti_adapt; /* opaque */

struct tutti_adapt_options {
    size_t size_bytes;  /* sizeof(struct tutti_adapt_options); TUTTI_ADAPT_OPTIONS_INIT sets it */
    size_t probe_bytes; /* of the message that measures each link; 0: links are not measured */
    double noise_smoothing; /* as in struct tutti_noise */
};
#define TUTTI_ADAPT_OPTIONS_INIT                           \
    {                                                      \
        sizeof(struct tutti_adapt_options), (size_t)0, 0.9 \
    }

/* Makes the observer of a job, with up to TUTTI_ADAPT_POLICIES policies, which decide in their
 * order, and the first settings. All ranks give the same policies by name, the same settings and
 * options. Tutti copies all but contexts; comm must outlive the result. options may be NULL.
 * Collective; blocks until the communicator's deadline. On failure *created is NULL:
 * INVALID_OPTIONS, NO_MEMORY, MISMATCH (ranks gave different settings, or another rank failed), or
 * a status of tutti_comm_dup. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_adapt_create(const struct tutti_adapt_policy *policies, size_t count,
                   const struct tutti_adapt_settings *settings,
                   const struct tutti_adapt_options *options, struct tutti_comm *comm,
                   struct tutti_adapt **created);
#define TUTTI_ADAPT_POLICIES 16
/* Frees `adapt` and its communicator; blocks like tutti_comm_free. NULL is allowed. */
TUTTI_API enum tutti_status tutti_adapt_free(struct tutti_adapt *adapt);

/* A decision. The same on all ranks. */
struct tutti_adapt_decision {
    size_t size_bytes; /* set by the caller to sizeof(struct tutti_adapt_decision) */
    uint64_t call;     /* the number of the call, from 1 */
    int changed;       /* how many policies have changed settings */
    int reserved;
    char reason[512]; /* a line for each of them: its name, settings before and after, and why */
};

/* Gathers the samples of all ranks, lets the policies of `adapt` decide, and makes sure that all ranks decided
 * alike. The log (TUTTI_LOG=info) of rank 0 has each change with its reason. decision may be NULL.
 * Collective; blocks until the communicator's deadline: an allgather of eight numbers and an
 * allreduce of four. INVALID_OPTIONS: a number of this rank's sample is negative or not finite, or
 * a policy wants settings that make no sense; MISMATCH: another rank's sample is so, or a policy
 * decided otherwise on another rank. In these cases settings stay as they were, and the next call
 * may work. INVALID_REQUEST: this thread has a group open. Else the status of a collective. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_adapt_observe(struct tutti_adapt *adapt, const struct tutti_adapt_sample *sample,
                    struct tutti_adapt_decision *decision);
/* The settings as they are now. They belong to `adapt`, and change with the next decision. Local;
 * does not block. */
TUTTI_API const struct tutti_adapt_settings *tutti_adapt_current(const struct tutti_adapt *adapt);
/* The estimate of the noise scale, from all calls so far. Belongs to `adapt`. Local; does not
 * block. */
TUTTI_API const struct tutti_noise *tutti_adapt_noise(const struct tutti_adapt *adapt);

/* --------------------------------------------------------------------------------------- policies */

/* Batch by noise scale: doubles the batch when the noise scale has been at least grow times the
 * batch for `calls` calls in a row, and halves it when it has been at most shrink times the batch
 * as often. The learning rate goes with it: rate times (new batch / old batch) ^ rate_power. */
struct tutti_batch_by_noise {
    size_t size_bytes;   /* sizeof(struct tutti_batch_by_noise); its _INIT sets it */
    uint64_t batch_min;  /* the batch never becomes less than this by this policy */
    uint64_t batch_max;  /* or more than this */
    double grow, shrink; /* 0 < 2 shrink < grow: so a change does not bring on the opposite change */
    double rate_power;   /* 1: linear, for SGD; 0.5: for Adam; 0: the rate stays */
    int calls;           /* 1 or more */
    int in_a_row;        /* memory; 0 at first. Above 0: calls that ask for more; below: for less */
};
#define TUTTI_BATCH_BY_NOISE_INIT                                                                 \
    {                                                                                             \
        sizeof(struct tutti_batch_by_noise), (uint64_t)1, (uint64_t)1 << 20, 2.0, 0.25, 1.0, 3, 0 \
    }
/* The policy, as a tutti_adapt_decide, which says what view, wanted and reason are. context: a struct
 * tutti_batch_by_noise. Local; does not block. */
TUTTI_API void tutti_batch_by_noise_decide(const struct tutti_adapt_view *view,
                                           struct tutti_adapt_settings *wanted, char *reason,
                                           size_t reason_bytes, void *context);

/* Bounded when slow: where the slowest rank has needed at least `slow` times as long for a step as
 * the median of the others, for `calls` calls in a row, the settings get another synchrony, and go
 * back to TUTTI_SYNCHRONY_FULL when it has been at most `fair` times as often. */
struct tutti_bounded_when_slow {
    size_t size_bytes;              /* sizeof(struct tutti_bounded_when_slow); its _INIT sets it */
    double slow, fair;              /* 1 <= fair < slow */
    enum tutti_synchrony synchrony; /* while a rank is slow */
    int every, staleness;           /* the same, as in struct tutti_adapt_settings */
    int calls;                      /* 1 or more */
    int in_a_row;                   /* memory; 0 at first */
    int reserved;                   /* 0 */
};
#define TUTTI_BOUNDED_WHEN_SLOW_INIT                                                             \
    {                                                                                            \
        sizeof(struct tutti_bounded_when_slow), 1.5, 1.2, TUTTI_SYNCHRONY_BOUNDED, 8, 4, 3, 0, 0 \
    }
/* The policy, as a tutti_adapt_decide, which says what view, wanted and reason are. context: a struct
 * tutti_bounded_when_slow. Local; does not block. */
TUTTI_API void tutti_bounded_when_slow_decide(const struct tutti_adapt_view *view,
                                              struct tutti_adapt_settings *wanted, char *reason,
                                              size_t reason_bytes, void *context);

#ifdef __cplusplus
}
#endif

#endif
