/* choose.h - which algorithm for which call: a pure function of values that all ranks share. */
#ifndef TUTTI_TUNE_CHOOSE_H
#define TUTTI_TUNE_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "algo/algo.h"
#include "tune/rules.h"

struct choose_call {
    enum collective collective;
    size_t bytes; /* of a block: count times element size */
    int rank_count;
    bool deterministic;        /* one association tree for all elements */
    const char *algorithm;     /* asked for by name; or NULL */
    const struct rules *rules; /* of the communicator; or NULL */
};

/* INVALID_ALGORITHM: none of that name for this collective and rank count, or not a deterministic one. */
enum tutti_status choose_algorithm(const struct choose_call *call,
                                   const struct algorithm **algorithm);

#endif
