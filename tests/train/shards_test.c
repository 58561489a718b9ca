/* shards_test.c - shards compute what one process does, and the same bits at every stage of ZeRO;
 * send exactly as much as the paper says; keep no more memory than that; and say what is wrong.
 *
 * Gradients depend on the parameters, so whatever goes wrong in one step shows in the next. Where
 * one process is compared, they are small whole numbers, whose sums are exact. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tutti/train/shards.h"

enum { GROUPS = 6, BLOCK = TUTTI_SHARDS_BLOCK, COUNT_MAX = 5000, STEPS = 3, STAGES = 4 };

/* Fewer blocks than ranks, none, whole ones, and such with a rest. */
static const struct tutti_shard_group groups[GROUPS] = {
    {COUNT_MAX, 0.1}, {1, 0}, {0, 0.3}, {BLOCK, 0.2}, {3000, 0.1}, {2 * BLOCK + 1, 0}};
enum { ELEMENTS = COUNT_MAX + 1 + BLOCK + 3000 + 2 * BLOCK + 1 };

struct setting {
    enum tutti_shards_stage stage;
    enum tutti_shards_reduction reduction;
    enum tutti_shards_optimizer optimizer;
    enum tutti_dtype dtype;
    int micro_batches;
    int ahead;
    double norm_max;
    bool whole_numbers;
};

static struct tutti_shards_options options_of(const struct setting *setting)
{
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    options.stage = setting->stage;
    options.dtype = setting->dtype;
    options.micro_batches = setting->micro_batches;
    options.reduction = setting->reduction;
    options.optimizer = setting->optimizer;
    options.ahead = setting->ahead;
    return options;
}

/* -------------------------------------------------------------------------------------- a model */

static double get(const void *values, enum tutti_dtype dtype, size_t i)
{
    return dtype == TUTTI_FLOAT64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void put(void *values, enum tutti_dtype dtype, size_t i, double value)
{
    if (dtype == TUTTI_FLOAT64)
        ((double *)values)[i] = value;
    else
        ((float *)values)[i] = (float)value;
}

static double first_value(size_t group, size_t i)
{
    return (double)(elements_mixed(group, i) % 1000) / 500 - 1;
}

/* Of sample `sample` of a step: numbers of any kind, or small whole ones. */
static double gradient_of(const struct setting *setting, int step, int sample, size_t group,
                          size_t i, double parameter)
{
    const uint64_t h = elements_mixed((uint64_t)(step * 1000 + sample), group * COUNT_MAX + i);
    if (setting->whole_numbers) return (double)(h % 64) - 32 + floor(4 * parameter);
    return ((double)(h % 100003) / 50000 - 1) * (parameter + 1.5);
}

static int set_first_values(struct tutti_shards *shards, enum tutti_dtype dtype, int rank)
{
    double values[COUNT_MAX];
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t i = 0; i < groups[g].count; i++) put(values, dtype, i, first_value(g, i));
        RANKS_EXPECT(tutti_shards_set(shards, g, values) == TUTTI_OK);
    }
    return 0;
}

/* All passes of a step, with `samples` samples in micro-batches of which this rank has every
 * `size`th. */
static int do_passes(struct tutti_shards *shards, const struct setting *setting, int step, int rank,
                     int size)
{
    for (int micro = 0; micro < setting->micro_batches; micro++) {
        void *parameters, *gradient;
        for (size_t g = 0; g < GROUPS; g++) {
            RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &parameters) ==
                         TUTTI_OK);
            RANKS_EXPECT((uintptr_t)parameters % 64 == 0);
            RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        }
        for (size_t g = GROUPS; g-- > 0;) {
            RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, g, &parameters) ==
                         TUTTI_OK);
            RANKS_EXPECT(tutti_shards_gradient(shards, g, &gradient) == TUTTI_OK);
            for (size_t i = 0; i < groups[g].count; i++)
                put(gradient, setting->dtype, i,
                    get(gradient, setting->dtype, i) +
                        gradient_of(setting, step, micro * size + rank, g, i,
                                    get(parameters, setting->dtype, i)));
            RANKS_EXPECT(tutti_shards_ready(shards, g) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
        }
    }
    return 0;
}

