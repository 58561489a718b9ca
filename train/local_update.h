/* local_update.h - the arithmetic of a synchronisation, in float32:
 *
 *     velocity = momentum * velocity + delta
 *     change   = Nesterov: delta + momentum * velocity, else velocity; without momentum: delta
 *     global   = global - rate * change
 *     own      = global + mixing * (own - global)
 *
 * Every function computes the same bits from the same numbers on any machine: products are rounded
 * before they are added (the file is compiled so).
 */
#ifndef TUTTI_TRAIN_LOCAL_UPDATE_H
#define TUTTI_TRAIN_LOCAL_UPDATE_H

#include <stdbool.h>
#include <stddef.h>

struct local_update {
    float rate, momentum, mixing;
    bool is_nesterov;
};

/* delta = global - own. */
void local_update_delta(const float *global, const float *own, float *delta, size_t count);
/* Whether delta, and all new global values and velocities, are finite. velocity may be NULL: no
 * momentum. */
bool local_update_is_finite(const struct local_update *update, const float *global,
                            const float *velocity, const float *delta, size_t count);
/* Changes global, velocity and own. */
void local_update_apply(const struct local_update *update, float *global, float *velocity,
                        const float *delta, float *own, size_t count);

#endif
