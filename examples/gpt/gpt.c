/* gpt.c - trains a small GPT in C on a text, in one process or on many ranks, and lets it write.
 *
 *     gpt                                     a minute on one core, with the licences that every Debian system has
 *     gpt --text war-and-peace.txt --width 256 --layers 8 --steps 5000
 *     gpt_double --check-gradients            the backward pass is right: the same program in double
 *     tutti-run -n 4 gpt --mesh dp=2,tp=2     on four ranks; add --check-single to compare with one process
 *     gpt --checkpoint DIR --resume           goes on where the last run ended, on any mesh
 *     tutti-run -n 4 --elastic 2 gpt --elastic    goes on when ranks die, and takes in others
 *     tutti-run -n 8 gpt --mesh pp=2,dp=2,tp=2 --profile step.json      what all ranks do, for Perfetto
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
 *     shards_holder.h   Tutti's shards, which have the parameters; in 16 bits too (bfloat16.h)
 *     parallel.h      a step of all ranks together: slices, a pipeline of stages, shards of the parameters
 *     timeline.h      what a rank does, moment for moment; profile.h and clocks.h: of all ranks, in one file
 *     volumes.h       what a step sends, beside the formulas; unconnected.h: a step that sends nothing
 *     check_single.h  whether that computes what one process does
 *     checkpointing.h the run in files, from which other ranks go on
 *     elastic_trainer.h  replicas that go on when ranks die
 *
 * One process and many ranks compute the same, up to the order of sums:
 *
 * 1. Random numbers depend on their place and on no state: a parameter's first value on its place
 *    in its tensor, what dropout drops on the step, layer, sample, position and feature, a step's
 *    samples on their global numbers.
 * 2. A model is a part: some layers of all (a pipeline stage), and a slice of each of their
 *    matrices (tensor parallelism), whose summands meet at one seam (exchange.h), with or without
 *    splitting the rows between.
 * 3. The model asks for its parameters group by group, so somebody else may have them (model.h):
 *    shards, for ZeRO.
 */
#include <cblas.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check_single.h"
#include "elastic_trainer.h"
#include "give_up.h"
#include "gradient_check.h"
#include "options.h"
#include "trainer.h"
#include "writer.h"

enum { LINES = 12, WARM_UPS = 2 };
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

/* ------------------------------------------------------------------------------------- progress */

/* On a terminal, a line that is written over again and again; elsewhere, a line now and then. */
struct progress {
    bool on_terminal;
    bool has_no_loss;                  /* none that means anything */
    size_t first, steps, report_steps; /* `first` were taken before */
    size_t tokens;                     /* of a step */
    double began_s, shown_s;
    double losses; /* of the steps since the last line */
    size_t count, skipped;
    double steps_s,
        waited_s[3]; /* the same of steps' times, and what of them was waited for each axis */
    const struct mesh_sizes *mesh;
};

/* How much of the time communication and idle stages took that nothing hid. */
static void print_waiting(const struct progress *progress)
{
    static const char *const names[] = {"pp", "dp", "tp"};
    const struct mesh_sizes *mesh = progress->mesh;
    const size_t sizes[] = {mesh->stages, mesh->replicas, mesh->slices};
    const char *before = "  waits";
    for (size_t i = 0; i < 3; i++) {
        if (sizes[i] == 1 || progress->steps_s == 0) continue;
        printf("%s %s %.0f%%", before, names[i], 100 * progress->waited_s[i] / progress->steps_s);
        before = ",";
    }
}

