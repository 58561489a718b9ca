#include "gradient_check.h"

#include "counter.h"
#include "give_up.h"

enum { ELEMENTS = 4 }; /* of each tensor, besides a direction */

/* The mean loss of a step where the weights are moved by t times the direction. */
static double loss_at(struct trainer *trainer, uint64_t step, real *weights, const real *direction,
                      size_t count, double t)
{
    const size_t size = count * sizeof *weights;
    real *before = allocate(count, sizeof *weights);
    memcpy(before, weights, size);
    for (size_t i = 0; i < count; i++) weights[i] += (real)t * direction[i];
    const double loss = trainer_loss(trainer, step);
    memcpy(weights, before, size);
    free(before);
    return loss;
}

/* d loss / dt at t = 0, from four losses, with an error of t^4. */
static double difference(struct trainer *trainer, uint64_t step, real *weights,
                         const real *direction, size_t count)
{
    const double t = 1e-3;
    const double near = loss_at(trainer, step, weights, direction, count, t) -
                        loss_at(trainer, step, weights, direction, count, -t);
    const double far = loss_at(trainer, step, weights, direction, count, 2 * t) -
                       loss_at(trainer, step, weights, direction, count, -2 * t);
    return (8 * near - far) / (12 * t);
}

static double relative_error(double a, double b, double length)
{
    /* An element's derivative may be tiny by chance; the tensor's mean says what counts as zero. */
    return fabs(a - b) / fmax(fmax(fabs(a), fabs(b)), length);
}

double gradient_check(struct trainer *trainer, uint64_t step, FILE *file)
{
    const struct model *model = trainer->model;
    const struct parameters *parameters = &model->parameters;
    const uint64_t key = counter_bits(trainer->options.model.seed, COUNTER_CHECK);
    real *gradients = allocate(parameters->elements, sizeof *gradients);
    real *direction = allocate(parameters->elements, sizeof *direction);
    double worst = 0;
    trainer_gradients(trainer, step);
    memcpy(gradients, model->gradients, parameters->elements * sizeof *gradients);
    for (size_t t = 0; t < parameters->tensor_count; t++) {
        const struct tensor *tensor = &parameters->tensors[t];
        const size_t count = tensor_elements(tensor);
        const real *gradient = gradients + tensor->offset;
        real *weights = model->weights + tensor->offset;
        const uint64_t place = counter_bits(key, t);

        double derivative = 0, squares = 0;
        for (size_t i = 0; i < count; i++) {
            direction[i] = (real)(counter_normal(place, i) / sqrt((double)count));
            derivative += (double)(gradient[i] * direction[i]);
            squares += (double)(gradient[i] * gradient[i]);
        }
        const double length = sqrt(squares / (double)count);
        double error = relative_error(derivative,
                                      difference(trainer, step, weights, direction, count), length);
        for (uint64_t e = 0; e < ELEMENTS; e++) {
            const size_t i = (size_t)(counter_bits(counter_bits(place, 1), e) % count);
            const real one = 1;
            error = fmax(error,
                         relative_error((double)gradient[i],
                                        difference(trainer, step, weights + i, &one, 1), length));
        }
        if (file != NULL)
            fprintf(file, "%-24s %8zu elements  root mean square %.2e  error %.1e\n", tensor->name,
                    count, length, error);
        worst = fmax(worst, error);
    }
    free(gradients);
    free(direction);
    return worst;
}
