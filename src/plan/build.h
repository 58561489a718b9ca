/* build.h - how a generator writes down one rank's steps.
 *
 *     plan_lane(b);                          // following steps run in order
 *     plan_begin(b, 1);                      // a step on one chunk:
 *         plan_receive(b, left);             //   its sources, in the order of reduction
 *         plan_read(b, PLAN_INPUT, c);
 *         plan_write(b, PLAN_OUTPUT, c);     //   where the result is stored
 *         plan_send(b, right);               //   whom it is passed on to
 *         plan_final(b);                     //   an average is scaled here
 *     uint32_t step = plan_end(b);
 *
 * Errors (out of memory, a place out of range) stick in the builder; plan_builder_finish reports
 * the first.
 */
#ifndef TUTTI_PLAN_BUILD_H
#define TUTTI_PLAN_BUILD_H

#include "plan/budget.h"
#include "plan/plan.h"
#include "tutti/tutti.h"

struct plan_builder; /* opaque */

/* NULL when out of memory. */
struct plan_builder *plan_builder_create(enum collective collective, int rank_count, int root,
                                         int rank);
void plan_builder_free(struct plan_builder *builder);
/* For steps that come from outside: charges all memory that grows faster than their number to the
 * budget, which outlives the builder. If the budget ends, that is the builder's error. */
void plan_builder_charge(struct plan_builder *builder, struct plan_budget *budget);
/* Makes the plan out of what was said so far and leaves the builder empty; *message (static text)
 * tells what was wrong otherwise. */
enum tutti_status plan_builder_finish(struct plan_builder *builder, struct rank_plan **rank_plan,
                                      const char **message);

/* The first error (static text); NULL while all is well. */
const char *plan_builder_error(const struct plan_builder *builder);
/* A generator gives up: the error (static text) sticks like any other. */
void plan_fail(struct plan_builder *builder, enum tutti_status status, const char *error);

/* Chunks in a block; before the first step. 1 when not said. */
void plan_parts(struct plan_builder *builder, uint32_t parts);
/* One more scratch chunk, of the size of that class; returns its index. */
uint32_t plan_scratch(struct plan_builder *builder, uint32_t like_class);
/* Declares a group (ascending ranks, this one among them); returns its number, the known one when
 * the same members were declared before. */
int plan_group(struct plan_builder *builder, const int *members, int member_count);
/* The group of all ranks, declared on first use. */
int plan_group_all(struct plan_builder *builder);

/* Starts a lane; returns its number. Back to an earlier lane: plan_lane_again. */
uint32_t plan_lane(struct plan_builder *builder);
void plan_lane_again(struct plan_builder *builder, uint32_t lane);
/* The channel of the following sends and receives of this lane; 0 when not said. May change within
 * a step, between what it receives and what it sends. */
void plan_channel(struct plan_builder *builder, int channel);

void plan_begin(struct plan_builder *builder, uint32_t chunk_count);
void plan_read(struct plan_builder *builder, enum plan_buffer buffer, uint32_t first);
void plan_receive(struct plan_builder *builder, int peer);
/* A message that the peer sent to that group (as numbered here). */
void plan_receive_group(struct plan_builder *builder, int peer, int group);
void plan_write(struct plan_builder *builder, enum plan_buffer buffer, uint32_t first);
void plan_send(struct plan_builder *builder, int peer); /* may be said several times */
void plan_send_group(struct plan_builder *builder, int group);
/* Waits for that step (plan_end's handle), which may also be one still to come in another lane. */
void plan_after(struct plan_builder *builder, uint32_t step);
void plan_final(struct plan_builder *builder);
/* Returns the step's handle for plan_after (an index in order of emission). */
uint32_t plan_end(struct plan_builder *builder);

/* The everyday steps. */
uint32_t plan_copy(struct plan_builder *builder, enum plan_buffer from, uint32_t from_first,
                   enum plan_buffer to, uint32_t to_first, uint32_t chunk_count);
uint32_t plan_send_from(struct plan_builder *builder, int peer, enum plan_buffer from,
                        uint32_t first, uint32_t chunk_count);
uint32_t plan_receive_to(struct plan_builder *builder, int peer, enum plan_buffer to,
                         uint32_t first, uint32_t chunk_count);

#endif
