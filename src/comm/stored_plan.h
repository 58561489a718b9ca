/* stored_plan.h - plans from files, which a process reads once and keeps for good: calls and communicators refer to them.
 *
 *     path ──► format/plan_file.h ──► algo/loaded.h ──► kept by its path ──► proven when a communicator is to use it, once
 */
#ifndef TUTTI_COMM_STORED_PLAN_H
#define TUTTI_COMM_STORED_PLAN_H

#include "algo/algo.h"
#include "tutti/tutti.h"

struct stored_plan; /* opaque */

/* The one of that file, read now if it was not before. A file that cannot be read is tried again the next time. INVALID_OPTIONS,
 * INVALID_ALGORITHM, NO_MEMORY; the message has the path. Any thread. */
enum tutti_status stored_plan_find(const char *path, struct stored_plan **stored);
/* Looks for a proof that another process has kept (format/proof_file.h) first. INVALID_ALGORITHM: it is wrong, and the message says
 * where. NO_MEMORY. Any thread. */
enum tutti_status stored_plan_prove(struct stored_plan *stored);
/* Its name is "file:PATH". To be run only when it is proven. */
const struct algorithm *stored_plan_algorithm(const struct stored_plan *stored);

#endif
