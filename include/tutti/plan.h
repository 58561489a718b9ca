/* plan.h - plans of your own: written step by step or read from a file, proven, and run as an
 * algorithm.
 *
 *     struct tutti_plan *plan;
 *     tutti_plan_create("allreduce", 2, 0, 1, &plan);           // 2 ranks, root 0, blocks whole
 *     tutti_plan_step(plan, 0, 0, "in[0] -> scratch[0], to 1"); // rank 0, lane 0
 *     ...                                                       // or tutti_plan_load(path, &plan)
 *     tutti_plan_verify(plan);                                  // is it right?
 *     tutti_plan_register(plan, comm, "mine");                  // on all ranks
 *     options.algorithm = "mine";
 *     tutti_allreduce_with(send, recv, count, TUTTI_FLOAT32, TUTTI_SUM, &options, comm);
 *
 * A plan says what every rank sends, receives, reduces and copies; docs/explanation/plan.md
 * explains it, and the text form in which steps are written. A plan is for one collective, one
 * number of ranks and, for a collective with a root, one root. It can do any count, dtype and
 * commutative op. It can do other ops only if it combines operands in the order of ranks.
 *
 * A plan runs only if it is proven: for separate buffers, for buffers in place, and for ranks of
 * both kinds together.
 *
 * Threads.  Different threads may use different plans; a plan is for one thread at a time.
 */
#ifndef TUTTI_PLAN_H
#define TUTTI_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------- plans */

struct tutti_plan; /* opaque */

/* Makes an empty plan, to which you add steps. The plan is the caller's. collective: "allreduce"
 * and so on, copied. rank_count: 2 to 1024. root: a rank; 0 for a collective without a root. parts:
 * the number of chunks into which each block is cut, at least 1. Local; any thread; does not block.
 * On failure (INVALID_OPTIONS, INVALID_RANK, INVALID_ROOT, INVALID_COUNT, NO_MEMORY) *plan is
 * NULL. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_create(const char *collective, int rank_count,
                                                             int root, int parts,
                                                             struct tutti_plan **plan);
/* Gives a rank a further scratch chunk, of the size of the chunks of class `like`;
 * docs/explanation/plan.md has the classes. The rank's scratch chunks are scratch[0], scratch[1]
 * and so on. Local; does not block. INVALID_RANK; UNSUPPORTED: the plan was read from text, or has
 * been used, and can no longer change; NO_MEMORY. On failure the plan is as it was. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_scratch(struct tutti_plan *plan, int rank,
                                                              uint32_t like);
/* Adds a step to a lane of a rank. The steps of a lane, 0 to 63, run in the order in which they
 * were added; lanes run side by side. step: one line of the text form, such as
 * "from 3 + in[1] -> out[1], to 1  final"; copied, and read when the plan is used for the first
 * time. Local; does not block. INVALID_RANK; INVALID_OPTIONS: there is no such lane, or the step is
 * NULL, or more than one line; UNSUPPORTED: the plan was read from text, or has been used, and can
 * no longer change; NO_MEMORY. On failure the plan is as it was. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_step(struct tutti_plan *plan, int rank,
                                                           int lane, const char *step);
/* Reads a plan in its text form. The text stays the caller's. The plan is complete: no step can be
 * added. Local; any thread; does not block. On failure *plan is NULL: INVALID_ALGORITHM (a mistake,
 * or more chunks than Tutti reads; the message names the line), NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_parse(const char *text, size_t text_bytes,
                                                            struct tutti_plan **plan);
/* Reads a plan in its text form from a file. The file must belong to this user or to root, and no
 * other user may be able to write it. path stays the caller's. Local; any thread; blocks as long as
 * the file system does. On failure *plan is NULL: INVALID_OPTIONS (the file cannot be read, is
 * larger than 16 MiB, or others can write it), else as tutti_plan_parse. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_load(const char *path,
                                                           struct tutti_plan **plan);
/* Frees the plan; communicators in which it was registered keep their own copies. NULL is allowed.
 * Local; does not block. */
TUTTI_API enum tutti_status tutti_plan_free(struct tutti_plan *plan);

/* Proves that the plan computes its collective, without deadlocks and races, in place and with
 * separate buffers. Local; does not block, but computes: for seconds if the plan has 100,000 steps,
 * and for some two minutes at most. INVALID_ALGORITHM: the plan is wrong, and the message names the
 * step, lane and rank that show it. Or a step cannot be read, and the message quotes it. Or the
 * proof would take more than 2^30 looks at chunks or 512 MiB of memory, and the message says how
 * much (docs/how-to/own-plans.md). NO_MEMORY: the plan may be right or wrong. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_verify(struct tutti_plan *plan);
/* Writes the plan in its text form, as much as fits into text_bytes, and a zero at the end.
 * *full_bytes becomes the size of all of it, the zero included; full_bytes may be NULL. text may be
 * NULL if text_bytes is 0. Local; does not block. INVALID_ALGORITHM: a step cannot be read;
 * NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_text(struct tutti_plan *plan, char *text,
                                                           size_t text_bytes, size_t *full_bytes);
/* Predicts how long a call that runs this plan takes on the machines of comm, with blocks of count
 * elements in private memory. The prediction comes from the model that chooses algorithms. Compare
 * it with the times of tutti_comm_explain. Verifies the plan first. Not collective; does not block.
 * *time_ns is set on success only. INVALID_COMM, INVALID_DTYPE; INVALID_COUNT: more than a call can
 * move; INVALID_ALGORITHM: the plan is wrong, too costly to be proven, or for another number of
 * ranks; NO_MEMORY. */
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_plan_cost(struct tutti_plan *plan,
                                                           const struct tutti_comm *comm,
                                                           size_t count, enum tutti_dtype dtype,
                                                           uint64_t *time_ns);
/* Lets calls on comm name this plan as their algorithm. Collective over comm: all ranks register
 * the same plan under the same name, and all get it, or none does. If they do not agree, comm stays
 * as it is. Verifies the plan first. name: up to 31 letters, digits, '_' and '-', but not the name
 * of an algorithm of that collective. Name and plan are copied, and the plan may then be freed.
 * Communicators that are derived from comm do not have it. Blocks like a collective call, until
 * comm's deadline; half of that time is for the proof. INVALID_COMM, INVALID_OPTIONS (no name, or a
 * name that is not allowed); INVALID_ALGORITHM: the plan is wrong, too costly to be proven, or for
 * another number of ranks. TIMEOUT: the proof was not over in time. MISMATCH: the others registered
 * another plan, or another name, or a rank cannot use it; the message says which rank. Else the
 * status that ended comm. */
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_plan_register(struct tutti_plan *plan, struct tutti_comm *comm, const char *name);

#ifdef __cplusplus
}
#endif

#endif
