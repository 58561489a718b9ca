/* explain.h - `tutti-plan explain`: what each algorithm would cost, where its time would
 * go, and which one is chosen. */
#ifndef TUTTI_TOOLS_PLAN_EXPLAIN_H
#define TUTTI_TOOLS_PLAN_EXPLAIN_H

#include "options.h"

enum exit_code explain(const struct options *options);

#endif
