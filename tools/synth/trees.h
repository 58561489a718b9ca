/* trees.h - a plan of spanning trees, as fast as the links allow at infinite size. */
#ifndef TUTTI_TOOLS_SYNTH_TREES_H
#define TUTTI_TOOLS_SYNTH_TREES_H

#include "job.h"

/* A method (job.h). */
enum tutti_status trees_make(struct job *job, enum exit_code *code);

#endif
