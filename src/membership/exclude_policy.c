#include "tutti/exclude.h"

#include <stdbool.h>

#include "base/sized.h"
#include "base/status.h"

/* The defaults rest on this: the windows are so long that a step of training, a checkpoint or a
 * garbage collection does not fill one, and a minute of lateness has cost what a restart costs. */
static const uint64_t WINDOW_NS = 10000000000u, STALLED_NS = 60000000000u, CORRUPT_COUNT = 16;
static const double LATE_SHARE_MAX = 0.25, LATE_SHARE_MIN = 0.1;
enum { LATE_WINDOWS = 6 };

/* A window of one rank that is over. */
struct window {
    double late_share;
    uint64_t corrupt_count;
    bool is_stalled; /* at its end */
};

static struct tutti_exclude_policy complete(const struct tutti_exclude_policy *user)
{
    struct tutti_exclude_policy own = TUTTI_EXCLUDE_POLICY_INIT;
    if (user != NULL && SIZED_READ("policy", tutti_exclude_policy, user, &own) != TUTTI_OK)
        own = (struct tutti_exclude_policy)TUTTI_EXCLUDE_POLICY_INIT;
    if (own.window_ns == 0) own.window_ns = WINDOW_NS;
    if (own.stalled_ns == 0) own.stalled_ns = STALLED_NS;
    if (own.corrupt_count_max == 0) own.corrupt_count_max = CORRUPT_COUNT;
    if (own.late_windows <= 0) own.late_windows = LATE_WINDOWS;
    if (!(own.late_share_max > 0)) own.late_share_max = LATE_SHARE_MAX;
    if (!(own.late_share_min > 0)) own.late_share_min = LATE_SHARE_MIN;
    if (own.late_share_min > own.late_share_max)
        own.late_share_min =
            own.late_share_max < LATE_SHARE_MIN ? own.late_share_max : LATE_SHARE_MIN;
    return own;
}

static uint64_t more(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static void begin_window(struct tutti_exclude_history *history, const struct tutti_signs *signs)
{
    history->window_begin_ns = signs->now_ns;
    history->held_ns = signs->held_ns;
    history->corrupt_count = signs->corrupt_count;
}

/* Causes that have to be seen only once. */
static enum tutti_cause judge_at_once(const struct tutti_exclude_policy *policy,
                                      struct tutti_exclude_history *history,
                                      const struct tutti_signs *signs)
{
    if (!signs->is_stalled) history->stalled_since_ns = 0;
    if (signs->is_stalled && history->stalled_since_ns == 0)
        history->stalled_since_ns = signs->now_ns;
    if (signs->has_failed_device) return TUTTI_CAUSE_DEVICE;
    if (more(signs->corrupt_count, history->corrupt_count) >= policy->corrupt_count_max)
        return TUTTI_CAUSE_CORRUPT;
    if (signs->is_stalled && more(signs->now_ns, history->stalled_since_ns) >= policy->stalled_ns)
        return TUTTI_CAUSE_STALLED;
    return TUTTI_CAUSE_NONE;
}

/* A window that is neither late nor healthy leaves the count as it is. */
static enum tutti_cause judge_lateness(const struct tutti_exclude_policy *policy,
                                       struct tutti_exclude_history *history,
                                       const struct window *window)
{
    if (window->late_share < policy->late_share_min) history->late_windows = 0;
    if (window->late_share >= policy->late_share_max && history->late_windows < policy->late_windows)
        history->late_windows++;
    return history->late_windows >= policy->late_windows ? TUTTI_CAUSE_LATE : TUTTI_CAUSE_NONE;
}

static bool is_healthy(const struct tutti_exclude_policy *policy, const struct window *window)
{
    return window->late_share < policy->late_share_min && window->corrupt_count == 0 &&
           !window->is_stalled;
}

static void end_window(const struct tutti_exclude_policy *policy,
                       struct tutti_exclude_history *history, const struct tutti_signs *signs)
{
    const struct window window = {.late_share = (double)more(signs->held_ns, history->held_ns) /
                                                (double)(signs->now_ns - history->window_begin_ns),
                                  .corrupt_count =
                                      more(signs->corrupt_count, history->corrupt_count),
                                  .is_stalled = signs->is_stalled != 0};
    const enum tutti_cause late = judge_lateness(policy, history, &window);
    if (history->verdict == TUTTI_CAUSE_NONE)
        history->verdict = (int)late;
    else if (history->verdict != TUTTI_CAUSE_DEVICE && is_healthy(policy, &window))
        history->verdict = TUTTI_CAUSE_NONE;
    begin_window(history, signs);
}

/* enum tutti_cause has the causes in this order, the gravest last. */
static bool is_graver(enum tutti_cause cause, int than)
{
    return (int)cause > than;
}

enum tutti_cause tutti_exclude_judge(const struct tutti_exclude_policy *policy,
                                     struct tutti_exclude_history *history,
                                     const struct tutti_signs *signs)
{
    const struct tutti_exclude_policy own = complete(policy);
    if (history->window_begin_ns == 0) begin_window(history, signs);
    if (signs->now_ns >= history->window_begin_ns) {
        const enum tutti_cause now = judge_at_once(&own, history, signs);
        if (signs->now_ns - history->window_begin_ns >= own.window_ns)
            end_window(&own, history, signs);
        if (is_graver(now, history->verdict)) history->verdict = (int)now;
    }
    return (enum tutti_cause)history->verdict;
}
