/* gpt.c - trains a small GPT in C on a text, in one process or on many ranks, and lets it write.
 *
 *     gpt                                     a minute on one core, with the licences that every Debian system has
 *     gpt --text war-and-peace.txt --width 256 --layers 8 --steps 5000
 *     gpt_double --check-gradients            the backward pass is right: the same program in double
 *     tutti-run -n 4 gpt --mesh dp=2,tp=2     on four ranks; add --check-single to compare with one process
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
 *     mesh.h          many ranks: which part of the model and of the samples each has
 *     exchange_ranks.h  the seam between ranks with slices of matrices
 *     parallel.h      a step of all ranks together: slices, a pipeline of stages, shards of the parameters
 *     check_single.h  whether that computes what one process does
 *
 * One process and many ranks compute the same, up to the order of sums:
 *
 * 1. Random numbers depend on their place and on no state: a parameter's first value on its place in its tensor, what
 *    dropout drops on the step, layer, sample, position and feature, a step's samples on their global numbers.
 * 2. A model is a part: some layers of all (a pipeline stage), and a slice of each of their matrices (tensor
 *    parallelism), whose summands meet at one seam (exchange.h), with or without splitting the rows between.
 * 3. The model asks for its parameters group by group, so somebody else may have them (model.h): shards, for ZeRO.
 */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check_single.h"
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

static void describe(const struct data *data, size_t bytes, const struct options *options)
{
    const struct trainer_options *trainer = &options->trainer;
    const struct shape *shape = &trainer->model.shape;
    const struct part whole = part_whole(shape);
    struct parameters all;
    size_t parameters = 0;
    parameters_init(&all, shape, &whole);
    for (size_t i = 0; i < all.tensor_count; i++) parameters += tensor_elements(&all.tensors[i]);
    parameters_release(&all);
    printf("text           %zu bytes, %zu tokens of %zu, %.2f bytes each\n", bytes,
           data->token_count, shape->vocabulary, data->bytes_per_token);
    printf(
        "model          %zu layers, %zu wide, %zu heads, %zu tokens of context, %zu parameters\n",
        shape->layers, shape->width, shape->heads, shape->context, parameters);
    printf("loss to beat   %.4f, by the frequency of tokens alone\n", data->entropy_nats);
}

/* ------------------------------------------------------------------------------------------- what it does */

/* The optimizer that takes the steps: one of the two. */
struct stepper {
    struct trainer *trainer;
    struct parallel *parallel;
    bool is_silent;
    double *losses; /* [steps] */
};

static void train(const struct options *options, const struct stepper *stepper)
{
    const struct trainer_options *wanted = &options->trainer;
    const size_t steps = wanted->schedule.steps;
    struct progress progress = {.on_terminal = isatty(STDOUT_FILENO) != 0,
                                .steps = steps,
                                .report_steps = options->report_steps,
                                .tokens = wanted->batch * wanted->model.shape.context,
                                .began_s = now_s()};
    if (progress.report_steps == 0) progress.report_steps = (steps + LINES - 1) / LINES;
    for (size_t step = 0; step < steps; step++) {
        const struct step_report report = stepper->parallel != NULL
                                              ? parallel_step(stepper->parallel, step)
                                              : trainer_step(stepper->trainer, step);
        stepper->losses[step] = report.loss;
        if (!stepper->is_silent) progress_step(&progress, step, &report);
    }
    const double seconds = now_s() - progress.began_s;
    if (stepper->is_silent) return;
    printf("time           %.1f s, %.0f tokens/s\n", seconds,
           (double)(steps * progress.tokens) / seconds);
    fflush(stdout);
}

