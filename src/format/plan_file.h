/* plan_file.h - a plan in a file. It decides what ranks send each other, so only a file that
 * belongs to this user or to root, and that no other user can write, will do.
 */
#ifndef TUTTI_FORMAT_PLAN_FILE_H
#define TUTTI_FORMAT_PLAN_FILE_H

#include <stddef.h>

#include "plan/budget.h"
#include "plan/plan.h"
#include "tutti/tutti.h"

enum { PLAN_FILE_BYTES_MAX = 1 << 24 };

/* Reads a plan in any of the forms that there are; the content says which form it is. Charges the
 * work and memory to the budget, which stays the caller's. INVALID_ALGORITHM: the text is no plan,
 * or a plan with a mistake, or costs more than the budget has; this thread's message names the
 * line. TIMEOUT, ABORTED: the budget's deadline passed, or it was stopped. NO_MEMORY. On failure
 * *plan is NULL. */
enum tutti_status plan_file_parse(const char *text, size_t text_bytes, struct plan_budget *budget,
                                  struct plan **plan);

/* The same of a file. Failures besides those: INVALID_OPTIONS: there is no such file, or it is no
 * regular file, is larger than PLAN_FILE_BYTES_MAX, belongs to another user, or can be written by
 * others. The message has the path. Blocks as long as the file system does. */
enum tutti_status plan_file_load(const char *path, struct plan_budget *budget, struct plan **plan);

#endif
