/* verify.h - proves many plans on all processors. */
#ifndef TUTTI_TOOLS_PLAN_VERIFY_H
#define TUTTI_TOOLS_PLAN_VERIFY_H

#include "options.h"
#include "plan/plan.h"

/* Proves one plan; with encoded links, in place, it gets the step that the engine gives it then. Says
 * so on stdout, or says on stderr what is wrong. */
enum exit_code verify_plan(struct plan *plan, bool in_place, const struct options *options);
/* Proves the plans of the algorithm that the options name, or of all algorithms: for each rank
 * count and each root, with separate buffers and in place. Also proves what the list of algorithms
 * promises. With an encoding and no algorithm, those that run on such links. Prints a summary on
 * stdout, and errors on stderr. */
enum exit_code verify_algorithms(const struct options *options);

#endif
