/* Training in 16 bits with masters in float32: the same bits at every stage of ZeRO; masters do
 * what float32 does; a gradient that is not finite, wherever it is, makes all ranks skip the step
 * and halve the loss scale; and the norm does not depend on the ranks.
 *
 * Gradients depend on the parameters unless a test says otherwise, so whatever goes wrong in one
 * step shows in the next. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tutti/train/shards.h"
#include "widen.h"

enum { GROUPS = 5, BLOCK = TUTTI_SHARDS_BLOCK, STEPS = 3, STAGES = 4 };

/* Fewer blocks than ranks, none, and such with a rest. */
enum { COUNT_MAX = 4500, ELEMENTS = COUNT_MAX + 1 + BLOCK + 2 * BLOCK + 1 };
static const struct tutti_shard_group groups[GROUPS] = {
    {COUNT_MAX, 0.1}, {1, 0}, {0, 0.3}, {BLOCK, 0.2}, {2 * BLOCK + 1, 0}};

enum gradients {
    OF_PARAMETERS, /* numbers of any kind, which depend on the parameters */
    OF_PLACES,     /* numbers of any kind, which do not depend on the parameters */
    WHOLE          /* small whole numbers, whose sums are exact */
};

struct setting {
    enum tutti_shards_stage stage;
    enum tutti_shards_reduction reduction;
    enum tutti_shards_optimizer optimizer;
    enum tutti_dtype dtype;
    int wide_gradients;
    int micro_batches;
    double norm_max;
    double loss_scale;
    int growth_steps;
    enum gradients gradients;
};

/* A place of one rank's gradients in one step; with `value` there. */
struct planted {
    int rank, step;
    size_t group, index;
    float value;
};

static enum tutti_status make(const struct setting *setting, struct tutti_comm *comm,
                              struct tutti_shards **shards)
{
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    options.stage = setting->stage;
    options.dtype = setting->dtype;
    options.micro_batches = setting->micro_batches;
    options.reduction = setting->reduction;
    options.optimizer = setting->optimizer;
    options.ahead = 1;
    options.wide_gradients = setting->wide_gradients;
    options.loss_scale = setting->loss_scale;
    options.growth_steps = setting->growth_steps;
    return tutti_shards_create(groups, GROUPS, &options, comm, shards);
}

static enum tutti_dtype gradient_dtype(const struct setting *setting)
{
    return setting->wide_gradients != 0 ? TUTTI_FLOAT32 : setting->dtype;
}

/* -------------------------------------------------------------------------------------- a model */

static int set_first_values(struct tutti_shards *shards, int rank)
{
    float values[COUNT_MAX];
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t i = 0; i < groups[g].count; i++)
            values[i] = (float)(elements_mixed(g, i) % 1000) / 500 - 1;
        RANKS_EXPECT(tutti_shards_set(shards, g, values) == TUTTI_OK);
    }
    return 0;
}

static float gradient_of(enum gradients kind, int step, int sample, size_t group, size_t i,
                         float parameter)
{
    const uint64_t h = elements_mixed((uint64_t)(step * 1000 + sample), group * COUNT_MAX + i);
    if (kind == WHOLE) return (float)(h % 16) - 8;
    const float any = (float)(h % 100003) / 50000 - 1;
    return kind == OF_PLACES ? any : any * (parameter + 1.5f);
}

/* All passes of a step. The samples of a step have numbers, of which each rank has its share. */
static int do_passes(struct tutti_shards *shards, const struct setting *setting, int step, int rank,
                     int size, const struct planted *planted)
{
    const float scale = (float)tutti_shards_loss_scale(shards);
    float parameters[COUNT_MAX], gradients[COUNT_MAX];
    for (int micro = 0; micro < setting->micro_batches; micro++)
        for (size_t g = GROUPS; g-- > 0;) {
            const size_t count = groups[g].count;
            void *own, *sum;
            RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, g, &own) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_gradient(shards, g, &sum) == TUTTI_OK);
            widen(setting->dtype, count, own, parameters);
            widen(gradient_dtype(setting), count, sum, gradients);
            for (size_t i = 0; i < count; i++)
                gradients[i] += scale * gradient_of(setting->gradients, step, micro * size + rank,
                                                    g, i, parameters[i]);
            if (planted != NULL && planted->rank == rank && planted->step == step &&
                planted->group == g)
                gradients[planted->index] = planted->value;
            narrow(gradient_dtype(setting), count, gradients, sum);
            RANKS_EXPECT(tutti_shards_ready(shards, g) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        }
    return 0;
}

