/* report_job.h - what a report tells of: the communicators whose dumps were read, each with its
 * verdict and its measured calls.
 *
 *     files ── read.h ──► dumps ── sorted, one of each rank ──► communicators ── verdict.h, calls.h ──► the worst first
 *
 * Dumps come from outside, and jobs may be large. So what a report shows has bounds, and whatever
 * is left out is counted.
 */
#ifndef TUTTI_TOOLS_TRACE_REPORT_JOB_H
#define TUTTI_TOOLS_TRACE_REPORT_JOB_H

#include "calls.h"
#include "read.h"
#include "verdict.h"

enum { REPORT_DUMPS_MAX = 4096, REPORT_ENTRIES_MAX = 1 << 22, REPORT_COMMUNICATORS_MAX = 32 };

/* A communicator: its dumps, sorted by rank, of which each has one. */
struct report_comm {
    const struct trace_json *traces;
    size_t count;
    int size;
    const struct trace_json **by_rank; /* NULL: it left no dump */
    const struct trace_place **places; /* of each rank; NULL: no dump names it */
    struct verdict verdict;
    struct trace_calls measured;
    size_t surplus_count; /* dumps that are not counted: older ones of a rank, and those of another size */
    uint64_t wall_ns;          /* of the first dump; UINT64_MAX: none says */
    uint64_t begin_ns, end_ns; /* the times that dumps cover, with the offsets of `measured` */
};

struct report_job {
    struct traces traces;
    struct report_comm *comms; /* the one with the worst verdict first; of these the earliest */
    size_t count;              /* of those that are shown */
    size_t left_out;
};

/* Reads files and folders, also if some of them cannot be read. False: there is nothing to tell;
 * the reason is on stderr. The caller releases it in any case. */
bool report_job_read(struct report_job *job, char **paths, int path_count);
/* The same of dumps that have been read, one at least: job->traces. */
bool report_job_judge(struct report_job *job);
void report_job_release(struct report_job *job);

/* The call that a rank is in, or that failed; or else its message that failed, or for which it
 * waits. NULL: there is none. */
const struct trace_entry *report_open_entry(const struct trace_json *trace);
/* A moment of a dump, in ns from the beginning of what all dumps cover. At most 2^53 away from it:
 * that many numbers JavaScript tells apart. */
int64_t report_time(const struct report_comm *comm, const struct trace_json *trace, uint64_t ns);
/* The hosts and the processes that dumps name; 0: there is no memory to count them. */
void report_count_places(const struct report_job *job, size_t *hosts, size_t *processes);

#endif
