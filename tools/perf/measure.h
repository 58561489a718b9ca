/* measure.h - checks and times one call: one operation, size, dtype, reduction, root,
 * algorithm.
 *
 * A ping-pong is two calls, and its times are those of one.
 *
 *     barriered   every iteration is a barrier and then the call; its time is the largest over the
 *                 ranks of (end - start) of the call alone. min, p50, p99 and max are of these.
 *     loop        calls back to back, total time over iterations, the largest over the ranks. With
 *                 rooted operations the root may run ahead, as in nccl-tests.
 *
 * With --stream, a call is over when the stream has come to the end of it. Back to back, up to 16
 * calls lie in the stream.
 *
 * Checks come before timing (poisoned outputs, other inputs each time) and, out of place, once more
 * after the barriered iterations. In place, timing runs on zeros, since sums would grow without
 * end.
 */
#ifndef TUTTI_TOOLS_PERF_MEASURE_H
#define TUTTI_TOOLS_PERF_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ran.h"
#include "rank.h"

struct perf_case {
    size_t count;
    enum tutti_dtype dtype;
    enum reduction reduction;
    int root;
    const char *algorithm; /* NULL: Tutti chooses */
    bool in_place;
};

struct measurement {
    bool supported; /* false: the algorithm cannot do this; the rest means nothing */
    bool checked;
    int iterations;
    int64_t wrong; /* elements, over all ranks and checks */
    int64_t wrong_here;
    double min, p50, p99, max, loop; /* seconds */
    char ran[RAN_NAME_SIZE];         /* the algorithm of this rank's calls; "": they have none */
};

/* Collective over the ranks of the measurement; all get the same measurement except for wrong_here.
 * Wrong elements are described on stderr and are no error. Each call blocks until --timeout at
 * most. After a failure the other ranks may wait for this one: perf_rank_abort ends that. */
enum tutti_status perf_measure(struct perf_rank *rank, const struct perf_case *perf_case,
                               struct measurement *measurement);

#endif