/* Some steps; `parameters` becomes all of them. */
static int train(struct tutti_comm *comm, const struct setting *setting, double factor,
                 double *parameters, double *norm)
{
    const int rank = tutti_comm_rank(comm), size = tutti_comm_size(comm);
    const struct tutti_shards_options options = options_of(setting);
    struct tutti_shards_step_options step = TUTTI_SHARDS_STEP_INIT;
    struct tutti_shards_result result;
    struct tutti_shards *shards;
    step.rate = 0.01;
    step.factor = factor;
    step.norm_max = setting->norm_max;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) == TUTTI_OK);
    if (set_first_values(shards, setting->dtype, rank) != 0) return 1;
    for (int i = 0; i < STEPS; i++) {
        if (do_passes(shards, setting, i, rank, size) != 0) return 1;
        RANKS_EXPECT(tutti_shards_step(shards, &step, &result) == TUTTI_OK);
        RANKS_EXPECT((result.norm > 0) == (setting->norm_max > 0));
    }
    *norm = result.norm;
    for (size_t g = 0, at = 0; g < GROUPS; at += groups[g++].count) {
        void *own;
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &own) == TUTTI_OK);
        for (size_t i = 0; i < groups[g].count; i++)
            parameters[at + i] = get(own, setting->dtype, i);
        RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
    }
    return tutti_shards_free(shards) != TUTTI_OK;
}

/* ---------------------------------------------------------------------------------- one process */

/* The papers' words, one element: what all ranks' micro-batches together make of it. */
static double expected_value(const struct setting *setting, int samples, size_t group, size_t i)
{
    double w = first_value(group, i), m = 0, v = 0;
    for (int step = 0; step < STEPS; step++) {
        double g = 0;
        for (int sample = 0; sample < samples; sample++)
            g += gradient_of(setting, step, sample, group, i, w); /* exact */
        g /= samples;
        const double decay = groups[group].weight_decay, t = step + 1;
        if (setting->optimizer == TUTTI_SHARDS_SGD) {
            m = 0.9 * m + g;
            w -= 0.01 * (m + decay * w);
            continue;
        }
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        w -= 0.01 * (m / (1 - pow(0.9, t)) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8) + decay * w);
    }
    return w;
}

static int as_one(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    double *const own = malloc(2 * ELEMENTS * sizeof *own), *const one = own + ELEMENTS;
    struct tutti_comm *alone;
    RANKS_EXPECT(own != NULL);
    RANKS_EXPECT(tutti_comm_split(comm, rank, 0, NULL, &alone) == TUTTI_OK);
    for (int turn = 0; turn < 2 * STAGES; turn++) {
        struct setting setting = {.stage = (enum tutti_shards_stage)(turn / 2),
                                  .optimizer = (enum tutti_shards_optimizer)(turn % 2),
                                  .dtype = turn % 3 == 0 ? TUTTI_FLOAT64 : TUTTI_FLOAT32,
                                  .micro_batches = 2,
                                  .ahead = turn % 4,
                                  .whole_numbers = true};
        double norm, norm_alone;
        const double factor = 1 / (2.0 * size);
        if (train(comm, &setting, turn % 2 == 0 ? 0 : factor, own, &norm) != 0) return 1;
        setting.micro_batches = 2 * size;
        setting.stage = TUTTI_SHARDS_NONE;
        if (train(alone, &setting, factor, one, &norm_alone) != 0) return 1;
        RANKS_EXPECT(memcmp(own, one, ELEMENTS * sizeof *own) == 0);
        setting.dtype =
            TUTTI_FLOAT64; /* by the formula, as far as whole parts of parameters allow */
        for (size_t g = 0, at = 0; g < GROUPS; at += groups[g++].count)
            for (size_t i = 0; i < groups[g].count && turn == 0; i++)
                RANKS_EXPECT(fabs(own[at + i] - expected_value(&setting, 2 * size, g, i)) < 1e-9);
    }
    free(own);
    return tutti_comm_free(alone) != TUTTI_OK;
}

static void shards_compute_what_one_process_does(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) expect_good(size, RANKS_DEFAULT, as_one, NULL);
    expect_good(3, RANKS_THREADS, as_one, NULL);
}

/* ----------------------------------------------------------------------------------------- bits */

