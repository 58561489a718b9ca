/* text.h - a plan as text that people read and plan_parse reads back.
 *
 *     plan allreduce ranks 3 parts 3
 *     rank 0
 *       lane 0
 *         0: in[0] -> to 1                          # send
 *         1: from 2 + in[2] -> to 1                 # recv_reduce_send
 *         2: from 2 + in[1] -> out[1], to 1  final  # recv_reduce_send
 *         3: from 2 -> out[0], to 1                 # recv_send
 *         4: from 2 -> out[2]                       # recv
 *     rank 1
 *       ...
 *
 * One line says one thing, indentation and what follows a # say nothing:
 *
 *     plan COLLECTIVE ranks N [root R] parts P      first line; root where the collective has one
 *     rank R                                        every rank, ascending
 *     group G: 0 2 4..7                             the rank's groups, numbered from 0
 *     scratch like 5 8..10                          one more scratch chunk for each class; may be repeated
 *     lane L                                        numbered from 0; its steps follow, numbered from 0
 *     [S:] SOURCE + SOURCE ... -> SINK, SINK ... [final] [chunks N] [after LANE.STEP ...]
 *
 *     SOURCE   in[4]  out[0..2]  scratch[1]         chunks 4, 0 to 2, 1; in barriers in[] and out[]
 *              from 3 [group G] [channel C]         the next message of rank 3
 *     SINK     out[4]  scratch[0..2]                at most one
 *              to 3 [channel C]                     sent on to rank 3
 *              to group G [channel C]               ... or to all others of a group at once
 *
 * A step acts on as many chunks as its ranges name; `chunks` is for steps without any and is 1 when
 * not said.
 */
#ifndef TUTTI_PLAN_TEXT_H
#define TUTTI_PLAN_TEXT_H

#include <stdio.h>

#include "plan/budget.h"
#include "plan/plan.h"
#include "tutti/tutti.h"

/* Writes the whole plan. */
void plan_print(const struct plan *plan, FILE *file);
/* Writes one step as it stands in a line, without its number: "from 2 + in[1] -> out[1], to 1  final". Returns how many columns that takes. */
int plan_print_step(const struct rank_plan *plan, const struct plan_step *step, FILE *file);
/* Reads what plan_print wrote, or what a person wrote in that form. The text is foreign: every
 * number is checked, and work and memory are charged to the budget (budget.h; stays the caller's).
 * On failure *plan is NULL, and message (message_bytes long) says line and cause: INVALID_ALGORITHM
 * (a mistake, or more work or memory than the budget has), TIMEOUT (the budget's deadline),
 * NO_MEMORY. Any thread; pure. */
enum tutti_status plan_parse_within(const char *text, size_t text_bytes, struct plan_budget *budget,
                                    struct plan **plan, char *message, size_t message_bytes);
/* The same within the default budget, and as much more memory as a long text of short lines may
 * need. */
enum tutti_status plan_parse(const char *text, size_t text_bytes, struct plan **plan, char *message,
                             size_t message_bytes);

#endif
