/* tutti-plan_file.h - plans of files: as text, or as MSCCL's XML. */
#ifndef TUTTI_TOOLS_PLAN_FILE_H
#define TUTTI_TOOLS_PLAN_FILE_H

#include "plan/plan.h"
#include "tutti-plan_options.h"

/* Reads that file ("-": standard input), whichever of the two it holds. An XML file is proven, as it says in place or not, before
 * it is a plan; *in_place tells which, and is left alone otherwise. NULL when there is no plan, which has been said. */
struct plan *file_read_plan(const char *name, bool *in_place);
/* Writes the plan as XML to the output that the options name. */
enum exit_code file_export_plan(const struct plan *plan, const struct options *options);
/* Whole, or not at all where memory or the disk is full; name NULL: standard output. */
enum exit_code file_write(const char *name, const char *text, size_t size);
/* Says what is wrong; returns EXIT_WRONG. */
enum exit_code file_fail(const char *what, const char *why);

#endif
