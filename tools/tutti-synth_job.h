/* tutti-synth_job.h - what all methods of tutti-synth share: the graph they begin with, the bound that they are held against, and the file
 * that a plan ends in.
 *
 * A method is a function `enum tutti_status METHOD_make(struct job *job, enum exit_code *code)`: it prints its result on standard output and
 * writes the plan that it has proven if options->output asks for one. It sets *code where the answer is no plan. On failure the message of
 * status.h says why, nothing is written, and TIMEOUT means that the job's time was over.
 */
#ifndef TUTTI_TOOLS_SYNTH_JOB_H
#define TUTTI_TOOLS_SYNTH_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "synth/from_topo.h"
#include "synth/graph.h"
#include "synth/ratio.h"
#include "tutti-synth_options.h"
#include "tutti/tutti.h"

struct job {
    const struct options *options;
    bool shows; /* somebody watches standard error */
    uint64_t deadline_ns;
    struct synth_graph graph;
    struct from_topo_notes notes;
};

/* Reads the topology; failures name it. The job is to be closed in any case. */
enum tutti_status job_open(const struct options *options, struct job *job);
void job_close(struct job *job);

/* The time that is left, 0 when it is over. */
uint64_t job_left_ns(const struct job *job);
/* Shows in one line what goes on, if standard error is watched; NULL takes it away, as it must be
 * before anything is printed. */
void job_show(const struct job *job, const char *stage);
/* Prints what the graph is. */
void job_print_graph(const struct job *job);

/* The least time of a block, as a ratio of bound.h: of the collective over the job's graph. *known is false for gather, scatter and alltoall,
 * and for an allreduce, which is bounded only as a reduce_scatter and an allgather. TIMEOUT, INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status job_bound(const struct job *job, enum collective collective, bool *known,
                            struct synth_ratio *bound);

/* Writes a plan that has been proven: all of it, or what the file had before stays. Says so if a job would not take it. */
enum tutti_status job_write(const struct job *job, const char *name, const struct plan *plan);

#endif
