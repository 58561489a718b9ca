/* rounding.h - plans whose links are encoded in part (kernel/format.h): which links are, and which
 * results are rounded, so that all ranks end with the same bits.
 *
 *     places      0 0 0 1 1 1      a number for each rank: of its host, of its rack, or its own
 *     link 0 -> 2  as in memory     its ends are at one place
 *     link 2 -> 3  encoded          they are at different places
 *
 * A message on an encoded link arrives as decode(encode(x)), so a rank that owns a result must not
 * keep x: its copies would differ from those of the ranks that got the result over such a link. So
 * the step that completes a result stores decode(encode(x)), and sends that on every link, encoded
 * or not. For every x that encode produced, encode(decode(x)) is x: what is rounded once stays as it
 * is, however many links it goes over.
 *
 * Parts of a result that are not complete are not rounded where they are stored; each encoded link
 * that one goes over rounds it once more. In some plans several ranks complete the same result, of
 * different parts (recursive doubling does). There no rounding of results helps. plan_verify sees
 * all of that: it uses this same rule (verify.h), and refuses such plans.
 */
#ifndef TUTTI_PLAN_ROUNDING_H
#define TUTTI_PLAN_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

/* Whether a link is encoded. places: of each rank; NULL: no link is. */
static inline bool rounding_on_link(const int *places, int from, int to)
{
    return places != NULL && places[from] != places[to];
}

/* Whether any link can be: not all ranks are at one place. */
static inline bool rounding_on_any(const int *places, int rank_count)
{
    for (int rank = 1; places != NULL && rank < rank_count; rank++)
        if (places[rank] != places[0]) return true;
    return false;
}

/* Whether a step of a plan with encoded links stores and sends decode(encode(result)). */
static inline bool rounding_of_step(const struct rank_plan *rank_plan, uint32_t step,
                                    const int *places)
{
    (void)places;
    return rank_plan->steps[step].final;
}

/* The type of that function: tests put wrong rules in its place, which must be found. */
typedef bool rounding_rule(const struct rank_plan *rank_plan, uint32_t step, const int *places);

#endif
