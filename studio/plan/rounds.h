/* rounds.h - runs a plan in the head, at unit time, and keeps who sent what to whom in which round.
 *
 * In a round every lane can send `ports` messages (0: any number), one to a group counts as one;
 * what it sends must be there when the round begins. Local work takes no time. A step's round is
 * the one at whose end its result is there: 0 is the beginning.
 *
 * It shows what a plan does, for drawing; whether that is right is for verify.h to say.
 */
#ifndef TUTTI_STUDIO_PLAN_ROUNDS_H
#define TUTTI_STUDIO_PLAN_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/plan.h"
#include "tutti/tutti.h"

enum { ROUNDS_RANKS_MAX = 64, ROUNDS_STEPS_MAX = 20000, ROUNDS_CHUNKS_MAX = 1 << 20 };

/* The contents of a chunk. In a barrier there is one chunk without contents: the ranks that are
 * known to have entered. */
struct round_value {
    uint32_t chunk_class;
    uint64_t ranks; /* bit r: rank r's contribution is in it; 0 where nobody wrote */
    double number;  /* the sum of the contributions' example values */
};

enum { ROUNDS_NEVER = UINT32_MAX };

struct round_message {
    uint32_t round; /* in which it travels, from 1 */
    int from, to;
    uint32_t first_value, value_count; /* in rounds.values */
    uint32_t sent_by;                  /* in rounds.results: the step whose result it is */
    uint32_t taken_by;                 /* the step that takes it, or ROUNDS_NEVER */
};

/* The results of a step. They come in an order in which the steps can run. */
struct round_result {
    uint32_t round;
    int rank;
    uint32_t step; /* in rank_plan.steps */
    uint32_t first_value, value_count;
};

struct rounds {
    uint32_t round_count; /* the last round's number */
    uint32_t message_count, result_count;
    struct round_message *messages;
    struct round_result *results;
    struct round_value *values;
};

struct rounds_options {
    unsigned ports;
    bool in_place;                /* input and output share memory, see plan/plan.h */
    const double *example_values; /* rank after rank, one for each input chunk; or NULL */
    uint32_t value_count;         /* of one rank */
};

/* On failure (NO_MEMORY; UNSUPPORTED: too large; INVALID_ALGORITHM: it comes to a halt or messages
 * do not fit) *rounds is empty and *message says why. Any thread; pure. */
enum tutti_status rounds_init(struct rounds *rounds, const struct plan *plan,
                              const struct rounds_options *options, const char **message);
void rounds_release(struct rounds *rounds);
/* The contents of input chunk i of a rank at the beginning. */
struct round_value rounds_input(const struct plan *plan, int rank, uint32_t chunk,
                                const struct rounds_options *options);

#endif