/* The state of a rank after some steps. */
struct end {
    float parameters[ELEMENTS]; /* widened */
    float masters[ELEMENTS];    /* of this rank's shards, else 0 */
    double norm;
};

static int read_end(struct tutti_shards *shards, const struct setting *setting, int rank,
                    struct end *end)
{
    for (size_t g = 0, at = 0; g < GROUPS; at += groups[g++].count) {
        struct tutti_shard shard;
        void *own;
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &own) == TUTTI_OK);
        widen(setting->dtype, groups[g].count, own, end->parameters + at);
        RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_own(shards, g, &shard) == TUTTI_OK);
        RANKS_EXPECT((shard.masters != NULL) == (shard.count > 0 && setting->dtype != TUTTI_FLOAT32));
        if (shard.masters == NULL) continue;
        memcpy(end->masters + at + shard.first, shard.masters, shard.count * sizeof(float));
        uint16_t *const rounded = malloc(shard.count * sizeof *rounded);
        RANKS_EXPECT(rounded != NULL);
        narrow(setting->dtype, shard.count, shard.masters, rounded);
        RANKS_EXPECT(memcmp(rounded, shard.parameters, shard.count * sizeof *rounded) == 0);
        free(rounded);
    }
    return 0;
}

static int train(struct tutti_comm *comm, const struct setting *setting, double factor,
                 struct end *end)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    struct tutti_shards_step_options step = TUTTI_SHARDS_STEP_INIT;
    struct tutti_shards_result result;
    struct tutti_shards *shards;
    step.rate = 0.01;
    step.factor = factor;
    step.norm_max = setting->norm_max;
    memset(end, 0, sizeof *end);
    RANKS_EXPECT(make(setting, comm, &shards) == TUTTI_OK);
    if (set_first_values(shards, rank) != 0) return 1;
    for (int i = 0; i < STEPS; i++) {
        if (do_passes(shards, setting, i, rank, size, NULL) != 0) return 1;
        RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_OK);
        RANKS_EXPECT(result.skipped == 0);
    }
    end->norm = result.norm;
    if (read_end(shards, setting, rank, end) != 0) return 1;
    return tutti_shards_free(shards) != TUTTI_OK;
}

static int open_deterministic(struct tutti_comm *given, int rank, struct tutti_comm **comm)
{
    struct tutti_comm_options exact = TUTTI_COMM_OPTIONS_INIT;
    exact.deterministic = 1;
    RANKS_EXPECT(tutti_comm_dup(given, &exact, comm) == TUTTI_OK);
    return 0;
}

/* ----------------------------------------------------------------------------------------- bits */

/* Masters that this rank does not have count for nothing. */
static bool are_same(const struct end *all, const struct end *other)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (other->masters[i] != 0 && other->masters[i] != all->masters[i]) return false;
    return all->norm == other->norm &&
           memcmp(all->parameters, other->parameters, sizeof all->parameters) == 0;
}

static int same_bits(struct tutti_comm *given, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    static const struct setting turns[] = {
        {.dtype = TUTTI_BFLOAT16, .micro_batches = 1, .norm_max = 1},
        {.dtype = TUTTI_BFLOAT16, .micro_batches = 3, .reduction = TUTTI_SHARDS_REDUCE_EACH},
        {.dtype = TUTTI_BFLOAT16, .micro_batches = 2, .wide_gradients = 1, .loss_scale = 1024},
        {.dtype = TUTTI_FLOAT16, .micro_batches = 2, .norm_max = 1, .loss_scale = 8},
        {.dtype = TUTTI_BFLOAT16, .micro_batches = 1, .optimizer = TUTTI_SHARDS_SGD}};
    struct end *const ends = malloc(2 * sizeof *ends);
    struct tutti_comm *comm;
    RANKS_EXPECT(ends != NULL);
    if (open_deterministic(given, rank, &comm) != 0) return 1;
    for (size_t turn = 0; turn < sizeof turns / sizeof *turns; turn++)
        for (int stage = 0; stage < STAGES; stage++) {
            struct setting setting = turns[turn];
            setting.stage = (enum tutti_shards_stage)stage;
            if (setting.reduction == TUTTI_SHARDS_REDUCE_CHOSEN)
                setting.reduction = TUTTI_SHARDS_REDUCE_ONCE;
            if (train(comm, &setting, 0, &ends[stage > 0]) != 0) return 1;
            RANKS_EXPECT(stage == 0 || are_same(&ends[0], &ends[1]));
        }
    free(ends);
    return tutti_comm_free(comm) != TUTTI_OK;
}

