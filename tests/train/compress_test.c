/* compress_test.c - compressed averages: all ranks have the same bits; what a step leaves out waits
 * in residuals, to the last bit where encodings and selections are concerned; state follows the
 * names of tensors through other lists, checkpoints, and ranks that die.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tests/kit/scratch.h"
#include "tutti/train/compress.h"

enum { RANKS = 3, TENSORS = 6, PARTS = 32 };

static const struct tutti_compress_tensor shapes[TENSORS] = {
    {"embedding", NULL, 64, 16}, {"convolution", NULL, 24, 54}, {"bias", NULL, 1, 40},
    {"nothing", NULL, 0, 5},     {"matrix", NULL, 40, 33},      {"tiny", NULL, 1, 3}};
enum { ELEMENTS = 64 * 16 + 24 * 54 + 40 + 40 * 33 + 3 };

static char folder[SCRATCH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    scratch_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

/* All ways to compress; what they have in common is tested with each. */
struct way {
    enum tutti_compress_method method;
    enum tutti_encoding encoding;
    int warm_start;
};
static const struct way ways[] = {{TUTTI_COMPRESS_NONE, TUTTI_ENCODING_NONE, 1},
                                  {TUTTI_COMPRESS_LOW_RANK, TUTTI_ENCODING_NONE, 1},
                                  {TUTTI_COMPRESS_LOW_RANK, TUTTI_ENCODING_NONE, 0},
                                  {TUTTI_COMPRESS_TOP_K, TUTTI_ENCODING_NONE, 1},
                                  {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_BFLOAT16, 1},
                                  {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_INT8, 1},
                                  {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_INT4, 1},
                                  {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_MXFP8, 1},
                                  {TUTTI_COMPRESS_ENCODED, TUTTI_ENCODING_MXFP4, 1}};
enum { WAYS = sizeof ways / sizeof *ways };

static struct tutti_compressor_options options_of(const struct way *way)
{
    struct tutti_compressor_options options = TUTTI_COMPRESSOR_OPTIONS_INIT;
    options.method = way->method;
    options.encoding = way->encoding;
    options.warm_start = way->warm_start;
    options.rank = 2;
    options.share = 0.05;
    options.bucket_bytes = 6000;
    return options;
}

/* ----------------------------------------------------------------------------------------- a model */

struct model {
    float data[ELEMENTS];
    struct tutti_compress_tensor tensors[TENSORS];
    size_t count;
};

/* Tensors in an order of their own: those with the numbers of `order`. */
static void model_init(struct model *model, const size_t *order, size_t count)
{
    float *at = model->data;
    model->count = count;
    for (size_t i = 0; i < count; i++) {
        model->tensors[i] = shapes[order[i]];
        model->tensors[i].data = at;
        at += model->tensors[i].rows * model->tensors[i].columns;
    }
}

static const size_t usual_order[TENSORS] = {0, 1, 2, 3, 4, 5};

/* Of that rank in that step, by the tensor's name alone. */
static void compute(struct model *model, uint64_t step, int rank)
{
    for (size_t i = 0; i < model->count; i++) {
        const struct tutti_compress_tensor *const t = &model->tensors[i];
        const uint64_t seed = 1000 * step + 10 * (uint64_t)rank + (uint64_t)t->name[0] * 77777;
        for (size_t e = 0; e < t->rows * t->columns; e++)
            t->data[e] = ((float)(elements_mixed(seed, e) % 2001) - 1000) * 1e-3f *
                         (1 + (float)(e % t->columns));
    }
}

static bool average(struct tutti_compressor *c, struct model *model, uint64_t step, int rank)
{
    struct tutti_compressor_result result = {77};
    compute(model, step, rank);
    for (size_t i = 0; i < model->count; i++) {
        const size_t index = (i * 5 + step + (size_t)rank) % model->count; /* in any order */
        if (tutti_compressor_ready(c, index) != TUTTI_OK) return false;
    }
    return tutti_compressor_finish(c, &result) == TUTTI_OK && result.not_finite == 0;
}

/* Whether all ranks have these bits. */
static bool is_same(const float *numbers, size_t count, struct tutti_comm *comm)
{
    static _Thread_local float first[ELEMENTS];
    memcpy(first, numbers, count * sizeof *numbers);
    return tutti_broadcast(first, first, count, TUTTI_FLOAT32, 0, comm) == TUTTI_OK &&
           memcmp(first, numbers, count * sizeof *numbers) == 0;
}

/* A part of the compressor's state: its data, or NULL. */
static const struct tutti_checkpoint_tensor *part_of(struct tutti_compressor *c, const char *name)
{
    static _Thread_local struct tutti_checkpoint_tensor parts[PARTS];
    size_t count;
    if (tutti_compressor_parts(c, parts, PARTS, &count) != TUTTI_OK) return NULL;
    for (size_t i = 0; i < count && i < PARTS; i++)
        if (strcmp(parts[i].name, name) == 0) return &parts[i];
    return NULL;
}

