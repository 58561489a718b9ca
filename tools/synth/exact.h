/* exact.h - plans with given numbers of chunks, steps and rounds, or the proof that
 * there is none. */
#ifndef TUTTI_TOOLS_SYNTH_EXACT_H
#define TUTTI_TOOLS_SYNTH_EXACT_H

#include "job.h"

/* Methods (job.h). *code is EXIT_NO_PLAN if it is proven that there is no plan, and
 * EXIT_UNDECIDED if neither a plan nor a proof was found. A front that may lack a point is
 * undecided, too, although the points that were found are printed and written. */
enum tutti_status exact_make(struct job *job, enum exit_code *code);
enum tutti_status direct_make(struct job *job, enum exit_code *code);
enum tutti_status front_make(struct job *job, enum exit_code *code);

#endif
