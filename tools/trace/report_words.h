/* report_words.h - what a report says in words, as HTML: the verdict and its evidence, and what is
 * not known. */
#ifndef TUTTI_TOOLS_TRACE_REPORT_WORDS_H
#define TUTTI_TOOLS_TRACE_REPORT_WORDS_H

#include <stdio.h>

#include "report_job.h"

/* The verdict in one line, as the title of the page. */
void report_write_title(FILE *file, const struct report_job *job);
/* The verdict, what to look at next, and the facts of the job. */
void report_write_head(FILE *file, const struct report_job *job);
/* A communicator's last calls as the dumps have them: failures, positions, who waits for whom. */
void report_write_evidence(FILE *file, const struct report_comm *comm);
/* Items of a list: what the dumps of a communicator do not tell. */
void report_write_unknown(FILE *file, const struct report_comm *comm);
/* The same of the files, for the whole report; nothing if all were read. */
void report_write_unread(FILE *file, const struct report_job *job);

#endif
