/* file.h - reads and writes plans in files: as text, or as MSCCL's XML. */
#ifndef TUTTI_TOOLS_PLAN_FILE_H
#define TUTTI_TOOLS_PLAN_FILE_H

#include "options.h"
#include "plan/plan.h"

/* Reads that file ("-": standard input), whichever of the two it holds. A plan in XML is proven, in
 * place or not as the file says, and *in_place is set to that; for a text it is left alone. NULL if
 * there is no plan; the reason has been printed. */
struct plan *file_read_plan(const char *name, bool *in_place);
/* Writes the plan as XML to the output that the options name. */
enum exit_code file_export_plan(const struct plan *plan, const struct options *options);
/* Writes the whole text, or nothing if memory or the disk is full; name NULL: standard output. */
enum exit_code file_write(const char *name, const char *text, size_t size);
/* Says what is wrong; returns EXIT_WRONG. */
enum exit_code file_fail(const char *what, const char *why);

#endif
