/* job.h - the parts that all methods of tutti-synth share: the graph that they begin
 * with, the bound that they are compared with, and the file to which a plan is written.
 *
 * A method is a function `enum tutti_status METHOD_make(struct job *job, enum exit_code *code)`: it
 * prints its result on standard output, and writes the plan that it has proven if options->output
 * asks for it. It sets *code if the answer is not a plan. On failure the message of status.h says
 * why, and nothing is written; TIMEOUT means that the job's time was over.
 */
#ifndef TUTTI_TOOLS_SYNTH_JOB_H
#define TUTTI_TOOLS_SYNTH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"
#include "plan/plan.h"
#include "studio/synth/from_topo.h"
#include "studio/synth/graph.h"
#include "studio/synth/ratio.h"
#include "tutti/tutti.h"

struct job {
    const struct options *options;
    bool shows; /* standard error is a terminal */
    uint64_t deadline_ns;
    struct synth_graph graph;
    struct from_topo_notes notes;
};

/* Reads the topology; failures name it. The caller closes the job in any case. */
enum tutti_status job_open(const struct options *options, struct job *job);
void job_close(struct job *job);

/* The time that is left; 0: it is over. */
uint64_t job_left_ns(const struct job *job);
/* Shows the stage of the work in one line, if standard error is a terminal; NULL removes the line,
 * which the caller must do before anything is printed. */
void job_show(const struct job *job, const char *stage);
/* Prints a description of the graph. */
void job_print_graph(const struct job *job);

/* The least time of a block for the collective over the job's graph, as a ratio of bound.h. *known
 * is false for gather, scatter and alltoall, and for an allreduce, which is bounded only as a
 * reduce_scatter and an allgather. TIMEOUT, INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status job_bound(const struct job *job, enum collective collective, bool *known,
                            struct synth_ratio *bound);

/* Writes a plan that has been proven. If that fails, the file stays as it was. Says so if a job
 * would not take the plan. */
enum tutti_status job_write(const struct job *job, const char *name, const struct plan *plan);

#endif