static void all_stages_compute_the_same_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) expect_good(size, RANKS_DEFAULT, same_bits, NULL);
}

/* With the same gradients: parameters in 16 bits only see less of what masters do. */
static int as_float32(struct tutti_comm *given, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    struct end *const ends = malloc(2 * sizeof *ends);
    struct tutti_comm *comm;
    RANKS_EXPECT(ends != NULL);
    if (open_deterministic(given, rank, &comm) != 0) return 1;
    for (int turn = 0; turn < 2; turn++) {
        struct setting setting = {.stage = TUTTI_SHARDS_NONE,
                                  .dtype = TUTTI_FLOAT32,
                                  .micro_batches = 2,
                                  .norm_max = 1,
                                  .optimizer = (enum tutti_shards_optimizer)turn,
                                  .gradients = OF_PLACES};
        if (train(comm, &setting, 0, &ends[0]) != 0) return 1;
        setting.dtype = TUTTI_BFLOAT16;
        setting.wide_gradients = 1;
        if (turn == 1) setting.loss_scale = 0x1p20; /* a power of 2 changes no bit */
        if (train(comm, &setting, 0, &ends[1]) != 0) return 1;
        RANKS_EXPECT(ends[0].norm == ends[1].norm);
        RANKS_EXPECT(memcmp(ends[0].parameters, ends[1].masters, sizeof ends->masters) == 0);
        RANKS_EXPECT(memcmp(ends[0].parameters, ends[1].parameters, sizeof ends->masters) != 0);
    }
    free(ends);
    return tutti_comm_free(comm) != TUTTI_OK;
}

static void masters_do_what_float32_does(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, as_float32, NULL);
}

/* Twelve samples on as many ranks as there are, and on one. */
static int as_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct end *const ends = malloc(2 * sizeof *ends);
    struct tutti_comm *alone;
    RANKS_EXPECT(ends != NULL);
    RANKS_EXPECT(tutti_comm_split(comm, rank, 0, NULL, &alone) == TUTTI_OK);
    for (int stage = 0; stage < STAGES; stage++) {
        struct setting setting = {.stage = TUTTI_SHARDS_NONE,
                                  .dtype = TUTTI_BFLOAT16,
                                  .micro_batches = 12,
                                  .norm_max = 0.5,
                                  .gradients = WHOLE};
        if (train(alone, &setting, 1.0 / 12, &ends[0]) != 0) return 1;
        setting.micro_batches = 12 / size;
        setting.stage = (enum tutti_shards_stage)stage;
        if (train(comm, &setting, 1.0 / 12, &ends[1]) != 0) return 1;
        RANKS_EXPECT(ends[0].norm > 0.5 && are_same(&ends[0], &ends[1]));
    }
    free(ends);
    return tutti_comm_free(alone) != TUTTI_OK;
}

static void the_norm_does_not_depend_on_the_ranks(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) expect_good(size, RANKS_DEFAULT, as_one, NULL);
}

/* ----------------------------------------------------------------------------------- loss scale */

/* Everything that a step changes, as bytes: parameters, masters and moments of this rank. */
static int hash_all(struct tutti_shards *shards, int rank, uint64_t *hash)
{
    *hash = 1;
    for (size_t g = 0; g < GROUPS; g++) {
        struct tutti_shard shard;
        void *all;
        RANKS_EXPECT(tutti_shards_own(shards, g, &shard) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &all) == TUTTI_OK);
        const struct {
            const void *bytes;
            size_t count;
        } parts[] = {{all, groups[g].count * 2},
                     {shard.masters, shard.count * 4},
                     {shard.first_moments, shard.count * 4},
                     {shard.second_moments, shard.count * 4}};
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            for (size_t i = 0; i < parts[p].count; i++)
                *hash = elements_mixed(*hash, ((const unsigned char *)parts[p].bytes)[i]);
        RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
    }
    return 0;
}

