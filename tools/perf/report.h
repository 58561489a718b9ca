/* report.h - prints measurements: a table like that of nccl-tests, JSON, CSV, or the
 * columns that bench/peers uses. Only rank 0 calls it. Every line is flushed, for people who watch.
 *
 * algbw is size / time and busbw is algbw times the operation's factor. The time is the loop time;
 * in the columns of bench/peers it is the median of the barriered iterations, as there.
 */
#ifndef TUTTI_TOOLS_PERF_REPORT_H
#define TUTTI_TOOLS_PERF_REPORT_H

#include "measure.h"
#include "options.h"
#include "os/hardware.h"
#include "plot.h"

enum { REPORT_HOST_SIZE = 65 };

struct report {
    const struct perf_options *options;
    int rank_count;
    char host[REPORT_HOST_SIZE]; /* of rank 0 */
    struct hardware hardware;    /* of that host */
    int row_count;
    const char *algorithm; /* of the last rows, for headings */
    int64_t wrong;
    double busbw_sum; /* of busbw_count measurements */
    int busbw_count;
    struct plot plot; /* data for --plot */
    bool plot_failed;
};

/* The two measurements of a row, out of place and in place; NULL: not measured. */
struct report_row {
    const struct perf_case *c; /* in_place means nothing */
    const struct measurement *out;
    const struct measurement *in;
};

void report_start(struct report *report, const struct perf_options *options, int rank_count);
void report_add(struct report *report, const struct report_row *row);
/* is_whole: everything was measured that was asked for. False: the plot could not be written;
 * stderr says why. */
bool report_end(struct report *report, bool is_whole);

#endif
