/* train_char.c - trains a small character model on several ranks: synchronous SGD, with gradients
 * that are averaged while the backward pass goes on.
 *
 *     tutti-run -n 2 train_char --text war-and-peace.txt
 *
 * Every rank holds the same parameters and works on its share of each batch:
 *
 *     rank 0:  its rows of the batch ── backward ── gradients ─┐
 *     rank 1:  its rows of the batch ── backward ── gradients ─┼─ buckets (average) ── the same SGD step
 *     rank 2:  its rows of the batch ── backward ── gradients ─┘                       on every rank
 *
 * Which rows a batch has depends on the seed and the step alone, never on how many ranks share
 * them. So N ranks compute what one process computes, up to the order of float32 sums;
 * --check-single shows it.
 *
 * --compress averages approximately, in fewer bytes (tutti/train/compress.h). With --local ranks average
 * no gradients, but take steps of their own, and synchronise now and then (tutti/train/local.h). With
 * --server rank 0 holds the parameters, and the other ranks push gradients to it (tutti/server.h).
 *
 * The model guesses the next character from the CONTEXT characters before it:
 *
 *     characters ── embedding ── inputs ── weights1 ── tanh ── hidden ── weights2 ── softmax ── next character
 */
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train_char_basics.h"
#include "train_char_text.h"
#include "tutti/server.h"
#include "tutti/train.h"
#include "tutti/train/compress.h"
#include "tutti/train/local.h"
#include "tutti/tutti.h"

enum {
    EMBEDDING = 16, /* numbers for each character */
    INPUTS = CONTEXT * EMBEDDING,
    EVALUATED_MAX = 8192,
    BUCKET_BYTES = 32 << 10, /* the model is small: each layer starts when it is ready */
    REPORTS = 12
};
static const float momentum = 0.9f;

struct settings {
    const char *text_path; /* NULL: licences that are on every Debian system */
    int steps, batch, hidden;
    float rate;
    uint64_t seed;
    bool check_single, sample;
    /* For averaging gradients; with the method NONE buckets do it. */
    struct tutti_compressor_options compression;
    struct tutti_local_options local; /* every 0: gradients are averaged instead */
    bool serves;                      /* by rank 0, in this mode: */
    struct tutti_server_change mode;
};

/* ---------------------------------------------------------------------------------------- model */

/* Parts of the parameters, in the order in which forward() uses them. */
enum part { PART_EMBEDDING, PART_WEIGHTS1, PART_BIAS1, PART_WEIGHTS2, PART_BIAS2, PARTS };

struct model {
    int hidden, symbols;
    size_t count;
    float *values;           /* parameters, or the gradient of each: one array for one allreduce */
    float *embedding;        /* [symbols][EMBEDDING] */
    float *weights1, *bias1; /* [INPUTS][hidden], [hidden] */
    float *weights2, *bias2; /* [hidden][symbols], [symbols] */
};

static size_t parameter_count(int hidden, int symbols)
{
    const size_t h = (size_t)hidden, s = (size_t)symbols;
    return s * EMBEDDING + INPUTS * h + h + h * s + s;
}

static struct model model_create(int hidden, int symbols)
{
    const size_t h = (size_t)hidden, s = (size_t)symbols;
    struct model model = {.hidden = hidden, .symbols = symbols};
    model.count = parameter_count(hidden, symbols);
    model.values = allocate_shared(model.count);
    model.embedding = model.values;
    model.weights1 = model.embedding + s * EMBEDDING;
    model.bias1 = model.weights1 + INPUTS * h;
    model.weights2 = model.bias1 + h;
    model.bias2 = model.weights2 + h * s;
    return model;
}

static void fill_random(float *values, size_t count, double scale, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) values[i] = (float)(scale * (2 * random_unit(seed, i) - 1));
}

static void model_randomise(struct model *model, uint64_t seed)
{
    const size_t h = (size_t)model->hidden, s = (size_t)model->symbols;
    fill_random(model->embedding, s * EMBEDDING, 1, random_at(seed, 1));
    fill_random(model->weights1, INPUTS * h, sqrt(3.0 / INPUTS), random_at(seed, 2));
    fill_random(model->weights2, h * s, sqrt(1.0 / (double)h), random_at(seed, 3));
}

/* What the rows of a batch are turned into on the way. */
struct workspace {
    float *inputs, *hidden, *outputs; /* [rows][INPUTS], [rows][hidden], [rows][symbols] */
    float *d_inputs, *d_hidden;       /* gradients; that of outputs replaces them */
    float *flipped;                   /* a transposed matrix, whichever is needed */
};