static void copy_residual(struct tutti_compressor *c, const char *tensor, size_t count, float *to)
{
    char name[64];
    snprintf(name, sizeof name, "%s, residual", tensor);
    const struct tutti_checkpoint_tensor *const part = part_of(c, name);
    memset(to, 0, count * sizeof *to);
    if (part != NULL) memcpy(to, part->data, count * sizeof *to);
}

/* ------------------------------------------------------------------------------------------ ratios */

struct layer {
    size_t rows, columns, how_often;
};

/* ResNet18 for CIFAR: 3 x 3 convolutions in four stages, and what leads from one to the next. */
static const struct layer resnet18[] = {
    {64, 27, 1},    {64, 576, 4},  {128, 576, 1},  {128, 1152, 3}, {128, 64, 1},  {256, 1152, 1},
    {256, 2304, 3}, {256, 128, 1}, {512, 2304, 1}, {512, 4608, 3}, {512, 256, 1}, {10, 512, 1},
    {1, 64, 10},    {1, 128, 10},  {1, 256, 10},   {1, 512, 10},   {1, 10, 1}};
static const struct layer mlp[] = {{1024, 512, 1}, {1, 1024, 1}, {512, 1024, 1}, {1, 512, 1}};

/* Bytes of a step without and with compression, of the layers. */
static bool count_bytes(const struct layer *layers, size_t layer_count, int rank,
                        struct tutti_comm *comm, struct tutti_compressor_counters *counters)
{
    enum { TENSORS_MAX = 80 };
    struct tutti_compress_tensor tensors[TENSORS_MAX];
    char names[TENSORS_MAX][16];
    struct tutti_compressor_options options = TUTTI_COMPRESSOR_OPTIONS_INIT;
    struct tutti_compressor *c;
    size_t n = 0;
    float *const data = malloc(512 * 4608 * sizeof *data); /* of all, as nothing is sent */
    for (size_t i = 0; i < layer_count; i++)
        for (size_t k = 0; k < layers[i].how_often; k++, n++) {
            snprintf(names[n], sizeof names[n], "%zu", n);
            tensors[n] =
                (struct tutti_compress_tensor){names[n], data, layers[i].rows, layers[i].columns};
        }
    options.method = TUTTI_COMPRESS_LOW_RANK;
    options.rank = rank;
    *counters = (struct tutti_compressor_counters){.size_bytes = sizeof *counters};
    const bool is_good =
        data != NULL && tutti_compressor_create(tensors, n, &options, comm, &c) == TUTTI_OK &&
        tutti_compressor_count(c, counters) == TUTTI_OK && tutti_compressor_free(c) == TUTTI_OK;
    free(data);
    return is_good;
}

static int ratios(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static const int expected[] = {243, 136, 72};
    struct tutti_compressor_counters n;
    for (int i = 0; i < 3; i++) {
        RANKS_EXPECT(count_bytes(resnet18, sizeof resnet18 / sizeof *resnet18, 1 << i, comm, &n));
        RANKS_EXPECT(n.tensors == 62 && n.compressed == 21);
        RANKS_EXPECT(n.gradient_bytes == 4 * 11173962);
        RANKS_EXPECT((int)lround((double)n.gradient_bytes / (double)n.payload_bytes) == expected[i]);
    }
    RANKS_EXPECT(count_bytes(mlp, sizeof mlp / sizeof *mlp, 2, comm, &n));
    RANKS_EXPECT(n.gradient_bytes == 4 * 1050112 && n.payload_bytes == 4 * 7680); /* 136.73 */
    return 0;
}

static void low_rank_sends_what_its_paper_says(void **state)
{
    (void)state;
    expect_good(1, RANKS_DEFAULT, ratios, NULL);
}

/* ----------------------------------------------------------------------------- replicas, and feedback */

