/* step.c - a training step with gradient buckets beside the same step with a blocking call: rank
 * program, `tutti-run ... build/bench/step [-b BYTES] [-e BYTES] [-l LAYERS] [-c SHARE] [-n
 * REPEATS] [-f]`.
 *
 *   computing   forward ─ layer n ─ ... ─ layer 1
 *   blocking    forward ─ layer n ─ ... ─ layer 1 ─[ one allreduce of all gradients ]
 *   buckets     forward ─ layer n ─ ... ─ layer 1 ─[ what is not done yet ]
 *                            └ allreduce ┴ allreduce ┴ ...
 *
 * A layer's backward pass computes in registers and writes its gradient; the forward pass takes
 * half as long as the backward pass. All computing together takes SHARE times as long as the
 * blocking allreduce did in a first round. Times are those of the slowest rank; the three take
 * turns, and medians of the repeats count. Before each comes a step that only computes: a step
 * leaves in caches what the next one finds, and after an allreduce that is the other ranks'. Bytes
 * are those of all gradients, float32, on each rank.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "rank_program.h"
#include "tutti/train.h"
#include "work.h"

enum { REPEATS_MAX = 1000, REPEATS_DEFAULT = 21, LAYERS_MAX = 1000, LAYERS_DEFAULT = 16 };

/* -------------------------------------------------------------------------------------- a model */

struct model {
    size_t layer_count;
    struct tutti_gradient gradients[LAYERS_MAX];
    struct tutti_tensor tensors[LAYERS_MAX]; /* the same */
    struct tutti_buckets *buckets;
    uint64_t layer_steps; /* of computing in one layer's backward pass */
};

static void model_create(struct model *model, size_t bytes, size_t layer_count,
                         const struct tutti_buckets_options *options)
{
    *model = (struct model){.layer_count = layer_count};
    for (size_t l = 0; l < layer_count; l++) {
        const size_t count = bytes / sizeof(float) / layer_count;
        float *const data = malloc(count * sizeof(float));
        if (data == NULL) check(TUTTI_NO_MEMORY, "memory");
        for (size_t i = 0; i < count; i++) data[i] = 1;
        model->gradients[l] = (struct tutti_gradient){data, count, TUTTI_FLOAT32};
        model->tensors[l] = (struct tutti_tensor){data, count};
    }
    check(tutti_buckets_create(model->gradients, layer_count, options, comm, &model->buckets),
          "buckets");
}

static void model_free(struct model *model)
{
    check(tutti_buckets_free(model->buckets), "buckets_free");
    for (size_t l = 0; l < model->layer_count; l++) free(model->gradients[l].data);
}

static void compute_layer(const struct model *model, size_t l)
{
    float *const gradient = model->gradients[l].data;
    work(model->layer_steps);
    for (size_t i = 0; i < model->gradients[l].count; i++) gradient[i] = (float)rank;
}

static void reduce_all(const struct model *model)
{
    const struct tutti_list list = {model->tensors, model->layer_count};
    check(tutti_allreduce_list(&list, &list, TUTTI_FLOAT32, TUTTI_AVG, comm), "allreduce");
}

/* --------------------------------------------------------------------------------------- a step */

enum variant { COMPUTING, BLOCKING, BUCKETS, VARIANTS };

/* Of the slowest rank. */
static double step_us(const struct model *model, enum variant variant)
{
    check(tutti_barrier(comm), "barrier");
    const double begin = now_us();
    work(model->layer_steps * model->layer_count / 2);
    for (size_t l = model->layer_count; l-- > 0;) {
        compute_layer(model, l);
        if (variant == BUCKETS) check(tutti_buckets_ready(model->buckets, l), "ready");
    }
    if (variant == BLOCKING) reduce_all(model);
    if (variant == BUCKETS) check(tutti_buckets_finish(model->buckets, NULL), "finish");
    return largest_of_ranks(now_us() - begin);
}

static double allreduce_us(const struct model *model)
{
    double least = 1e30;
    for (int i = 0; i < 5; i++) {
        check(tutti_barrier(comm), "barrier");
        const double begin = now_us();
        reduce_all(model);
        const double us = largest_of_ranks(now_us() - begin);
        if (us < least) least = us;
    }
    return least;
}

static void measure(size_t bytes, size_t layer_count, double share, int repeats, double steps,
                    const struct tutti_buckets_options *options)
{
    static double us[VARIANTS][REPEATS_MAX];
    static struct model model;
    double medians[VARIANTS];
    model_create(&model, bytes, layer_count, options);
    const double alone = allreduce_us(&model);
    model.layer_steps = (uint64_t)(share * alone * steps / 1.5 / (double)layer_count);
    for (int i = -STARTED_WARM_UPS; i < repeats; i++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            if (variant != COMPUTING) step_us(&model, COMPUTING);
            us[variant][i < 0 ? 0 : i] = step_us(&model, (enum variant)variant);
        }
    for (int variant = 0; variant < VARIANTS; variant++)
        medians[variant] = median(us[variant], repeats);
    if (rank == 0)
        printf("%12zu %12.1f %12.1f %12.1f %12.1f %10.2f\n", bytes, alone, medians[COMPUTING],
               medians[BLOCKING], medians[BUCKETS], medians[BUCKETS] / medians[BLOCKING]);
    fflush(stdout);
    model_free(&model);
}

/* -------------------------------------------------------------------------------------- options */

static const char usage[] =
    "usage: tutti-run ... step [-b BYTES] [-e BYTES] [-l LAYERS] [-c SHARE] [-n REPEATS] [-f]\n"
    "  times a training step with gradient buckets beside the same one with a blocking allreduce\n"
    "  -b, -e BYTES   of all gradients, the least and the most, factor 4 (default: 1048576 and "
    "67108864)\n"
    "  -l LAYERS      (default 16)\n"
    "  -c SHARE       computing takes so many hundredths of the time of the allreduce (default "
    "100)\n"
    "  -n REPEATS     (default 21)\n"
    "  -f             buckets start when full, also where nothing can hide behind computing\n";

int main(int argc, char **argv)
{
    size_t smallest = 1 << 20, largest = 64 << 20, layer_count = LAYERS_DEFAULT;
    int repeats = REPEATS_DEFAULT;
    double share = 1;
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    for (int option; (option = getopt(argc, argv, "b:e:l:c:n:fh")) != -1;) {
        switch (option) {
        case 'b': smallest = (size_t)number_of(optarg, 1L << 32); break;
        case 'e': largest = (size_t)number_of(optarg, 1L << 32); break;
        case 'l': layer_count = (size_t)number_of(optarg, LAYERS_MAX); break;
        case 'c': share = (double)number_of(optarg, 100000) / 100; break;
        case 'n': repeats = (int)number_of(optarg, REPEATS_MAX); break;
        case 'f': options.start = TUTTI_BUCKETS_START_WHEN_FULL; break;
        case 'h': fputs(usage, stdout); return 0;
        default: fputs(usage, stderr); return 2;
        }
    }
    join();
    const double steps = agree(rank == 0 ? work_steps_a_us() : 0);
    if (rank == 0)
        printf("%12s %12s %12s %12s %12s %10s\n", "bytes", "allreduce us", "computing us",
               "blocking us", "buckets us", "of blocking");
    for (size_t bytes = smallest; bytes <= largest; bytes *= 4)
        measure(bytes, layer_count, share, repeats, steps, &options);
    leave();
    return 0;
}