static struct workspace workspace_create(const struct model *model, int rows_max)
{
    const size_t rows = (size_t)rows_max, h = (size_t)model->hidden, s = (size_t)model->symbols;
    size_t flipped = rows * (INPUTS > h ? INPUTS : h);
    if (flipped < model->count) flipped = model->count;
    return (struct workspace){.inputs = allocate(rows * INPUTS + 1, sizeof(float)),
                              .hidden = allocate(rows * h + 1, sizeof(float)),
                              .outputs = allocate(rows * s + 1, sizeof(float)),
                              .d_inputs = allocate(rows * INPUTS + 1, sizeof(float)),
                              .d_hidden = allocate(rows * h + 1, sizeof(float)),
                              .flipped = allocate(flipped, sizeof(float))};
}

static void workspace_free(struct workspace *space)
{
    free(space->inputs);
    free(space->hidden);
    free(space->outputs);
    free(space->d_inputs);
    free(space->d_hidden);
    free(space->flipped);
}

/* out[rows][columns] += a[rows][inner] times b[inner][columns]. All of the time goes here; four
 * rows of b at once, so that out is loaded and stored less often. */
static void multiply_add(float *restrict out, const float *restrict a, const float *restrict b,
                         int rows, int inner, int columns)
{
    for (int r = 0; r < rows; r++, out += columns, a += inner) {
        const float *b0 = b;
        int i = 0;
        for (; i + 4 <= inner; i += 4, b0 += 4 * columns) {
            const float *b1 = b0 + columns, *b2 = b1 + columns, *b3 = b2 + columns;
            const float a0 = a[i], a1 = a[i + 1], a2 = a[i + 2], a3 = a[i + 3];
            for (int c = 0; c < columns; c++)
                out[c] += a0 * b0[c] + a1 * b1[c] + (a2 * b2[c] + a3 * b3[c]);
        }
        for (; i < inner; i++, b0 += columns) {
            for (int c = 0; c < columns; c++) out[c] += a[i] * b0[c];
        }
    }
}

/* The same for a matrix a[inner][rows] that comes transposed, or a b[columns][inner]. */
static const float *flip(const float *restrict matrix, int rows, int columns,
                         float *restrict flipped)
{
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < columns; c++) flipped[(size_t)c * (size_t)rows + (size_t)r] = *matrix++;
    }
    return flipped;
}

static void fill_rows(float *out, const float *row, int rows, int columns)
{
    for (int r = 0; r < rows; r++)
        memcpy(out + (size_t)r * (size_t)columns, row, (size_t)columns * sizeof(float));
}

static void add_columns(float *restrict sums, const float *restrict matrix, int rows, int columns)
{
    for (int r = 0; r < rows; r++, matrix += columns) {
        for (int c = 0; c < columns; c++) sums[c] += matrix[c];
    }
}

/* Turns the outputs into probabilities of the next character; contexts[r] points at CONTEXT
 * symbols. */
static void forward(const struct model *model, const unsigned char *const *contexts, int rows,
                    struct workspace *space)
{
    const int h = model->hidden, s = model->symbols;
    float *input = space->inputs;
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < CONTEXT; i++, input += EMBEDDING)
            memcpy(input, model->embedding + contexts[r][i] * EMBEDDING, EMBEDDING * sizeof(float));
    }
    fill_rows(space->hidden, model->bias1, rows, h);
    multiply_add(space->hidden, space->inputs, model->weights1, rows, INPUTS, h);
    for (int i = 0; i < rows * h; i++) space->hidden[i] = tanhf(space->hidden[i]);
    fill_rows(space->outputs, model->bias2, rows, s);
    multiply_add(space->outputs, space->hidden, model->weights2, rows, h, s);

    for (float *output = space->outputs, *end = output + rows * s; output < end; output += s) {
        float most = output[0], sum = 0;
        for (int i = 1; i < s; i++) most = output[i] > most ? output[i] : most;
        for (int i = 0; i < s; i++) sum += output[i] = expf(output[i] - most);
        for (int i = 0; i < s; i++) output[i] /= sum;
    }
}

/* The sum of the rows' losses, after forward(). */
static double loss_sum(const struct model *model, const unsigned char *nexts, int rows,
                       const struct workspace *space)
{
    double sum = 0;
    for (int r = 0; r < rows; r++)
        sum -= log(fmax(space->outputs[r * model->symbols + nexts[r]], 1e-30));
    return sum;
}

/* Averages gradients: buckets as they are, a compressor in fewer bytes, or a server, which takes the
 * step, too; or no gradients, but parameters now and then. The others are NULL. */
