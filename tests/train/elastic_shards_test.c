/* ZeRO in an elastic loop: shards of a rank that dies come from its partner, and a run has the bits
 * of a run without faults; with fewer ranks the shards are divided anew.
 *
 * ctest: label=once label=longtsan timeout=300 waits
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/elastic.h"

enum {
    FOUNDERS = 3,
    GROUPS = 3,
    BIG = 5000,  /* five blocks */
    SMALL = 700, /* one block: some ranks own nothing */
    ALL = BIG + SMALL,
    STEPS = 12,
    BATCH = 12,
    SAMPLES = 50,
    FAULTS = 2
};
static const uint64_t SECOND = 1000000000u;
static const size_t counts[GROUPS] = {BIG, 0, SMALL};

enum moment { AT_BEGIN, IN_PASS, BEFORE_COMMIT };
struct fault {
    uint64_t step;
    int rank;
    enum moment moment;
    _Atomic int is_done;
};

/* The memory that processes share. */
struct shared {
    struct fault faults[FAULTS];
    int fault_count;
    _Atomic int finished, size_at_end;
    _Atomic uint64_t failures, optimizer_steps;
    float parameters[ALL];
    double loss_scale;
};
static struct shared *shared;
static char folder[SCRATCH_BYTES];

struct setting {
    enum tutti_shards_stage stage;
    enum tutti_dtype dtype;
    int joiners;
    uint64_t replace_wait_ns;
};

static void die_if_fated(const struct tutti_elastic_step *step, enum moment moment)
{
    for (int i = 0; i < shared->fault_count; i++) {
        struct fault *const fault = &shared->faults[i];
        if (fault->moment == moment && fault->step == step->number && fault->rank == step->rank &&
            atomic_exchange(&fault->is_done, 1) == 0)
            raise(SIGKILL);
    }
}

static void set_fault(int index, uint64_t step, int rank, enum moment moment)
{
    shared->faults[index] = (struct fault){.step = step, .rank = rank, .moment = moment};
    shared->fault_count = index + 1;
}

/* ------------------------------------------------------------------------------------- the model */

static float wanted_of(uint64_t sample, size_t i)
{
    return (float)((sample * 37 + i * 101 + 11) % 97) / 97.0f - 0.5f;
}

static float number_of(enum tutti_dtype dtype, const void *numbers, size_t i)
{
    uint32_t bits = 0;
    float number;
    if (dtype == TUTTI_FLOAT32) return ((const float *)numbers)[i];
    bits = (uint32_t)((const uint16_t *)numbers)[i] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Of the mean squared distance from what the samples want. Gradients are float32. */
static enum tutti_status pass(struct tutti_shards *shards, const struct setting *setting,
                              const struct tutti_elastic *elastic,
                              const struct tutti_elastic_step *step, size_t g)
{
    const float scale = (float)tutti_shards_loss_scale(shards) / (float)step->batch_count;
    void *parameters, *gradient;
    enum tutti_status status = tutti_shards_acquire(shards, TUTTI_PASS_BACKWARD, g, &parameters);
    if (status == TUTTI_OK) status = tutti_shards_gradient(shards, g, &gradient);
    if (status != TUTTI_OK) return status;
    for (uint64_t s = 0; s < step->count; s++) {
        const uint64_t sample = tutti_elastic_sample(elastic, step->epoch, step->first + s);
        for (size_t i = 0; i < counts[g]; i++)
            ((float *)gradient)[i] +=
                scale * (number_of(setting->dtype, parameters, i) - wanted_of(sample, i + g));
    }
    status = tutti_shards_ready(shards, g);
    if (status == TUTTI_OK) status = tutti_shards_release(shards, g);
    return status;
}

static enum tutti_status set_first(struct tutti_shards *shards)
{
    static const float none[1];
    for (size_t g = 0; g < GROUPS; g++) {
        float *const values = calloc(counts[g] + 1, sizeof *values);
        if (values == NULL) return TUTTI_NO_MEMORY;
        for (size_t i = 0; i < counts[g]; i++) values[i] = 0.01f * (float)((i * 7 + g) % 13);
        const enum tutti_status status = tutti_shards_set(shards, g, counts[g] > 0 ? values : none);
        free(values);
        if (status != TUTTI_OK) return status;
    }
    return TUTTI_OK;
}

static enum tutti_status do_step(struct tutti_elastic_shards *kept, struct tutti_elastic *elastic,
                                 const struct setting *setting,
                                 const struct tutti_elastic_step *step)
{
    struct tutti_shards_step_options options = TUTTI_SHARDS_STEP_INIT;
    struct tutti_shards *shards;
    int is_first;
    enum tutti_status status = tutti_elastic_shards_begin(kept, elastic, &shards, &is_first);
    if (status == TUTTI_OK && is_first) status = set_first(shards);
    for (size_t g = GROUPS; status == TUTTI_OK && g-- > 0;) {
        status = pass(shards, setting, elastic, step, g);
        if (g == 1) die_if_fated(step, IN_PASS);
    }
    options.rate = 0.01;
    options.factor = 1;
    options.norm_max = 50;
    if (status == TUTTI_OK) status = tutti_shards_step(shards, &options, NULL);
    if (status == TUTTI_OK) status = tutti_elastic_shards_keep(kept, elastic);
    return status;
}

/* Of the last step; all ranks have the same. */
static enum tutti_status note_end(const struct tutti_elastic_shards *kept,
                                  struct tutti_elastic *elastic, const struct setting *setting,
                                  const struct tutti_elastic_step *step)
{
    struct tutti_elastic_counters counters = {.size_bytes = sizeof counters};
    size_t count;
    const struct tutti_elastic_array *const arrays = tutti_elastic_shards_arrays(kept, &count);
    if (tutti_elastic_count(elastic, &counters) != TUTTI_OK) return TUTTI_INTERNAL;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (strstr(arrays[i].name, "parameters") == NULL) continue;
        const void *data = arrays[i].data;
        struct tutti_elastic_part part = {0, arrays[i].count, NULL};
        if (data == NULL && tutti_elastic_shard(elastic, i, &part) != TUTTI_OK)
            return TUTTI_INTERNAL;
        if (data == NULL) data = part.data;
        for (size_t k = 0; k < part.count; k++)
            shared->parameters[at + part.first + k] = number_of(setting->dtype, data, k);
        at += arrays[i].count;
    }
    shared->loss_scale = ((const double *)arrays[0].data)[3];
    atomic_store(&shared->optimizer_steps, (uint64_t)((const double *)arrays[0].data)[1]);
    atomic_store(&shared->failures, counters.failures);
    atomic_store(&shared->size_at_end, step->size);
    atomic_fetch_add(&shared->finished, 1);
    return TUTTI_OK;
}

