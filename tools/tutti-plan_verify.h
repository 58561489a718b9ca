/* tutti-plan_verify.h - proves many plans on all processors. */
#ifndef TUTTI_TOOLS_PLAN_VERIFY_H
#define TUTTI_TOOLS_PLAN_VERIFY_H

#include "plan/plan.h"
#include "tutti-plan_options.h"

/* Proves one plan, says so on stdout or what is wrong on stderr. */
enum exit_code verify_plan(const struct plan *plan, bool in_place);
/* Proves the plans of the algorithm, or of all of them, that the options name: each rank count, each root,
 * separate buffers and in place, and with them what the list promises. One summary line on stdout, what is
 * wrong on stderr. */
enum exit_code verify_algorithms(const struct options *options);

#endif
