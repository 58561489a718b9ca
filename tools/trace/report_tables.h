/* report_tables.h - the tables of a report, as HTML: which ranks others waited for, and what calls
 * took beside what was predicted. Cells have the values by which scripts sort them (data-value). */
#ifndef TUTTI_TOOLS_TRACE_REPORT_TABLES_H
#define TUTTI_TOOLS_TRACE_REPORT_TABLES_H

#include <stdio.h>

#include "report_job.h"

enum { REPORT_TABLE_ROWS_MAX = 256 };

void report_write_slow(FILE *file, const struct report_comm *comm);
/* calibration: a file for the cost model, or NULL: only what the job itself expected is known.
 * NO_MEMORY; INVALID_OPTIONS: the file is no calibration. */
enum tutti_status report_write_measured(FILE *file, const struct report_comm *comm,
                                        const char *calibration);

#endif