static void progress_step(struct progress *progress, size_t step, const struct step_report *report)
{
    const size_t done = step + 1;
    const double now = now_s(), seconds = now - progress->began_s;
    const bool line = done % progress->report_steps == 0 || done == progress->steps;
    progress->losses += report->loss;
    progress->count++;
    progress->skipped += report->is_skipped;
    progress->steps_s += report->step_s;
    for (size_t i = 0; i < 3; i++) progress->waited_s[i] += report->waited_s[i];
    if (!line && !(progress->on_terminal && now - progress->shown_s > 0.2)) return;
    printf("%sstep %6zu of %zu", progress->on_terminal ? "\r\033[K" : "", done, progress->steps);
    if (!progress->has_no_loss)
        printf("  loss %.4f", line ? progress->losses / (double)progress->count : report->loss);
    if (line && !progress->has_no_loss)
        printf("  rate %.1e  gradients %.2f", report->rate, report->gradient_length);
    const size_t taken = done - progress->first;
    printf("  %.0f tokens/s", (double)(taken * progress->tokens) / seconds);
    print_waiting(progress);
    printf("  %ld MiB", memory_mib());
    if (progress->skipped > 0) printf("  %zu skipped", progress->skipped);
    if (line) {
        putchar('\n');
        progress->losses = 0;
        progress->count = progress->skipped = 0;
        progress->steps_s = 0;
        memset(progress->waited_s, 0, sizeof progress->waited_s);
    } else {
        printf("  %.0f s to go", seconds / (double)taken * (double)(progress->steps - done));
    }
    fflush(stdout);
    progress->shown_s = now;
}

/* ---------------------------------------------------------------------------------- preparation */

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
    /* Under another name first: a rank that joins meanwhile finds all of it or nothing. */
    char beside[PATH_MAX];
    const int length = snprintf(beside, sizeof beside, "%s.%ld", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof beside) give_up(path, strerror(ENAMETOOLONG));
    FILE *file = fopen(beside, "wb");
    if (file == NULL || !tokenizer_print(tokenizer, file) || fclose(file) != 0 ||
        rename(beside, path) != 0)
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
    /* OpenBLAS takes the kernels for Prescott on a CPU that is newer than itself. */
    const char *const core = openblas_get_corename();
    printf("matrices       by OpenBLAS for %s%s\n", core,
           strcmp(core, "Prescott") == 0
               ? "; with OPENBLAS_CORETYPE=SkylakeX or Haswell it may be twice as fast"
               : "");
    printf("loss to beat   %.4f, by the frequency of tokens alone\n", data->entropy_nats);
}

/* --------------------------------------------------------------------------------- what it does */

/* The optimizer that takes the steps: one of the three. */
struct stepper {
    struct trainer *trainer;
    struct parallel *parallel;
    struct elastic_trainer *elastic;
    struct checkpointing *checkpointing; /* NULL: none */
    bool is_silent;
    double *losses, *seconds; /* [steps] */
};

/* Takes step number *step, or, of an elastic run, the one that is next there. False: there is none. */
static bool take_step(const struct stepper *stepper, size_t steps, size_t *step,
                      struct step_report *report)
{
    if (stepper->elastic != NULL) return elastic_trainer_step(stepper->elastic, step, report);
    if (*step == steps) return false;
    *report = stepper->parallel != NULL ? parallel_step(stepper->parallel, *step)
                                        : trainer_step(stepper->trainer, *step);
    return true;
}

/* Returns the first step that it took. */
static size_t train(const struct options *options, const struct stepper *stepper)
{
    const struct trainer_options *wanted = &options->trainer;
    const size_t steps = wanted->schedule.steps;
    size_t step = (size_t)checkpointing_step(stepper->checkpointing), taken = 0;
    struct progress progress = {.on_terminal = isatty(STDOUT_FILENO) != 0,
                                .first = step,
                                .has_no_loss = options->parallel.is_unconnected,
                                .steps = steps,
                                .report_steps = options->report_steps,
                                .tokens = wanted->batch * wanted->model.shape.context,
                                .mesh = &options->parallel.mesh,
                                .began_s = now_s()};
    bool is_silent = stepper->is_silent;
    struct step_report report;
    if (progress.report_steps == 0) progress.report_steps = (steps + LINES - 1) / LINES;
    for (double began_s = now_s(); take_step(stepper, steps, &step, &report); began_s = now_s()) {
        if (taken++ == 0 || step < progress.first) progress.first = step;
        stepper->losses[step] = report.loss;
        stepper->seconds[step] = now_s() - began_s;
        if (stepper->elastic != NULL) is_silent = !elastic_trainer_is_first(stepper->elastic);
        if (!is_silent) progress_step(&progress, step, &report);
        checkpointing_after(stepper->checkpointing, stepper->parallel, ++step);
    }
    const double seconds = now_s() - progress.began_s;
    if (is_silent) return progress.first;
    printf("time           %.1f s, %.0f tokens/s\n", seconds,
           (double)(taken * progress.tokens) / seconds);
    fflush(stdout);
    return progress.first;
}

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The middle one of all steps but the first ones. Sorts them. */
static double median_s(double *seconds, size_t steps)
{
    const size_t first = steps > WARM_UPS ? WARM_UPS : 0, count = steps - first;
    qsort(seconds + first, count, sizeof *seconds, compare_doubles);
    return seconds[first + count / 2];
}

