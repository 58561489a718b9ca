/* An elastic loop loses ranks at every moment of a step, and while others recover: with replacements
 * it computes the bits of a run without faults; with fewer ranks it keeps the global batch; and each
 * sample is taken once in an epoch.
 *
 * ctest: label=once timeout=300 waits first
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/kit/chance.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/elastic.h"

enum {
    FOUNDERS = 3,
    FAULTS_MAX = 20,
    PROCESSES_MAX = FOUNDERS + 2 * FAULTS_MAX,
    WIDTH = 200,
    SAMPLES = 50, /* of an epoch; the last batch is smaller */
    BATCH = 12,
    STEPS = 30,
    EPOCHS_MAX = 32,
    TABLE = 3000 /* of the large array, which moves in several pieces for each rank */
};
static const uint64_t SECOND = 1000000000u;

/* Where in a step a rank dies. */
enum moment { AT_BEGIN, BEFORE_EXCHANGE, BEFORE_COMMIT, AFTER_COMMIT, AS_IT_JOINS, MOMENTS };

struct fault {
    uint64_t step;
    int rank;
    enum moment moment;
    useconds_t after_us; /* with AS_IT_JOINS: after it began to join */
    _Atomic int is_done;
};

/* What processes share. */
struct shared {
    struct fault faults[FAULTS_MAX];
    int fault_count;
    _Atomic uint64_t taken[EPOCHS_MAX][SAMPLES]; /* by which generation and step */
    _Atomic int wrong; /* places that were taken twice, or not at all */
    _Atomic int size_at_end, finished;
    _Atomic uint64_t outage_max_ns, failures, replaced, repeated, steps;
    float weights[FOUNDERS][WIDTH];
    float moments[FOUNDERS][WIDTH];
};
static struct shared *shared;
static char folder[SCRATCH_BYTES];

struct setting {
    int founders, joiners;
    enum tutti_elastic_update update;
    bool is_sharded, has_partner;
    uint64_t replace_wait_ns;
    bool has_checkpoints;
    useconds_t joiner_pause_us;
};

/* -------------------------------------------------------------------------------------- a model */

struct model {
    float weights[WIDTH], own_moments[WIDTH], gradients[WIDTH];
    float *table;
};

static float number(uint64_t sample, int i)
{
    return (float)((sample * 37 + (uint64_t)i * 101 + 11) % 97) / 97.0f - 0.5f;
}

static void add_gradient(struct model *model, uint64_t sample, uint64_t batch)
{
    float error = -number(sample, WIDTH);
    for (int i = 0; i < WIDTH; i++) error += model->weights[i] * number(sample, i);
    for (int i = 0; i < WIDTH; i++)
        model->gradients[i] += error * number(sample, i) / (float)batch;
}

static void compute(struct model *model, const struct tutti_elastic *elastic,
                    const struct tutti_elastic_step *step)
{
    memset(model->gradients, 0, sizeof model->gradients);
    for (uint64_t i = 0; i < step->count; i++)
        add_gradient(model, tutti_elastic_sample(elastic, step->epoch, step->first + i),
                     step->batch_count);
}

/* An element's result depends on the element alone, whoever computes it. */
static void update(float *weights, float *moments, const float *gradients, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        moments[i] = 0.9f * moments[i] + gradients[i];
        weights[i] -= 0.02f * moments[i];
    }
}

/* ---------------------------------------------------------------------------------------- faults */

static void die_if_fated(uint64_t step, int rank, enum moment moment)
{
    for (int i = 0; i < shared->fault_count; i++) {
        struct fault *const fault = &shared->faults[i];
        if (fault->moment != moment || fault->step != step || fault->rank != rank) continue;
        if (atomic_exchange(&fault->is_done, 1) == 0) raise(SIGKILL);
    }
}