struct averager {
    struct tutti_buckets *buckets;
    struct tutti_compressor *compressor;
    struct tutti_local *local;
    struct tutti_server *server;
    const struct tutti_server_change *mode; /* of the server */
};

static void mark_ready(const struct averager *averager, enum part part)
{
    if (averager->local != NULL || averager->server != NULL) return;
    check(averager->compressor != NULL ? tutti_compressor_ready(averager->compressor, part)
                                       : tutti_buckets_ready(averager->buckets, part),
          "averaging the gradients");
}

/* Adds scale times the rows' gradient to *gradient, after forward(). Parts are averaged from the
 * moment they are ready. */
static void backward(const struct model *model, const unsigned char *const *contexts,
                     const unsigned char *nexts, int rows, float scale, struct workspace *space,
                     struct model *gradient, const struct averager *averager)
{
    const int h = model->hidden, s = model->symbols;
    float *d_outputs = space->outputs;
    for (int r = 0; r < rows; r++) d_outputs[r * s + nexts[r]] -= 1;
    for (int i = 0; i < rows * s; i++) d_outputs[i] *= scale;

    multiply_add(gradient->weights2, flip(space->hidden, rows, h, space->flipped), d_outputs, h,
                 rows, s);
    add_columns(gradient->bias2, d_outputs, rows, s);
    mark_ready(averager, PART_BIAS2);
    mark_ready(averager, PART_WEIGHTS2);

    memset(space->d_hidden, 0, (size_t)rows * (size_t)h * sizeof(float));
    multiply_add(space->d_hidden, d_outputs, flip(model->weights2, h, s, space->flipped), rows, s,
                 h);
    for (int i = 0; i < rows * h; i++)
        space->d_hidden[i] *= 1 - space->hidden[i] * space->hidden[i];

    multiply_add(gradient->weights1, flip(space->inputs, rows, INPUTS, space->flipped),
                 space->d_hidden, INPUTS, rows, h);
    add_columns(gradient->bias1, space->d_hidden, rows, h);
    mark_ready(averager, PART_BIAS1);
    mark_ready(averager, PART_WEIGHTS1);

    memset(space->d_inputs, 0, (size_t)rows * INPUTS * sizeof(float));
    multiply_add(space->d_inputs, space->d_hidden, flip(model->weights1, INPUTS, h, space->flipped),
                 rows, h, INPUTS);
    const float *d_input = space->d_inputs;
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < CONTEXT; i++, d_input += EMBEDDING) {
            float *to = gradient->embedding + contexts[r][i] * EMBEDDING;
            for (int j = 0; j < EMBEDDING; j++) to[j] += d_input[j];
        }
    }
    mark_ready(averager, PART_EMBEDDING);
}

/* Rank 0 of the world serves. The optimizer is the one of train(): gradients come with its rate. */
static struct tutti_server *server_create(size_t count, struct tutti_comm *world)
{
    struct tutti_server *server;
    struct tutti_server_table table = TUTTI_SERVER_TABLE_INIT("parameters", 0, count);
    struct tutti_server_options options = TUTTI_SERVER_OPTIONS_INIT;
    table.optimizer = TUTTI_SERVER_MOMENTUM;
    table.momentum = momentum;
    table.rate = 1;
    options.tables = &table, options.table_count = 1;
    options.server_ranks = (int[]){0}, options.server_count = 1;
    options.mode = TUTTI_SERVER_ASYNCHRONOUS; /* until all workers have begun */
    options.average = 1;
    check(tutti_server_create(&options, world, &server), "making a parameter server");
    return server;
}

/* Until all workers have left. */
static void serve(struct tutti_server *server, struct tutti_comm *world)
{
    check(tutti_server_serve(server), "serving");
    check(tutti_server_free(server), "serving");
    check(tutti_comm_free(world), "leaving");
}

/* Workers meet: in a quorum a worker might wait for one that waits here for it. */
static void averager_meet(const struct averager *averager)
{
    if (averager->server != NULL)
        check(tutti_server_change_mode(averager->server, averager->mode, NULL), "meeting");
}

/* The server gets the first parameters, before it gets a gradient. */
static void server_begin(const struct averager *averager, const struct model *model, bool is_first)
{
    const struct tutti_server_part all = {0, NULL, 0, model->values};
    if (is_first) check(tutti_server_set(averager->server, &all, 1, NULL), "setting parameters");
    check(tutti_server_tick(averager->server, NULL), "setting parameters");
    averager_meet(averager);
}

