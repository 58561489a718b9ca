/* options.h - the command line of tutti-tune. */
#ifndef TUTTI_TOOLS_TUNE_OPTIONS_H
#define TUTTI_TOOLS_TUNE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

enum action { ACTION_TUNE, ACTION_SHOW, ACTION_MERGE, ACTION_EXPORT };

struct options {
    bool done; /* help was asked for and given */
    enum action action;
    unsigned collectives;           /* to measure: a bit for each */
    size_t first_bytes, last_bytes; /* of a block; powers of two */
    enum tutti_dtype dtype;
    bool mapped;
    double margin; /* candidates may be predicted to take so much longer than the fastest: 0.25 is a quarter */
    double seconds;     /* for a collective and size */
    const char *output; /* or NULL */
    char **files;       /* to read; of the command line */
    int file_count;
};

/* Fills *options from the command line. EXIT_USAGE: what is wrong has been said on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);

#endif
