/* placement.h - which results may be stored straight in the memory of the ranks that they are sent
 * to.
 *
 * By its letter a plan moves messages: a step computes its result and sends it, and the step that
 * receives it stores it. If memory is shared, the engine saves that copy:
 *
 *     rank R                                                     rank P
 *     advertises, from the very beginning of the operation,
 *     where it wants the first message of a link
 *     sends its operand                        --- message --->  reduces it with others, position by position, and
 *     memory of R  <-------------------------------------------  *places* the result where R advertised
 *     receives, and finds the result there     <-- message ----  says so
 *
 * So R's memory changes before R's receiving step begins, at a time that P decides.
 * placement_of_step says which steps may do that. It looks at the plan of one rank, because that is
 * all that binding sees (engine/bind.c):
 *
 *  1. A step advertises if it does nothing but store the first message of a link in the output,
 *     waits for no other step (`after`), and no other step of its rank touches that memory before
 *     it. Later steps of its lane may. There is one exception: a step may send exactly that memory,
 *     to the rank from which the message comes, and to no other.
 *  2. A step places if it reduces, and has a message from each rank that it sends to among its
 *     sources.
 *
 * That is safe only if P has read the exception's memory before it stores its result there: the
 * message that P reduces has to be the one that R sent from there. Neither rank can see that in its
 * own plan. plan_verify sees all plans. It uses this same function, lets every placing step store
 * in the memory of every receiver that may advertise, and demands that these stores race with
 * nothing (see verify.h). So binding does nothing that was not proven of a proven plan, and a plan
 * with which it would be wrong is refused.
 *
 * Binding may do less: a message may be too small to be worth it, go over a multicast link, or lie
 * in several pieces. That only removes stores, so the proof covers it. It places only where all
 * receivers have advertised; the proof does without that, because ranks may differ in being in
 * place.
 */
#ifndef TUTTI_PLAN_PLACEMENT_H
#define TUTTI_PLAN_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"

enum placement {
    PLACEMENT_NONE,
    PLACEMENT_ADVERTISES, /* its destination, from the beginning of the operation on */
    PLACEMENT_PLACES      /* its result, where its receivers advertise */
};

/* Decides for a step of a well-formed plan. Pure; takes the steps times the sources of the rank in
 * the worst case. */
enum placement placement_of_step(const struct rank_plan *rank_plan, uint32_t step, bool in_place);

/* The type of that function: tests of the proof put weaker rules in its place. */
typedef enum placement placement_rule(const struct rank_plan *rank_plan, uint32_t step,
                                      bool in_place);

#endif