static int same_bits(struct tutti_comm *given, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_comm_options exact = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *comm;
    double *const first = malloc(2 * ELEMENTS * sizeof *first), *const other = first + ELEMENTS;
    exact.deterministic = 1;
    RANKS_EXPECT(first != NULL);
    RANKS_EXPECT(tutti_comm_dup(given, &exact, &comm) == TUTTI_OK);
    for (int turn = 0; turn < 4; turn++) {
        double norms[STAGES];
        for (int stage = 0; stage < STAGES; stage++) {
            const struct setting setting = {
                .stage = (enum tutti_shards_stage)stage,
                .reduction = turn % 2 == 0 ? TUTTI_SHARDS_REDUCE_ONCE : TUTTI_SHARDS_REDUCE_EACH,
                .optimizer = turn < 3 ? TUTTI_SHARDS_ADAMW : TUTTI_SHARDS_SGD,
                .dtype = turn < 2 ? TUTTI_FLOAT32 : TUTTI_FLOAT64,
                .micro_batches = turn == 0 ? 1 : 3,
                .ahead = turn,
                .norm_max = turn == 1 ? 1e9 : 5};
            if (train(comm, &setting, 0, stage == 0 ? first : other, &norms[stage]) != 0) return 1;
            if (stage == 0) continue;
            RANKS_EXPECT(memcmp(first, other, ELEMENTS * sizeof *first) == 0);
            RANKS_EXPECT(norms[stage] == norms[0] && norms[0] > 5);
        }
    }
    free(first);
    return tutti_comm_free(comm) != TUTTI_OK;
}

static void all_stages_compute_the_same_bits(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) expect_good(size, RANKS_DEFAULT, same_bits, NULL);
}

/* By a rule for allgather, float32 parameters go encoded where each rank still has its shard of them
 * as it was, and as they are where they are gathered in place. */
static int are_rounded_in_copies(struct tutti_comm *given, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_comm_options exact = TUTTI_COMM_OPTIONS_INIT, ruled;
    struct tutti_comm *plain, *encoded;
    double *const first = malloc(2 * ELEMENTS * sizeof *first), *const other = first + ELEMENTS;
    double norm;
    RANKS_EXPECT(first != NULL);
    exact.deterministic = 1;
    ruled = exact;
    ruled.encodings = "allgather=bfloat16/everywhere/required";
    RANKS_EXPECT(tutti_comm_dup(given, &exact, &plain) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_dup(given, &ruled, &encoded) == TUTTI_OK);
    for (int stage = TUTTI_SHARDS_OPTIMIZER; stage < STAGES; stage++) {
        const struct setting setting = {.stage = (enum tutti_shards_stage)stage,
                                        .reduction = TUTTI_SHARDS_REDUCE_EACH,
                                        .dtype = TUTTI_FLOAT32,
                                        .micro_batches = 2,
                                        .norm_max = 1e9};
        if (train(plain, &setting, 0, first, &norm) != 0) return 1;
        if (train(encoded, &setting, 0, other, &norm) != 0) return 1;
        bool is_same = true, is_rounded = true;
        for (size_t i = 0; i < ELEMENTS; i++) {
            const float found = (float)other[i];
            uint32_t bits;
            memcpy(&bits, &found, sizeof bits);
            is_same &= first[i] == other[i];
            is_rounded &= (bits & 0xffff) == 0;
            RANKS_EXPECT(fabs(first[i] - other[i]) < 0.05);
        }
        RANKS_EXPECT(is_same == (stage != TUTTI_SHARDS_PARAMETERS) && is_rounded == !is_same);
    }
    free(first);
    RANKS_EXPECT(tutti_comm_free(encoded) == TUTTI_OK);
    return tutti_comm_free(plain) != TUTTI_OK;
}

static void parameters_are_rounded_only_in_copies(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, are_rounded_in_copies, NULL);
}

/* --------------------------------------------------------------------------------- what is sent */

/* n times the logical volume of a rank, in elements, of all that the communicator did so far: as
 * its metrics have it. */
static uint64_t volume_times_n(const struct tutti_comm *comm, size_t element_bytes)
{
    const struct record_count *const counts = comm->health.recorder.counts;
    const uint64_t n = (uint64_t)tutti_comm_size(comm);
    const uint64_t twice = counts[COLLECTIVE_ALLREDUCE].bytes;
    const uint64_t once =
        counts[COLLECTIVE_REDUCE_SCATTER].bytes + counts[COLLECTIVE_ALLGATHER].bytes;
    return (n - 1) * (2 * twice + once) / element_bytes;
}