static enum tutti_status open_loop(const struct tutti_elastic_shards *kept,
                                   const struct setting *setting, int process,
                                   struct tutti_elastic **elastic)
{
    const bool joins = process >= FOUNDERS;
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    size_t count;
    const struct tutti_elastic_array *const arrays = tutti_elastic_shards_arrays(kept, &count);
    comm.deterministic = 1;
    comm.timeout_ns = comm.init_timeout_ns = 30 * SECOND;
    comm.rank = joins ? -1 : process;
    comm.size = joins ? -1 : FOUNDERS;
    options.comm_options = &comm;
    options.joins = joins;
    options.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    options.partner = 1;
    options.replace_wait_ns = setting->replace_wait_ns;
    options.join_wait_ns = 60 * SECOND;
    options.grow_every_ns = UINT64_MAX;
    options.step_count = STEPS;
    options.batch = BATCH;
    options.sample_count = SAMPLES;
    options.seed = 5;
    return tutti_elastic_open(arrays, count, &options, elastic);
}

static int train(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    const struct setting *const setting = context;
    const struct tutti_shard_group groups[GROUPS] = {{BIG, 0.1}, {0, 0}, {SMALL, 0}};
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    struct tutti_elastic_shards *kept;
    struct tutti_elastic *elastic;
    (void)none, (void)size, (void)seed;
    options.stage = setting->stage;
    options.dtype = setting->dtype;
    options.reduction = TUTTI_SHARDS_REDUCE_ONCE;
    options.wide_gradients = setting->dtype != TUTTI_FLOAT32;
    options.loss_scale = setting->dtype != TUTTI_FLOAT32 ? 1024 : 0;
    options.growth_steps = setting->dtype != TUTTI_FLOAT32 ? 3 : 0;
    RANKS_EXPECT(tutti_elastic_shards_create(groups, GROUPS, &options, &kept) == TUTTI_OK);
    RANKS_EXPECT(open_loop(kept, setting, rank, &elastic) == TUTTI_OK);
    for (;;) {
        int is_committed;
        RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_OK);
        if (step.is_over) break;
        die_if_fated(&step, AT_BEGIN);
        const enum tutti_status status = do_step(kept, elastic, setting, &step);
        die_if_fated(&step, BEFORE_COMMIT);
        RANKS_EXPECT(tutti_elastic_commit(elastic, status, &is_committed) == TUTTI_OK);
    }
    RANKS_EXPECT(note_end(kept, elastic, setting, &step) == TUTTI_OK);
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    tutti_elastic_shards_free(kept);
    return 0;
}

/* --------------------------------------------------------------------------------- what is run */

static int run(struct setting *setting)
{
    static int number;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 120000, .without_comm = true};
    char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/store-%d", folder, number++);
    assert_int_equal(mkdir(path, 0700), 0);
    setenv("TUTTI_ELASTIC_STORE", path, 1);
    atomic_store(&shared->finished, 0);
    memset(shared->parameters, 0, sizeof shared->parameters);
    return ranks_run(FOUNDERS + setting->joiners, &options, train, setting);
}

