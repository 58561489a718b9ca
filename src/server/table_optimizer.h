/* table_optimizer.h - the arithmetic of an optimizer's step, element by element, in float32.
 *
 * With g the gradient, w the parameter, t the number of the step, from 1; every line is computed
 * as it is written, from left to right, each operation rounded by itself:
 *
 *     all         g += decay w                              if decay is not 0 and not decoupled
 *                 w *= 1 - rate decay                       if decay is not 0 and decoupled
 *     SGD         w += -rate g
 *     MOMENTUM    m = momentum m + g,  w += -rate m         Sutskever et al. 2013; with `nesterov`:
 *                                      w += -rate (g + momentum m)
 *     ADAGRAD     s += g g,  w += -rate' g / (sqrt(s) + epsilon),
 *                 rate' = rate / (1 + (t - 1) rate_decay)   Duchi, Hazan and Singer 2011
 *     ADAM        m += (1 - b1) (g - m)                     Kingma and Ba 2015;
 *                 v = b2 v + (1 - b2) g g                   decoupled: Loshchilov and Hutter 2019
 *                 w += -rate / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
 *     USER        a function of the user
 *
 * These are the formulas and the order of operations of torch.optim's SGD, Adagrad, Adam and AdamW
 * (without their variants); numbers of a step are computed in double, and rounded to float32 once.
 * With b1 below 1/2, torch computes m as g - (g - m) b1, and so does this.
 */
#ifndef TUTTI_SERVER_TABLE_OPTIMIZER_H
#define TUTTI_SERVER_TABLE_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum table_optimizer_kind { TABLE_SGD, TABLE_MOMENTUM, TABLE_ADAGRAD, TABLE_ADAM, TABLE_USER };

enum { TABLE_STATE_MAX = 4 };

/* A step of the user's optimizer, for `count` elements of one row or of a dense share: changes
 * parameters[count] and state[0..state_count - 1][count]. It is called once for each row, or for
 * pieces of a dense share, and must treat each element alike; nothing is kept of the pointers. */
typedef void table_update_function(void *context, uint64_t step, size_t count,
                                   const float *gradients, float *parameters, float *const *state);

struct table_optimizer {
    enum table_optimizer_kind kind;
    double rate;         /* at least 0 */
    double weight_decay; /* at least 0 */
    bool decoupled;      /* weight decay acts on the parameter, not by the gradient */
    double momentum;     /* MOMENTUM: at least 0 */
    bool nesterov;
    double rate_decay;              /* ADAGRAD: at least 0 */
    double first_beta, second_beta; /* ADAM: at least 0, below 1 */
    double epsilon;                 /* ADAGRAD, ADAM: at least 0 */
    /* The state's first values: ADAGRAD's s, at least 0, and a user's; 0 with the others. */
    double initial_state;
    /* USER only. The context must outlive the table. */
    unsigned state_count; /* numbers for each element, at most TABLE_STATE_MAX */
    table_update_function *update;
    void *context;
};

/* INVALID_OPTIONS: a number cannot be used; the message names it. */
enum tutti_status table_optimizer_check(const struct table_optimizer *optimizer);
/* Numbers of state for each element. */
unsigned table_optimizer_state_count(const struct table_optimizer *optimizer);
/* The first value of each of them. */
float table_optimizer_initial_state(const struct table_optimizer *optimizer);

/* Numbers that all elements of a step have in common. */
struct table_step {
    const struct table_optimizer *optimizer;
    uint64_t number;
    float rate;  /* with its sign: what is multiplied with goes to the parameter */
    float decay; /* 0, or the coupled weight decay */
    float keep;  /* of the parameter: 1 - rate decay where it is decoupled, or 1 */
    float root;  /* ADAM: sqrt(1 - b2^t) */
};
/* number >= 1. Pure. */
struct table_step table_step_of(const struct table_optimizer *optimizer, uint64_t number);
/* The step for count elements; state[] has table_optimizer_state_count pointers. Gradients are not
 * changed, and overlap nothing. Pure but for the user's function. */
void table_step_take(const struct table_step *step, size_t count, const float *gradients,
                     float *parameters, float *const *state);

#endif
