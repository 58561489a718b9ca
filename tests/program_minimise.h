/* program_minimise.h - the smallest program that still fails. */
#ifndef TUTTI_TESTS_PROGRAM_MINIMISE_H
#define TUTTI_TESTS_PROGRAM_MINIMISE_H

#include "program.h"

/* Drops steps and ranks, makes the job simpler, and then what is left of the steps, value by value. The program is valid and fails; so it is
 * afterwards. */
void program_minimise(struct program *program, bool (*fails)(const void *program, void *context),
                      void *context);

#endif