/* What waits for a slot of the communicator is counted when it has one; after this nothing
 * waits. */
static int use_all(struct tutti_shards *shards, int rank)
{
    void *parameters;
    for (size_t g = 0; g < GROUPS; g++) {
        RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, g, &parameters) == TUTTI_OK);
        RANKS_EXPECT(tutti_shards_release(shards, g) == TUTTI_OK);
    }
    return 0;
}

static int measure_volumes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { MICRO = 3 };
    const uint64_t n = (uint64_t)size, m = MICRO;
    const struct {
        struct setting setting;
        uint64_t times; /* n / (n - 1) of the parameters, in a step */
    } cases[] = {
        {{.stage = TUTTI_SHARDS_NONE, .ahead = 1}, 2},
        {{.stage = TUTTI_SHARDS_OPTIMIZER, .ahead = 1}, 2},
        {{.stage = TUTTI_SHARDS_GRADIENTS, .ahead = 2}, m + 1},
        {{.stage = TUTTI_SHARDS_GRADIENTS, .reduction = TUTTI_SHARDS_REDUCE_ONCE}, 2},
        {{.stage = TUTTI_SHARDS_PARAMETERS, .ahead = 0}, 3 * m},
        {{.stage = TUTTI_SHARDS_PARAMETERS, .ahead = 2}, 3 * m},
        {{.stage = TUTTI_SHARDS_PARAMETERS, .reduction = TUTTI_SHARDS_REDUCE_ONCE, .ahead = 9},
         2 * m + 1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct setting setting = cases[c].setting;
        setting.micro_batches = MICRO;
        setting.dtype = c % 2 == 0 ? TUTTI_FLOAT32 : TUTTI_FLOAT64;
        const size_t element_bytes = tutti_dtype_size(setting.dtype);
        const struct tutti_shards_options options = options_of(&setting);
        struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
        struct tutti_shards *shards;
        RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) == TUTTI_OK);
        for (int step = 0; step < 2; step++) {
            const uint64_t before = volume_times_n(comm, element_bytes);
            if (do_passes(shards, &setting, step, rank, size) != 0) return 1;
            RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
            if (setting.stage < TUTTI_SHARDS_PARAMETERS && use_all(shards, rank) != 0) return 1;
            RANKS_EXPECT(volume_times_n(comm, element_bytes) - before ==
                         cases[c].times * (n - 1) * ELEMENTS);
        }
        RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);
        RANKS_EXPECT(counters.steps == 2);
        RANKS_EXPECT(2 * counters.elements_allreduced + counters.elements_reduce_scattered +
                         counters.elements_gathered ==
                     (size == 1 ? 0 : 2 * cases[c].times * ELEMENTS));
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
    }
    return 0;
}

static void volumes_are_those_of_the_paper(void **state)
{
    (void)state;
    for (int size = 1; size <= 4; size++) expect_good(size, RANKS_DEFAULT, measure_volumes, NULL);
}

/* --------------------------------------------------------------------------------- what is kept */