/* Over the steps, what ranks gave on average is what came out, and what still waits. */
static int conserve(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    static _Thread_local double given[ELEMENTS], got[ELEMENTS];
    const struct way *const way = context;
    struct tutti_compressor_options options = options_of(way);
    struct tutti_compressor *c;
    (void)seed;
    memset(given, 0, sizeof given);
    memset(got, 0, sizeof got);
    model_init(&model, usual_order, TENSORS);
    for (int start = 0; start <= TUTTI_BUCKETS_START_AT_FINISH; start++) {
        options.start = (enum tutti_buckets_start)start;
        RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
        memset(given, 0, sizeof given);
        memset(got, 0, sizeof got);
        for (uint64_t step = 1; step <= 4; step++) {
            for (int r = 0; r < size; r++) {
                compute(&model, step, r);
                for (size_t i = 0; i < ELEMENTS; i++) given[i] += (double)model.data[i] / size;
            }
            RANKS_EXPECT(average(c, &model, step, rank));
            RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
            for (size_t i = 0; i < ELEMENTS; i++) got[i] += (double)model.data[i];
        }
        /* Residuals of senders, averaged, and those of owners. */
        static _Thread_local double left[ELEMENTS];
        float residual[64 * 54];
        memset(left, 0, sizeof left);
        for (size_t t = 0; t < TENSORS; t++) {
            const size_t count = shapes[t].rows * shapes[t].columns;
            const size_t at = (size_t)(model.tensors[t].data - model.data);
            char name[64];
            copy_residual(c, shapes[t].name, count, residual);
            for (size_t i = 0; i < count; i++) left[at + i] += (double)residual[i] / size;
            snprintf(name, sizeof name, "%s, owner's residual", shapes[t].name);
            const struct tutti_checkpoint_tensor *const part = part_of(c, name);
            for (size_t i = 0; part != NULL && i < part->count; i++)
                left[at + part->begin + i] += (double)((float *)part->data)[i];
        }
        RANKS_EXPECT(tutti_allreduce(left, left, ELEMENTS, TUTTI_FLOAT64, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        double most = 0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            RANKS_EXPECT(fabs(given[i] - got[i] - left[i]) < 2e-4);
            most = fmax(most, fabs(left[i]));
        }
        RANKS_EXPECT((most > 1e-3) == (way->method != TUTTI_COMPRESS_NONE));
        RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    }
    return 0;
}

static void nothing_is_lost(void **state)
{
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        struct way way = ways[w];
        expect_good(RANKS, RANKS_DEFAULT, conserve, &way);
        if (w % 3 == 1) expect_good(2, RANKS_THREADS, conserve, &way);
    }
}

/* An encoded step, computed by hand for the largest tensor: all bits of the average and of both
 * residuals; decoded and residual together are the corrected gradient. */
static int by_hand(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 40 * 33, TENSOR = 4 };
    static _Thread_local struct model model;
    static _Thread_local float before[COUNT], after[COUNT], own[COUNT], sent[COUNT], sum[COUNT],
        owned[COUNT], owned_after[COUNT];
    static _Thread_local unsigned char bytes[8 * COUNT];
    const struct way *const way = context;
    const struct tutti_compressor_options options = options_of(way);
    struct tutti_compressor *c;
    (void)seed;
    model_init(&model, usual_order, TENSORS);
    float *const gradient = model.tensors[TENSOR].data;
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    memset(owned, 0, sizeof owned);
    for (uint64_t step = 1; step <= 3; step++) {
        copy_residual(c, "matrix", COUNT, before);
        RANKS_EXPECT(average(c, &model, step, rank));
        memcpy(after, gradient, sizeof after);
        memset(sum, 0, sizeof sum);
        for (int r = 0; r < size; r++) {
            float theirs[COUNT];
            memcpy(theirs, before, sizeof theirs);
            RANKS_EXPECT(tutti_broadcast(theirs, theirs, COUNT, TUTTI_FLOAT32, r, comm) == TUTTI_OK);
            compute(&model, step, r);
            for (size_t i = 0; i < COUNT; i++) theirs[i] += gradient[i];
            RANKS_EXPECT(tutti_encode(way->encoding, TUTTI_FLOAT32, theirs, COUNT, bytes) ==
                         TUTTI_OK);
            RANKS_EXPECT(tutti_decode(way->encoding, TUTTI_FLOAT32, bytes, COUNT, sent) == TUTTI_OK);
            for (size_t i = 0; i < COUNT; i++) sum[i] = r == 0 ? sent[i] : sum[i] + sent[i];
            if (r != rank) continue;
            copy_residual(c, "matrix", COUNT, own);
            for (size_t i = 0; i < COUNT; i++)
                RANKS_EXPECT(own[i] == theirs[i] - sent[i] && sent[i] + own[i] == theirs[i]);
        }
        /* Owners' residuals of all ranks, before this step, are in `owned`. */
        for (size_t i = 0; i < COUNT; i++) sum[i] = sum[i] / (float)size + owned[i];
        RANKS_EXPECT(tutti_encode(way->encoding, TUTTI_FLOAT32, sum, COUNT, bytes) == TUTTI_OK);
        RANKS_EXPECT(tutti_decode(way->encoding, TUTTI_FLOAT32, bytes, COUNT, sent) == TUTTI_OK);
        RANKS_EXPECT(memcmp(sent, after, sizeof sent) == 0);
        const struct tutti_checkpoint_tensor *const part = part_of(c, "matrix, owner's residual");
        memset(owned_after, 0, sizeof owned_after);
        if (part != NULL)
            memcpy(owned_after + part->begin, part->data, part->count * sizeof(float));
        RANKS_EXPECT(tutti_allreduce(owned_after, owned, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        for (size_t i = 0; i < COUNT; i++) RANKS_EXPECT(sent[i] + owned[i] == sum[i]);
    }
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void encoded_steps_have_the_bits_that_they_must_have(void **state)
{
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        struct way way = ways[w];
        if (way.method != TUTTI_COMPRESS_ENCODED) continue;
        expect_good(RANKS, RANKS_DEFAULT, by_hand, &way);
        if (w == WAYS - 1) expect_good(5, RANKS_THREADS, by_hand, &way);
    }
}

/* On a deterministic communicator: one bucket or many, all tensors at once or in any order. */
static int vary_buckets(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    static _Thread_local float first[ELEMENTS];
    struct tutti_comm_options deterministic = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *own;
    (void)size, (void)seed, (void)context;
    deterministic.deterministic = 1;
    RANKS_EXPECT(tutti_comm_dup(comm, &deterministic, &own) == TUTTI_OK);
    model_init(&model, usual_order, TENSORS);
    for (int w = 1; w < WAYS; w++)
        for (int turn = 0; turn < 3; turn++) {
            struct tutti_compressor_options options = options_of(&ways[w]);
            struct tutti_compressor_counters counters = {.size_bytes = sizeof counters};
            struct tutti_compressor *c;
            options.bucket_bytes = turn == 0 ? 1 << 20 : turn == 1 ? 1 : 5000;
            options.start = (enum tutti_buckets_start)turn;
            RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, own, &c) ==
                         TUTTI_OK);
            RANKS_EXPECT(tutti_compressor_count(c, &counters) == TUTTI_OK);
            RANKS_EXPECT(counters.buckets == (turn == 0 ? 1 : turn == 1 ? TENSORS - 1 : 3));
            for (uint64_t step = 0; step < 3; step++) RANKS_EXPECT(average(c, &model, step, rank));
            if (turn == 0) memcpy(first, model.data, sizeof first);
            RANKS_EXPECT(memcmp(first, model.data, sizeof first) == 0);
            RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
        }
    return tutti_comm_free(own) != TUTTI_OK;
}

