/* tutti-synth_exact.h - plans of so many chunks, steps and rounds, and the proof where there is none. */
#ifndef TUTTI_TOOLS_SYNTH_EXACT_H
#define TUTTI_TOOLS_SYNTH_EXACT_H

#include "tutti-synth_job.h"

/* Methods (tutti-synth_job.h). *code is EXIT_NO_PLAN where it is proven that there is none, and EXIT_UNDECIDED where neither is; a front that
 * may lack a point is undecided, too, although what was found is printed and written. */
enum tutti_status exact_make(struct job *job, enum exit_code *code);
enum tutti_status direct_make(struct job *job, enum exit_code *code);
enum tutti_status front_make(struct job *job, enum exit_code *code);

#endif
