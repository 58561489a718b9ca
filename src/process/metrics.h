/* metrics.h - what a process tells Prometheus, in the text form that node_exporter's textfile
 * collector reads.
 *
 * Communicators count, and fill in these structs; metrics_print turns the structs into a file.
 * node_exporter puts the files of a host together, and keeps one line of those that have the same
 * name and labels: so every line names its process, or a rank of a communicator.
 */
#ifndef TUTTI_PROCESS_METRICS_H
#define TUTTI_PROCESS_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/collective.h"
#include "tutti/tutti.h"

/* Collectives, and behind them messages sent and received. */
enum { METRICS_SEND = COLLECTIVE_COUNT, METRICS_RECV, METRICS_KINDS, METRICS_ID_SIZE = 17 };

/* Counts over all communicators that this process has had; they only grow. */
struct metrics_counts {
    uint64_t calls[METRICS_KINDS], bytes[METRICS_KINDS];
    uint64_t failures; /* communicators that failed */
};

/* The state of a communicator that exists now. */
struct metrics_communicator {
    char id[METRICS_ID_SIZE];
    int rank, size;
    uint64_t sequence;               /* calls begun so far */
    bool has_completed;              /* a call, or a message */
    double idle_seconds;             /* since the last of them */
    const _Atomic uint64_t *held_ns; /* the time waited for each rank that came later; or NULL */
};

/* `process` is a name that no other process has, of letters, digits, "-", "." and "_". */
void metrics_print(const char *process, const struct metrics_counts *counts,
                   const struct metrics_communicator *communicators, size_t communicator_count,
                   FILE *file);

#endif