static void bits_do_not_depend_on_buckets(void **state)
{
    (void)state;
    expect_good(RANKS, RANKS_DEFAULT, vary_buckets, NULL);
}

/* ------------------------------------------------------------------------------------- other lists */

static int change_list(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model, other;
    static const size_t order[] = {4, 0, 5};
    const struct way *const way = context;
    struct tutti_compressor_options options = options_of(way);
    struct tutti_compressor *c, *next, *idle;
    float kept[64 * 54], now[64 * 54];
    (void)size, (void)seed;
    model_init(&model, usual_order, TENSORS);
    model_init(&other, order, 3);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    for (uint64_t step = 0; step < 2; step++) RANKS_EXPECT(average(c, &model, step, rank));
    options.bucket_bytes = 1;
    RANKS_EXPECT(tutti_compressor_create(other.tensors, 3, &options, comm, &next) == TUTTI_OK);
    copy_residual(c, "matrix", 40 * 33, kept);
    RANKS_EXPECT(tutti_compressor_take(next, c) == TUTTI_OK);
    copy_residual(next, "matrix", 40 * 33, now);
    RANKS_EXPECT(memcmp(kept, now, 40 * 33 * sizeof *now) == 0);
    RANKS_EXPECT(average(next, &other, 2, rank));
    RANKS_EXPECT(is_same(other.data, 40 * 33 + 64 * 16 + 3, comm));
    /* What was given away is gone, and does not take the place of the state that is there now. */
    RANKS_EXPECT(tutti_compressor_finish(c, NULL) == TUTTI_INVALID_OPTIONS);
    copy_residual(next, "matrix", 40 * 33, kept);
    RANKS_EXPECT(tutti_compressor_take(next, c) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "given its state away before") != NULL);
    RANKS_EXPECT(tutti_compressor_take(c, next) == TUTTI_INVALID_OPTIONS);
    copy_residual(next, "matrix", 40 * 33, now);
    RANKS_EXPECT(memcmp(kept, now, 40 * 33 * sizeof *now) == 0);
    options.rank = 3;
    RANKS_EXPECT(tutti_compressor_create(other.tensors, 3, &options, comm, &idle) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_take(idle, next) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "2 and 1 as in the other compressor, are") != NULL);
    RANKS_EXPECT(tutti_compressor_take(idle, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_free(idle) == TUTTI_OK);
    return tutti_compressor_free(next) != TUTTI_OK;
}

static void state_follows_names(void **state)
{
    (void)state;
    for (int w = 1; w < WAYS; w += 2) {
        struct way way = ways[w];
        expect_good(RANKS, RANKS_DEFAULT, change_list, &way);
    }
}

