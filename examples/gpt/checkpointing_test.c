/* checkpointing_test.c - what one mesh saves, another one has after loading, to the last bit:
 * weights and moments. It says so by saving them once more.
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpointing.h"
#include "counter.h"
#include "give_up.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/shards.h"

enum { VOCABULARY = 61, CONTEXT = 6, TOKENS = 20 * CONTEXT * 5 + 1, STEPS = 2 };

struct cut {
    size_t stages, replicas, slices;
    int zero;
    bool rows_split;
};

static char first[SCRATCH_BYTES], second[SCRATCH_BYTES];
static uint32_t tokens[TOKENS];
static const struct data data = {tokens, TOKENS, CONTEXT, 5, 3, 0, 1};

static struct trainer_options trainer_options(const struct cut *cut)
{
    struct trainer_options options = {.model = {.shape = {.vocabulary = VOCABULARY,
                                                          .context = CONTEXT,
                                                          .width = 40,
                                                          .layers = 3,
                                                          .heads = 4,
                                                          .hidden = 22,
                                                          .tied = true},
                                                .seed = 3,
                                                .exchange = &exchange_alone},
                                      .batch = 4,
                                      .schedule = {.rate = 0.01, .warm_up_steps = 1, .steps = STEPS},
                                      .adamw = {0.9, 0.95, 1e-8, 0.1},
                                      .clip = 1};
    options.model.part = part_whole(&options.model.shape);
    options.model.samples_max = options.batch / cut->replicas / (cut->stages > 1 ? 2 : 1);
    if (options.model.samples_max == 0) options.model.samples_max = 1;
    return options;
}

static struct parallel_options parallel_options_of(const struct cut *cut)
{
    return (struct parallel_options){.mesh = {cut->stages, cut->replicas, cut->slices},
                                     .zero = cut->zero,
                                     .ahead = 1,
                                     .rows_split = cut->rows_split,
                                     .schedule = "1f1b"};
}

static struct parallel *make_parallel(const struct cut *cut, const struct parallel_options *parallel,
                                      struct tutti_comm *comm)
{
    const struct trainer_options trainer = trainer_options(cut);
    return parallel_create(&trainer, parallel, &data, comm);
}

static struct checkpointing *open_folder(const char *folder, bool resume, struct tutti_comm *comm)
{
    const struct checkpointing_options options = {folder, 0, 1, resume};
    return checkpointing_open(&options, comm);
}

/* Into the first folder. */
static int train(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct checkpointing *checkpointing = open_folder(first, false, comm);
    const struct parallel_options options = parallel_options_of(context);
    struct parallel *parallel = make_parallel(context, &options, comm);
    (void)size;
    (void)seed;
    for (uint64_t step = 0; step < STEPS; step++) {
        (void)parallel_step(parallel, step);
        checkpointing_after(checkpointing, parallel, step + 1);
    }
    RANKS_EXPECT(checkpointing_close(checkpointing));
    parallel_free(parallel);
    return 0;
}

/* From the first folder into the second one. */
static int pass_on(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct checkpointing *from = open_folder(first, true, comm),
                         *to = open_folder(second, false, comm);
    (void)size;
    (void)seed;
    RANKS_EXPECT(checkpointing_step(from) == STEPS);
    struct parallel_options options = parallel_options_of(context);
    checkpointing_begin(from, &options);
    RANKS_EXPECT(options.first_step == STEPS && options.loss_scale == 0);
    struct parallel *parallel = make_parallel(context, &options, comm);
    checkpointing_load(from, parallel);
    checkpointing_after(to, parallel, STEPS);
    RANKS_EXPECT(checkpointing_close(from) && checkpointing_close(to));
    (void)parallel_step(parallel, STEPS); /* it goes on */
    parallel_free(parallel);
    return 0;
}

/* A whole tensor out of a folder. */
static int read_whole(struct tutti_checkpoints *checkpoints, const char *name,
                      const struct tensor *tensor, real *values)
{
    const size_t rows = tensor->rows.count, columns = tensor->columns.count;
    const struct tutti_checkpoint_tensor wanted = {
        name, REAL_DTYPE, 2, {rows, columns}, {0}, {rows, columns}, 0, rows * columns, values};
    return tutti_checkpoints_load(checkpoints, STEPS, &wanted, 1) != TUTTI_OK;
}