static float wanted[ALL];

static void learn_what_is_wanted(struct setting *setting)
{
    shared->fault_count = 0;
    assert_int_equal(run(setting), 0);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS);
    memcpy(wanted, shared->parameters, sizeof wanted);
    double norm = 0;
    for (int i = 0; i < ALL; i++) norm += (double)wanted[i] * (double)wanted[i];
    assert_true(isfinite(norm) && norm > 0);
}

/* The ranks 0 and 1 die, each at another moment, and are replaced. */
static void expect_bits(enum tutti_shards_stage stage, enum tutti_dtype dtype)
{
    struct setting setting = {stage, dtype, 0, 30 * SECOND};
    learn_what_is_wanted(&setting);
    const double loss_scale = shared->loss_scale;
    setting.joiners = 2;
    set_fault(0, 4, 1, IN_PASS);
    set_fault(1, 8, 0, stage == TUTTI_SHARDS_GRADIENTS ? AT_BEGIN : BEFORE_COMMIT);
    assert_int_equal(run(&setting), 2);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS);
    assert_int_equal(atomic_load(&shared->size_at_end), FOUNDERS);
    assert_int_equal(atomic_load(&shared->failures), 2);
    assert_int_equal(atomic_load(&shared->optimizer_steps), STEPS);
    assert_memory_equal(shared->parameters, wanted, sizeof wanted);
    assert_true(shared->loss_scale == loss_scale);
}

static void shards_of_the_optimizer_survive(void **state)
{
    (void)state;
    expect_bits(TUTTI_SHARDS_OPTIMIZER, TUTTI_FLOAT32);
}

static void shards_of_gradients_survive(void **state)
{
    (void)state;
    expect_bits(TUTTI_SHARDS_GRADIENTS, TUTTI_FLOAT32);
}

static void shards_of_parameters_survive(void **state)
{
    (void)state;
    expect_bits(TUTTI_SHARDS_PARAMETERS, TUTTI_FLOAT32);
}

static void masters_and_the_loss_scale_survive(void **state)
{
    (void)state;
    expect_bits(TUTTI_SHARDS_PARAMETERS, TUTTI_BFLOAT16);
    assert_true(shared->loss_scale > 1024);
}

static void copies_survive(void **state)
{
    (void)state;
    expect_bits(TUTTI_SHARDS_NONE, TUTTI_FLOAT32);
}

/* A rank that dies in the first step leaves no state, and the program sets the first values again. */
static void the_first_step_is_done_again(void **state)
{
    struct setting setting = {TUTTI_SHARDS_PARAMETERS, TUTTI_FLOAT32, 0, 30 * SECOND};
    (void)state;
    learn_what_is_wanted(&setting);
    setting.joiners = 1;
    set_fault(0, 0, 2, IN_PASS);
    assert_int_equal(run(&setting), 1);
    assert_memory_equal(shared->parameters, wanted, sizeof wanted);
}

/* Sums of other ranks are rounded in another order. */
static void fewer_ranks_divide_the_shards_anew(void **state)
{
    struct setting setting = {TUTTI_SHARDS_PARAMETERS, TUTTI_FLOAT32, 0, 0};
    double worst = 0;
    (void)state;
    learn_what_is_wanted(&setting);
    set_fault(0, 5, 1, IN_PASS);
    assert_int_equal(run(&setting), 1);
    assert_int_equal(atomic_load(&shared->size_at_end), FOUNDERS - 1);
    assert_int_equal(atomic_load(&shared->optimizer_steps), STEPS);
    for (int i = 0; i < ALL; i++)
        worst = fmax(worst, fabs((double)shared->parameters[i] - (double)wanted[i]));
    printf("  parameters differ by at most %.3g\n", worst);
    assert_true(worst < 1e-4);
}

static void mistakes_are_named(void **state)
{
    struct tutti_elastic_shards *kept;
    struct tutti_shards_options options = TUTTI_SHARDS_OPTIONS_INIT;
    const struct tutti_shard_group group = {10, 0};
    (void)state;
    options.dtype = TUTTI_INT32;
    assert_int_equal(tutti_elastic_shards_create(&group, 1, &options, &kept), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_elastic_shards_create(NULL, 1, NULL, &kept), TUTTI_INVALID_BUFFER);
    assert_null(kept);
    tutti_elastic_shards_free(NULL);
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    shared = ranks_share(sizeof *shared);
    scratch_make(folder);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_of_the_optimizer_survive),
        cmocka_unit_test(shards_of_gradients_survive),
        cmocka_unit_test(shards_of_parameters_survive),
        cmocka_unit_test(masters_and_the_loss_scale_survive),
        cmocka_unit_test(copies_survive),
        cmocka_unit_test(the_first_step_is_done_again),
        cmocka_unit_test(fewer_ranks_divide_the_shards_anew),
        cmocka_unit_test(mistakes_are_named),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