static _Atomic int *met; /* ranks that have averaged before one of them dies */

/* A rank dies in the middle of a step. The others keep their residuals and go on; owners' residuals
 * of those that live are with their new owners. */
static int lose_a_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 40 * 33 };
    static struct model model;
    static float kept[COUNT], now[COUNT], owned[COUNT], moved[COUNT];
    const struct way *const way = context;
    const struct tutti_compressor_options options = options_of(way);
    struct tutti_compressor *c, *next;
    struct tutti_comm *smaller;
    (void)seed;
    model_init(&model, usual_order, TENSORS);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    for (uint64_t step = 0; step < 3; step++) RANKS_EXPECT(average(c, &model, step, rank));
    copy_residual(c, "matrix", COUNT, kept);
    const struct tutti_checkpoint_tensor *part = part_of(c, "matrix, owner's residual");
    if (part != NULL) memcpy(owned + part->begin, part->data, part->count * sizeof(float));
    ranks_meet(met, size);
    if (rank == size - 1) raise(SIGKILL);
    RANKS_EXPECT(!average(c, &model, 3, rank));
    RANKS_EXPECT(tutti_compressor_parts(c, NULL, 0, &(size_t){0}) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_size(smaller) == size - 1);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, smaller, &next) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_take(next, c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    copy_residual(next, "matrix", COUNT, now);
    RANKS_EXPECT(memcmp(kept, now, sizeof now) == 0);
    part = part_of(next, "matrix, owner's residual");
    if (part != NULL) memcpy(moved + part->begin, part->data, part->count * sizeof(float));
    RANKS_EXPECT(tutti_allreduce(owned, owned, COUNT, TUTTI_FLOAT32, TUTTI_SUM, smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(moved, moved, COUNT, TUTTI_FLOAT32, TUTTI_SUM, smaller) == TUTTI_OK);
    for (size_t i = 0; i < COUNT; i++) RANKS_EXPECT(owned[i] == moved[i]);
    for (uint64_t step = 3; step < 5; step++) {
        RANKS_EXPECT(average(next, &model, step, rank));
        RANKS_EXPECT(is_same(model.data, ELEMENTS, smaller));
    }
    RANKS_EXPECT(tutti_compressor_free(next) == TUTTI_OK);
    return tutti_comm_free(smaller) != TUTTI_OK;
}

static void survivors_go_on(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* they cannot die */
    for (int w = 1; w < WAYS; w += 2) {
        struct way way = ways[w];
        struct ranks_outcome outcomes[4];
        const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                              .deadline_ms = 90000,
                                              .comm_options = &patient,
                                              .outcomes = outcomes};
        met = ranks_share(sizeof *met);
        assert_int_equal(ranks_run(4, &options, lose_a_rank, &way), 1);
        assert_int_equal(outcomes[3].fate, RANKS_SIGNALLED);
    }
}

/* ------------------------------------------------------------------------------------- checkpoints */

struct run {
    struct way way;
    uint64_t from, to;
    bool saves, dies;
    float *result; /* shared: gradients of the last step */
};