static void *die_soon(void *us)
{
    usleep(*(const useconds_t *)us);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* A joiner's number is `step` of its fate. */
static void doom_joiner(int joiner)
{
    pthread_t thread;
    for (int i = 0; i < shared->fault_count; i++) {
        struct fault *const fault = &shared->faults[i];
        if (fault->moment != AS_IT_JOINS || fault->rank != joiner) continue;
        if (atomic_exchange(&fault->is_done, 1) == 0 &&
            pthread_create(&thread, NULL, die_soon, &fault->after_us) != 0)
            abort();
    }
}

static void set_fault(int index, uint64_t step, int rank, enum moment moment, useconds_t after_us)
{
    struct fault *const fault = &shared->faults[index];
    fault->step = step, fault->rank = rank, fault->moment = moment, fault->after_us = after_us;
    atomic_store(&fault->is_done, 0);
    if (shared->fault_count <= index) shared->fault_count = index + 1;
}

/* --------------------------------------------------------------------------------------- samples */

static uint64_t tag_of(const struct tutti_elastic_step *step)
{
    return step->generation << 32 | (step->number + 1);
}

static void take_samples(const struct tutti_elastic *elastic, const struct tutti_elastic_step *step)
{
    for (uint64_t i = 0; i < step->count; i++) {
        const uint64_t sample = tutti_elastic_sample(elastic, step->epoch, step->first + i);
        if (sample >= SAMPLES || step->epoch >= EPOCHS_MAX ||
            atomic_exchange(&shared->taken[step->epoch][sample], tag_of(step)) == tag_of(step))
            atomic_fetch_add(&shared->wrong, 1);
    }
}

/* The batch of a step that counts was taken by the team of that step. */
static void check_samples(const struct tutti_elastic *elastic, const struct tutti_elastic_step *step)
{
    for (uint64_t i = 0; i < step->batch_count; i++) {
        const uint64_t sample = tutti_elastic_sample(elastic, step->epoch, step->batch_first + i);
        if (atomic_load(&shared->taken[step->epoch][sample]) != tag_of(step))
            atomic_fetch_add(&shared->wrong, 1);
    }
}

/* --------------------------------------------------------------------------------------- the loop */

static enum tutti_status open_loop(struct model *model, const struct setting *setting, int process,
                                   struct tutti_elastic **elastic)
{
    const bool joins = process >= setting->founders;
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    comm.deterministic = 1;
    comm.timeout_ns = comm.init_timeout_ns = 30 * SECOND;
    comm.rank = joins ? -1 : process;
    comm.size = joins ? -1 : setting->founders;
    char checkpoints[SCRATCH_BYTES + 16], meeting[SCRATCH_BYTES + 16];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    snprintf(meeting, sizeof meeting, "%s", folder);
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    options.comm_options = &comm;
    options.joins = joins;
    options.update = setting->update;
    options.partner = setting->has_partner;
    options.replace_wait_ns = setting->replace_wait_ns;
    options.join_wait_ns = 60 * SECOND;
    options.grow_every_ns = SECOND / 20;
    options.step_count = STEPS;
    options.batch = BATCH;
    options.sample_count = SAMPLES;
    options.seed = 5;
    if (setting->has_checkpoints) options.checkpoint_folder = checkpoints;
    if (setting->has_checkpoints) options.checkpoint_every_ns = 1;
    const enum tutti_elastic_kind kind =
        setting->is_sharded ? TUTTI_ELASTIC_SHARDED : TUTTI_ELASTIC_REPLICATED;
    const struct tutti_elastic_array arrays[] = {
        {"weights", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT32, WIDTH, model->weights},
        {"moments", kind, TUTTI_FLOAT32, WIDTH, setting->is_sharded ? NULL : model->own_moments},
        {"table", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT32, TABLE * 1000, model->table}};
    return tutti_elastic_open(arrays, 3, &options, elastic);
}

/* Each rank updates its shard and gives it to all. */
static enum tutti_status update_sharded(struct model *model, struct tutti_elastic *elastic)
{
    struct tutti_elastic_part part;
    float sum[WIDTH] = {0};
    if (tutti_elastic_shard(elastic, 1, &part) != TUTTI_OK) return TUTTI_INTERNAL;
    float *const weights = model->weights + part.first;
    update(weights, part.data, model->gradients + part.first, part.count);
    memcpy(sum + part.first, weights, part.count * sizeof *weights);
    /* Zeros and one number: the sum is that number. */
    const enum tutti_status status = tutti_allreduce(sum, sum, WIDTH, TUTTI_FLOAT32, TUTTI_SUM,
                                                     tutti_elastic_comm(elastic));
    if (status == TUTTI_OK) memcpy(model->weights, sum, sizeof sum);
    return status;
}

static enum tutti_status do_step(struct model *model, struct tutti_elastic *elastic,
                                 const struct setting *setting, const struct tutti_elastic_step *step)
{
    take_samples(elastic, step);
    compute(model, elastic, step);
    die_if_fated(step->number, step->rank, BEFORE_EXCHANGE);
    enum tutti_status status =
        tutti_allreduce(model->gradients, model->gradients, WIDTH, TUTTI_FLOAT32, TUTTI_SUM,
                        tutti_elastic_comm(elastic));
    if (status != TUTTI_OK || setting->update == TUTTI_ELASTIC_UPDATE_AFTER) return status;
    if (setting->is_sharded) return update_sharded(model, elastic);
    update(model->weights, model->own_moments, model->gradients, WIDTH);
    return TUTTI_OK;
}

static void note_end(struct model *model, struct tutti_elastic *elastic, const struct setting *setting,
                     const struct tutti_elastic_step *step)
{
    struct tutti_elastic_counters counters = {.size_bytes = sizeof counters};
    struct tutti_elastic_part part;
    if (tutti_elastic_count(elastic, &counters) != TUTTI_OK || step->rank >= FOUNDERS) abort();
    memcpy(shared->weights[step->rank], model->weights, sizeof model->weights);
    if (!setting->is_sharded)
        memcpy(shared->moments[step->rank], model->own_moments, sizeof model->own_moments);
    else if (tutti_elastic_shard(elastic, 1, &part) == TUTTI_OK)
        for (int r = 0; r < FOUNDERS; r++)
            memcpy(shared->moments[r] + part.first, part.data, part.count * sizeof(float));
    atomic_store(&shared->size_at_end, step->size);
    atomic_fetch_add(&shared->finished, 1);
    if (step->rank != 0) return;
    atomic_store(&shared->outage_max_ns, counters.outage_max_ns);
    atomic_store(&shared->failures, counters.failures);
    atomic_store(&shared->replaced, counters.replaced);
    atomic_store(&shared->repeated, counters.repeated);
    atomic_store(&shared->steps, counters.steps);
}

static int loop(struct model *model, struct tutti_elastic *elastic, const struct setting *setting,
                int rank)
{
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    for (;;) {
        int is_committed = 0;
        RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_OK);
        if (step.is_over) break;
        RANKS_EXPECT(step.batch_count == BATCH || step.batch_first + step.batch_count == SAMPLES);
        die_if_fated(step.number, step.rank, AT_BEGIN);
        const enum tutti_status status = do_step(model, elastic, setting, &step);
        die_if_fated(step.number, step.rank, BEFORE_COMMIT);
        RANKS_EXPECT(tutti_elastic_commit(elastic, status, &is_committed) == TUTTI_OK);
        if (!is_committed) continue;
        check_samples(elastic, &step);
        die_if_fated(step.number, step.rank, AFTER_COMMIT);
        if (setting->update == TUTTI_ELASTIC_UPDATE_AFTER)
            update(model->weights, model->own_moments, model->gradients, WIDTH);
        for (int i = 0; i < 3; i++) RANKS_EXPECT(model->table[TABLE * 400 * i] == (float)i);
    }
    note_end(model, elastic, setting, &step);
    return 0;
}

