/* form.h - whether a plan is well formed, so that it can be walked without looking at each index
 * again. */
#ifndef TUTTI_PLAN_FORM_H
#define TUTTI_PLAN_FORM_H

#include <stdbool.h>

#include "plan/plan.h"
#include "plan/verify.h"

/* True when every index, count, peer, channel, group and class of the plan is within its bounds,
 * lanes tile the steps, and every step has the parts that a step needs. Otherwise the report says
 * what is wrong. Says nothing about what the plan does. Any thread; pure. */
bool form_check(const struct plan *plan, struct verify_report *report);

/* Number of chunk classes of a shape whose collective and rank count are valid; may exceed 32
 * bits. */
uint64_t form_class_count(const struct plan_shape *shape);

#endif