static int train(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct run *const run = context;
    struct tutti_compressor_options options = options_of(&run->way);
    struct tutti_checkpoint_tensor parts[PARTS];
    struct tutti_checkpoints *checkpoints;
    struct tutti_compressor *c;
    size_t count;
    (void)size, (void)seed;
    model_init(&model, usual_order, TENSORS);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    if (run->from > 0) RANKS_EXPECT(tutti_compressor_load(c, checkpoints, run->from) == TUTTI_OK);
    for (uint64_t step = run->from; step < run->to; step++) {
        RANKS_EXPECT(average(c, &model, step, rank));
        if (!run->saves || step != 2) continue;
        RANKS_EXPECT(tutti_compressor_parts(c, parts, PARTS, &count) == TUTTI_OK);
        RANKS_EXPECT(count <= PARTS);
        RANKS_EXPECT(tutti_checkpoints_save(checkpoints, step + 1, parts, count) == TUTTI_OK);
        RANKS_EXPECT(tutti_checkpoints_wait(checkpoints) == TUTTI_OK);
    }
    if (run->dies) raise(SIGKILL);
    if (rank == 0) memcpy(run->result, model.data, sizeof model.data);
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void a_run_that_was_killed_has_the_same_bits(void **state)
{
    (void)state;
    float *const whole = ranks_share(2 * sizeof(float) * ELEMENTS), *const again = whole + ELEMENTS;
    for (int w = 1; w < WAYS; w++) {
        struct run run = {ways[w], 0, 6, false, false, whole};
        scratch_remove(folder);
        scratch_make(folder);
        expect_good(RANKS, RANKS_DEFAULT, train, &run);
        run = (struct run){ways[w], 0, 4, true, !ranks_are_threads(), again};
        const int killed = ranks_run(RANKS, NULL, train, &run);
        assert_int_equal(killed, ranks_are_threads() ? 0 : RANKS);
        run = (struct run){ways[w], 3, 6, false, false, again};
        expect_good(RANKS, RANKS_DEFAULT, train, &run);
        assert_memory_equal(whole, again, sizeof(float) * ELEMENTS);
    }
}

/* Other ranks load: the residuals' average stays as it was. */
static int load_elsewhere(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { COUNT = 40 * 33 };
    static _Thread_local struct model model;
    const struct run *const run = context;
    const struct tutti_compressor_options options = options_of(&run->way);
    struct tutti_checkpoints *checkpoints;
    struct tutti_compressor *c;
    float mine[COUNT], row[COUNT];
    double expected[COUNT] = {0}, sum[COUNT];
    uint64_t saved = 0;
    (void)seed;
    model_init(&model, usual_order, TENSORS);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_load(c, checkpoints, 3) == TUTTI_OK);
    const struct tutti_checkpoint_tensor ranks =
        TUTTI_CHECKPOINT_ROW("compressor, ranks", TUTTI_UINT64, 1, &saved);
    RANKS_EXPECT(tutti_checkpoints_load(checkpoints, 3, &ranks, 1) == TUTTI_OK);
    RANKS_EXPECT(saved == RANKS);
    for (size_t r = 0; r < RANKS; r++) {
        const struct tutti_checkpoint_tensor part = {"matrix, residual",
                                                     TUTTI_FLOAT32,
                                                     3,
                                                     {RANKS, 40, 33},
                                                     {r, 0, 0},
                                                     {1, 40, 33},
                                                     0,
                                                     COUNT,
                                                     row};
        RANKS_EXPECT(tutti_checkpoints_load(checkpoints, 3, &part, 1) == TUTTI_OK);
        for (size_t i = 0; i < COUNT; i++) expected[i] += (double)row[i] / RANKS;
    }
    copy_residual(c, "matrix", COUNT, mine);
    for (size_t i = 0; i < COUNT; i++) sum[i] = (double)mine[i] / size;
    RANKS_EXPECT(tutti_allreduce(sum, sum, COUNT, TUTTI_FLOAT64, TUTTI_SUM, comm) == TUTTI_OK);
    double most = 0;
    for (size_t i = 0; i < COUNT; i++) {
        RANKS_EXPECT(fabs(sum[i] - expected[i]) < 1e-5);
        most = fmax(most, fabs(expected[i]));
    }
    RANKS_EXPECT(most > 1e-3);
    for (uint64_t step = 3; step < 5; step++) {
        RANKS_EXPECT(average(c, &model, step, rank));
        RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    }
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void other_ranks_load_the_same_average(void **state)
{
    (void)state;
    float *const result = ranks_share(sizeof(float) * ELEMENTS);
    for (int w = 1; w < WAYS; w += 2) {
        struct run run = {ways[w], 0, 3, true, false, result};
        scratch_remove(folder);
        scratch_make(folder);
        expect_good(RANKS, RANKS_DEFAULT, train, &run);
        expect_good(2, RANKS_DEFAULT, load_elsewhere, &run);
        expect_good(4, RANKS_DEFAULT, load_elsewhere, &run);
    }
}

/* A checkpoint that cannot be right. */
static int load_nonsense(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct tutti_compressor_options options = options_of(&ways[1]);
    struct tutti_checkpoint_tensor parts[PARTS];
    struct tutti_checkpoints *checkpoints;
    struct tutti_compressor *c;
    size_t count, bad = 0;
    (void)seed, (void)context;
    model_init(&model, usual_order, TENSORS);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    for (uint64_t turn = 1; turn <= 3; turn++) {
        RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_parts(c, parts, PARTS, &count) == TUTTI_OK);
        for (size_t i = 0; i < count; i++)
            if (strcmp(parts[i].name, turn == 1   ? "matrix, residual"
                                      : turn == 2 ? "matrix, basis"
                                                  : "compressor, ranks") == 0)
                bad = i;
        if (turn == 1 && rank == size - 1) ((float *)parts[bad].data)[5] = NAN; /* one rank's */
        if (turn == 2) ((float *)parts[bad].data)[5] = INFINITY;
        if (turn == 3) *(uint64_t *)parts[bad].data = UINT64_MAX;
        RANKS_EXPECT(tutti_checkpoints_save(checkpoints, turn, parts, count) == TUTTI_OK);
        const enum tutti_status status = tutti_compressor_load(c, checkpoints, turn);
        RANKS_EXPECT(status == (turn > 1 || rank == size - 1 ? TUTTI_CORRUPT : TUTTI_MISMATCH));
        RANKS_EXPECT(turn == 3 || strstr(tutti_error_message(), "tensor 'matrix'") != NULL);
        RANKS_EXPECT(tutti_compressor_finish(c, NULL) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_load(c, checkpoints, 9) != TUTTI_OK); /* there is none */
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    /* As many elements, but of another shape. */
    const struct tutti_compressor_options top_k = options_of(&ways[3]);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &top_k, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_parts(c, parts, PARTS, &count) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 4, parts, count) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_load(c, checkpoints, 4) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    /* Of another method, encoding or feedback: it would be read as far as its shapes fit. */
    struct tutti_compressor_options others[] = {options_of(&ways[0]), options_of(&ways[5]), top_k};
    others[2].feedback = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &others[i], comm, &c) ==
                     TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_load(c, checkpoints, 4) == TUTTI_MISMATCH);
        RANKS_EXPECT(strstr(tutti_error_message(), "the state of top k with feedback, this "
                                                   "compressor is of ") != NULL);
        RANKS_EXPECT(strstr(tutti_error_message(), i == 0   ? "none with"
                                                   : i == 1 ? "int8 with"
                                                            : "top k without") != NULL);
        RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    }
    model.tensors[4].rows = 33;
    model.tensors[4].columns = 40;
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &top_k, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_load(c, checkpoints, 4) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "'matrix, residual' is float32") != NULL);
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    return tutti_checkpoints_close(checkpoints) != TUTTI_OK;
}