/* After the model has its first parameters. */
static struct averager averager_create(const struct model *model, const struct model *gradient,
                                       const struct settings *settings, struct tutti_comm *comm,
                                       struct tutti_server *server)
{
    const struct tutti_compressor_options *const compression = &settings->compression;
    const size_t h = (size_t)gradient->hidden, s = (size_t)gradient->symbols;
    const struct tutti_compress_tensor parts[PARTS] = {
        [PART_EMBEDDING] = {"embedding", gradient->embedding, s, EMBEDDING},
        [PART_WEIGHTS1] = {"weights1", gradient->weights1, INPUTS, h},
        [PART_BIAS1] = {"bias1", gradient->bias1, 1, h},
        [PART_WEIGHTS2] = {"weights2", gradient->weights2, h, s},
        [PART_BIAS2] = {"bias2", gradient->bias2, 1, s}};
    struct averager averager = {.server = server, .mode = &settings->mode};
    if (server != NULL) {
        server_begin(&averager, model, tutti_comm_rank(comm) == 0);
        return averager;
    }
    if (settings->local.every > 0) {
        const struct tutti_local_tensor all = {"parameters", model->values, model->count, 0};
        check(tutti_local_create(&all, 1, &settings->local, comm, &averager.local), "local steps");
        return averager;
    }
    if (compression->method != TUTTI_COMPRESS_NONE) {
        struct tutti_compressor_options options = *compression;
        options.bucket_bytes = BUCKET_BYTES;
        check(tutti_compressor_create(parts, PARTS, &options, comm, &averager.compressor),
              "compressor for gradients");
        return averager;
    }
    struct tutti_gradient gradients[PARTS];
    for (int i = 0; i < PARTS; i++)
        gradients[i] =
            (struct tutti_gradient){parts[i].data, parts[i].rows * parts[i].columns, TUTTI_FLOAT32};
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    options.bucket_bytes = BUCKET_BYTES;
    check(tutti_buckets_create(gradients, PARTS, &options, comm, &averager.buckets),
          "buckets for gradients");
    return averager;
}

static void averager_finish(const struct averager *averager)
{
    if (averager->local != NULL || averager->server != NULL) return;
    check(averager->compressor != NULL ? tutti_compressor_finish(averager->compressor, NULL)
                                       : tutti_buckets_finish(averager->buckets, NULL),
          "averaging the gradients");
}

/* With a server: its step, in place of this rank's. The gradient becomes rate times itself. */
static bool averager_step(const struct averager *averager, struct model *gradient, float rate,
                          struct model *model)
{
    const struct tutti_server_part push = {0, NULL, 0, gradient->values},
                                   pull = {0, NULL, 0, model->values};
    if (averager->server == NULL) return false;
    for (size_t i = 0; i < gradient->count; i++) gradient->values[i] *= rate;
    check(tutti_server_push_pull(averager->server, &push, 1, &pull, 1, NULL), "a server's step");
    return true;
}

/* After the optimizer's step; the last one. */
static void averager_synchronise(const struct averager *averager, bool is_last)
{
    if (averager->local == NULL) return;
    check(is_last ? tutti_local_synchronise(averager->local, NULL)
                  : tutti_local_step(averager->local, NULL),
          "synchronising parameters");
}

/* How many times fewer bytes a rank contributes than it has gradients. */
static double averager_ratio(const struct averager *averager)
{
    struct tutti_compressor_counters counters = {.size_bytes = sizeof counters};
    if (averager->compressor == NULL) return 1;
    check(tutti_compressor_count(averager->compressor, &counters), "counting bytes");
    return (double)counters.gradient_bytes / (double)counters.payload_bytes;
}

static void averager_free(const struct averager *averager)
{
    tutti_buckets_free(averager->buckets);
    tutti_compressor_free(averager->compressor);
    tutti_local_free(averager->local);
    check(tutti_server_free(averager->server), "leaving the server");
}

/* ------------------------------------------------------------------------------------- training */

struct outcome {
    struct model model;
    double losses[REPORTS]; /* means over the batches since the report before */
    double train_loss, held_out_loss;
    double seconds, communication_s, ratio;
};

/* The rows of a batch or an evaluation that are this rank's. */
struct share {
    int begin, end;
};

static struct share share_of(int rows, const struct tutti_comm *comm)
{
    const int64_t rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    return (struct share){(int)(rows * rank / size), (int)(rows * (rank + 1) / size)};
}

static double all_sum(double value, struct tutti_comm *comm)
{
    check(tutti_allreduce(&value, &value, 1, TUTTI_FLOAT64, TUTTI_SUM, comm), "adding up");
    return value;
}

/* The mean loss over at most EVALUATED_MAX of these places, spread over all of them and shared by
 * all ranks. */
