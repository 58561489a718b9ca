/* fault.h - how the verifier's parts say where a plan is wrong. */
#ifndef TUTTI_PLAN_FAULT_H
#define TUTTI_PLAN_FAULT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "plan/verify.h"

/* For faults that show at no step of the rank, or in no rank (rank_plan NULL). */
#define FAULT_NO_STEP UINT32_MAX

/* Fills place and message of the report, the step given as an index into rank_plan->steps, whose
 * sources must be within rank_plan->sources. Returns false, for the caller to return. */
__attribute__((format(printf, 4, 5))) bool fault_at(struct verify_report *report,
                                                    const struct rank_plan *rank_plan,
                                                    uint32_t step, const char *format, ...);

/* Forgets place and message. */
void fault_none(struct verify_report *report);

#endif