/* Groups of one size. */
static int keep(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { LAYERS = 10, AHEAD = 2 };
    const size_t count = (size_t)size * 2 * BLOCK, bytes = count * sizeof(float);
    struct tutti_shard_group layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = (struct tutti_shard_group){count, 0};
    for (int stage = 0; stage < STAGES; stage++) {
        const struct setting setting = {.stage = (enum tutti_shards_stage)stage,
                                        .dtype = TUTTI_FLOAT32,
                                        .micro_batches = 2,
                                        .ahead = AHEAD};
        const struct tutti_shards_options options = options_of(&setting);
        struct tutti_shards_counters counters = {.size_bytes = sizeof counters};
        struct tutti_shards *shards;
        void *memory;
        RANKS_EXPECT(tutti_shards_create(layers, LAYERS, &options, comm, &shards) == TUTTI_OK);
        for (int micro = 0; micro < 4; micro++) {
            for (size_t i = 0; i < LAYERS; i++) {
                RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);
                const uint64_t before = counters.elements_gathered;
                RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, i, &memory) ==
                             TUTTI_OK);
                /* This one and those ahead; then one more with each, as long as there are any. */
                const uint64_t started = i == 0 ? 1 + AHEAD : i < LAYERS - AHEAD;
                RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);
                RANKS_EXPECT(counters.elements_gathered - before ==
                             (stage == 3 && size > 1 ? started * count : 0));
                RANKS_EXPECT(tutti_shards_release(shards, i) == TUTTI_OK);
            }
            for (size_t i = LAYERS; i-- > 0;) {
                RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, i, &memory) ==
                             TUTTI_OK);
                RANKS_EXPECT(tutti_shards_gradient(shards, i, &memory) == TUTTI_OK);
                RANKS_EXPECT(tutti_shards_ready(shards, i) == TUTTI_OK);
                RANKS_EXPECT(tutti_shards_release(shards, i) == TUTTI_OK);
            }
            if (micro % 2 == 1) RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
        }
        const size_t all = LAYERS * bytes, share = all / (size_t)size;
        RANKS_EXPECT(tutti_shards_count(shards, &counters) == TUTTI_OK);
        RANKS_EXPECT(counters.parameter_bytes == (stage == 3 ? share : all));
        RANKS_EXPECT(counters.gradient_bytes == (stage >= 2 ? share : all));
        RANKS_EXPECT(counters.state_bytes == 2 * (stage >= 1 ? share : all));
        /* Gradients: one is computed, AHEAD are being reduced. Parameters: one is used, AHEAD are
         * gathered. */
        const size_t most = (stage >= 2 ? 1 + AHEAD : 0) + (stage == 3 && size > 1 ? 1 + AHEAD : 0);
        RANKS_EXPECT(counters.buffer_bytes <= most * bytes);
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
    }
    return 0;
}

static void memory_is_that_of_the_paper(void **state)
{
    (void)state;
    expect_good(1, RANKS_DEFAULT, keep, NULL);
    expect_good(3, RANKS_DEFAULT, keep, NULL);
}

/* State that is carried over to other shards goes on as if nothing had happened. */
static int carry_over(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct setting setting = {
        .stage = TUTTI_SHARDS_PARAMETERS, .dtype = TUTTI_FLOAT32, .micro_batches = 1, .ahead = 1};
    struct tutti_shards_options options = options_of(&setting);
    struct tutti_shards *before, *after;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &before) == TUTTI_OK);
    options.first_step = 2;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &after) == TUTTI_OK);
    if (set_first_values(before, TUTTI_FLOAT32, rank) != 0) return 1;
    for (int step = 0; step < 3; step++) {
        if (do_passes(before, &setting, step, rank, size) != 0) return 1;
        if (step == 2 && do_passes(after, &setting, step, rank, size) != 0) return 1;
        RANKS_EXPECT(tutti_shards_step(before, NULL, NULL) == TUTTI_OK);
        if (step == 2) RANKS_EXPECT(tutti_shards_step(after, NULL, NULL) == TUTTI_OK);
        for (size_t g = 0; g < GROUPS; g++) {
            struct tutti_shard a, b;
            RANKS_EXPECT(tutti_shards_own(before, g, &a) == TUTTI_OK);
            RANKS_EXPECT(tutti_shards_own(after, g, &b) == TUTTI_OK);
            RANKS_EXPECT(a.first == b.first && a.count == b.count && a.gradients == NULL);
            const size_t bytes = a.count * sizeof(float);
            if (bytes == 0) continue;
            if (step == 1) {
                memcpy(b.parameters, a.parameters, bytes);
                memcpy(b.first_moments, a.first_moments, bytes);
                memcpy(b.second_moments, a.second_moments, bytes);
            } else if (step == 2) {
                RANKS_EXPECT(memcmp(b.parameters, a.parameters, bytes) == 0);
            }
        }
    }
    tutti_shards_free(before);
    return tutti_shards_free(after) != TUTTI_OK;
}

static void state_can_be_carried_over(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, carry_over, NULL);
}

/* ------------------------------------------------------------------------------------- mistakes */

#define EXPECT_REFUSED(call, wanted, words)                         \
    do {                                                            \
        RANKS_EXPECT((call) == (wanted));                           \
        RANKS_EXPECT(strstr(tutti_error_message(), words) != NULL); \
        RANKS_EXPECT(strchr(tutti_error_message(), '\n') == NULL);  \
    } while (0)

