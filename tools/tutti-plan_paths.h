/* tutti-plan_paths.h - which ways messages take: what binding writes down for each step of a plan. */
#ifndef TUTTI_TOOLS_PLAN_PATHS_H
#define TUTTI_TOOLS_PLAN_PATHS_H

#include "tutti-plan_options.h"

/* Prints the ways of each step of an algorithm's plan, or, of all collectives, a table of those that are taken by the algorithms that are
 * chosen. Faults go to stderr. */
enum exit_code print_paths(const struct options *options);

#endif
