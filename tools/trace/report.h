/* report.h - the command `tutti-trace report`: one page of HTML that tells what happened in a job.
 *
 *     report_job     what the dumps hold: communicators, verdicts, measured calls
 *     report_words   the verdict, its evidence and what is not known ─┐
 *     report_tables  slow ranks, measured and predicted times         ├─► report.html, in the places of its marks
 *     report_bars    the data of the timeline, as JSON               ─┘
 *     report.css                              what the page looks like
 *     report_data.js, report_timeline.js,     what it does: the timeline, tables that sort
 *     report.js
 *
 * The page asks for nothing: no file, no network. Its order depends on the dumps alone, and so does
 * each byte of it.
 */
#ifndef TUTTI_TOOLS_TRACE_REPORT_H
#define TUTTI_TOOLS_TRACE_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct report_options {
    char **paths; /* files and folders */
    int path_count;
    const char *output;      /* NULL: standard output */
    const char *calibration; /* or NULL */
};

enum report_outcome {
    REPORT_WHOLE,
    REPORT_LACKS_FILES, /* it is written, and names those that cannot be read */
    REPORT_NONE         /* the reason is on stderr */
};

/* argv[0] is the command. False: wrong usage; the reason is on stderr. */
bool report_parse(int argc, char **argv, struct report_options *options);
enum report_outcome report_dumps(const struct report_options *options);

struct report_job;
/* The page of a job as a text, to be freed; NULL: tutti_error_message says why. calibration: a
 * file, or NULL. */
char *report_make_page(const struct report_job *job, const char *calibration, size_t *size);

#endif
