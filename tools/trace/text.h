/* text.h - describes entries of a flight recorder as text. */
#ifndef TUTTI_TOOLS_TRACE_TEXT_H
#define TUTTI_TOOLS_TRACE_TEXT_H

#include <stdio.h>

#include "studio/trace/trace_json.h"

enum { ENTRY_TEXT_SIZE = 160, RANK_TEXT_SIZE = TRACE_HOST_SIZE + 64, DURATION_TEXT_SIZE = 32 };

/* "allreduce(count 7, float32, sum) #12"; for a message "recv(count 7, float32, from rank 2, tag
 * 3)" */
void describe_entry(const struct trace_entry *entry, char text[static ENTRY_TEXT_SIZE]);
/* "rank 3 (host a, pid 71)" */
void describe_rank(const struct trace_place *place, char text[static RANK_TEXT_SIZE]);
/* "350 ns", "12.3 us", "4.56 s"; 0 if it would be negative. */
void describe_duration(uint64_t from_ns, uint64_t to_ns, char text[static DURATION_TEXT_SIZE]);
/* Prints a recorder as a table, oldest first. */
void show_trace(const struct trace_json *trace, FILE *file);
/* Prints the present state of the rank, in one line. */
void show_state(const struct trace_json *trace, FILE *file);

#endif
