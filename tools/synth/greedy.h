/* greedy.h - a plan for one size by a greedy search, which knows latencies. */
#ifndef TUTTI_TOOLS_SYNTH_GREEDY_H
#define TUTTI_TOOLS_SYNTH_GREEDY_H

#include "job.h"

/* A method (job.h). */
enum tutti_status greedy_make(struct job *job, enum exit_code *code);

#endif