static void checkpoints_are_not_believed(void **state)
{
    (void)state;
    scratch_remove(folder);
    scratch_make(folder);
    expect_good(2, RANKS_DEFAULT, load_nonsense, NULL);
}

/* ----------------------------------------------------------------- rules of the communicator, sizes */

/* Rules for encodings do not round again what a compressor exchanges. */
static int with_rules(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model plain, ruled;
    const struct way *const way = context;
    const struct tutti_compressor_options options = options_of(way);
    static const char *const rules[] = {"allreduce=bfloat16/everywhere/required",
                                        "allreduce=int8/everywhere/required"};
    (void)size, (void)seed;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct tutti_comm_options own = TUTTI_COMM_OPTIONS_INIT;
        struct tutti_compressor *c, *other;
        struct tutti_comm *bound;
        own.encodings = rules[i];
        model_init(&plain, usual_order, TENSORS);
        model_init(&ruled, usual_order, TENSORS);
        RANKS_EXPECT(tutti_comm_dup(comm, &own, &bound) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_create(plain.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_create(ruled.tensors, TENSORS, &options, bound, &other) ==
                     TUTTI_OK);
        for (uint64_t step = 0; step < 3; step++) {
            RANKS_EXPECT(average(c, &plain, step, rank) && average(other, &ruled, step, rank));
            RANKS_EXPECT(memcmp(plain.data, ruled.data, sizeof plain.data) == 0);
        }
        RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_free(other) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_free(bound) == TUTTI_OK);
    }
    return 0;
}

static void rules_for_encodings_leave_exchanges_alone(void **state)
{
    (void)state;
    for (int w = 0; w < WAYS; w += w < 4 ? 1 : WAYS) {
        struct way way = ways[w];
        expect_good(2, RANKS_DEFAULT, with_rules, &way);
    }
}

/* All bytes of state are counted: residuals of the sender and of the owner, and Q. */
static int count_state(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    struct tutti_checkpoint_tensor parts[PARTS];
    struct tutti_compressor_counters counters = {.size_bytes = sizeof counters};
    (void)rank, (void)size, (void)seed, (void)context;
    model_init(&model, usual_order, TENSORS);
    for (int w = 0; w < WAYS; w++) {
        const struct tutti_compressor_options options = options_of(&ways[w]);
        struct tutti_compressor *c;
        size_t count, elements = 0;
        RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
        RANKS_EXPECT(tutti_compressor_parts(c, parts, PARTS, &count) == TUTTI_OK && count <= PARTS);
        for (size_t i = 0; i < count; i++)
            if (parts[i].dtype == TUTTI_FLOAT32) elements += parts[i].count;
        RANKS_EXPECT(tutti_compressor_count(c, &counters) == TUTTI_OK);
        RANKS_EXPECT(counters.state_bytes == elements * sizeof(float));
        RANKS_EXPECT((elements == 0) == (options.method == TUTTI_COMPRESS_NONE));
        RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    }
    return 0;
}

static void all_state_is_counted(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, count_state, NULL);
}

/* ----------------------------------------------------------------------------- numbers, and mistakes */