static void print_held_out(const struct options *options, struct trainer *trainer,
                           const struct data *data)
{
    if (options->held_out_samples == 0) return;
    const double loss = trainer_held_out(trainer, options->held_out_samples);
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

/* ---------------------------------------------------------------------------------- one or many */

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
                                        .losses = allocate(steps, sizeof(double)),
                                        .seconds = allocate(steps, sizeof(double))};
        (void)train(options, &stepper);
        printf("step           %.3f ms in the median\n", 1e3 * median_s(stepper.seconds, steps));
        print_held_out(options, &trainer, data);
        write_something(options, &trainer, data, tokenizer);
        free(stepper.losses);
        free(stepper.seconds);
    }
    trainer_release(&trainer);
    return code;
}

/* Replicas that may die, and be replaced. Each has the whole model; whichever is rank 0 in the end
 * does the rest as if it had trained alone. */
static int run_elastic(const struct options *options, const struct data *data,
                       const struct tokenizer *tokenizer)
{
    const size_t steps = options->trainer.schedule.steps;
    struct trainer trainer;
    trainer_init(&trainer, &options->trainer, data);
    struct elastic_trainer *elastic = elastic_trainer_open(&trainer, options->checkpointing.folder);
    const struct stepper stepper = {.elastic = elastic,
                                    .losses = allocate(steps, sizeof(double)),
                                    .seconds = allocate(steps, sizeof(double))};
    const size_t first = train(options, &stepper);
    const bool is_first = elastic_trainer_is_first(elastic);
    if (is_first && first < steps)
        printf("step           %.3f ms in the median, on this rank\n",
               1e3 * median_s(stepper.seconds + first, steps - first));
    if (is_first) elastic_trainer_describe(elastic, stdout);
    elastic_trainer_close(elastic);
    if (is_first) print_held_out(options, &trainer, data);
    if (is_first) write_something(options, &trainer, data, tokenizer);
    free(stepper.losses);
    free(stepper.seconds);
    trainer_release(&trainer);
    return 0;
}

