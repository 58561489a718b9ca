/* verify.h - proves that a plan, from anywhere, computes its collective.
 *
 * Links have one writer, one reader per destination and no wildcards, so a plan is a Kahn network:
 * one abstract run decides it. The verifier runs it with capacity 1 and proves
 *   - every output chunk holds each required contribution exactly once (and nothing else),
 *   - no deadlock at capacity 1,
 *   - no race: every conflicting pair of accesses is ordered by program order, dependencies and
 *     messages, with separate and with aliased buffers, and for the plan run twice in succession,
 *   - in place, that the root of a broadcast or a scatter stores nothing in the caller's memory,
 *     which has all of it already,
 *   - no read of chunks that were never written, no message that is not received, no step on ranges
 *     of different classes,
 *   - links have one writing and one reading lane,
 *   - averages are scaled exactly once (`final`),
 *   - for results that every rank holds, that all ranks hold the same expression tree up to
 *     commuting the operands of one reduction: replicas are bit-identical,
 *   - for a barrier, that every rank's end comes after every rank's beginning,
 *   - that it stays so where the engine goes beyond the plan's letter and stores results straight
 *     in their receivers' memory (placement.h): such a store comes after the receiver's beginning
 *     and after every earlier access to that memory, of steps and of messages that are sent from
 *     there; and until the message has come, nothing else reads or writes there.
 * Of a plan with encoded links (rounding.h) it proves the same, and that replicas are bit-identical
 * although each such link rounds: a tree then has its roundings in it. Where nothing is reduced,
 * every output must be rounded, that of its owner, too. It refuses plans whose replicas would
 * differ. In place, it expects plans that have been through rounding_of_own_block; their first step
 * is the only one that may store in a root's input.
 * Contributions are exact sets up to VERIFY_EXACT_RANKS ranks and random fingerprints above.
 */
#ifndef TUTTI_PLAN_VERIFY_H
#define TUTTI_PLAN_VERIFY_H

#include "plan/budget.h"
#include "plan/placement.h"
#include "plan/plan.h"
#include "plan/rounding.h"
#include "tutti/tutti.h"

enum { VERIFY_EXACT_RANKS = 512 };
/* Grows with each change of what a proof says, of this rule or the engine that it is for: proofs
 * that are kept (format/proof_file.h) by another version do not count. */
enum { VERIFY_VERSION = 2 };

enum verify_verdict {
    VERIFY_PROVEN,
    VERIFY_WRONG,     /* the plan is wrong; the report says where */
    VERIFY_NO_MEMORY, /* nothing is known */
    VERIFY_TOO_COSTLY /* the budget has ended before anything is known; it says how */
};

struct verify_options {
    bool in_place;              /* input aliases output, see plan.h */
    const bool *ranks_in_place; /* of each rank, in the place of in_place, where ranks differ in it; or NULL */
    bool associative_tree_uniform; /* also: one tree for all chunks (what deterministic algorithms promise) */
    /* The engine begins a rank's next run of the plan as soon as its lanes are done, though peers
     * may still read its scratch; otherwise it begins when they have taken all that was sent from
     * it. */
    bool scratch_outlives_run;
    struct plan_budget
        *budget; /* charged with work and memory; stays the caller's. NULL: 8 GiB, and any work */
    placement_rule *placement; /* NULL: placement_of_step, which is the engine's; for tests of this proof */
    const int *places; /* of each rank: links between ranks at different places are encoded (rounding.h); NULL: none is */
    rounding_rule *rounding; /* NULL: rounding_of_step, which is the engine's; for tests of this proof */
};

struct verify_report {
    int rank, lane, step; /* where it shows; -1 where it has no place; step counts within the lane */
    int other_rank, other_lane,
        other_step; /* of a race: the step before which, or after which, nothing orders it; else -1 */
    char message[256]; /* "rank 2 lane 0 step 5 (recv_reduce_send): ..." */
    bool rank_ordered; /* proven: operands are combined in ascending rank order everywhere */
    uint32_t roundings; /* by encoded links and owners, of a contribution on its way to a result, at most */
    uint64_t step_count, message_count;
};

/* The cost of a proof, known before it begins: at least this many looks in all, and about this much
 * memory at a time. */
struct verify_cost {
    uint64_t chunk_count; /* of all buffers of all ranks */
    uint64_t work, bytes;
};
/* The cost of one plan_verify of a plan that the builder made. Takes a look at each step. */
struct verify_cost verify_cost_of(const struct plan *plan);

/* Proves or refutes; the report is filled either way. Any thread; pure but for the budget and its
 * clock. */
enum verify_verdict plan_verify(const struct plan *plan, const struct verify_options *options,
                                struct verify_report *report);

#endif
