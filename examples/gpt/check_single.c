#include "check_single.h"

#include "give_up.h"

/* The most that they may differ by. Float adds up rounding, step after step, and clipping and Adam
 * make more of it. bfloat16 rounds weights by up to 0.4 %, so it is the losses that have to be
 * about the same. */
static double weights_max(enum weight_dtype dtype)
{
    if (dtype == WEIGHTS_BFLOAT16) return 0.1;
    return sizeof(real) == sizeof(double) ? 1e-9 : 2e-2;
}

static double losses_max(enum weight_dtype dtype)
{
    return dtype == WEIGHTS_BFLOAT16 ? 1e-2 : weights_max(dtype);
}

static double relative_difference(const real *one, const real *many, size_t count)
{
    double difference = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        const double a = (double)one[i], b = (double)many[i];
        difference += (a - b) * (a - b);
        length += a * a;
    }
    return length > 0 ? sqrt(difference / length) : sqrt(difference);
}

bool check_single(const struct trainer_options *options, enum weight_dtype dtype,
                  const struct data *data, const struct model *whole, const double *losses,
                  FILE *file)
{
    struct trainer alone;
    double loss = 0, weights = 0;
    const char *worst = "none";
    trainer_init(&alone, options, data);
    for (size_t step = 0; step < options->schedule.steps; step++) {
        const struct step_report report = trainer_step(&alone, step);
        if (losses[step] == 0) continue;
        const double difference = fabs(report.loss - losses[step]) / report.loss;
        loss = difference > loss || isnan(difference) ? difference : loss;
    }
    for (size_t t = 0; t < whole->parameters.tensor_count; t++) {
        const struct tensor *tensor = &whole->parameters.tensors[t];
        const double difference =
            relative_difference(alone.model->weights + tensor->offset,
                                whole->weights + tensor->offset, tensor_elements(tensor));
        if (!(difference > weights) && !isnan(difference)) continue;
        weights = difference;
        worst = tensor->name;
    }
    fprintf(file, "one process    differs by %.1e in weights (%s), by %.1e in losses\n", weights,
            worst, loss);
    trainer_release(&alone);
    return weights < weights_max(dtype) && loss < losses_max(dtype);
}