static double evaluate(const struct model *model, const struct text *text, const uint32_t *places,
                       size_t count, struct workspace *space, struct tutti_comm *comm)
{
    const unsigned char *context;
    const int rows = count < EVALUATED_MAX ? (int)count : EVALUATED_MAX;
    const struct share share = share_of(rows, comm);
    double sum = 0;
    for (int i = share.begin; i < share.end; i++) {
        const uint32_t place = places[(size_t)i * count / (size_t)rows];
        context = text->characters + place - CONTEXT;
        forward(model, &context, 1, space);
        sum += loss_sum(model, &text->characters[place], 1, space);
    }
    return all_sum(sum, comm) / rows;
}

static const char *over_progress(void)
{
    return isatty(STDOUT_FILENO) ? "\r\033[K" : "";
}

/* On a terminal, a line that is written over again and again. */
static void show_progress(const struct settings *settings, int steps_done, double seconds)
{
    if (!isatty(STDOUT_FILENO)) return;
    printf("%sstep %d of %d, %.0f s to go", over_progress(), steps_done, settings->steps,
           seconds / steps_done * (settings->steps - steps_done));
    fflush(stdout);
}

static void report_steps(const struct settings *settings, int steps_done, double loss)
{
    printf("%sstep %7d of %d  loss %.4f\n", over_progress(), steps_done, settings->steps, loss);
    fflush(stdout);
}

/* server: with which the ranks of comm train; NULL: with each other. */
static void train(const struct settings *settings, const struct text *text, struct tutti_comm *comm,
                  struct tutti_server *server, bool quiet, struct outcome *outcome)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const struct share share = share_of(settings->batch, comm);
    const int rows = share.end - share.begin;
    const double began = now_s();

    struct model model = model_create(settings->hidden, text->symbol_count);
    struct model gradient = model_create(settings->hidden, text->symbol_count);
    struct workspace space = workspace_create(&model, rows > 0 ? rows : 1);
    float *velocity = allocate(model.count, sizeof *velocity);
    const unsigned char **contexts = allocate((size_t)rows + 1, sizeof *contexts);
    unsigned char *nexts = allocate((size_t)rows + 1, 1);
    double communication_s = 0, shown_s = began;

    if (rank == 0) model_randomise(&model, settings->seed);
    check(tutti_broadcast(model.values, model.values, model.count, TUTTI_FLOAT32, 0, comm),
          "sharing the first parameters");
    const struct averager averager = averager_create(&model, &gradient, settings, comm, server);

    /* The average over ranks of (size / batch) times a sum over rows is the mean over the batch,
     * even if the ranks' shares differ by one. */
    const float scale = (float)size / (float)settings->batch;
    double losses = 0;
    for (int step = 0, reported = 0, reported_steps = 0; step < settings->steps; step++) {
        for (int r = 0; r < rows; r++) {
            const uint64_t row =
                (uint64_t)step * (uint64_t)settings->batch + (uint64_t)(share.begin + r);
            const uint32_t place = text->train[random_at(settings->seed, row) % text->train_count];
            contexts[r] = text->characters + place - CONTEXT;
            nexts[r] = text->characters[place];
        }
        memset(gradient.values, 0, gradient.count * sizeof(float));
        forward(&model, contexts, rows, &space);
        losses += loss_sum(&model, nexts, rows, &space);
        backward(&model, contexts, nexts, rows, scale, &space, &gradient, &averager);

        const double started = now_s();
        averager_finish(&averager);

        const float done = (float)step / (float)settings->steps;
        const float rate = settings->rate * (1 - 0.9f * done);
        const bool is_done = averager_step(&averager, &gradient, rate, &model);
        communication_s += now_s() - started;
        for (size_t i = 0; i < model.count && !is_done; i++) {
            velocity[i] = momentum * velocity[i] - rate * gradient.values[i];
            model.values[i] += velocity[i];
        }
        const double synchronised = now_s();
        averager_synchronise(&averager, step + 1 == settings->steps);
        communication_s += now_s() - synchronised;

        const int steps_done = step + 1;
        if (!quiet && now_s() - shown_s > 0.2) {
            shown_s = now_s();
            show_progress(settings, steps_done, shown_s - began);
        }
        if (steps_done < (int64_t)settings->steps * (reported + 1) / REPORTS || reported == REPORTS)
            continue;
        averager_meet(&averager);
        losses = all_sum(losses, comm) / settings->batch / (steps_done - reported_steps);
        outcome->losses[reported++] = losses;
        reported_steps = steps_done;
        if (!quiet) report_steps(settings, steps_done, losses);
        losses = 0;
    }
    outcome->seconds = now_s() - began;
    outcome->communication_s = communication_s;
    averager_meet(&averager);
    outcome->train_loss = evaluate(&model, text, text->train, text->train_count, &space, comm);
    outcome->held_out_loss =
        evaluate(&model, text, text->held_out, text->held_out_count, &space, comm);
    outcome->model = model;
    outcome->ratio = settings->local.every > 0 ? settings->local.every : averager_ratio(&averager);

    averager_free(&averager);
    tutti_mem_free(gradient.values);
    workspace_free(&space);
    free(velocity);
    free(contexts);
    free(nexts);
}

