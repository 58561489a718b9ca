/* stored_plan.h - plans from files, which a process reads once and keeps for good: calls and
 * communicators refer to them.
 *
 *     path ──► format/plan_file.h ──► algo/loaded.h ──► kept by its path ──► proven when a communicator is to use it, once
 *
 * One thread reads or proves a plan. Others that need it wait for that, and no others do
 * (stored_turn.h). Each thread waits, reads and proves within limits of its own: a budget that
 * nothing has been charged to. Where they are too narrow, nothing is kept, and the next thread
 * tries again. Plans that are wrong, or cost more work or memory than any budget has, are wrong for
 * good.
 */
#ifndef TUTTI_COMM_STORED_PLAN_H
#define TUTTI_COMM_STORED_PLAN_H

#include "algo/algo.h"
#include "plan/budget.h"
#include "tutti/tutti.h"

struct stored_plan; /* opaque */

/* The plan of that file, read now if it was not before. A file that cannot be read is tried again
 * the next time. INVALID_OPTIONS, INVALID_ALGORITHM, NO_MEMORY, TIMEOUT, ABORTED (the limits); the
 * message has the path. Any thread. */
enum tutti_status stored_plan_find(const char *path, const struct plan_budget *limits,
                                   struct stored_plan **stored);
/* Looks for a proof that another process has kept (format/proof_file.h) first. INVALID_ALGORITHM:
 * it is wrong, and the message says where, or too costly. TIMEOUT, ABORTED: the limits. NO_MEMORY.
 * Any thread. */
enum tutti_status stored_plan_prove(struct stored_plan *stored, const struct plan_budget *limits);
/* Its name is "file:PATH". To be run only when it is proven. */
const struct algorithm *stored_plan_algorithm(const struct stored_plan *stored);

#endif
