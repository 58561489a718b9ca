/* tutti-synth - makes a plan for a collective from a topology: of trees, by exact synthesis, or by
 * a greedy search. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "exact.h"
#include "greedy.h"
#include "job.h"
#include "options.h"
#include "trees.h"

static enum tutti_status make(struct job *job, enum exit_code *code)
{
    switch (job->options->method) {
    case METHOD_EXACT: return exact_make(job, code);
    case METHOD_DIRECT: return direct_make(job, code);
    case METHOD_FRONT: return front_make(job, code);
    case METHOD_GREEDY: return greedy_make(job, code);
    default: return trees_make(job, code);
    }
}

static enum tutti_status run(const struct options *options, struct job *job, enum exit_code *code)
{
    TRY(job_open(options, job));
    TRY(make(job, code));
    if (fflush(stdout) != 0) return error_set(TUTTI_SYSTEM, "standard output: %s", strerror(errno));
    return TUTTI_OK;
}

int main(int argc, char **argv)
{
    struct options options;
    struct job job;
    enum exit_code code = options_parse(argc, argv, &options);
    if (code != EXIT_FINE || options.done) return (int)code;
    const enum tutti_status status = run(&options, &job, &code);
    job_show(&job, NULL);
    if (status != TUTTI_OK) {
        fprintf(stderr, "tutti-synth: %s\n", tutti_error_message());
        code = status == TUTTI_TIMEOUT ? EXIT_UNDECIDED : EXIT_WRONG;
    }
    job_close(&job);
    return (int)code;
}