static int overflow(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct planted *const planted = context;
    for (int turn = 0; turn < 2 * STAGES; turn++) {
        const bool is_dynamic = turn % 2 == 0;
        const struct setting setting = {.stage = (enum tutti_shards_stage)(turn / 2),
                                        .dtype = TUTTI_BFLOAT16,
                                        .wide_gradients = turn == 4,
                                        .micro_batches = 1 + turn % 3,
                                        .loss_scale = 1024,
                                        .growth_steps = is_dynamic ? 3 : 0};
        struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
        struct tutti_shards_step_options step = TUTTI_SHARDS_STEP_INIT;
        struct tutti_shards_result result;
        struct tutti_shards *shards;
        double scale = 1024;
        uint64_t before, after;
        step.norm_max = turn % 4 == 1 ? 1 : 0;
        RANKS_EXPECT(make(&setting, comm, &shards) == TUTTI_OK);
        if (set_first_values(shards, rank) != 0) return 1;
        for (int i = 0; i < 8;
             i++) { /* good, skipped, good, good, good and larger, good, good, ... */
            RANKS_EXPECT(tutti_shards_loss_scale(shards) == scale);
            if (hash_all(shards, rank, &before) != 0) return 1;
            if (do_passes(shards, &setting, i, rank, size, planted) != 0) return 1;
            RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_OK);
            RANKS_EXPECT(result.skipped == (i == planted->step));
            if (hash_all(shards, rank, &after) != 0) return 1;
            RANKS_EXPECT((before == after) == (i == planted->step));
            if (is_dynamic && i == planted->step) scale /= 2;
            if (is_dynamic && (i == 4 || i == 7)) scale *= 2;
        }
        RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);
        RANKS_EXPECT(counters.steps == 7 && counters.skipped_steps == 1);
        RANKS_EXPECT(counters.good_steps == (is_dynamic ? 0 : 6));
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
    }
    return 0;
}

static void an_overflow_anywhere_makes_all_ranks_skip(void **state)
{
    (void)state;
    struct planted planted = {.rank = 1, .step = 1, .group = 0, .index = 0, .value = INFINITY};
    expect_good(3, RANKS_DEFAULT, overflow, &planted);
    planted = (struct planted){2, 1, 4, (size_t)2 * BLOCK, NAN}; /* a block of one element */
    expect_good(3, RANKS_DEFAULT, overflow, &planted);
    planted = (struct planted){0, 1, 1, 0, -INFINITY};
    expect_good(1, RANKS_DEFAULT, overflow, &planted);
}

/* Without a loss scale nobody looks; and the program may know better than a step. */
static int decide(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    struct planted planted = {.rank = 0, .group = 0, .index = 5, .value = NAN};
    struct setting setting = {
        .stage = TUTTI_SHARDS_GRADIENTS, .dtype = TUTTI_BFLOAT16, .micro_batches = 1};
    struct tutti_shards_step_options step = TUTTI_SHARDS_STEP_INIT;
    struct tutti_shards_result result;
    struct tutti_shards *shards;
    uint64_t before, after;
    RANKS_EXPECT(make(&setting, comm, &shards) == TUTTI_OK);
    RANKS_EXPECT(tutti_shards_loss_scale(shards) == 1);
    for (int i = 0; i < 2; i++) { /* found elsewhere; not looked for */
        if (hash_all(shards, rank, &before) != 0) return 1;
        planted.step = 1;
        if (do_passes(shards, &setting, i, rank, size, &planted) != 0) return 1;
        step.overflow = i == 0 ? TUTTI_SHARDS_OVERFLOW_FOUND : TUTTI_SHARDS_OVERFLOW_ASK;
        RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_OK);
        RANKS_EXPECT(result.skipped == (i == 0));
        if (hash_all(shards, rank, &after) != 0) return 1;
        RANKS_EXPECT((before == after) == (i == 0));
    }
    RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);

    setting.loss_scale = 0x1p-64; /* no smaller one */
    setting.growth_steps = 1;
    RANKS_EXPECT(make(&setting, comm, &shards) == TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        double squares[GROUPS];
        planted.step = 0;
        if (do_passes(shards, &setting, i, rank, size, &planted) != 0) return 1;
        RANKS_EXPECT(tutti_shards_finish(shards) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_squares(shards, squares) == TUTTI_OK);
        RANKS_EXPECT(isfinite(squares[0]) == (i > 0) && isfinite(squares[3]));
        step.overflow = i == 1 ? TUTTI_SHARDS_OVERFLOW_NONE : TUTTI_SHARDS_OVERFLOW_ASK;
        RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_OK);
        RANKS_EXPECT(result.skipped == (i == 0));
        RANKS_EXPECT(tutti_shards_loss_scale(shards) == ldexp(1, -64 + i));
    }
    step.overflow = (enum tutti_shards_overflow)3;
    RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_INVALID_OPTIONS);
    return tutti_shards_free(shards) != TUTTI_OK;
}

