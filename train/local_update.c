#include "local_update.h"

#include <math.h>

void local_update_delta(const float *global, const float *own, float *delta, size_t count)
{
    for (size_t i = 0; i < count; i++) delta[i] = global[i] - own[i];
}

struct next {
    float velocity, global;
};

static inline struct next next_of(const struct local_update *u, float global, float velocity,
                                  float delta, bool has_momentum)
{
    struct next next = {velocity, global};
    float change = delta;
    if (has_momentum) {
        next.velocity = u->momentum * velocity + delta;
        change = u->is_nesterov ? delta + u->momentum * next.velocity : next.velocity;
    }
    next.global = global - u->rate * change;
    return next;
}

bool local_update_is_finite(const struct local_update *update, const float *global,
                            const float *velocity, const float *delta, size_t count)
{
    bool is_finite = true;
    for (size_t i = 0; i < count; i++) {
        const struct next next = next_of(update, global[i], velocity != NULL ? velocity[i] : 0,
                                         delta[i], velocity != NULL);
        is_finite = is_finite && isfinite(next.global) && isfinite(next.velocity);
    }
    return is_finite;
}

void local_update_apply(const struct local_update *update, float *global, float *velocity,
                        const float *delta, float *own, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct next next = next_of(update, global[i], velocity != NULL ? velocity[i] : 0,
                                         delta[i], velocity != NULL);
        if (velocity != NULL) velocity[i] = next.velocity;
        global[i] = next.global;
        own[i] = update->mixing > 0 ? next.global + update->mixing * (own[i] - next.global)
                                    : next.global;
    }
}
