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

/* Losses of the ranks beside those of one process. */
struct losses {
    double largest;     /* difference of a step, relative */
    double many, alone; /* sums over the last quarter of the steps */
};

static void train_alone(struct trainer *alone, const double *many, struct losses *losses)
{
    const size_t steps = alone->options.schedule.steps;
    for (size_t step = 0; step < steps; step++) {
        const struct step_report report = trainer_step(alone, step);
        if (many[step] == 0) continue;
        const double difference = fabs(report.loss - many[step]) / report.loss;
        if (difference > losses->largest || isnan(difference)) losses->largest = difference;
        if (step < steps - steps / 4) continue;
        losses->many += many[step];
        losses->alone += report.loss;
    }
}

bool check_single(const struct trainer_options *options, const struct parallel_options *parallel,
                  const struct data *data, const struct model *whole, const double *many, FILE *file)
{
    const enum weight_dtype dtype = parallel->weights;
    const struct compression_options *const compression = &parallel->compression;
    const bool is_compressed =
        compression->is_wanted && compression->compressor.method != TUTTI_COMPRESS_NONE;
    struct trainer alone;
    struct losses losses = {0};
    double weights = 0;
    const char *worst = "none";
    trainer_init(&alone, options, data);
    train_alone(&alone, many, &losses);
    for (size_t t = 0; t < whole->parameters.tensor_count; t++) {
        const struct tensor *tensor = &whole->parameters.tensors[t];
        const double difference =
            relative_difference(alone.model->weights + tensor->offset,
                                whole->weights + tensor->offset, tensor_elements(tensor));
        if (!(difference > weights) && !isnan(difference)) continue;
        weights = difference;
        worst = tensor->name;
    }
    trainer_release(&alone);
    fprintf(file, "one process    differs by %.1e in weights (%s), by %.1e in losses\n", weights,
            worst, losses.largest);
    if (!is_compressed) return weights < weights_max(dtype) && losses.largest < losses_max(dtype);
    const double ratio = losses.alone > 0 ? losses.many / losses.alone - 1 : 0;
    fprintf(file,
            "               it compressed nothing; the mean loss of the last quarter here is %+.2f "
            "%% of its own\n",
            100 * ratio);
    return fabs(ratio) <= CHECK_COMPRESSED_MAX;
}