static int train(struct tutti_comm *none, int process, int size, uint64_t seed, void *context)
{
    const struct setting *const setting = context;
    struct tutti_elastic *elastic;
    struct model model = {.table = calloc(TABLE, 1000 * sizeof(float))};
    const int rank = process;
    (void)none, (void)size, (void)seed;
    RANKS_EXPECT(model.table != NULL);
    for (int i = 0; i < WIDTH; i++) model.weights[i] = 0.01f * (float)((i * 7 + process) % 13);
    if (process == 0) /* the first values are those of rank 0 */
        for (int i = 0; i < 3; i++) model.table[TABLE * 400 * i] = (float)i;
    if (process >= setting->founders) {
        usleep(setting->joiner_pause_us);
        doom_joiner(process - setting->founders);
    }
    RANKS_EXPECT(open_loop(&model, setting, process, &elastic) == TUTTI_OK);
    const int bad = loop(&model, elastic, setting, rank);
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    free(model.table);
    return bad;
}

/* ------------------------------------------------------------------------------------ what is run */

static float weights_wanted[WIDTH], moments_wanted[WIDTH];

/* Returns how many processes did not end well. */
static int run(struct setting *setting)
{
    const int size = setting->founders + setting->joiners;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 120000, .without_comm = true};
    memset(shared->taken, 0, sizeof shared->taken);
    atomic_store(&shared->wrong, 0);
    atomic_store(&shared->finished, 0);
    scratch_remove(folder);
    scratch_make(folder);
    setenv("TUTTI_ELASTIC_STORE", folder, 1);
    const int bad = ranks_run(size, &options, train, setting);
    printf("  %d deaths, %d joined, %d steps again, longest outage %.3f s\n",
           (int)atomic_load(&shared->failures), (int)atomic_load(&shared->replaced),
           (int)atomic_load(&shared->repeated), (double)atomic_load(&shared->outage_max_ns) / 1e9);
    return bad;
}