static int refuse_options(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_shards *shards;
#define REFUSED_WITH(field, value, wanted)                                                   \
    do {                                                                                     \
        struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;                     \
        options.field = value;                                                               \
        EXPECT_REFUSED(tutti_shards_create(groups, GROUPS, &options, comm, &shards), wanted, \
                       #field);                                                              \
        RANKS_EXPECT(shards == NULL);                                                        \
    } while (0)
    REFUSED_WITH(stage, (enum tutti_shards_stage)4, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(dtype, TUTTI_INT32, TUTTI_INVALID_DTYPE);
    REFUSED_WITH(micro_batches, 0, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(reduction, (enum tutti_shards_reduction)3, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(optimizer, (enum tutti_shards_optimizer)2, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(ahead, -1, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(first_decay, 1, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(second_decay, NAN, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(epsilon, 0, TUTTI_INVALID_OPTIONS);
    REFUSED_WITH(size_bytes, 8, TUTTI_INVALID_OPTIONS);
#undef REFUSED_WITH
    const struct tutti_shard_group bad = {1, -0.1}, large = {SIZE_MAX, 0}, good = {5, 0},
                                   other = {rank == 0 ? 5 : 6, 0};
    EXPECT_REFUSED(tutti_shards_create(&bad, 1, NULL, comm, &shards), TUTTI_INVALID_OPTIONS,
                   "weight decay of group 0");
    EXPECT_REFUSED(tutti_shards_create(&large, 1, NULL, comm, &shards), TUTTI_INVALID_COUNT,
                   "group 0");
    EXPECT_REFUSED(tutti_shards_create(NULL, 1, NULL, comm, &shards), TUTTI_INVALID_BUFFER, "NULL");
    EXPECT_REFUSED(tutti_shards_create(&good, 1, NULL, NULL, &shards), TUTTI_INVALID_COMM,
                   "communicator");
    EXPECT_REFUSED(tutti_shards_create(&other, 1, NULL, comm, &shards), TUTTI_MISMATCH,
                   "tutti_shards_create: rank 0 has 'group 0: 5 elements, weight decay 0', rank 1 "
                   "has 'group 0: 6 elements, weight decay 0'");
    EXPECT_REFUSED(tutti_shards_create(rank == 0 ? &bad : &good, 1, NULL, comm, &shards),
                   rank == 0 ? TUTTI_INVALID_OPTIONS : TUTTI_MISMATCH,
                   rank == 0
                       ? "weight decay"
                       : "tutti_shards_create: rank 0 failed: the weight decay of group 0 must");
    RANKS_EXPECT(shards == NULL);
    RANKS_EXPECT(tutti_shards_create(NULL, 0, NULL, comm, &shards) == TUTTI_OK);
    RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
    return tutti_shards_free(shards) != TUTTI_OK || tutti_shards_free(NULL) != TUTTI_OK;
}

static int refuse_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size;
    const enum tutti_shards_stage *const stage = context;
    const struct tutti_shard_group two[] = {{3000, 0}, {10, 0}};
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_shards_step_options step = TUTTI_SHARDS_STEP_INIT;
    struct tutti_shards_counters counters = {.size_bytes = 0};
    struct tutti_shards *shards;
    struct tutti_shard shard;
    double squares[2], values[10] = {0};
    void *memory;
    options.stage = *stage;
    RANKS_EXPECT(tutti_shards_create(two, 2, &options, comm, &shards) == TUTTI_OK);
    EXPECT_REFUSED(tutti_shards_set(shards, 2, values), TUTTI_INVALID_OPTIONS, "no group 2 of 2");
    EXPECT_REFUSED(tutti_shards_set(shards, 1, NULL), TUTTI_INVALID_BUFFER, "NULL");
    EXPECT_REFUSED(tutti_shards_own(shards, 2, &shard), TUTTI_INVALID_OPTIONS, "no group 2");
    EXPECT_REFUSED(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, 9, &memory),
                   TUTTI_INVALID_OPTIONS, "no group 9");
    EXPECT_REFUSED(tutti_shards_acquire(shards, (enum tutti_pass)2, 0, &memory),
                   TUTTI_INVALID_OPTIONS, "no pass");
    RANKS_EXPECT(memory == NULL);
    EXPECT_REFUSED(tutti_shards_release(shards, 1), TUTTI_INVALID_OPTIONS,
                   "group 1 is not acquired");
    EXPECT_REFUSED(tutti_shards_ready(shards, 1), TUTTI_INVALID_OPTIONS, "not asked for");
    EXPECT_REFUSED(tutti_shards_finish(shards), TUTTI_INVALID_OPTIONS,
                   "group 0 is ready for 0 of 1 micro-batches");
    EXPECT_REFUSED(tutti_shards_squares(shards, squares), TUTTI_INVALID_OPTIONS,
                   "before tutti_shards_finish");
    EXPECT_REFUSED(tutti_shards_count(shards, &counters), TUTTI_INVALID_OPTIONS, "size_bytes");
    for (size_t g = 2; g-- > 0;) {
        RANKS_EXPECT(tutti_shards_gradient(shards, g, &memory) == TUTTI_OK);
        if (g == 1)
            EXPECT_REFUSED(tutti_shards_set(shards, 1, values), TUTTI_INVALID_OPTIONS,
                           "in the middle of a step");
        RANKS_EXPECT(tutti_shards_ready(shards, g) == TUTTI_OK);
        EXPECT_REFUSED(tutti_shards_ready(shards, g), TUTTI_INVALID_OPTIONS, "not asked for");
        EXPECT_REFUSED(tutti_shards_gradient(shards, g, &memory), TUTTI_INVALID_OPTIONS,
                       "ready for all micro-batches");
    }
    RANKS_EXPECT(tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, 1, &memory) == TUTTI_OK);
    EXPECT_REFUSED(tutti_shards_set(shards, 1, values), TUTTI_INVALID_OPTIONS, "is acquired");
    EXPECT_REFUSED(tutti_shards_step(shards, NULL, NULL), TUTTI_INVALID_OPTIONS,
                   "group 1 is still acquired");
    RANKS_EXPECT(tutti_shards_release(shards, 1) == TUTTI_OK);
    step.rate = -1;
    EXPECT_REFUSED(tutti_shards_step(shards, &step, NULL), TUTTI_INVALID_OPTIONS, "rate");
    RANKS_EXPECT(tutti_shards_finish(shards) == TUTTI_OK);
    EXPECT_REFUSED(tutti_shards_squares(shards, NULL), TUTTI_INVALID_BUFFER, "NULL");
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    EXPECT_REFUSED(tutti_shards_squares(shards, squares), TUTTI_INVALID_REQUEST,
                   "tutti_shards_squares: must not be called between tutti_group_begin");
    EXPECT_REFUSED(tutti_shards_step(shards, NULL, NULL), TUTTI_INVALID_REQUEST,
                   "tutti_shards_step: must not be called between tutti_group_begin");
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_shards_squares(shards, squares) == TUTTI_OK && squares[0] == 0);
    RANKS_EXPECT(tutti_shards_step(shards, NULL, NULL) == TUTTI_OK);
    return tutti_shards_free(shards) != TUTTI_OK;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, refuse_options, NULL);
    for (enum tutti_shards_stage stage = TUTTI_SHARDS_NONE; stage <= TUTTI_SHARDS_PARAMETERS;
         stage++)
        expect_good(2, RANKS_DEFAULT, refuse_calls, &stage);
}

/* The last rank gives one option of a step another value than the others. */
static int differ(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
#define STEP(rate, factor, norm_max, overflow)                                        \
    {                                                                                 \
        sizeof(struct tutti_shards_step_options), rate, factor, norm_max, overflow, 0 \
    }
    static const struct {
        struct tutti_shards_step_options common, odd;
        const char *name, *values[2];
    } cases[] = {{STEP(0.5, 0, 1, TUTTI_SHARDS_OVERFLOW_ASK),
                  STEP(0.25, 0, 1, TUTTI_SHARDS_OVERFLOW_ASK),
                  "rate",
                  {"0.5", "0.25"}},
                 {STEP(0.5, 2, 1, TUTTI_SHARDS_OVERFLOW_ASK),
                  STEP(0.5, 4, 1, TUTTI_SHARDS_OVERFLOW_ASK),
                  "factor",
                  {"2", "4"}},
                 {STEP(0.5, 0, 1, TUTTI_SHARDS_OVERFLOW_ASK),
                  STEP(0.5, 0, 8, TUTTI_SHARDS_OVERFLOW_ASK),
                  "norm_max",
                  {"1", "8"}},
                 {STEP(0.5, 0, 1, TUTTI_SHARDS_OVERFLOW_NONE),
                  STEP(0.5, 0, 1, TUTTI_SHARDS_OVERFLOW_FOUND),
                  "overflow",
                  {"1", "2"}}};
#undef STEP
    for (int turn = 0; turn < (STAGES - 1) * 5; turn++) {
        const size_t c = (size_t)turn % 5 % 4;
        const bool is_found_later = turn % 5 == 4; /* by tutti_shards_squares */
        const struct setting setting = {.stage = (enum tutti_shards_stage)(1 + turn / 5),
                                        .dtype = TUTTI_FLOAT32,
                                        .micro_batches = 1};
        const struct tutti_shards_options options = options_of(&setting);
        struct tutti_shards_step_options step = rank == size - 1 ? cases[c].odd : cases[c].common;
        struct tutti_shards *shards;
        double squares[GROUPS];
        char words[160];
        snprintf(words, sizeof words,
                 "%s: rank 0 has 'options.%s: %s', rank %d has 'options.%s: %s'",
                 is_found_later ? "tutti_shards_squares: in the step before" : "tutti_shards_step",
                 cases[c].name, cases[c].values[0], size - 1, cases[c].name, cases[c].values[1]);
        RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) == TUTTI_OK);
        if (do_passes(shards, &setting, 0, rank, size) != 0) return 1;
        if (is_found_later) {
            step.norm_max = 0;
            RANKS_EXPECT(tutti_shards_step(shards, &step, NULL) == TUTTI_OK);
            if (do_passes(shards, &setting, 1, rank, size) != 0) return 1;
            RANKS_EXPECT(tutti_shards_finish(shards) == TUTTI_OK);
            EXPECT_REFUSED(tutti_shards_squares(shards, squares), TUTTI_MISMATCH, words);
        } else {
            EXPECT_REFUSED(tutti_shards_step(shards, &step, NULL), TUTTI_MISMATCH, words);
        }
        EXPECT_REFUSED(tutti_shards_step(shards, NULL, NULL), TUTTI_INVALID_OPTIONS,
                       "an operation failed before");
        RANKS_EXPECT(tutti_shards_free(shards) == TUTTI_OK);
    }
    return 0;
}

static void options_of_a_step_that_differ_are_named(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, differ, NULL);
    expect_good(3, RANKS_DEFAULT, differ, NULL);
}