/* Rank 0 gets all weights, and does the rest as if it had trained alone. */
static int conclude(const struct options *options, struct parallel *parallel, const double *losses,
                    bool is_first, const struct data *data, const struct tokenizer *tokenizer)
{
    struct trainer whole;
    int code = 0;
    parallel_describe(parallel, is_first ? stdout : NULL);
    parallel_write_profile(parallel);
    if (options->parallel.is_unconnected) return 0;
    if (is_first) trainer_init(&whole, &options->trainer, data);
    parallel_collect(parallel, is_first ? whole.model : NULL);
    if (!is_first) return 0;
    print_held_out(options, &whole, data);
    if (options->check_single &&
        !check_single(&options->trainer, &options->parallel, data, whole.model, losses, stdout))
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
    struct checkpointing *checkpointing = checkpointing_open(&options->checkpointing, world);
    struct parallel_options parts = options->parallel;
    checkpointing_begin(checkpointing, &parts);
    const size_t before = (size_t)checkpointing_step(checkpointing);
    struct parallel *parallel = parallel_create(&options->trainer, &parts, data, world);
    const struct stepper stepper = {.parallel = parallel,
                                    .checkpointing = checkpointing,
                                    .is_silent = !is_first,
                                    .losses = allocate(steps, sizeof(double)),
                                    .seconds = allocate(steps, sizeof(double))};
    checkpointing_load(checkpointing, parallel);
    if (is_first && before > 0)
        printf("goes on        after step %zu, from %s\n", before, options->checkpointing.folder);
    if (is_first)
        printf("ranks          %zu stages, %zu replicas with ZeRO %d, %zu slices; %zu samples in "
               "micro-batches of %zu\n",
               mesh->stages, mesh->replicas, options->parallel.zero, mesh->slices,
               options->trainer.batch, options->trainer.model.samples_max);
    fflush(stdout);
    expect(tutti_barrier(world), "beginning together");
    (void)train(options, &stepper);
    const bool is_kept = checkpointing_close(checkpointing);
    const size_t taken = before < steps ? steps - before : 0;
    double slowest_s = taken > 0 ? median_s(stepper.seconds + before, taken) : 0;
    expect(tutti_allreduce(&slowest_s, &slowest_s, 1, TUTTI_FLOAT64, TUTTI_MAX, world),
           "comparing times");
    if (is_first)
        printf("step           %.3f ms in the median, on the slowest rank\n", 1e3 * slowest_s);
    const int code = conclude(options, parallel, stepper.losses, is_first, data, tokenizer);
    free(stepper.losses);
    free(stepper.seconds);
    parallel_free(parallel);
    return is_kept ? code : 1;
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

static void tell_mistake(const char *mistake, const struct options *options, int ranks)
{
    const struct mesh_sizes *mesh = &options->parallel.mesh;
    const struct trainer_options *trainer = &options->trainer;
    fprintf(stderr,
            "gpt: %s; it has %d ranks, a mesh of pp=%zu,dp=%zu,tp=%zu, %zu layers, %zu chunks, "
            "a batch of %zu and micro-batches of %zu\n",
            mistake, ranks, mesh->stages, mesh->replicas, mesh->slices, trainer->model.shape.layers,
            options->parallel.chunks, trainer->batch, trainer->model.samples_max);
}

/* With a tokenizer in a file: rank 0 makes the file where there is none, and then the others read
 * it. */
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

/* Of the ranks that cannot read the text, the first one tells why. */
static void expect_text(const char *path, struct tutti_comm *world)
{
    const int rank = tutti_comm_rank(world), size = tutti_comm_size(world);
    int first = path == NULL || access(path, R_OK) == 0 ? size : rank;
    const int error = errno;
    expect(tutti_allreduce(&first, &first, 1, TUTTI_INT32, TUTTI_MIN, world), "finding the text");
    if (first < size) end_together(world, first, path, strerror(error));
}

int main(int argument_count, char **arguments)
{
    struct options options;
    int code = options_parse(argument_count, arguments, &options);
    if (code >= 0) return code;
    if (getenv("OPENBLAS_NUM_THREADS") == NULL) openblas_set_num_threads(1);
    struct tutti_comm *world = options.is_elastic ? NULL : meet(&options);
    const char *mistake = world != NULL ? complete(&options, world) : NULL;
    if (mistake != NULL) {
        if (tutti_comm_rank(world) == 0) tell_mistake(mistake, &options, tutti_comm_size(world));
        tutti_comm_free(world);
        return 2;
    }

    size_t size;
    if (world != NULL) expect_text(options.text_path, world);
    unsigned char *text = data_read_text(options.text_path, &size);
    struct tokenizer *tokenizer = prepare_in_turn(&options, text, size, world);
    struct model_options *model = &options.trainer.model;
    model->shape.vocabulary = tokenizer_vocabulary(tokenizer);
    struct data data;
    data_init(&data, tokenizer, text, size, model->shape.context, model->seed);
    if (options.tells) describe(&data, size, &options);
    code = options.is_elastic ? run_elastic(&options, &data, tokenizer)
           : world != NULL    ? run_together(&options, &data, tokenizer, world)
                              : run_alone(&options, &data, tokenizer);
    data_release(&data);
    tokenizer_free(tokenizer);
    free(text);
    tutti_comm_free(world);
    return code;
}
