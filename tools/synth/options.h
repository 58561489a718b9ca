/* options.h - the command line of tutti-synth. */
#ifndef TUTTI_TOOLS_SYNTH_OPTIONS_H
#define TUTTI_TOOLS_SYNTH_OPTIONS_H

#include <stdbool.h>

#include "base/collective.h"

enum exit_code {
    EXIT_FINE = 0,
    EXIT_WRONG = 1,
    EXIT_USAGE = 2,
    EXIT_NO_PLAN = 3,  /* there is none, which is proven */
    EXIT_UNDECIDED = 4 /* the time is over, or the question is beyond the method */
};

/* The way in which a plan is made. */
enum method {
    METHOD_TREES,  /* spanning trees, for bandwidth */
    METHOD_EXACT,  /* so many chunks, steps and rounds, or the proof that there is no such plan */
    METHOD_DIRECT, /* the same for an allreduce in which every rank makes the whole sum */
    METHOD_FRONT,  /* the exact plans that no other one betters */
    METHOD_GREEDY  /* for one size, with latencies */
};

struct options {
    bool done; /* help was asked for and given */
    enum method method;
    enum collective collective; /* one that the method is for */
    const char *topology;       /* a file */
    const char *output;         /* or NULL: no plan */
    int root;
    double seconds;
    int k, pieces; /* trees: of each root, 0 as many as it takes; parts of what one carries */
    int chunks, steps,
        rounds;         /* exact; the most of a front; greedy: chunks, 0 the method's choice */
    int attempts, seed; /* greedy */
    double size_bytes;  /* greedy: of a rank's larger buffer */
};

/* Fills *options from the command line. EXIT_USAGE: what is wrong has been said on stderr. */
enum exit_code options_parse(int argc, char **argv, struct options *options);

#endif
