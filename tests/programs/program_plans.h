/* program_plans.h - plans of algorithms as files, for the calls of a program that read their plan
 * from a file.
 *
 * The process that runs a program writes them before the ranks begin, into a folder of their own,
 * and removes them when the ranks are gone. The ranks are its descendants. One thread at a time.
 */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_PLANS_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_PLANS_H

#include <stdbool.h>

#include "tests/programs/program.h"

enum { PROGRAM_ALGORITHM_BYTES = 128 }; /* for the name of any algorithm, and of a file */

/* Writes the plans for all calls of the program, on any number of its ranks. False: a file could
 * not be written. */
bool program_plans_write(const struct random_program *program);
/* Removes them all. */
void program_plans_remove(void);

/* Whether a call reads its plan from a file, on so many ranks. */
bool program_plans_has(const struct random_step *call, int size);
/* "file:PATH" */
void program_plans_name(const struct random_step *call, int size,
                        char name[PROGRAM_ALGORITHM_BYTES]);

#endif
