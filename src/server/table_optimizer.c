#include "server/table_optimizer.h"

#include <math.h>

#include "base/status.h"

static enum tutti_status refuse(const char *name, double value, const char *wanted)
{
    return error_set(TUTTI_INVALID_OPTIONS, "the optimizer's %s is %g, not %s", name, value, wanted);
}

static enum tutti_status check_positive(const char *name, double value)
{
    if (isfinite(value) && value >= 0) return TUTTI_OK;
    return refuse(name, value, "a number of at least 0");
}

static enum tutti_status check_beta(const char *name, double value)
{
    if (value >= 0 && value < 1) return TUTTI_OK;
    return refuse(name, value, "at least 0 and below 1");
}

static enum tutti_status check_user(const struct table_optimizer *o)
{
    if (o->update == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "the user's optimizer has no function");
    if (o->state_count > TABLE_STATE_MAX) return refuse("state_count", o->state_count, "0 to 4");
    if (!isfinite(o->initial_state)) return refuse("initial_state", o->initial_state, "finite");
    return TUTTI_OK;
}

enum tutti_status table_optimizer_check(const struct table_optimizer *o)
{
    TRY(check_positive("rate", o->rate));
    TRY(check_positive("weight_decay", o->weight_decay));
    switch (o->kind) {
    case TABLE_SGD: return TUTTI_OK;
    case TABLE_MOMENTUM: return check_positive("momentum", o->momentum);
    case TABLE_ADAGRAD:
        TRY(check_positive("rate_decay", o->rate_decay));
        TRY(check_positive("initial_state", o->initial_state));
        return check_positive("epsilon", o->epsilon);
    case TABLE_ADAM:
        TRY(check_beta("beta1", o->first_beta));
        TRY(check_beta("beta2", o->second_beta));
        return check_positive("epsilon", o->epsilon);
    case TABLE_USER: return check_user(o);
    }
    return error_set(TUTTI_INVALID_OPTIONS, "%d is no optimizer", (int)o->kind);
}

unsigned table_optimizer_state_count(const struct table_optimizer *o)
{
    switch (o->kind) {
    case TABLE_SGD: return 0;
    case TABLE_MOMENTUM:
    case TABLE_ADAGRAD: return 1;
    case TABLE_ADAM: return 2;
    case TABLE_USER: return o->state_count;
    }
    return 0;
}

float table_optimizer_initial_state(const struct table_optimizer *o)
{
    return o->kind == TABLE_ADAGRAD || o->kind == TABLE_USER ? (float)o->initial_state : 0;
}

/* base^exponent by squaring: pow() has other last bits on other systems. */
static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= base;
        base *= base;
    }
    return result;
}

struct table_step table_step_of(const struct table_optimizer *o, uint64_t number)
{
    struct table_step step = {o, number, (float)-o->rate, 0, 1, 1};
    if (o->decoupled)
        step.keep = (float)(1 - o->rate * o->weight_decay);
    else
        step.decay = (float)o->weight_decay;
    if (o->kind == TABLE_ADAGRAD)
        step.rate = (float)-(o->rate / (1 + (double)(number - 1) * o->rate_decay));
    if (o->kind == TABLE_ADAM) {
        step.rate = (float)-(o->rate / (1 - power(o->first_beta, number)));
        step.root = (float)sqrt(1 - power(o->second_beta, number));
    }
    return step;
}

/* The gradients with the coupled weight decay of so many elements lie on the stack. */
enum { PIECE = 1024 };

static void sgd(const struct table_step *step, size_t count, const float *restrict gradients,
                float *restrict parameters)
{
    const float rate = step->rate;
    for (size_t i = 0; i < count; i++) parameters[i] += rate * gradients[i];
}

static void momentum(const struct table_step *step, size_t count, const float *restrict gradients,
                     float *restrict parameters, float *restrict moments)
{
    const float rate = step->rate, keep = (float)step->optimizer->momentum;
    if (step->optimizer->nesterov)
        for (size_t i = 0; i < count; i++) {
            moments[i] = keep * moments[i] + gradients[i];
            parameters[i] += rate * (gradients[i] + keep * moments[i]);
        }
    else
        for (size_t i = 0; i < count; i++) {
            moments[i] = keep * moments[i] + gradients[i];
            parameters[i] += rate * moments[i];
        }
}

static void adagrad(const struct table_step *step, size_t count, const float *restrict gradients,
                    float *restrict parameters, float *restrict sums)
{
    const float rate = step->rate, epsilon = (float)step->optimizer->epsilon;
    for (size_t i = 0; i < count; i++) {
        sums[i] += gradients[i] * gradients[i];
        parameters[i] += rate * gradients[i] / (sqrtf(sums[i]) + epsilon);
    }
}

static void adam(const struct table_step *step, size_t count, const float *restrict gradients,
                 float *restrict parameters, float *restrict first, float *restrict second)
{
    const struct table_optimizer *const o = step->optimizer;
    const float rate = step->rate, root = step->root, epsilon = (float)o->epsilon;
    const float b2 = (float)o->second_beta, c2 = (float)(1 - o->second_beta);
    const float c1 = (float)(1 - o->first_beta), d1 = 1 - c1;
    if (c1 < 0.5f) /* the order of operations with which torch.lerp is exact at both ends */
        for (size_t i = 0; i < count; i++) first[i] += c1 * (gradients[i] - first[i]);
    else
        for (size_t i = 0; i < count; i++) first[i] = gradients[i] - (gradients[i] - first[i]) * d1;
    for (size_t i = 0; i < count; i++) {
        second[i] = b2 * second[i] + c2 * gradients[i] * gradients[i];
        parameters[i] += rate * first[i] / (sqrtf(second[i]) / root + epsilon);
    }
}

/* At most PIECE elements if there is a coupled weight decay. */
static void take(const struct table_step *step, size_t count, const float *gradients,
                 float *parameters, float *const *state)
{
    float decayed[PIECE];
    if (step->keep != 1)
        for (size_t i = 0; i < count; i++) parameters[i] *= step->keep;
    if (step->decay != 0) {
        for (size_t i = 0; i < count; i++) decayed[i] = gradients[i] + step->decay * parameters[i];
        gradients = decayed;
    }
    switch (step->optimizer->kind) {
    case TABLE_SGD: sgd(step, count, gradients, parameters); return;
    case TABLE_MOMENTUM: momentum(step, count, gradients, parameters, state[0]); return;
    case TABLE_ADAGRAD: adagrad(step, count, gradients, parameters, state[0]); return;
    case TABLE_ADAM: adam(step, count, gradients, parameters, state[0], state[1]); return;
    case TABLE_USER:
        step->optimizer->update(step->optimizer->context, step->number, count, gradients,
                                parameters, state);
        return;
    }
}

void table_step_take(const struct table_step *step, size_t count, const float *gradients,
                     float *parameters, float *const *state)
{
    const unsigned state_count = table_optimizer_state_count(step->optimizer);
    for (size_t first = 0; first < count; first += PIECE) {
        float *here[TABLE_STATE_MAX] = {NULL};
        for (unsigned s = 0; s < state_count; s++) here[s] = state[s] + first;
        take(step, count - first < PIECE ? count - first : PIECE, gradients + first,
             parameters + first, here);
    }
}
