/* algo_fingerprint.h - the fingerprint of an algorithm's plan: ranks must agree on all of the plan
 * to run it together.
 *
 * The name of an algorithm does not say which plan it makes: another version of the library may
 * have another plan under that name. Then ranks would exchange wrong data. The fingerprint of the
 * whole plan (plan/fingerprint.h) tells such plans apart.
 *
 * A rank has only its own steps, and to make those of all ranks costs as many times more as there
 * are ranks. So their number decides what is looked at:
 *
 *   up to ALGO_FINGERPRINT_RANKS   the whole plan is made and looked at
 *   above                          the same of small plans of that algorithm, for 2, 3, 4, 5 and 8 ranks, with roots, with
 *                                  and without an order of ranks, or on hosts and racks of several
 *                                  sizes. A generator that writes other steps shows in these,
 *                                  unless it does so for large plans alone.
 *
 * In both cases the fingerprint also covers all parameters, so that ranks that disagree about one
 * are told so even if it makes no difference to the plan. Only in_place is left out: it is each
 * rank's own matter, and the plan is taken with separate buffers.
 */
#ifndef TUTTI_ALGO_ALGO_FINGERPRINT_H
#define TUTTI_ALGO_ALGO_FINGERPRINT_H

#include <stdint.h>

#include "algo/algo.h"

enum { ALGO_FINGERPRINT_RANKS = 16 };

/* Parameters with which algo_rank_plan succeeds. NO_MEMORY, and whatever a generator says; *message
 * tells what went wrong. Costs as much as the plans of all ranks, so a caller that asks often keeps
 * the answer. Any thread. */
enum tutti_status algo_fingerprint(const struct algorithm *algorithm,
                                   const struct algo_params *params, uint64_t *fingerprint,
                                   const char **message);

#endif