/* ------------------------------------------------------------------------------- what comes out */

static void report(const struct settings *settings, const struct outcome *outcome,
                   struct tutti_comm *comm)
{
    const double share = outcome->communication_s / outcome->seconds;
    double shares[3]; /* min, sum, max */
    static const tutti_op ops[3] = {TUTTI_MIN, TUTTI_SUM, TUTTI_MAX};
    for (int i = 0; i < 3; i++)
        check(tutti_allreduce(&share, &shares[i], 1, TUTTI_FLOAT64, ops[i], comm),
              "comparing times");
    if (tutti_comm_rank(comm) != 0) return;
    printf("%sfinal loss     %.4f on the text, %.4f on what was held out of it\n", over_progress(),
           outcome->train_loss, outcome->held_out_loss);
    printf("time           %.1f s, %.0f characters/s\n", outcome->seconds,
           (double)settings->steps * settings->batch / outcome->seconds);
    printf("communication  %.1f%% of it were not hidden behind the backward pass (over ranks: min "
           "%.1f%%, max "
           "%.1f%%),\n               waiting for each other included\n",
           100 * shares[1] / tutti_comm_size(comm), 100 * shares[0], 100 * shares[2]);
    if (outcome->ratio > 1)
        printf("compression    %s went in 1/%.1f of their bytes\n",
               settings->local.every > 0 ? "parameters, now and then," : "gradients",
               outcome->ratio);
    fflush(stdout);
}

static double relative_difference(double a, double b)
{
    const double most = fmax(fabs(a), fabs(b));
    return most > 0 ? fabs(a - b) / most : 0;
}

/* Trains once more, in this process alone, and compares. */
static bool same_as_single(const struct settings *settings, const struct text *text,
                           const struct outcome *many)
{
    struct tutti_comm_options alone = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    struct outcome one = {.seconds = 0};
    alone.rank = 0;
    alone.size = 1;
    check(tutti_comm_create(&alone, &comm), "a communicator of one rank");
    train(settings, text, comm, NULL, true, &one);
    check(tutti_comm_free(comm), "leaving");

    double loss = relative_difference(one.train_loss, many->train_loss);
    loss = fmax(loss, relative_difference(one.held_out_loss, many->held_out_loss));
    for (int i = 0; i < REPORTS; i++)
        loss = fmax(loss, relative_difference(one.losses[i], many->losses[i]));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < one.model.count; i++) {
        const double a = one.model.values[i], b = many->model.values[i];
        difference += (a - b) * (a - b);
        norm += a * a;
    }
    const double parameters = sqrt(difference / norm);
    printf("one process    %.1f s; relative difference: loss %.1e, parameters %.1e\n", one.seconds,
           loss, parameters);
    tutti_mem_free(one.model.values);
    return loss < 1e-4 && parameters < 1e-3;
}

static void print_sample(const struct model *model, const struct text *text, uint64_t seed)
{
    enum { LENGTH = 500 };
    const float sharpness = 1.4f; /* above 1: likelier characters even more often */
    unsigned char symbols[CONTEXT + LENGTH];
    struct workspace space = workspace_create(model, 1);
    memcpy(symbols, text->characters + text->held_out[0] - CONTEXT, CONTEXT);
    printf("sample\n");
    for (int i = 0; i < LENGTH; i++) {
        const unsigned char *context = symbols + i;
        forward(model, &context, 1, &space);
        double sum = 0;
        for (int s = 0; s < model->symbols; s++)
            sum += space.outputs[s] = powf(space.outputs[s], sharpness);
        double left = sum * random_unit(seed, (uint64_t)i);
        int next = 0;
        while (next < model->symbols - 1 && (left -= space.outputs[next]) > 0) next++;
        symbols[CONTEXT + i] = (unsigned char)next;
        putchar(text->symbols[next]);
    }
    putchar('\n');
    workspace_free(&space);
}

/* -------------------------------------------------------------------------------------- options */

