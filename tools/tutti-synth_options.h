/* tutti-synth_options.h - the command line of tutti-synth. */
#ifndef TUTTI_TOOLS_SYNTH_OPTIONS_H
#define TUTTI_TOOLS_SYNTH_OPTIONS_H

#include <stdbool.h>

#include "base/collective.h"

enum exit_code { EXIT_FINE = 0, EXIT_WRONG = 1, EXIT_USAGE = 2 };

struct options {
    bool done; /* help was asked for and given */
    enum collective collective;
    const char *topology; /* a file */
    const char *output;   /* or NULL: no plan */
    int k;                /* trees of each root; 0: as many as it takes */
    int root, pieces;
    double seconds;
};

/* Fills *options from the command line. EXIT_USAGE: what is wrong has been said on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);

#endif
