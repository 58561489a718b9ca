/* draw.h - tutti-plan draw: a plan as a picture, or as a page that plays it. */
#ifndef TUTTI_TOOLS_PLAN_DRAW_H
#define TUTTI_TOOLS_PLAN_DRAW_H

#include "options.h"
#include "plan/plan.h"

/* Refuses, with a word on stderr, numbers of ranks that cannot be drawn, before a plan is made for
 * them. */
enum exit_code draw_check_ranks(const struct options *options);
/* Writes the drawing to the output that the options name, or says what is wrong. */
enum exit_code draw_plan(const struct plan *plan, bool in_place, const struct options *options);

#endif
