/* compose.h - one plan after another, as one plan.
 *
 *     input --first--> between --second--> output        allreduce = reduce_scatter, allgather
 *                                                        allgather = gather, broadcast
 *     `between` lies in the output of the whole where    reduce    = reduce_scatter, gather
 *     that has such chunks, and in scratch elsewhere     broadcast = scatter, allgather
 *
 * Chunks are matched by class. If one plan cuts a block into more chunks than the other, the coarse
 * one acts on ranges. No rank waits for a whole phase: lane i of the second plan continues lane i
 * of the first, and what it needs from other lanes is one dependency per lane, on the last step
 * there that touches the same chunks. A lane's first message of the second plan leaves with the
 * last step of the first, if that is where it is made.
 *
 * If both plans are right, the whole has the right results. Whether buffers are free when they are
 * written again, and links have one lane, depends on which ranks send to which: plan_verify finds
 * that out. Plans whose input and output come to lie on one place, or on buffers that may be one,
 * are made `in_place`.
 */
#ifndef TUTTI_ALGO_COMPOSE_H
#define TUTTI_ALGO_COMPOSE_H

#include "algo/embed.h"
#include "plan/build.h"
#include "plan/plan.h"
#include "tutti/tutti.h"

/* Writes the embedded plans one after another; all are plans of this rank, NULL where it has no
 * part.  Starts as many lanes as the widest plan has.  `whole` is the builder's shape.  Errors
 * stick in the builder. */
void compose_sequence(struct plan_builder *builder, const struct plan_shape *whole,
                      const struct embedding *embeddings, int embedding_count);

struct composition {
    const struct rank_plan *first, *second; /* of one rank and one rank count */
    enum collective collective;             /* the collective that both plans make together */
    int root;                               /* of the whole, 0 if it has none */
    int second_channel; /* added to the second plan's channels; 0: shares the first plan's links */
};

/* Writes both into an empty builder for that collective, rank count, root and rank.  Errors stick
 * there: INVALID_ALGORITHM where the plans do not fit each other. */
void compose_into(struct plan_builder *builder, const struct composition *composition);
/* The same as a plan of its own; see plan_builder_finish. */
enum tutti_status compose_rank(const struct composition *composition, struct rank_plan **rank_plan,
                               const char **message);

#endif
