/* gpt.c - trains a small GPT in C on a text, in one process, and lets it write.
 *
 *     gpt                                     a minute on one core, with the licences that every Debian system has
 *     gpt --text war-and-peace.txt --width 256 --layers 8 --steps 5000
 *     gpt_double --check-gradients            the backward pass is right: the same program in double
 *
 * The files, in the order in which to read them:
 *
 *     real.h          float or double, and the product of matrices, which OpenBLAS computes
 *     counter.h       random numbers that are functions of their place
 *     tokenizer.h     text as numbers, byte-pair encoding; tokenizer_train.c finds the pairs
 *     data.h          the text as samples, and their order
 *     parameters.h    which tensors there are, where they lie and how they start
 *     layers.h        norm, dropout, embedding, MLP and head, forward and back; attention.h the same
 *     exchange.h      the seam between parts of matrices
 *     model.h         the layers one after the other, and what the backward pass needs of the forward pass
 *     adamw.h         from gradients to new weights
 *     trainer.h       one step after the other
 *     writer.h, gradient_check.h, options.h
 *
 * All of it is ready to be split over ranks, and computes the same however it is split, up to the order of sums:
 *
 * 1. Random numbers depend on their place and on no state: a parameter's first value on its place in its tensor, what
 *    dropout drops on the step, layer, sample, position and feature, a step's samples on their global numbers.
 * 2. A model is a part: some layers of all (a pipeline stage), and a slice of each of their matrices (tensor
 *    parallelism), whose summands meet at one seam (exchange.h), with or without splitting the rows between.
 * 3. Parameters, gradients and moments are flat arrays, of which a rank may update a range (ZeRO).
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "give_up.h"
#include "gradient_check.h"
#include "options.h"
#include "trainer.h"
#include "writer.h"

enum { HELD_OUT_SAMPLES_MAX = 256, LINES = 12 };
static const double gradient_error_max = 1e-6;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long memory_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
}

/* ------------------------------------------------------------------------------------------------ progress */

/* On a terminal, a line that is written over again and again; elsewhere, a line now and then. */
struct progress {
    bool on_terminal;
    size_t steps, report_steps;
    size_t tokens; /* of a step */
    double began_s, shown_s;
    double losses; /* of the steps since the last line */
    size_t count;
};

static void progress_step(struct progress *progress, size_t step, const struct step_report *report)
{
    const size_t done = step + 1;
    const double now = now_s(), seconds = now - progress->began_s;
    const bool line = done % progress->report_steps == 0 || done == progress->steps;
    progress->losses += report->loss;
    progress->count++;
    if (!line && !(progress->on_terminal && now - progress->shown_s > 0.2)) return;
    printf("%sstep %6zu of %zu  loss %.4f", progress->on_terminal ? "\r\033[K" : "", done,
           progress->steps, line ? progress->losses / (double)progress->count : report->loss);
    if (line) printf("  rate %.1e  gradients %.2f", report->rate, report->gradient_length);
    printf("  %.0f tokens/s  %ld MiB", (double)(done * progress->tokens) / seconds, memory_mib());
    if (line) {
        putchar('\n');
        progress->losses = 0;
        progress->count = 0;
    } else {
        printf("  %.0f s to go", seconds / (double)done * (double)(progress->steps - done));
    }
    fflush(stdout);
    progress->shown_s = now;
}

/* --------------------------------------------------------------------------------------------- preparation */

static struct tokenizer *prepare_tokenizer(const struct options *options, const unsigned char *text,
                                           size_t size)
{
    const char *path = options->tokenizer_path, *why;
    if (path != NULL && access(path, F_OK) == 0) {
        struct tokenizer *tokenizer = tokenizer_load(path, &why);
        if (tokenizer == NULL) give_up(path, why);
        return tokenizer;
    }
    const size_t vocabulary = options->trainer.model.shape.vocabulary;
    struct tokenizer *tokenizer = tokenizer_train(text, size, vocabulary);
    if (path == NULL) return tokenizer;
    FILE *file = fopen(path, "wb");
    if (file == NULL || !tokenizer_print(tokenizer, file) || fclose(file) != 0)
        give_up(path, strerror(errno));
    return tokenizer;
}

