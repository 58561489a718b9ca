/* sparse_agree.h - the first exchange of a sparse call: all ranks learn what each of them asks for,
 * how much it has, and whether it can go on.
 *
 * 1. A rank with invalid arguments takes part, too. So all ranks return, and all know why.
 * 2. If anything is wrong, no rank goes on, and the communicator lives on.
 * 3. From what the ranks told each other all derive the same decisions.
 */
#ifndef TUTTI_TRAIN_SPARSE_AGREE_H
#define TUTTI_TRAIN_SPARSE_AGREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/op.h"
#include "sparse_call.h"
#include "sparse_own.h"
#include "sparse_ranges.h"

enum sparse_function { SPARSE_ALLREDUCE = 1, SPARSE_PUSH, SPARSE_PULL }; /* travel, and stay */

/* All that must be the same on all ranks. Travels as it is. */
struct sparse_question {
    uint64_t function, row_count, width, dtype;
    uint64_t operation; /* its identity; 0 for a pull */
    uint64_t way, deterministic;
};

enum { SPARSE_SAMPLES = 32, SPARSE_PROBLEM_BYTES = 256 };

/* The first message of a rank to all others. */
struct sparse_hello {
    struct sparse_question question;
    uint64_t count;  /* increasing indices that it has */
    uint64_t status; /* its own; if not TUTTI_OK, nothing else counts */
    union {
        uint64_t samples[SPARSE_SAMPLES]; /* every 32nd part of its indices begins with these */
        char problem[SPARSE_PROBLEM_BYTES];
    };
};

/* `status` is that of this rank's checks, with its message. OK: hellos[size] is what the ranks
 * told, the caller's to free, and all counts together, as rows of row_bytes bytes, fit into size_t.
 * Else hellos is NULL, and the status is this rank's own, or MISMATCH if another rank failed or ranks
 * ask for different things, with a message that names a rank. Collective. */
enum tutti_status sparse_agree(const struct sparse_call *call, enum tutti_status status,
                               const struct sparse_question *question, const struct sparse_own *own,
                               size_t row_bytes, struct sparse_hello **hellos);

/* Ranges in which ranks have about equally many indices. NO_MEMORY. */
enum tutti_status sparse_agreed_ranges(const struct sparse_hello *hellos, int size, int64_t *firsts);

#endif
