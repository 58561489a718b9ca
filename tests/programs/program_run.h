/* program_run.h - runs programs on real ranks, one or many, and judges them; reports those that
 * fail, and how to replay them. */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_RUN_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/programs/program.h"

/* Runs a program in a process of its own, whose ranks are processes or threads, and waits for its
 * end: timeout_s is the deadline of each call, and a few times as much that of the whole program.
 * Returns whether everything was right; otherwise `story` gets the complaints of the ranks, and
 * where each rank is that did not come to its end. */
bool program_run(const struct random_program *program, int timeout_s, FILE *story);

struct program_campaign {
    uint64_t seed;  /* of the first program; the next one has the next number */
    int job;        /* PROGRAM_ALL: each kind in turn */
    int rank_count; /* 0: the seed decides */
    int runs;
    double minutes; /* the campaign runs at least so long */
    int timeout_s;
    bool ends_at_failure;
    bool minimise;       /* programs that fail */
    const char *program; /* for the command that replays */
};

/* Returns the number of programs that failed; prints each of them on stderr, and the summary to
 * `out`. */
int program_campaign_run(const struct program_campaign *campaign, FILE *out);
/* Makes a program that fails smaller, and prints it on stderr. Blocks for many runs, but not for
 * longer than so many minutes. */
void program_explain(const struct random_program *program, int timeout_s, double minutes);

/* The program of the command line: see its usage. */
int program_main(int argument_count, char **arguments);

#endif
