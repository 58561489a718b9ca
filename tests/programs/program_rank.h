/* program_rank.h - a program from its first to its last step, on one rank. */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_RANK_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_RANK_H

#include <stdatomic.h>

#include "tests/programs/program.h"

/* The results of a step on a rank that other ranks have, too. */
struct program_replica {
    uint64_t members; /* a hash of the communicator's; 0: there is no such result */
    uint64_t bits;    /* a hash of the results of all turns */
    int turns;
};

/* Where a rank is, for the process that watches it: in memory that both share. */
struct program_place {
    atomic_int pid; /* 0: not at it */
    atomic_int step[PROGRAM_COMMS_MAX]; /* 1 + the step; of the thread of each communicator, the first one's is the rank's; 0: none */
    atomic_int steps_done;
    struct program_replica replicas[PROGRAM_STEPS_MAX]; /* by step */
};

/* For each step whose result all members of a communicator have alike, in writing: where two members
 * have the same number of turns, they have the same bits. Returns how many have not. To be called
 * when no rank is at it. */
int program_replicas_differ(const struct random_program *program,
                            const struct program_place *places);

/* Returns 0 if everything was right; otherwise it has printed a complaint, and ended all
 * communicators. The first world stays the caller's; everything else that the program made is given
 * back. */
int program_rank_run(const struct random_program *program, struct tutti_comm *world,
                     struct program_place *place);

#endif