/* A number that is not finite is told, does not stay, and other tensors do not mind. */
static int not_finite(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct way *const way = context;
    const struct tutti_compressor_options options = options_of(way);
    struct tutti_compressor_result result;
    struct tutti_compressor *c;
    (void)size, (void)seed;
    model_init(&model, usual_order, TENSORS);
    RANKS_EXPECT(tutti_compressor_create(model.tensors, TENSORS, &options, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(average(c, &model, 0, rank));
    compute(&model, 1, rank);
    if (rank == 1) model.tensors[4].data[100] = NAN;
    for (size_t i = 0; i < TENSORS; i++) RANKS_EXPECT(tutti_compressor_ready(c, i) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_finish(c, &result) == TUTTI_OK);
    RANKS_EXPECT(result.not_finite == 1 && isnan(model.tensors[4].data[100]));
    for (size_t i = 0; i < 24 * 54; i++) RANKS_EXPECT(isfinite(model.tensors[1].data[i]));
    RANKS_EXPECT(average(c, &model, 2, rank)); /* of which all is finite */
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    /* Zeros, from ranks that have nothing ready: residuals arrive, and no step divides by 0. */
    for (int step = 0; step < 3; step++) {
        RANKS_EXPECT(tutti_compressor_finish(c, &result) == TUTTI_OK && result.not_finite == 0);
        RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    }
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void numbers_that_are_not_finite_do_not_stay(void **state)
{
    (void)state;
    for (int w = 1; w < WAYS; w += 2) {
        struct way way = ways[w];
        expect_good(2, RANKS_DEFAULT, not_finite, &way);
    }
}

static int go_wrong(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    float data[400] = {0};
    struct tutti_compress_tensor tensors[] = {{"a", data, 10, 20}, {"b", data + 200, 1, 200}};
    struct tutti_compressor_options options = TUTTI_COMPRESSOR_OPTIONS_INIT;
    struct tutti_compressor *c;
    (void)size, (void)seed, (void)context;
#define REFUSED(field, value, text)                                             \
    do {                                                                        \
        struct tutti_compressor_options wrong = options;                        \
        wrong.field = (value);                                                  \
        RANKS_EXPECT(tutti_compressor_create(tensors, 2, &wrong, comm, &c) ==   \
                     TUTTI_INVALID_OPTIONS);                                    \
        RANKS_EXPECT(c == NULL && strstr(tutti_error_message(), text) != NULL); \
    } while (0)
    REFUSED(method, (enum tutti_compress_method)4, "options.method must be");
    REFUSED(method, TUTTI_COMPRESS_ENCODED, "encoding"); /* which is none */
    REFUSED(encoding, TUTTI_ENCODING_INT8, "options.encoding must be none unless");
    REFUSED(rank, 0, "options.rank must be 1 to 64, is 0");
    REFUSED(rank, 65, "options.rank");
    REFUSED(share, 0, "options.share must be above 0");
    REFUSED(share, (double)NAN, "options.share");
    REFUSED(ratio_min, 0.5, "options.ratio_min must be 1 or more, is 0.5");
    tensors[1].name = "a";
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, &options, comm, &c) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "two tensors have the name 'a'") != NULL);
    tensors[1].name = "b\n";
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, &options, comm, &c) == TUTTI_INVALID_OPTIONS);
    tensors[1].name = rank == 0 ? "b" : "c";
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, &options, comm, &c) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 0 has 'tensor 1: 'b' of 1 x 200', rank 1 has "
                                               "'tensor 1: 'c' of 1 x 200'") != NULL);
    tensors[1].name = "b";
    tensors[0].data = NULL;
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, &options, comm, &c) == TUTTI_INVALID_BUFFER);
    tensors[0].data = data;
    tensors[0].rows = SIZE_MAX / 2;
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, &options, comm, &c) == TUTTI_INVALID_COUNT);
    tensors[0].rows = 10;
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, NULL, comm, &c) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(c == NULL && tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_create(tensors, 2, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_ready(c, 2) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_compressor_ready(c, 0) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_ready(c, 0) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "tensor 'a' was ready") != NULL);
    RANKS_EXPECT(tutti_compressor_take(c, NULL) == TUTTI_INVALID_OPTIONS); /* in a step */
    RANKS_EXPECT(tutti_compressor_finish(c, NULL) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_take(c, c) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_compressor_free(c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_create(NULL, 0, NULL, comm, &c) == TUTTI_OK);
    RANKS_EXPECT(tutti_compressor_finish(c, NULL) == TUTTI_OK);
    return tutti_compressor_free(c) != TUTTI_OK;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, go_wrong, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(low_rank_sends_what_its_paper_says),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(encoded_steps_have_the_bits_that_they_must_have),
        cmocka_unit_test(bits_do_not_depend_on_buckets),
        cmocka_unit_test(state_follows_names),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(a_run_that_was_killed_has_the_same_bits),
        cmocka_unit_test(other_ranks_load_the_same_average),
        cmocka_unit_test(checkpoints_are_not_believed),
        cmocka_unit_test(rules_for_encodings_leave_exchanges_alone),
        cmocka_unit_test(all_state_is_counted),
        cmocka_unit_test(numbers_that_are_not_finite_do_not_stay),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
