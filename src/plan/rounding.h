/* rounding.h - plans whose links are encoded in part (kernel/format.h): which links are, and what is
 * rounded, so that all ranks end with the same bits.
 *
 *     places      0 0 0 1 1 1      a number for each rank: of its host, of its rack, or its own
 *     link 0 -> 2  as in memory     its ends are at one place
 *     link 2 -> 3  encoded          they are at different places
 *
 * A message on an encoded link arrives as decode(encode(x)), so a rank that owns what several ranks
 * end with must not keep x: its copies would differ from those of the ranks that got it over such a
 * link. For every x that encode produced, encode(decode(x)) is x: what is rounded once stays as it
 * is, however many links it goes over. So owners round:
 *
 *   - In an allreduce, the step that completes a result stores decode(encode(x)), and sends that on
 *     every link, encoded or not.
 *   - In a reduce or a reduce_scatter, one rank alone ends with a result. It keeps what it has
 *     completed; only what goes over encoded links is rounded.
 *   - Where nothing is reduced, a contribution is rounded where it leaves its input: each step that
 *     reads the input stores and sends decode(encode(x)). So each element of a result is rounded
 *     once, on whichever rank it ends, the rank that gave it included.
 *
 * In place, the block that a rank gives itself lies in its output from the start, and a plan only
 * copies it onto itself, in no order with the steps that send it. There the plan gets a first step
 * that all others come after (rounding_of_own_block): it rounds this block in memory. What is read
 * from it later is rounded already.
 *
 * Parts of a sum that are not complete are not rounded where they are stored; each encoded link
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

/* Whether a step of a plan with encoded links stores and sends decode(encode(result)). in_place: of
 * this rank, whose plan has then been through rounding_of_own_block. */
bool rounding_of_step(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                      bool in_place);

/* The type of that function: tests put wrong rules in its place, which must be found. */
typedef bool rounding_rule(const struct rank_plan *rank_plan, uint32_t step, const int *places,
                           bool in_place);

/* Gives the plan of a rank in place, which is to run with encoded links, its first step; nothing
 * where the rank gives itself no block. False: out of memory, and the plan is as it was. */
bool rounding_of_own_block(struct rank_plan *rank_plan);

/* Whether every message holds whole units of an encoding whatever the counts: no step goes on with
 * another chunk after the last chunk of a block, which may end within a unit. */
bool rounding_keeps_units(const struct rank_plan *rank_plan);

#endif
