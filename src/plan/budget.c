#include "plan/budget.h"

#include <inttypes.h>
#include <stdio.h>

#include "os/clock.h"

/* A few milliseconds. */
enum { LOOKS_BETWEEN_CLOCKS = 1 << 17 };

struct plan_budget plan_budget_default(void)
{
    return (struct plan_budget){
        .work_max = UINT64_C(1) << 30, .bytes_max = UINT64_C(512) << 20, .deadline_ns = UINT64_MAX};
}

struct plan_budget plan_budget_to_read(const struct plan_budget *limits)
{
    struct plan_budget budget = *limits;
    budget.work_max /= 16;
    return budget;
}

bool plan_budget_check(struct plan_budget *budget)
{
    if (budget->end == PLAN_BUDGET_LASTS) {
        if (budget->work > budget->work_max)
            budget->end = PLAN_BUDGET_WORK;
        else if (budget->bytes > budget->bytes_max)
            budget->end = PLAN_BUDGET_BYTES;
        else if (budget->is_stopped != NULL && budget->is_stopped(budget->context))
            budget->end = PLAN_BUDGET_STOPPED;
        else if (budget->deadline_ns != UINT64_MAX && clock_now_ns() >= budget->deadline_ns)
            budget->end = PLAN_BUDGET_DEADLINE;
    }
    if (budget->end != PLAN_BUDGET_LASTS) {
        budget->look_at = 0; /* from now on every charge comes here */
        return false;
    }
    const uint64_t left = budget->work_max - budget->work;
    budget->look_at = budget->work + (left < LOOKS_BETWEEN_CLOCKS ? left + 1 : LOOKS_BETWEEN_CLOCKS);
    return true;
}

bool plan_budget_hold(struct plan_budget *budget, uint64_t bytes)
{
    if (budget == NULL) return true;
    if (budget->end != PLAN_BUDGET_LASTS) return false;
    budget->bytes += bytes;
    return budget->bytes <= budget->bytes_max || plan_budget_check(budget);
}

void plan_budget_release(struct plan_budget *budget, uint64_t bytes)
{
    if (budget != NULL && budget->end == PLAN_BUDGET_LASTS) budget->bytes -= bytes;
}

enum tutti_status plan_budget_explain(const struct plan_budget *budget, char *why, size_t why_bytes)
{
    const uint64_t mib = UINT64_C(1) << 20;
    switch (budget->end) {
    case PLAN_BUDGET_LASTS: break;
    case PLAN_BUDGET_WORK:
        snprintf(why, why_bytes,
                 "it takes at least %" PRIu64 " looks at chunks, and %" PRIu64 " are allowed",
                 budget->work, budget->work_max);
        return TUTTI_INVALID_ALGORITHM;
    case PLAN_BUDGET_BYTES:
        snprintf(why, why_bytes,
                 "it takes at least %" PRIu64 " MiB of memory, and %" PRIu64 " are allowed",
                 (budget->bytes + mib - 1) / mib, budget->bytes_max / mib);
        return TUTTI_INVALID_ALGORITHM;
    case PLAN_BUDGET_DEADLINE:
        snprintf(why, why_bytes, "the deadline passed after %" PRIu64 " looks at chunks",
                 budget->work);
        return TUTTI_TIMEOUT;
    case PLAN_BUDGET_STOPPED:
        snprintf(why, why_bytes, "it was stopped, as the communicator has failed");
        return TUTTI_ABORTED;
    }
    snprintf(why, why_bytes, "it is within its budget");
    return TUTTI_OK;
}
