/* program_minimise.h - the smallest program that still fails. */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_MINIMISE_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_MINIMISE_H

#include "tests/programs/program.h"

/* Drops steps and ranks, simplifies the job, and then simplifies the remaining steps, value by
 * value. The program must be valid and fail; it still is and does afterwards. */
void program_minimise(struct random_program *program,
                      bool (*fails)(const void *program, void *context), void *context);

#endif
