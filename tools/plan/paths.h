/* paths.h - prints the paths that messages take, as binding chooses them for each step of
 * a plan. */
#ifndef TUTTI_TOOLS_PLAN_PATHS_H
#define TUTTI_TOOLS_PLAN_PATHS_H

#include "options.h"

/* Prints the paths of each step of an algorithm's plan; or, for all collectives, a table of the
 * paths that the chosen algorithms take. Faults go to stderr. */
enum exit_code print_paths(const struct options *options);

#endif