static const char usage[] =
    "usage: tutti-run -n N train_char [options]\n"
    "  --text FILE      what to learn (default: licences from /usr/share/common-licenses)\n"
    "  --steps N        (default 5000)\n"
    "  --batch N        rows of a step, shared by all ranks (default 256)\n"
    "  --hidden N       width of the hidden layer (default 256)\n"
    "  --lr RATE        learning rate at the start (default 0.2)\n"
    "  --seed N         (default 1)\n"
    "  --compress HOW   average gradients in fewer bytes: powersgd:RANK, top:SHARE, or an encoding "
    "such as int8\n"
    "  --local HOW      take steps alone and synchronise every N: sgd:N, diloco:N or streaming:N\n"
    "  --server MODE    rank 0 is a parameter server for the others: synchronous, bounded:N, "
    "asynchronous or quorum:N\n"
    "  --outer-lr RATE  behind --local: learning rate of synchronisations\n"
    "  --no-feedback    drop what compression leaves out, rather than to send it later\n"
    "  --check-single   train again in one process; exit with 1 if the result differs by more than "
    "rounding\n"
    "  --sample         let the model write something\n";

static int wrong_use(void)
{
    fputs(usage, stderr);
    return 2;
}

static bool parse_number(const char *text, double min, double max, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && *number >= min && *number <= max;
}

/* powersgd:4, top:0.01, int8 */
static bool parse_compression(const char *text, struct tutti_compressor_options *compression)
{
    double number;
    if (strncmp(text, "powersgd:", 9) == 0) {
        if (!parse_number(text + 9, 1, TUTTI_COMPRESS_RANK_MAX, &number)) return false;
        compression->method = TUTTI_COMPRESS_LOW_RANK;
        compression->rank = (int)number;
        return true;
    }
    if (strncmp(text, "top:", 4) == 0) {
        compression->method = TUTTI_COMPRESS_TOP_K;
        return parse_number(text + 4, 1e-9, 1, &compression->share);
    }
    compression->method = TUTTI_COMPRESS_ENCODED;
    return tutti_encoding_find(text, &compression->encoding) == TUTTI_OK &&
           compression->encoding != TUTTI_ENCODING_NONE;
}

/* sgd:10, diloco:50, streaming:50 */
static bool parse_local(const char *text, struct tutti_local_options *local)
{
    const char *const number_text = strchr(text, ':');
    double number;
    if (number_text == NULL || !parse_number(number_text + 1, 2, 1e6, &number)) return false;
    local->every = (int)number;
    if (strncmp(text, "diloco:", 7) == 0) return true;
    if (strncmp(text, "streaming:", 10) == 0) {
        local->rate = 0.4, local->delay = 1, local->mixing = 0.5;
        return true;
    }
    local->rate = 1, local->momentum = 0;
    return strncmp(text, "sgd:", 4) == 0;
}

/* synchronous, bounded:3, asynchronous, quorum:2 */
static bool parse_server(const char *text, struct settings *settings)
{
    static const struct {
        const char *begin;
        enum tutti_server_mode mode;
    } modes[] = {{"synchronous", TUTTI_SERVER_SYNCHRONOUS},
                 {"asynchronous", TUTTI_SERVER_ASYNCHRONOUS},
                 {"bounded:", TUTTI_SERVER_BOUNDED},
                 {"quorum:", TUTTI_SERVER_QUORUM}};
    double number = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const size_t length = strlen(modes[i].begin);
        const bool has_number = modes[i].begin[length - 1] == ':';
        if (strncmp(text, modes[i].begin, length) != 0) continue;
        settings->serves = true;
        settings->mode.mode = modes[i].mode;
        if (!has_number) return text[length] == '\0';
        if (!parse_number(text + length, 0, 1e6, &number)) return false;
        if (modes[i].mode == TUTTI_SERVER_BOUNDED) settings->mode.staleness = (int)number;
        if (modes[i].mode == TUTTI_SERVER_QUORUM) settings->mode.quorum = (int)number;
        return true;
    }
    return false;
}