static void describe(const struct data *data, size_t bytes, const struct trainer *trainer)
{
    const struct shape *shape = &trainer->options.model.shape;
    size_t parameters = 0;
    for (size_t i = 0; i < trainer->model->parameters.tensor_count; i++)
        parameters += tensor_elements(&trainer->model->parameters.tensors[i]);
    printf("text           %zu bytes, %zu tokens of %zu, %.2f bytes each\n", bytes,
           data->token_count, shape->vocabulary, data->bytes_per_token);
    printf(
        "model          %zu layers, %zu wide, %zu heads, %zu tokens of context, %zu parameters\n",
        shape->layers, shape->width, shape->heads, shape->context, parameters);
    printf("batch          %zu samples, %zu at once; %.1f MiB for the model and what it keeps\n",
           trainer->options.batch, trainer->options.model.samples_max,
           (double)model_bytes(trainer->model) / (1 << 20));
    printf("loss to beat   %.4f, by the frequency of tokens alone\n", data->entropy_nats);
    fflush(stdout);
}

/* ------------------------------------------------------------------------------------------- what it does */

static void train(const struct options *options, struct trainer *trainer, const struct data *data)
{
    const struct trainer_options *wanted = &trainer->options;
    const size_t steps = wanted->schedule.steps;
    struct progress progress = {.on_terminal = isatty(STDOUT_FILENO) != 0,
                                .steps = steps,
                                .report_steps = options->report_steps,
                                .tokens = wanted->batch * data->context,
                                .began_s = now_s()};
    if (progress.report_steps == 0) progress.report_steps = (steps + LINES - 1) / LINES;
    for (size_t step = 0; step < steps; step++) {
        const struct step_report report = trainer_step(trainer, step);
        progress_step(&progress, step, &report);
    }
    const double seconds = now_s() - progress.began_s;
    const double loss = trainer_held_out(trainer, HELD_OUT_SAMPLES_MAX);
    printf("held out       loss %.4f, %.3f bits for each byte\n", loss,
           loss / log(2) / data->bytes_per_token);
    printf("time           %.1f s, %.0f tokens/s\n", seconds,
           (double)(steps * progress.tokens) / seconds);
    fflush(stdout);
}

static void write_something(const struct options *options, struct trainer *trainer,
                            const struct data *data, const struct tokenizer *tokenizer)
{
    enum { PROMPT = 8 };
    const struct writer_options wanted = {.tokens = options->write_tokens,
                                          .temperature = options->temperature,
                                          .seed = options->trainer.model.seed};
    if (wanted.tokens == 0) return;
    data_held_out(data, 0, trainer->inputs, trainer->targets);
    uint32_t prompt[PROMPT];
    const size_t count = data->context < PROMPT ? data->context : PROMPT;
    memcpy(prompt, trainer->inputs, count * sizeof *prompt);
    printf("it writes\n");
    writer_write(trainer->model, trainer->saved, tokenizer, &wanted, prompt, count, stdout);
}

static int check_gradients(struct trainer *trainer)
{
    const double error = gradient_check(trainer, 0, stdout);
    printf("largest relative error %.1e, of %.0e allowed\n", error, gradient_error_max);
    return error < gradient_error_max ? 0 : 1;
}

int main(int argument_count, char **arguments)
{
    struct options options;
    int code = options_parse(argument_count, arguments, &options);
    if (code >= 0) return code;
    if (getenv("OPENBLAS_NUM_THREADS") == NULL) openblas_set_num_threads(1);

    size_t size;
    unsigned char *text = data_read_text(options.text_path, &size);
    struct tokenizer *tokenizer = prepare_tokenizer(&options, text, size);
    struct model_options *model = &options.trainer.model;
    model->shape.vocabulary = tokenizer_vocabulary(tokenizer);
    struct data data;
    struct trainer trainer;
    data_init(&data, tokenizer, text, size, model->shape.context, model->seed);
    trainer_init(&trainer, &options.trainer, &data);
    describe(&data, size, &trainer);

    code = 0;
    if (options.check_gradients) {
        code = check_gradients(&trainer);
    } else {
        train(&options, &trainer, &data);
        write_something(&options, &trainer, &data, tokenizer);
    }
    trainer_release(&trainer);
    data_release(&data);
    tokenizer_free(tokenizer);
    free(text);
    return code;
}
