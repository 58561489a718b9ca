/* rank.h - one rank of a measurement, and the functions by which the ranks agree.
 *
 * The calls that are measured run on one communicator, and the harness itself on another one, so
 * that neither disturbs the other's sequence of operations. The second communicator's id travels
 * over the first.
 */
#ifndef TUTTI_TOOLS_PERF_RANK_H
#define TUTTI_TOOLS_PERF_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "tutti/tutti.h"

struct gpu_device;

/* For functions that return a status and have nothing to undo. */
#define TRY(call)                                      \
    do {                                               \
        const enum tutti_status try_status = (call);   \
        if (try_status != TUTTI_OK) return try_status; \
    } while (0)

struct perf_rank {
    const struct perf_options *options;
    int rank;
    int rank_count;
    bool one_clock; /* all ranks read the same clock: they were started here, or --one-clock says so */
    double lead_seconds;           /* in which all ranks hear of a start */
    bool is_late;                  /* this rank was at the last one */
    struct tutti_comm *comm;       /* under measurement */
    struct tutti_comm *control;    /* the harness's own */
    tutti_op ops[REDUCTION_COUNT]; /* the ops that --op names */
    struct gpu_device *device;     /* NULL: none is used */
    void *stream;                  /* of the device, for --stream */
};

/* Joins both communicators: ranks started here meet by id, launched ones (id NULL) by their
 * environment. Blocks until all ranks have arrived or --timeout. After a failure, too, the caller
 * must call perf_rank_release. */
enum tutti_status perf_rank_init(struct perf_rank *rank, const struct perf_options *options,
                                 const struct tutti_id *id, int number);
/* Ends both communicators on all ranks; no call of another rank waits for this one any longer. */
void perf_rank_abort(struct perf_rank *rank, const char *reason);
void perf_rank_release(struct perf_rank *rank);

/* The functions below are collective, and block until --timeout at most. */
enum tutti_status perf_sync_barrier(struct perf_rank *rank);
/* Until *start on the clock that all ranks read, unless this rank hears of that time too late. */
enum tutti_status perf_sync_start(struct perf_rank *rank, double *start);
/* Whether all ranks heard of the last start in time, or never will; if not, the next one comes
 * later. */
enum tutti_status perf_sync_started(struct perf_rank *rank, bool *together);
enum tutti_status perf_sync_max(struct perf_rank *rank, double *values, size_t count); /* in place */
enum tutti_status perf_sync_sum(struct perf_rank *rank, int64_t *value);
enum tutti_status perf_sync_from_first(struct perf_rank *rank,
                                       int32_t *value); /* rank 0's, everywhere */

double perf_seconds(void); /* monotonic */

#endif
