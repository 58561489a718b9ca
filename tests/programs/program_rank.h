/* program_rank.h - a program from its first to its last step, on one rank. */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_RANK_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_RANK_H

#include <stdatomic.h>

#include "tests/programs/program.h"

/* Where a rank is, for the process that watches it: in memory that both share. */
struct program_place {
    atomic_int pid; /* 0: not at it */
    atomic_int step[PROGRAM_COMMS_MAX]; /* 1 + the step; of the thread of each communicator, the first one's is the rank's; 0: none */
    atomic_int steps_done;
};

/* Returns 0 if everything was right; otherwise it has printed a complaint, and ended all
 * communicators. The first world stays the caller's; everything else that the program made is given
 * back. */
int program_rank_run(const struct random_program *program, struct tutti_comm *world,
                     struct program_place *place);

#endif
