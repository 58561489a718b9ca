#include "adapt_model.h"

#include <math.h>
#include <string.h>

enum { TEACHERS = 24, HELD_OUT = 2000 };

/* A random number from -1 to 1 that is a function of its place (SplitMix64). */
static float random_at(uint64_t seed, uint64_t place)
{
    uint64_t z =
        (seed + 1) * UINT64_C(0xd1342543de82ef95) + (place + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1);
}

static float teacher(const float *inputs)
{
    float sum = 0;
    for (uint64_t h = 0; h < TEACHERS; h++) {
        float own = random_at(11, h);
        for (uint64_t i = 0; i < INPUTS; i++) own += random_at(12, h * INPUTS + i) * inputs[i];
        sum += random_at(13, h) * tanhf(own);
    }
    return sum;
}

static float draw_sample(uint64_t number, float noise, float *inputs)
{
    for (uint64_t i = 0; i < INPUTS; i++) inputs[i] = random_at(21, number * INPUTS + i);
    return teacher(inputs) + noise * random_at(22, number);
}

/* Of one sample; adds `scale` times its gradient, unless that is NULL. */
static double loss_of(const float *parameters, const float *inputs, float wanted, float scale,
                      float *gradient)
{
    const float *const second = parameters + FIRST_LAYER;
    float hidden[HIDDEN], out = second[HIDDEN];
    for (int h = 0; h < HIDDEN; h++) {
        const float *const row = parameters + h * (INPUTS + 1);
        float sum = row[INPUTS];
        for (int i = 0; i < INPUTS; i++) sum += row[i] * inputs[i];
        hidden[h] = tanhf(sum);
        out += second[h] * hidden[h];
    }
    const float error = out - wanted;
    if (gradient == NULL) return 0.5 * (double)error * (double)error;
    for (int h = 0; h < HIDDEN; h++) {
        float *const row = gradient + h * (INPUTS + 1);
        const float back = scale * error * second[h] * (1 - hidden[h] * hidden[h]);
        for (int i = 0; i < INPUTS; i++) row[i] += back * inputs[i];
        row[INPUTS] += back;
        gradient[FIRST_LAYER + h] += scale * error * hidden[h];
    }
    gradient[FIRST_LAYER + HIDDEN] += scale * error;
    return 0.5 * (double)error * (double)error;
}

void model_begin(float *parameters)
{
    for (int i = 0; i < PARAMETERS; i++) parameters[i] = 0.25f * random_at(31, (uint64_t)i);
}

void model_gradient(const float *parameters, uint64_t first, uint64_t count, float *gradient)
{
    memset(gradient, 0, PARAMETERS * sizeof(float));
    for (uint64_t n = first; n < first + count; n++) {
        float inputs[INPUTS];
        const float wanted = draw_sample(n, 0.5f, inputs);
        loss_of(parameters, inputs, wanted, 1 / (float)count, gradient);
    }
}

double model_judge(const float *parameters)
{
    double sum = 0;
    for (uint64_t n = 0; n < HELD_OUT; n++) {
        float inputs[INPUTS];
        const float wanted = draw_sample(UINT64_MAX / INPUTS / 2 + n, 0, inputs);
        sum += loss_of(parameters, inputs, wanted, 0, NULL);
    }
    return sum / HELD_OUT;
}