static void print_held_out(struct trainer *trainer, const struct data *data)
{
    const double loss = trainer_held_out(trainer, HELD_OUT_SAMPLES_MAX);
    printf("held out       loss %.4f, %.3f bits for each byte\n", loss,
           loss / log(2) / data->bytes_per_token);
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

/* -------------------------------------------------------------------------------------------- one or many */

static int run_alone(const struct options *options, const struct data *data,
                     const struct tokenizer *tokenizer)
{
    struct trainer trainer;
    int code = 0;
    trainer_init(&trainer, &options->trainer, data);
    printf("batch          %zu samples, %zu at once; %.1f MiB for the model and what it keeps\n",
           options->trainer.batch, options->trainer.model.samples_max,
           (double)model_bytes(trainer.model) / (1 << 20));
    fflush(stdout);
    if (options->check_gradients) {
        code = check_gradients(&trainer);
    } else {
        const size_t steps = options->trainer.schedule.steps;
        const struct stepper stepper = {.trainer = &trainer,
                                        .losses = allocate(steps, sizeof(double))};
        train(options, &stepper);
        print_held_out(&trainer, data);
        write_something(options, &trainer, data, tokenizer);
        free(stepper.losses);
    }
    trainer_release(&trainer);
    return code;
}

/* Rank 0 gets all weights, and does the rest as if it had trained alone. */
static int conclude(const struct options *options, struct parallel *parallel, const double *losses,
                    bool is_first, const struct data *data, const struct tokenizer *tokenizer)
{
    struct trainer whole;
    int code = 0;
    if (is_first) trainer_init(&whole, &options->trainer, data);
    if (is_first) parallel_describe(parallel, options->trainer.schedule.steps, stdout);
    parallel_collect(parallel, is_first ? whole.model : NULL);
    if (!is_first) return 0;
    print_held_out(&whole, data);
    if (options->check_single && !check_single(&options->trainer, data, whole.model, losses, stdout))
        code = 1;
    write_something(options, &whole, data, tokenizer);
    trainer_release(&whole);
    return code;
}

static int run_together(const struct options *options, const struct data *data,
                        const struct tokenizer *tokenizer, struct tutti_comm *world)
{
    const struct mesh_sizes *mesh = &options->parallel.mesh;
    const bool is_first = tutti_comm_rank(world) == 0;
    const size_t steps = options->trainer.schedule.steps;
    struct parallel *parallel = parallel_create(&options->trainer, &options->parallel, data, world);
    const struct stepper stepper = {
        .parallel = parallel, .is_silent = !is_first, .losses = allocate(steps, sizeof(double))};
    if (is_first)
        printf("ranks          %zu stages, %zu replicas with ZeRO %d, %zu slices; %zu samples in "
               "micro-batches of %zu\n",
               mesh->stages, mesh->replicas, options->parallel.zero, mesh->slices,
               options->trainer.batch, options->trainer.model.samples_max);
    fflush(stdout);
    train(options, &stepper);
    const int code = conclude(options, parallel, stepper.losses, is_first, data, tokenizer);
    free(stepper.losses);
    parallel_free(parallel);
    return code;
}

/* All ranks of the launcher, or this one alone; NULL: the user wants no ranks. */
static struct tutti_comm *meet(struct options *options)
{
    struct tutti_comm_options alone = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *world;
    const bool is_launched = tutti_launcher(NULL, NULL) != NULL;
    if (!is_launched && !options->wants_ranks) return NULL;
    alone.rank = 0;
    alone.size = 1;
    expect(tutti_comm_create(is_launched ? NULL : &alone, &world), "meeting the other ranks");
    return world;
}

/* What depends on the number of ranks. Returns what is wrong, or NULL. */
static const char *complete(struct options *options, const struct tutti_comm *world)
{
    struct mesh_sizes *mesh = &options->parallel.mesh;
    struct trainer_options *trainer = &options->trainer;
    const size_t ranks = (size_t)tutti_comm_size(world);
    if (options->check_gradients) return "gradients are checked in one process";
    if (mesh->replicas == 0) mesh->replicas = ranks / (mesh->stages * mesh->slices);
    if (mesh->replicas == 0) mesh->replicas = 1;
    if (!options->has_micro_batch && trainer->batch % mesh->replicas == 0)
        trainer->model.samples_max = trainer->batch / mesh->replicas;
    return parallel_mistake(trainer, &options->parallel, ranks);
}

/* With a tokenizer in a file: rank 0 makes the file where there is none, and then the others read it. */
static struct tokenizer *prepare_in_turn(const struct options *options, const unsigned char *text,
                                         size_t size, struct tutti_comm *world)
{
    const bool waits = world != NULL && options->tokenizer_path != NULL;
    const bool is_first = world == NULL || tutti_comm_rank(world) == 0;
    if (waits && !is_first) expect(tutti_barrier(world), "waiting for the tokenizer");
    struct tokenizer *tokenizer = prepare_tokenizer(options, text, size);
    if (waits && is_first) expect(tutti_barrier(world), "waiting for the tokenizer");
    return tokenizer;
}

int main(int argument_count, char **arguments)
{
    struct options options;
    int code = options_parse(argument_count, arguments, &options);
    if (code >= 0) return code;
    if (getenv("OPENBLAS_NUM_THREADS") == NULL) openblas_set_num_threads(1);
    struct tutti_comm *world = meet(&options);
    const char *mistake = world != NULL ? complete(&options, world) : NULL;
    if (mistake != NULL) {
        if (tutti_comm_rank(world) == 0) fprintf(stderr, "gpt: %s\n", mistake);
        tutti_comm_free(world);
        return 2;
    }

    size_t size;
    unsigned char *text = data_read_text(options.text_path, &size);
    struct tokenizer *tokenizer = prepare_in_turn(&options, text, size, world);
    struct model_options *model = &options.trainer.model;
    model->shape.vocabulary = tokenizer_vocabulary(tokenizer);
    struct data data;
    data_init(&data, tokenizer, text, size, model->shape.context, model->seed);
    if (world == NULL || tutti_comm_rank(world) == 0) describe(&data, size, &options);
    code = world != NULL ? run_together(&options, &data, tokenizer, world)
                         : run_alone(&options, &data, tokenizer);
    data_release(&data);
    tokenizer_free(tokenizer);
    free(text);
    tutti_comm_free(world);
    return code;
}