static void the_program_may_decide(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, decide, NULL);
}

/* Masters, moments, the numbers of steps and the loss scale: with them other shards go on as if
 * nothing had happened. */
static int carry_over(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct setting setting = {.stage = TUTTI_SHARDS_NONE,
                                    .dtype = TUTTI_BFLOAT16,
                                    .micro_batches = 1,
                                    .loss_scale = 4,
                                    .growth_steps = 2};
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
    struct tutti_shards *before, *after;
    uint64_t hashes[2];
    RANKS_EXPECT(make(&setting, comm, &before) == TUTTI_OK);
    if (set_first_values(before, rank) != 0) return 1;
    for (int step = 0; step < 3; step++) {
        if (do_passes(before, &setting, step, rank, size, NULL) != 0) return 1;
        RANKS_EXPECT(tutti_shards_step(before, NULL, NULL) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_shards_count(before, &counters) == TUTTI_OK);
    options.dtype = TUTTI_BFLOAT16;
    options.first_step = counters.steps;
    options.loss_scale = tutti_shards_loss_scale(before);
    options.growth_steps = 2;
    options.first_good_steps = counters.good_steps;
    RANKS_EXPECT(options.loss_scale == 8 && options.first_good_steps == 1);
    options.ahead = 1;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &after) == TUTTI_OK);
    for (size_t g = 0; g < GROUPS; g++) {
        struct tutti_shard a, b;
        RANKS_EXPECT(tutti_shards_own(before, g, &a) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_own(after, g, &b) == TUTTI_OK);
        if (a.count == 0) continue;
        RANKS_EXPECT(tutti_shards_set(after, g, a.masters) == TUTTI_OK);
        memcpy(b.first_moments, a.first_moments, a.count * sizeof(float));
        memcpy(b.second_moments, a.second_moments, a.count * sizeof(float));
    }
    for (int step = 3; step < 6; step++)
        for (int i = 0; i < 2; i++) {
            struct tutti_shards *const shards = i == 0 ? before : after;
            if (do_passes(shards, &setting, step, rank, size, NULL) != 0) return 1;
            RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
            if (hash_all(shards, rank, &hashes[i]) != 0) return 1;
        }
    RANKS_EXPECT(hashes[0] == hashes[1]);
    RANKS_EXPECT(tutti_shards_loss_scale(before) == 32 && tutti_shards_loss_scale(after) == 32);
    tutti_shards_free(before);
    return tutti_shards_free(after) != TUTTI_OK;
}

static void state_can_be_carried_over(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, carry_over, NULL);
}

/* ------------------------------------------------------------------------------------- mistakes */

static int refuse(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_shards *shards;
#define REFUSED_WITH(field, value, dtype_given)                                         \
    do {                                                                                \
        struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;                \
        options.dtype = dtype_given;                                                    \
        options.field = value;                                                          \
        RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) ==    \
                     TUTTI_INVALID_OPTIONS);                                            \
        RANKS_EXPECT(strstr(tutti_error_message(), "options." #field " must") != NULL); \
    } while (0)
    REFUSED_WITH(wide_gradients, 1, TUTTI_FLOAT64);
    REFUSED_WITH(wide_gradients, 1, TUTTI_FLOAT32);
    REFUSED_WITH(loss_scale, -1, TUTTI_BFLOAT16);
    REFUSED_WITH(loss_scale, NAN, TUTTI_BFLOAT16);
    REFUSED_WITH(loss_scale, 0x1p65, TUTTI_BFLOAT16);
    REFUSED_WITH(growth_steps, -1, TUTTI_BFLOAT16);
    REFUSED_WITH(growth_steps, 1, TUTTI_BFLOAT16);
#undef REFUSED_WITH
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    options.loss_scale = 1 + rank;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) == TUTTI_MISMATCH);
    return 0;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, refuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_stages_compute_the_same_bits),
        cmocka_unit_test(masters_do_what_float32_does),
        cmocka_unit_test(the_norm_does_not_depend_on_the_ranks),
        cmocka_unit_test(an_overflow_anywhere_makes_all_ranks_skip),
        cmocka_unit_test(the_program_may_decide),
        cmocka_unit_test(state_can_be_carried_over),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