static int compare(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const char *const views[] = {"parameters", "first moments", "second moments"};
    const struct trainer_options options = trainer_options(context);
    struct tutti_checkpoints *one, *two;
    struct parameters all;
    (void)size;
    (void)seed;
    parameters_init(&all, &options.model.shape, &options.model.part);
    RANKS_EXPECT(tutti_checkpoints_open(first, NULL, comm, &one) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(second, NULL, comm, &two) == TUTTI_OK);
    for (size_t t = 0; t < all.tensor_count; t++)
        for (size_t v = 0; v < 3; v++) {
            const struct tensor *tensor = &all.tensors[t];
            const size_t count = tensor_elements(tensor);
            real *a = allocate(count, sizeof *a), *b = allocate(count, sizeof *b), sum = 0;
            char name[64];
            snprintf(name, sizeof name, "%s, %s", tensor->name, views[v]);
            RANKS_EXPECT(read_whole(one, name, tensor, a) == 0);
            RANKS_EXPECT(read_whole(two, name, tensor, b) == 0);
            RANKS_EXPECT(memcmp(a, b, count * sizeof *a) == 0);
            for (size_t i = 0; i < count; i++) sum += a[i] * a[i];
            RANKS_EXPECT(sum > 0);
            free(a);
            free(b);
        }
    RANKS_EXPECT(tutti_checkpoints_close(one) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_close(two) == TUTTI_OK);
    parameters_release(&all);
    return 0;
}

static int ranks_of(const struct cut *cut)
{
    return (int)(cut->stages * cut->replicas * cut->slices);
}

static void another_mesh_has_the_same_state(void **state)
{
    static struct cut cuts[] = {{1, 2, 1, 3, false}, {1, 1, 2, 1, true},  {2, 1, 1, 0, false},
                                {1, 1, 1, 0, false}, {1, 2, 2, 2, false}, {3, 1, 1, 3, false},
                                {2, 2, 1, 1, false}, {2, 1, 2, 3, true}};
    const size_t count = sizeof cuts / sizeof *cuts;
    const bool is_long = getenv("TUTTI_LONG") != NULL;
    (void)state;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            if (!is_long && (i % 2 == 1 || j != (i + 3) % count)) continue;
            scratch_make(first);
            scratch_make(second);
            assert_int_equal(ranks_run(ranks_of(&cuts[i]), NULL, train, &cuts[i]), 0);
            assert_int_equal(ranks_run(ranks_of(&cuts[j]), NULL, pass_on, &cuts[j]), 0);
            assert_int_equal(ranks_run(1, NULL, compare, &cuts[i]), 0);
            scratch_remove(first);
            scratch_remove(second);
        }
}

/* Two steps, the second of which is skipped: weights that are no numbers make gradients that are
 * none. */
static int train_and_skip(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct checkpointing *checkpointing = open_folder(first, false, comm);
    struct parallel_options options = parallel_options_of(context);
    (void)size;
    (void)seed;
    options.loss_scale = 2;
    struct parallel *parallel = make_parallel(context, &options, comm);
    (void)parallel_step(parallel, 0);
    const size_t count = parallel_parameters(parallel, 0)->groups[0].elements;
    real *nothing = allocate(count, sizeof *nothing);
    for (size_t i = 0; i < count; i++) nothing[i] = (real)NAN;
    RANKS_EXPECT(tutti_shards_set(parallel_shards(parallel), 0, nothing) == TUTTI_OK);
    free(nothing);
    (void)parallel_step(parallel, 1);
    RANKS_EXPECT(tutti_shards_loss_scale(parallel_shards(parallel)) == 1);
    checkpointing_after(checkpointing, parallel, STEPS);
    RANKS_EXPECT(checkpointing_close(checkpointing));
    parallel_free(parallel);
    return 0;
}

/* AdamW's moments are as old as the steps that were taken, and the loss scale is the one that was
 * left. */
static int go_on(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct checkpointing *checkpointing = open_folder(first, true, comm);
    struct parallel_options options = parallel_options_of(context);
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    (void)size;
    (void)seed;
    options.loss_scale = 2;
    checkpointing_begin(checkpointing, &options);
    RANKS_EXPECT(checkpointing_step(checkpointing) == STEPS);
    RANKS_EXPECT(options.loss_scale == 1 && options.good_steps == 0);
    struct parallel *parallel = make_parallel(context, &options, comm);
    checkpointing_load(checkpointing, parallel);
    RANKS_EXPECT(tutti_shards_count(parallel_shards(parallel), &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.steps == 1);
    RANKS_EXPECT(checkpointing_close(checkpointing));
    parallel_free(parallel);
    return 0;
}

static void a_skipped_step_is_not_counted(void **state)
{
    struct cut cut = {1, 2, 1, 2, false};
    (void)state;
    scratch_make(first);
    assert_int_equal(ranks_run(ranks_of(&cut), NULL, train_and_skip, &cut), 0);
    assert_int_equal(ranks_run(ranks_of(&cut), NULL, go_on, &cut), 0);
    scratch_remove(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_mesh_has_the_same_state),
                                       cmocka_unit_test(a_skipped_step_is_not_counted)};
    for (uint64_t i = 0; i < TOKENS; i++) tokens[i] = (uint32_t)(counter_bits(9, i) % VOCABULARY);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
