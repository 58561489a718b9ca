/* fingerprint.h - a number that tells plans apart.
 *
 * Ranks that run different plans exchange wrong data, or wait for each other. The messages of a
 * call carry a signature (call/program.c), and the fingerprint of the plan is part of it; so ranks
 * whose plans differ find that out with the first message, wherever their plans come from.
 *
 * The fingerprint is a function of the plan's structure alone: shape, and for each rank its groups,
 * scratch classes, and steps in the order of lanes, with sources, destination, targets, channels,
 * `after` and `final`. It leaves out the fields that a step does not use (the channel of a step
 * that sends nothing, say), the layout of arrays, and the padding of structs. It is the same for
 * every compiler, word size and byte order, and for a plan that went through its text form. It is
 * no protection against people who look for two plans with one fingerprint.
 */
#ifndef TUTTI_PLAN_FINGERPRINT_H
#define TUTTI_PLAN_FINGERPRINT_H

#include <stdint.h>

#include "plan/plan.h"

/* The fingerprint of a well-formed plan. Pure. */
uint64_t plan_fingerprint(const struct plan *plan);

/* The same, one rank after the other, where not all ranks' plans are there at once: begins with the
 * shape, then takes every rank from 0 on. */
uint64_t fingerprint_begin(const struct plan_shape *shape);
uint64_t fingerprint_rank(uint64_t fingerprint, const struct rank_plan *rank_plan);

#endif