/* Returns -1 to go on, otherwise the exit code. */
static int parse_options(int argument_count, char **arguments, struct settings *settings)
{
    static const struct option list[] = {{"text", required_argument, NULL, 't'},
                                         {"steps", required_argument, NULL, 's'},
                                         {"batch", required_argument, NULL, 'b'},
                                         {"hidden", required_argument, NULL, 'h'},
                                         {"lr", required_argument, NULL, 'l'},
                                         {"seed", required_argument, NULL, 'r'},
                                         {"check-single", no_argument, NULL, 'c'},
                                         {"sample", no_argument, NULL, 'p'},
                                         {"compress", required_argument, NULL, 'z'},
                                         {"no-feedback", no_argument, NULL, 'f'},
                                         {"local", required_argument, NULL, 'o'},
                                         {"outer-lr", required_argument, NULL, 'u'},
                                         {"server", required_argument, NULL, 'v'},
                                         {"help", no_argument, NULL, '?' + 256},
                                         {NULL, 0, NULL, 0}};
    double number = 0;
    for (int option; (option = getopt_long(argument_count, arguments, "", list, NULL)) != -1;) {
        bool good = true;
        switch (option) {
        case 't': settings->text_path = optarg; break;
        case 's':
            good = parse_number(optarg, 1, 1e9, &number);
            settings->steps = (int)number;
            break;
        case 'b':
            good = parse_number(optarg, 1, 1 << 16, &number);
            settings->batch = (int)number;
            break;
        case 'h':
            good = parse_number(optarg, 1, 1 << 13, &number);
            settings->hidden = (int)number;
            break;
        case 'l':
            good = parse_number(optarg, 0, 1e3, &number);
            settings->rate = (float)number;
            break;
        case 'r':
            good = parse_number(optarg, 0, 0x1p53, &number);
            settings->seed = (uint64_t)number;
            break;
        case 'z': good = parse_compression(optarg, &settings->compression); break;
        case 'u': good = parse_number(optarg, 1e-3, 1e3, &settings->local.rate); break;
        case 'v': good = parse_server(optarg, settings); break;
        case 'o': good = parse_local(optarg, &settings->local); break;
        case 'f': settings->compression.feedback = 0; break;
        case 'c': settings->check_single = true; break;
        case 'p': settings->sample = true; break;
        case '?' + 256: fputs(usage, stdout); return 0;
        default: return wrong_use();
        }
        if (!good) {
            fprintf(stderr, "train_char: this makes no sense: %s\n", optarg);
            return wrong_use();
        }
    }
    return optind == argument_count ? -1 : wrong_use();
}

/* Without one we train alone. */
static bool has_launcher(void)
{
    return getenv("TUTTI_RANK") || getenv("RANK") || getenv("OMPI_COMM_WORLD_RANK") ||
           getenv("SLURM_PROCID");
}

int main(int argument_count, char **arguments)
{
    struct settings settings = {.steps = 5000,
                                .batch = 256,
                                .hidden = 256,
                                .rate = 0.2f,
                                .seed = 1,
                                .compression = TUTTI_COMPRESSOR_OPTIONS_INIT,
                                .local = TUTTI_LOCAL_OPTIONS_INIT,
                                .mode = TUTTI_SERVER_CHANGE_INIT};
    settings.local.every = 0;
    const int code = parse_options(argument_count, arguments, &settings);
    if (code >= 0) return code;

    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *world, *comm; /* of all, and of those that train */
    struct tutti_server *server = NULL;
    if (!has_launcher()) {
        options.rank = 0;
        options.size = 1;
    }
    check(tutti_comm_create(&options, &world), "meeting the other ranks");
    my_rank = tutti_comm_rank(world);

    struct text text = {.length = 0};
    struct outcome outcome = {.seconds = 0};
    share_text(settings.text_path, &text, world);
    prepare_text(&text);
    comm = world;
    if (settings.serves) {
        server = server_create(parameter_count(settings.hidden, text.symbol_count), world);
        check(tutti_comm_split(world, my_rank == 0 ? TUTTI_NO_COLOR : 0, 0, NULL, &comm),
              "meeting the other workers");
        if (comm == NULL) {
            serve(server, world);
            free_text(&text);
            return 0;
        }
        my_rank = tutti_comm_rank(comm);
    }
    if (my_rank == 0) {
        const size_t h = (size_t)settings.hidden, s = (size_t)text.symbol_count;
        printf("text           %zu characters, %zu different ones; %zu are held out\n", text.length,
               s, text.held_out_count);
        printf("model          %d characters of context, %zu hidden, %zu parameters\n", CONTEXT, h,
               parameter_count(settings.hidden, text.symbol_count));
        printf("ranks          %d%s, batch of %d\n", tutti_comm_size(comm),
               settings.serves ? " and a parameter server" : "", settings.batch);
        printf("loss to beat   %.4f, by the frequency of characters alone\n", text.entropy);
        fflush(stdout);
    }
    train(&settings, &text, comm, server, my_rank != 0, &outcome);
    report(&settings, &outcome, comm);
    if (comm != world) check(tutti_comm_free(comm), "leaving");
    check(tutti_comm_free(world), "leaving");

    bool good = true;
    if (my_rank == 0 && settings.check_single) good = same_as_single(&settings, &text, &outcome);
    if (my_rank == 0 && settings.sample) print_sample(&outcome.model, &text, settings.seed);
    tutti_mem_free(outcome.model.values);
    free_text(&text);
    if (!good) give_up("check", "the ranks together did not compute what one process does");
    return 0;
}