static void begin_faults(void)
{
    memset(shared->faults, 0, sizeof shared->faults);
    shared->fault_count = 0;
}

static struct setting usual(int joiners)
{
    return (struct setting){
        .founders = FOUNDERS, .joiners = joiners, .replace_wait_ns = 30 * SECOND};
}

static void expect_samples(void)
{
    assert_int_equal(atomic_load(&shared->wrong), 0);
    assert_int_equal(atomic_load(&shared->steps), STEPS);
    for (uint64_t epoch = 0; epoch < STEPS * BATCH / (SAMPLES + BATCH); epoch++)
        for (int i = 0; i < SAMPLES; i++) assert_true(atomic_load(&shared->taken[epoch][i]) != 0);
}

static void expect_same_bits(void)
{
    expect_samples();
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS);
    assert_int_equal(atomic_load(&shared->size_at_end), FOUNDERS);
    for (int r = 0; r < FOUNDERS; r++) {
        assert_memory_equal(shared->weights[r], weights_wanted, sizeof weights_wanted);
        assert_memory_equal(shared->moments[r], moments_wanted, sizeof moments_wanted);
    }
}

static int learn_what_is_wanted(void **state)
{
    struct setting setting = usual(0);
    (void)state;
    begin_faults();
    assert_int_equal(run(&setting), 0);
    expect_samples();
    memcpy(weights_wanted, shared->weights[0], sizeof weights_wanted);
    memcpy(moments_wanted, shared->moments[0], sizeof moments_wanted);
    double norm = 0;
    for (int i = 0; i < WIDTH; i++) norm += (double)weights_wanted[i] * (double)weights_wanted[i];
    assert_true(isfinite(norm) && norm > 0);
    return 0;
}

static void with_replacements_a_run_has_the_bits_of_a_run_without_faults(void **state)
{
    const int count = getenv("TUTTI_LONG") != NULL ? FAULTS_MAX : 4;
    struct setting setting = usual(count);
    (void)state;
    begin_faults();
    for (int i = 0; i < count; i++)
        set_fault(i, (uint64_t)(1 + i * (STEPS - 2) / count), i % FOUNDERS,
                  (enum moment)(i % AS_IT_JOINS), 0);
    assert_int_equal(run(&setting), count);
    expect_same_bits();
    assert_int_equal(atomic_load(&shared->failures), count);
    assert_int_equal(atomic_load(&shared->replaced), count);
}

