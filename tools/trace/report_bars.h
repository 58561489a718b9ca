/* report_bars.h - calls and messages as data for the timeline of a report: JSON, which report.js
 * reads. This says what it holds.
 *
 *     {"size": 4, "clock": "one", "culprit": 2, "sequence": 560,
 *      "span": 16200000000,                  the dumps cover so many ns; all times count from their beginning
 *      "kinds": [{"call": "allreduce", ...}],  calls that differ in nothing but their times share one
 *      "states": ["done", "running", ...],
 *      "rows": [{"rank": 0, "host": "a", "pid": 71, "dump": 16199000000, "made": 560,
 *                "calls": [number, kind, begin, took, state, target, since, ...], "messages":
 *                [...]},
 *               {"rank": 2, "host": "a", "pid": 73}],        it left no dump
 *      "late": [number, rank, late, skew, measured, ...],
 *      "left_out": {"bars": 0, "rows": 0}}
 *
 * Numbers of a bar are those of the bar before plus the first one; its begin is that of the bar
 * before plus the third. took is until the dump if the call is not over. target is the rank for
 * which it waits, or -1; since when, counts from its begin.
 *
 * Bounds: a report has about REPORT_BARS_MAX bars, of at most REPORT_ROWS_MAX ranks of a
 * communicator. The newest bars are kept, and the ranks that the verdict or another rank names,
 * then those with the lowest numbers.
 */
#ifndef TUTTI_TOOLS_TRACE_REPORT_BARS_H
#define TUTTI_TOOLS_TRACE_REPORT_BARS_H

#include <stdio.h>

#include "report_job.h"

enum { REPORT_BARS_MAX = 1 << 16, REPORT_ROWS_MAX = 512 };

/* The parts that are left out. */
struct report_omitted {
    size_t bars, rows;
};

/* Writes the data of a communicator in at most `most` bars. NO_MEMORY. */
enum tutti_status report_write_bars(FILE *file, const struct report_comm *comm, size_t most,
                                    struct report_omitted *omitted);

#endif
