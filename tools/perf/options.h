/* options.h - the command line of tutti-perf. */
#ifndef TUTTI_TOOLS_PERF_OPTIONS_H
#define TUTTI_TOOLS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "operation.h"
#include "reduction.h"
#include "tutti/tutti.h"

enum perf_format { FORMAT_TABLE, FORMAT_JSON, FORMAT_CSV, FORMAT_PEERS };
enum perf_rotate { ROTATE_NEVER, ROTATE_AUTO, ROTATE_ALWAYS };
enum perf_form { FORM_BLOCKING, FORM_STARTED, FORM_PREPARED, FORM_GROUPED };
enum perf_memory { PERF_MEMORY_HOST, PERF_MEMORY_MAPPED, PERF_MEMORY_DEVICE };
enum perf_place { PLACE_OUT = 1, PLACE_IN = 2, PLACE_BOTH = PLACE_OUT | PLACE_IN };

enum {
    EXIT_OK = 0,
    EXIT_WRONG = 1, /* wrong results or errors */
    EXIT_USAGE = 2,
    PERF_LENGTHS_MAX = 256,
    PERF_ALGORITHMS_MAX = 64,
    PERF_RANKS_MAX = 1024,
    PERF_TENSORS_MAX = 100000,
    PERF_MISALIGN_MAX = 63,
    PERF_DEVICES_MAX = 1024,
    ROOT_ALL = -1,
    DEVICE_BY_RANK = -1
};

/* The length of one call: a size of the larger buffer, or the count argument itself. */
struct perf_length {
    bool is_count;
    size_t value; /* bytes or elements */
};

struct perf_options {
    const struct perf_operation *operation; /* NULL: only a plot of results of before */
    int length_count;
    struct perf_length lengths[PERF_LENGTHS_MAX];
    unsigned dtypes;     /* bit d: enum tutti_dtype d */
    unsigned reductions; /* bit r: enum reduction r */
    int root;            /* or ROOT_ALL */
    int algorithm_count; /* 0: Tutti chooses */
    char *algorithms[PERF_ALGORITHMS_MAX];
    int iterations; /* 0: what fits into time_seconds */
    int warmup;     /* -1: every set of buffers once, at least 4, at most 2 s */
    int check_iterations;
    double time_seconds; /* per size and way of timing */
    double timeout_seconds;
    enum perf_place place;
    enum perf_rotate rotate;
    enum perf_format format;
    const char *label; /* first column of FORMAT_PEERS */
    const char *plot;  /* a file to be written, or NULL */
    char **results;    /* of before, to be plotted; ends with NULL */
    enum perf_form form;
    enum skew skew;
    enum displs displs;
    int tensors; /* see struct perf_shape */
    int priority;
    size_t misalign; /* bytes */
    enum perf_memory memory;
    bool on_stream; /* calls are work of a stream of the device's */
    int device;     /* of all ranks here, or DEVICE_BY_RANK: by number on its host, in a circle */
    bool deterministic;
    const char *encoding; /* that calls ask for, or NULL */
    bool pin;
    bool one_clock;          /* of all ranks: single calls begin at an agreed time */
    bool launched;           /* a launcher started this process as one rank */
    int ranks;               /* else: ranks to start here, */
    int threads_per_process; /* this many in each process */
};

/* EXIT_OK, or EXIT_USAGE after a message on stderr; -1 when help or the version was asked for and
 * printed. */
int perf_options_parse(struct perf_options *options, int argc, char **argv);
void perf_options_release(struct perf_options *options);

/* Whether ranks need a GPU. */
bool perf_uses_device(const struct perf_options *options);

/* The names of forms on the command line. */
const char *perf_form_name(enum perf_form form);
const char *perf_skew_name(enum skew skew);
const char *perf_displs_name(enum displs displs);

#endif
