#include "trainer.h"

#include "give_up.h"

void trainer_init(struct trainer *trainer, const struct trainer_options *options,
                  const struct data *data)
{
    const size_t samples = options->model.samples_max;
    const size_t rows = samples * options->model.shape.context;
    *trainer = (struct trainer){.options = *options, .data = data};
    trainer->model = model_create(&options->model);
    trainer->saved = saved_create(trainer->model);
    const size_t elements = trainer->model->parameters.elements;
    trainer->moments.first = allocate(elements, sizeof(real));
    trainer->moments.second = allocate(elements, sizeof(real));
    trainer->squares = allocate(elements / PARAMETERS_BLOCK, sizeof *trainer->squares);
    trainer->inputs = allocate(rows, sizeof *trainer->inputs);
    trainer->targets = allocate(rows, sizeof *trainer->targets);
    trainer->numbers = allocate(samples, sizeof *trainer->numbers);
}

void trainer_release(struct trainer *trainer)
{
    saved_free(trainer->saved);
    model_free(trainer->model);
    free(trainer->moments.first);
    free(trainer->moments.second);
    free(trainer->squares);
    free(trainer->inputs);
    free(trainer->targets);
    free(trainer->numbers);
}

static struct batch batch_of(const struct trainer *trainer, size_t samples)
{
    return (struct batch){.samples = samples,
                          .inputs = trainer->inputs,
                          .targets = trainer->targets,
                          .numbers = trainer->numbers};
}

static double run(struct trainer *trainer, uint64_t step, struct range numbers, bool with_gradients)
{
    struct model *model = trainer->model;
    const size_t context = trainer->data->context, at_once = trainer->options.model.samples_max;
    const double tokens = (double)(trainer->options.batch * context);
    double loss = 0;
    for (size_t done = 0, samples; done < numbers.count; done += samples) {
        samples = numbers.count - done < at_once ? numbers.count - done : at_once;
        struct batch batch = batch_of(trainer, samples);
        batch.step = step;
        batch.training = true;
        for (size_t i = 0; i < samples; i++) {
            trainer->numbers[i] = numbers.first + done + i;
            data_sample(trainer->data, trainer->numbers[i], trainer->inputs + i * context,
                        trainer->targets + i * context);
        }
        loss += model_forward(model, &batch, trainer->saved, NULL, NULL);
        if (with_gradients)
            model_backward(model, &batch, trainer->saved, (real)(1 / tokens), NULL, NULL);
    }
    return loss / tokens;
}

static struct range samples_of(const struct trainer *trainer, uint64_t step)
{
    return (struct range){step * trainer->options.batch, trainer->options.batch};
}

double trainer_loss(struct trainer *trainer, uint64_t step)
{
    return run(trainer, step, samples_of(trainer, step), false);
}

double trainer_share(struct trainer *trainer, uint64_t step, struct range samples)
{
    memset(trainer->model->gradients, 0, trainer->model->parameters.elements * sizeof(real));
    return run(trainer, step, samples, true);
}

double trainer_gradients(struct trainer *trainer, uint64_t step)
{
    return trainer_share(trainer, step, samples_of(trainer, step));
}

struct step_report trainer_update(struct trainer *trainer, uint64_t step)
{
    const struct trainer_options *options = &trainer->options;
    const struct parameters *parameters = &trainer->model->parameters;
    const struct range blocks = {0, parameters->elements / PARAMETERS_BLOCK};
    const struct range elements = {0, parameters->elements};
    struct step_report report = {.step_s = 0};

    squares_of_blocks(trainer->model->gradients, blocks, trainer->squares);
    const double squares = squares_sum(trainer->squares, blocks.count);
    report.gradient_length = sqrt(squares);
    report.rate = schedule_rate(&options->schedule, step);
    adamw_step(&options->adamw, step, report.rate, clip_factor(squares, options->clip),
               parameters->matrix_elements, elements, trainer->model->gradients, trainer->moments,
               trainer->model->weights);
    return report;
}

struct step_report trainer_step(struct trainer *trainer, uint64_t step)
{
    const double loss = trainer_gradients(trainer, step);
    struct step_report report = trainer_update(trainer, step);
    report.loss = loss;
    return report;
}

double trainer_held_out(struct trainer *trainer, size_t samples_max)
{
    const size_t context = trainer->data->context, available = data_held_out_count(trainer->data);
    const size_t count = available < samples_max ? available : samples_max;
    double loss = 0;
    for (size_t done = 0, samples; done < count; done += samples) {
        samples = count - done < trainer->options.model.samples_max
                      ? count - done
                      : trainer->options.model.samples_max;
        for (size_t i = 0; i < samples; i++)
            data_held_out(trainer->data, (done + i) * available / count,
                          trainer->inputs + i * context, trainer->targets + i * context);
        const struct batch batch = batch_of(trainer, samples);
        loss += model_forward(trainer->model, &batch, trainer->saved, NULL, NULL);
    }
    return loss / (double)(count * context);
}
