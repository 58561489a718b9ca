#include "plan/fault.h"

#include <stdarg.h>
#include <stdio.h>

void fault_none(struct verify_report *report)
{
    report->rank = report->lane = report->step = -1;
    report->other_rank = report->other_lane = report->other_step = -1;
    report->message[0] = '\0';
}

static int write_place(struct verify_report *report, const struct rank_plan *rank_plan,
                       uint32_t index)
{
    char *text = report->message;
    if (rank_plan == NULL) return snprintf(text, sizeof report->message, "plan: ");
    report->rank = rank_plan->rank;
    if (index == FAULT_NO_STEP)
        return snprintf(text, sizeof report->message, "rank %d: ", report->rank);
    const struct plan_step *step = &rank_plan->steps[index];
    report->lane = (int)step->lane;
    report->step = (int)(index - rank_plan->lanes[step->lane].first_step);
    return snprintf(text, sizeof report->message, "rank %d lane %d step %d (%s): ", report->rank,
                    report->lane, report->step, plan_step_kind(rank_plan, step));
}

bool fault_at(struct verify_report *report, const struct rank_plan *rank_plan, uint32_t step,
              const char *format, ...)
{
    fault_none(report);
    const int used = write_place(report, rank_plan, step);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->message + used, sizeof report->message - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}