/* ------------------------------------------------------------------------------------- failures */

static int die(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size;
    const enum tutti_shards_stage *const stage = context;
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_shards *shards;
    enum tutti_status status = TUTTI_OK;
    void *memory;
    options.stage = *stage;
    options.micro_batches = 1000;
    options.reduction = TUTTI_SHARDS_REDUCE_EACH;
    RANKS_EXPECT(tutti_shards_create(groups, GROUPS, &options, comm, &shards) == TUTTI_OK);
    for (int i = 0; i < 1000 && status == TUTTI_OK; i++) {
        if (rank == 1 && i == 3) _exit(7);
        status = tutti_shards_acquire(shards, TUTTI_PASS_FORWARD, 0, &memory);
        if (status == TUTTI_OK) status = tutti_shards_gradient(shards, 0, &memory);
        if (status == TUTTI_OK) status = tutti_shards_ready(shards, 0);
        if (status == TUTTI_OK) status = tutti_shards_release(shards, 0);
    }
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    EXPECT_REFUSED(tutti_shards_step(shards, NULL, NULL), TUTTI_INVALID_OPTIONS,
                   "an operation failed before");
    return tutti_shards_free(shards) != TUTTI_OK;
}

static void a_rank_that_dies_is_named(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* they die together */
    for (enum tutti_shards_stage stage = TUTTI_SHARDS_NONE; stage <= TUTTI_SHARDS_PARAMETERS;
         stage++) {
        struct ranks_outcome outcomes[3];
        const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                              .deadline_ms = 50000,
                                              .comm_options = &patient,
                                              .outcomes = outcomes};
        assert_int_equal(ranks_run(3, &options, die, &stage), 1);
        assert_int_equal(outcomes[1].value, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_compute_what_one_process_does),
        cmocka_unit_test(all_stages_compute_the_same_bits),
        cmocka_unit_test(parameters_are_rounded_only_in_copies),
        cmocka_unit_test(volumes_are_those_of_the_paper),
        cmocka_unit_test(memory_is_that_of_the_paper),
        cmocka_unit_test(state_can_be_carried_over),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(options_of_a_step_that_differ_are_named),
        cmocka_unit_test(a_rank_that_dies_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
