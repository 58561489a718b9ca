/* program_sparse.h - a sparse call of a program on one rank: its rows, the call, and the expected
 * result, which a rank computes from what all ranks give.
 *
 *     count     rows of the matrix, or of the table
 *     number    elements of a row, and 1
 *     style     how many rows each rank has, or asks for
 *     way       of the sum; or the call is a push to owners, or a pull from them
 *     salt      which rows, and their values: small whole numbers, whose sums are exact
 */
#ifndef TUTTI_TESTS_PROGRAMS_PROGRAM_SPARSE_H
#define TUTTI_TESTS_PROGRAMS_PROGRAM_SPARSE_H

#include "tests/programs/program_work.h"

/* NULL: all is right, or the call failed, and *status says how. Else what is wrong. Blocks until
 * the deadline of the communicator. */
const char *program_sparse_run(const struct random_step *step, const struct program_comm *on,
                               enum tutti_status *status, char text[160]);

#endif
