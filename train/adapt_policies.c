/* adapt_policies.c - the two policies that come with the library. Both wait for several calls in a
 * row, and come back only behind a second limit, so that noise in what they see changes nothing. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "tutti/train/adapt.h"

/* One more call that asks for more (1), for less (-1), or for nothing (0). */
static void count_in_a_row(int *in_a_row, int asks)
{
    if (asks == 0 || (asks > 0) != (*in_a_row > 0)) *in_a_row = 0;
    *in_a_row += asks;
}

/* ---------------------------------------------------------------------------------- batch by noise */

void tutti_batch_by_noise_decide(const struct tutti_adapt_view *view,
                                 struct tutti_adapt_settings *wanted, char *reason,
                                 size_t reason_bytes, void *context)
{
    struct tutti_batch_by_noise *const own = context;
    const uint64_t batch = wanted->batch;
    const double ratio = view->noise_scale / (double)batch;
    const bool may_grow = batch <= own->batch_max / 2, may_shrink = batch / 2 >= own->batch_min;
    const bool is_known = view->noise_count > 0 && view->noise_scale > 0;
    const int asks = !is_known                            ? 0
                     : ratio >= own->grow && may_grow     ? 1
                     : ratio <= own->shrink && may_shrink ? -1
                                                          : 0;
    count_in_a_row(&own->in_a_row, asks);
    if (asks == 0 || (asks > 0 ? own->in_a_row : -own->in_a_row) < own->calls) return;
    snprintf(reason, reason_bytes,
             "the noise scale has been %s %.3g times the batch for %d calls, and is %.4g samples",
             asks > 0 ? "at least" : "at most", asks > 0 ? own->grow : own->shrink, own->calls,
             view->noise_scale);
    own->in_a_row = 0;
    wanted->batch = asks > 0 ? batch * 2 : batch / 2;
    wanted->rate *= pow((double)wanted->batch / (double)batch, own->rate_power);
}

/* ------------------------------------------------------------------------------- bounded when slow */

static int find_slowest(const struct tutti_adapt_view *view)
{
    int slowest = 0;
    for (int r = 0; r < view->rank_count; r++) {
        if (!(view->ranks[r].step_s > 0)) return -1; /* not known */
        if (view->ranks[r].step_s > view->ranks[slowest].step_s) slowest = r;
    }
    return slowest;
}

/* The lower median of the other ranks: that with so many below it. */
static double median_of_others(const struct tutti_adapt_view *view, int slowest)
{
    const int middle = (view->rank_count - 2) / 2;
    for (int r = 0; r < view->rank_count; r++) {
        const double own = view->ranks[r].step_s;
        int below = 0, same = 0;
        if (r == slowest) continue;
        for (int s = 0; s < view->rank_count; s++) {
            if (s == slowest) continue;
            below += view->ranks[s].step_s < own;
            same += view->ranks[s].step_s == own;
        }
        if (below <= middle && middle < below + same) return own;
    }
    return 0;
}

void tutti_bounded_when_slow_decide(const struct tutti_adapt_view *view,
                                    struct tutti_adapt_settings *wanted, char *reason,
                                    size_t reason_bytes, void *context)
{
    struct tutti_bounded_when_slow *const own = context;
    const int slowest = view->rank_count > 1 ? find_slowest(view) : -1;
    const double median = slowest >= 0 ? median_of_others(view, slowest) : 0;
    if (!(median > 0)) {
        own->in_a_row = 0;
        return;
    }
    const double ratio = view->ranks[slowest].step_s / median;
    const bool is_full = wanted->synchrony == TUTTI_SYNCHRONY_FULL;
    const int asks = is_full ? ratio >= own->slow : -(ratio <= own->fair);
    count_in_a_row(&own->in_a_row, asks);
    if (asks == 0 || (asks > 0 ? own->in_a_row : -own->in_a_row) < own->calls) return;
    snprintf(
        reason, reason_bytes,
        "rank %d needs %.3g s for a step, the median of the others is %.3g s: %s %.3g times as "
        "long for %d calls",
        slowest, view->ranks[slowest].step_s, median, asks > 0 ? "at least" : "at most",
        asks > 0 ? own->slow : own->fair, own->calls);
    own->in_a_row = 0;
    wanted->synchrony = asks > 0 ? own->synchrony : TUTTI_SYNCHRONY_FULL;
    if (asks <= 0) return;
    wanted->every = own->every;
    wanted->staleness = own->staleness;
}