static void two_ranks_die_at_once_and_are_replaced(void **state)
{
    struct setting setting = usual(2);
    (void)state;
    setting.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    begin_faults();
    set_fault(0, 4, 0, BEFORE_EXCHANGE, 0);
    set_fault(1, 4, 2, BEFORE_COMMIT, 0);
    assert_int_equal(run(&setting), 2);
    expect_same_bits();
}

static void shards_come_from_partners(void **state)
{
    struct setting setting = usual(2);
    (void)state;
    setting.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    setting.is_sharded = setting.has_partner = true;
    begin_faults();
    set_fault(0, 3, 1, BEFORE_COMMIT, 0);
    set_fault(1, 9, 0, AFTER_COMMIT, 0);
    assert_int_equal(run(&setting), 2);
    expect_same_bits();
}

static void shards_without_a_partner_come_from_the_last_checkpoint(void **state)
{
    struct setting setting = usual(1);
    (void)state;
    setting.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    setting.is_sharded = setting.has_checkpoints = true;
    begin_faults();
    set_fault(0, 20, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    expect_same_bits();
}

/* Sums of other ranks are rounded in another order: after 30 steps weights of 0.1 differ by 1e-8. */
static void fewer_ranks_keep_the_global_batch(void **state)
{
    struct setting setting = usual(0);
    (void)state;
    setting.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    setting.is_sharded = setting.has_partner = true;
    setting.replace_wait_ns = 0;
    begin_faults();
    set_fault(0, 5, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    expect_samples();
    assert_int_equal(atomic_load(&shared->size_at_end), FOUNDERS - 1);
    double worst = 0;
    for (int i = 0; i < WIDTH; i++)
        worst = fmax(worst, fabs((double)shared->weights[0][i] - (double)weights_wanted[i]));
    printf("  weights differ by at most %.3g\n", worst);
    assert_true(worst < 1e-5);
    for (int i = 0; i < WIDTH; i++)
        assert_true(fabsf(shared->moments[0][i] - moments_wanted[i]) < 1e-4f);
}

/* The joiner that comes first dies at some moment of its joining; another takes its place. */
static void joiners_that_die_are_replaced(void **state)
{
    struct chance chance = {.seed = chance_seed(clock_now_ns())};
    const int rounds = getenv("TUTTI_LONG") != NULL ? 40 : 1;
    (void)state;
    for (int round = 0; round < rounds; round++) {
        struct setting setting = usual(3);
        begin_faults();
        set_fault(0, 6, 1, BEFORE_EXCHANGE, 0);
        set_fault(1, 0, 0, AS_IT_JOINS, (useconds_t)chance_below(&chance, 300000));
        if (round % 2 == 1) set_fault(2, 6, 2, AT_BEGIN, 0);
        setting.joiners = round % 2 == 1 ? 3 : 2;
        setting.update = round % 2 == 0 ? TUTTI_ELASTIC_UPDATE_BEFORE : TUTTI_ELASTIC_UPDATE_AFTER;
        /* A joiner that dies before it is let in leaves the team to the others; one that dies after
         * the end is none of them. */
        const int bad = run(&setting);
        if (bad != 2 + round % 2) fail_msg("the joiner was to die after %u us", shared->faults[1].after_us);
        expect_same_bits();
    }
}

int main(void)
{
    setenv("TUTTI_SECRET", "the secret of this test, which nobody guesses", 1);
    setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
    shared = ranks_share(sizeof *shared);
    scratch_make(folder);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_replacements_a_run_has_the_bits_of_a_run_without_faults),
        cmocka_unit_test(two_ranks_die_at_once_and_are_replaced),
        cmocka_unit_test(shards_come_from_partners),
        cmocka_unit_test(shards_without_a_partner_come_from_the_last_checkpoint),
        cmocka_unit_test(fewer_ranks_keep_the_global_batch),
        cmocka_unit_test(joiners_that_die_are_replaced),
    };
    const int failed = cmocka_run_group_tests(tests, learn_what_is_wanted, NULL);
    scratch_remove(folder);
    return failed;
}
