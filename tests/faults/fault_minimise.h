/* fault_minimise.h - the smallest schedule that still fails. */
#ifndef TUTTI_TESTS_FAULTS_FAULT_MINIMISE_H
#define TUTTI_TESTS_FAULTS_FAULT_MINIMISE_H

#include <stdbool.h>

#include "tests/faults/fault_schedule.h"

/* Whether a schedule fails; runs it as often as it takes to believe that. */
typedef bool fault_fails(const struct fault_schedule *schedule, void *context);

/* Drops faults, then operations, then ranks, then makes what is left simpler and smaller, as long
 * as it still fails. The schedule fails, and is valid; so it is afterwards. */
void fault_minimise(struct fault_schedule *schedule, fault_fails *fails, void *context);

#endif
