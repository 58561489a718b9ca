/* An elastic loop loses ranks at every moment of a step, and while others recover: with replacements
 * it computes the bits of a run without faults; with fewer ranks it keeps the global batch; and each
 * sample is taken once in an epoch.
 *
 * ctest: label=once label=longtsan timeout=300 waits first
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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "os/clock.h"
#include "tests/kit/chance.h"
#include "tests/kit/scratch.h"
#include "tests/worlds/ranks.h"
#include "train/elastic_move.h"
#include "train/elastic_store.h"
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
    useconds_t after_us; /* with AS_IT_JOINS: after it began, and `rank` is the process */
    _Atomic int is_done;
    _Atomic uint64_t died_ns, outage_ns; /* to the first step that counted after it */
};

/* The memory that processes share. */
struct shared {
    struct fault faults[FAULTS_MAX];
    int fault_count;
    _Atomic uint64_t taken[EPOCHS_MAX][SAMPLES]; /* by which generation and step */
    _Atomic int wrong;                           /* places that were taken twice, or not at all */
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
    useconds_t joiner_pause_us, step_us;
    int size_min;
    bool keeps_folder;
    uint64_t stops_after; /* so many steps all ranks die; 0: none */
    uint64_t join_wait_ns;
    bool grows;    /* a process takes the place of a dead rank long before the last step */
    int strangers; /* so many of the first joiners have another number of samples */
    enum tutti_status ends_with; /* in place of a good end */
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
    for (int i = 0; i < WIDTH; i++) model->gradients[i] += error * number(sample, i) / (float)batch;
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
        if (atomic_exchange(&fault->is_done, 1) != 0) continue;
        atomic_store(&fault->died_ns, clock_now_ns());
        raise(SIGKILL);
    }
}

static void *die_soon(void *us)
{
    usleep(*(const useconds_t *)us);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* `process` dies after so long. */
static void doom(int process)
{
    pthread_t thread;
    for (int i = 0; i < shared->fault_count; i++) {
        struct fault *const fault = &shared->faults[i];
        if (fault->moment != AS_IT_JOINS || fault->rank != process) continue;
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

static void end_outages(const struct tutti_elastic_step *step)
{
    for (int i = 0; i < shared->fault_count; i++) {
        struct fault *const fault = &shared->faults[i];
        const uint64_t died_ns = atomic_load(&fault->died_ns);
        uint64_t none = 0;
        if (died_ns > 0 && step->number >= fault->step + (fault->moment == AFTER_COMMIT))
            atomic_compare_exchange_strong(&fault->outage_ns, &none, clock_now_ns() - died_ns);
    }
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
    char checkpoints[SCRATCH_BYTES + 16];
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    options.comm_options = &comm;
    options.joins = joins;
    options.update = setting->update;
    options.partner = setting->has_partner;
    options.replace_wait_ns = setting->replace_wait_ns;
    options.join_wait_ns = setting->join_wait_ns > 0 ? setting->join_wait_ns : 60 * SECOND;
    options.size_min = setting->size_min;
    options.grow_every_ns = SECOND / 20;
    options.step_count = STEPS;
    options.batch = BATCH;
    options.sample_count = SAMPLES;
    options.seed = joins && process < setting->founders + setting->strangers ? 6 : 5;
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
    const enum tutti_status status =
        tutti_allreduce(sum, sum, WIDTH, TUTTI_FLOAT32, TUTTI_SUM, tutti_elastic_comm(elastic));
    if (status == TUTTI_OK) memcpy(model->weights, sum, sizeof sum);
    return status;
}

static enum tutti_status do_step(struct model *model, struct tutti_elastic *elastic,
                                 const struct setting *setting,
                                 const struct tutti_elastic_step *step)
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

static void note_end(struct model *model, struct tutti_elastic *elastic,
                     const struct setting *setting, const struct tutti_elastic_step *step)
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

static float weights_wanted[WIDTH], moments_wanted[WIDTH];

static int loop(struct model *model, struct tutti_elastic *elastic, const struct setting *setting,
                int rank)
{
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    for (;;) {
        int is_committed = 0;
        const enum tutti_status begun = tutti_elastic_begin(elastic, &step);
        if (begun == TUTTI_MISMATCH && rank < setting->founders + setting->strangers) return 0;
        if (begun != TUTTI_OK && begun == setting->ends_with) {
            /* and so it stays */
            RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == begun);
            atomic_fetch_add(&shared->finished, 1);
            return 0;
        }
        RANKS_EXPECT(begun == TUTTI_OK);
        if (step.is_over) break;
        if (setting->step_us > 0) usleep(setting->step_us);
        if (setting->grows && step.number > STEPS / 2 && step.size < FOUNDERS) ranks_nap_ms(500);
        RANKS_EXPECT(step.batch_count == BATCH || step.batch_first + step.batch_count == SAMPLES);
        die_if_fated(step.number, step.rank, AT_BEGIN);
        const enum tutti_status status = do_step(model, elastic, setting, &step);
        die_if_fated(step.number, step.rank, BEFORE_COMMIT);
        RANKS_EXPECT(tutti_elastic_commit(elastic, status, &is_committed) == TUTTI_OK);
        if (!is_committed) continue;
        check_samples(elastic, &step);
        end_outages(&step);
        if (setting->stops_after > 0 && step.number + 1 == setting->stops_after) raise(SIGKILL);
        die_if_fated(step.number, step.rank, AFTER_COMMIT);
        if (setting->update == TUTTI_ELASTIC_UPDATE_AFTER)
            update(model->weights, model->own_moments, model->gradients, WIDTH);
        for (int i = 0; i < 3; i++) RANKS_EXPECT(model->table[TABLE * 400 * i] == (float)i);
    }
    note_end(model, elastic, setting, &step);
    if (setting->join_wait_ns > 0 && step.size == FOUNDERS) {
        RANKS_EXPECT(memcmp(model->weights, weights_wanted, sizeof weights_wanted) == 0);
        RANKS_EXPECT(memcmp(model->own_moments, moments_wanted, sizeof moments_wanted) == 0);
    }
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
    /* The first values are those of rank 0. If it may die before the first step, others need them. */
    const int values = setting->join_wait_ns > 0 ? 0 : process;
    for (int i = 0; i < WIDTH; i++) model.weights[i] = 0.01f * (float)((i * 7 + values) % 13);
    if (values == 0)
        for (int i = 0; i < 3; i++) model.table[TABLE * 400 * i] = (float)i;
    if (process >= setting->founders + setting->strangers) usleep(setting->joiner_pause_us);
    if (process >= setting->founders) doom(process);
    const enum tutti_status opened = open_loop(&model, setting, process, &elastic);
    if (opened == TUTTI_INIT_TIMEOUT && setting->join_wait_ns > 0) { /* not needed */
        free(model.table);
        return 0;
    }
    RANKS_EXPECT(opened == TUTTI_OK);
    if (process < setting->founders) doom(process); /* once there is a team */
    const int bad = loop(&model, elastic, setting, rank);
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    free(model.table);
    return bad;
}

/* ------------------------------------------------------------------------------------ what is run */

/* Each run has a store of its own. */
static void make_store(void)
{
    static int number;
    char path[SCRATCH_BYTES + 32];
    snprintf(path, sizeof path, "%s/store-%d", folder, number++);
    if (mkdir(path, 0700) != 0) abort();
    setenv("TUTTI_ELASTIC_STORE", path, 1);
}

static struct ranks_outcome outcomes[PROCESSES_MAX];

/* Returns how many processes did not end well. */
static int run(struct setting *setting)
{
    const int size = setting->founders + setting->joiners;
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 120000, .without_comm = true, .outcomes = outcomes};
    memset(shared->taken, 0, sizeof shared->taken);
    atomic_store(&shared->wrong, 0);
    atomic_store(&shared->finished, 0);
    if (!setting->keeps_folder) scratch_remove(folder);
    if (!setting->keeps_folder) scratch_make(folder);
    make_store();
    const int bad = ranks_run(size, &options, train, setting);
    uint64_t outage_ns = 0;
    for (int i = 0; i < shared->fault_count; i++)
        if (atomic_load(&shared->faults[i].outage_ns) > outage_ns)
            outage_ns = atomic_load(&shared->faults[i].outage_ns);
    printf("  %d deaths, %d joined, %d steps again, longest outage %.3f s, from a death %.3f s\n",
           (int)atomic_load(&shared->failures), (int)atomic_load(&shared->replaced),
           (int)atomic_load(&shared->repeated), (double)atomic_load(&shared->outage_max_ns) / 1e9,
           (double)outage_ns / 1e9);
    return bad;
}

static void begin_faults(void)
{
    memset(shared->faults, 0, sizeof shared->faults);
    shared->fault_count = 0;
}

static struct setting usual(int joiners)
{
    return (struct setting){.founders = FOUNDERS, .joiners = joiners, .replace_wait_ns = 30 * SECOND};
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
        set_fault(1, 0, FOUNDERS, AS_IT_JOINS, (useconds_t)chance_below(&chance, 300000));
        if (round % 2 == 1) set_fault(2, 6, 2, AT_BEGIN, 0);
        setting.joiners = round % 2 == 1 ? 3 : 2;
        setting.update = round % 2 == 0 ? TUTTI_ELASTIC_UPDATE_BEFORE : TUTTI_ELASTIC_UPDATE_AFTER;
        /* A joiner that dies before it is let in leaves the team to the others; one that dies after
         * the end is none of them. */
        const int bad = run(&setting);
        if (bad != 2 + round % 2)
            fail_msg("the joiner was to die after %u us", shared->faults[1].after_us);
        expect_same_bits();
    }
}

/* A process that has other arguments joins first: it has to go, and the next takes its place. */
static void a_joiner_with_other_arguments_is_sent_away(void **state)
{
    struct setting setting = usual(2);
    (void)state;
    setting.strangers = 1;
    setting.join_wait_ns = 8 * SECOND;
    setting.joiner_pause_us = 500000;
    begin_faults();
    set_fault(0, 6, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    expect_same_bits();
}

/* Founders and joiners die whenever it comes, also while others recover from a death. */
static void deaths_at_any_time_leave_the_bits_as_they_are(void **state)
{
    struct chance chance = {.seed = chance_seed(clock_now_ns())};
    const int rounds = getenv("TUTTI_LONG") != NULL ? 40 : 1;
    (void)state;
    for (int round = 0; round < rounds; round++) {
        struct setting setting = usual(4);
        setting.join_wait_ns = 4 * SECOND;
        setting.step_us = 10000;
        setting.update = round % 2 == 0 ? TUTTI_ELASTIC_UPDATE_AFTER : TUTTI_ELASTIC_UPDATE_BEFORE;
        begin_faults();
        for (int i = 0; i < 3; i++)
            set_fault(i, 0, i < 2 ? i : FOUNDERS, AS_IT_JOINS,
                      20000 + (useconds_t)chance_below(&chance, 500000));
        (void)run(&setting);
        for (int i = 0; i < setting.founders + setting.joiners; i++) {
            const bool is_fated = i < 2 || i == FOUNDERS;
            if (outcomes[i].fate != RANKS_GOOD && !(is_fated && outcomes[i].fate == RANKS_SIGNALLED))
                fail_msg("process %d was bad; deaths at %u, %u and %u us", i,
                         shared->faults[0].after_us, shared->faults[1].after_us,
                         shared->faults[2].after_us);
        }
        assert_int_equal(atomic_load(&shared->wrong), 0);
        assert_true(atomic_load(&shared->finished) >= 1);
    }
}

/* The team goes on without the rank that died, and takes a process in that comes later. */
static void a_team_that_shrank_grows_again(void **state)
{
    struct setting setting = usual(1);
    (void)state;
    setting.replace_wait_ns = 0;
    setting.step_us = 30000;
    setting.grows = true;
    begin_faults();
    set_fault(0, 3, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    expect_samples();
    assert_int_equal(atomic_load(&shared->size_at_end), FOUNDERS);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS);
    assert_int_equal(atomic_load(&shared->failures), 1);
    assert_int_equal(atomic_load(&shared->replaced), 1);
    assert_memory_equal(shared->weights[2], shared->weights[0], sizeof weights_wanted);
}

/* All ranks die at once; another run goes on from the checkpoint, with the same bits. */
static void another_run_goes_on_from_a_checkpoint(void **state)
{
    struct setting setting = usual(0);
    (void)state;
    setting.has_checkpoints = true;
    setting.stops_after = 20;
    begin_faults();
    assert_int_equal(run(&setting), FOUNDERS);
    setting.stops_after = 0;
    setting.keeps_folder = true;
    assert_int_equal(run(&setting), 0);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS);
    for (int r = 0; r < FOUNDERS; r++) {
        assert_memory_equal(shared->weights[r], weights_wanted, sizeof weights_wanted);
        assert_memory_equal(shared->moments[r], moments_wanted, sizeof moments_wanted);
    }
}

/* Steps of the run so far, and samples of an epoch. */
struct stretch {
    uint64_t step_count, sample_count, every_ns;
    bool has_no_disk; /* from the first step on */
};

/* Its options are those of a program that was compiled with the first version. */
static int with_samples(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    enum { BYTES_FIRST = 72 };
    const struct stretch *const stretch = context;
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm_options *const older = malloc(BYTES_FIRST);
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    struct tutti_elastic_counters counters = {.size_bytes = sizeof counters};
    const struct tutti_elastic_array array = {"state", TUTTI_ELASTIC_REPLICATED, TUTTI_INT64, 1,
                                              &(int64_t){5}};
    struct tutti_elastic *elastic;
    (void)none, (void)seed;
    RANKS_EXPECT(older != NULL);
    comm.rank = rank, comm.size = size, comm.size_bytes = BYTES_FIRST;
    memcpy(older, &comm, BYTES_FIRST);
    options.comm_options = older;
    options.step_count = stretch->step_count;
    options.sample_count = stretch->sample_count;
    options.batch = BATCH;
    options.checkpoint_folder = folder;
    options.checkpoint_every_ns = stretch->every_ns;
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_OK);
    free(older);
    for (int is_committed = 1; is_committed;) {
        RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_OK);
        if (step.is_over) break;
        RANKS_EXPECT(step.batch_count > 0);
        if (stretch->has_no_disk && rank == 0) scratch_remove(folder);
        RANKS_EXPECT(step.batch_first + step.batch_count <= stretch->sample_count);
        RANKS_EXPECT(tutti_elastic_commit(elastic, TUTTI_OK, &is_committed) == TUTTI_OK);
    }
    RANKS_EXPECT(step.is_over && step.number == stretch->step_count);
    RANKS_EXPECT(tutti_elastic_count(elastic, &counters) == TUTTI_OK);
    RANKS_EXPECT(!stretch->has_no_disk || (counters.checkpoints == 0 && counters.interval_ns > 0));
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    return 0;
}

static void another_run_may_have_fewer_samples(void **state)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    struct stretch first = {4, SAMPLES, UINT64_MAX, false},
                   second = {8, SAMPLES / 2, UINT64_MAX, false};
    (void)state;
    scratch_remove(folder);
    scratch_make(folder);
    make_store();
    assert_int_equal(ranks_run(2, &options, with_samples, &first), 0);
    make_store();
    assert_int_equal(ranks_run(2, &options, with_samples, &second), 0);
}

static void a_disk_that_fails_does_not_end_the_loop(void **state)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    struct stretch stretch = {6, SAMPLES, 0, true};
    (void)state;
    scratch_remove(folder);
    scratch_make(folder);
    make_store();
    assert_int_equal(ranks_run(2, &options, with_samples, &stretch), 0);
    scratch_make(folder);
}

static void the_loop_ends_if_too_few_ranks_or_too_little_state_is_left(void **state)
{
    struct setting setting = usual(0);
    (void)state;
    setting.replace_wait_ns = 0;
    setting.size_min = FOUNDERS;
    setting.ends_with = TUTTI_PROC_FAILED;
    begin_faults();
    set_fault(0, 3, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS - 1);
    /* Shards that were at one rank only. */
    setting.size_min = 0;
    setting.is_sharded = true;
    setting.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    begin_faults();
    set_fault(0, 3, 1, BEFORE_EXCHANGE, 0);
    assert_int_equal(run(&setting), 1);
    assert_int_equal(atomic_load(&shared->finished), FOUNDERS - 1);
}

/* ----------------------------------------------------------------------------- without any death */

/* Rank 1 has a failure of its own in step 2, as often as it is told. */
static int with_failures(struct tutti_comm *none, int rank, int size, uint64_t seed, void *context)
{
    int64_t sum = 0, left = *(const int *)context, state = 5;
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    const struct tutti_elastic_array array = {"state", TUTTI_ELASTIC_REPLICATED, TUTTI_INT64, 1,
                                              &state};
    struct tutti_elastic *elastic;
    enum tutti_status status = TUTTI_OK;
    const bool goes_on = left < 3;
    (void)none, (void)seed;
    comm.rank = rank, comm.size = size;
    options.comm_options = &comm;
    options.update = TUTTI_ELASTIC_UPDATE_BEFORE;
    options.step_count = 4;
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_OK);
    for (int is_committed; status == TUTTI_OK;) {
        RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_OK);
        if (step.is_over) break;
        RANKS_EXPECT(state == 5 + (int64_t)step.number * size);
        enum tutti_status work = TUTTI_NO_MEMORY;
        if (rank != 1 || step.number != 2 || left-- <= 0) {
            sum = 1;
            work =
                tutti_allreduce(&sum, &sum, 1, TUTTI_INT64, TUTTI_SUM, tutti_elastic_comm(elastic));
            state += sum;
        }
        status = tutti_elastic_commit(elastic, work, &is_committed);
    }
    RANKS_EXPECT(status == (goes_on ? TUTTI_OK : rank == 1 ? TUTTI_NO_MEMORY : TUTTI_REVOKED));
    RANKS_EXPECT(step.number == (goes_on ? 4 : 2));
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    return 0;
}

static void a_failure_without_a_death_is_tried_again_but_not_for_ever(void **state)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    int failures = 2;
    (void)state;
    make_store();
    assert_int_equal(ranks_run(3, &options, with_failures, &failures), 0);
    failures = 100;
    make_store();
    assert_int_equal(ranks_run(3, &options, with_failures, &failures), 0);
}

static int with_other_arguments(struct tutti_comm *comm_made, int rank, int size, uint64_t seed,
                                void *context)
{
    float data[4] = {0};
    struct tutti_comm_options comm = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_elastic_options options = TUTTI_ELASTIC_OPTIONS_INIT;
    struct tutti_elastic_step step = {.size_bytes = sizeof step};
    struct tutti_elastic_array array = {"weights", TUTTI_ELASTIC_REPLICATED, TUTTI_FLOAT32, 4, data};
    struct tutti_elastic *elastic = NULL;
    int is_committed;
    (void)comm_made, (void)seed, (void)context;
    options.comm_options = &comm;
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    options.partner = 1; /* without UPDATE_BEFORE */
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_INVALID_OPTIONS);
    options.partner = 0;
    array.name = "";
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_INVALID_OPTIONS);
    array.name = "weights";
    array.data = NULL;
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_INVALID_BUFFER);
    RANKS_EXPECT(elastic == NULL);
    array.data = data;
    array.count = rank == 1 ? 3 : 4;
    comm.rank = rank, comm.size = size;
    RANKS_EXPECT(tutti_elastic_open(&array, 1, &options, &elastic) == TUTTI_OK);
    RANKS_EXPECT(tutti_elastic_commit(elastic, TUTTI_OK, &is_committed) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_elastic_begin(elastic, &step) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "float32 3") != NULL);
    RANKS_EXPECT(tutti_elastic_close(elastic) == TUTTI_OK);
    return 0;
}

static void mistakes_are_named(void **state)
{
    const struct ranks_options options = {.kind = RANKS_PROCESSES, .without_comm = true};
    (void)state;
    make_store();
    assert_int_equal(ranks_run(3, &options, with_other_arguments, NULL), 0);
}

/* ------------------------------------------------------------------------------- pieces of state */

/* Rank 0 sends two pieces; the checksum of the second is of other bytes. */
static int with_a_wrong_checksum(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    enum { BYTES = ELASTIC_PIECE_BYTES + 100 };
    char *const bytes = calloc(2, BYTES);
    struct elastic_moves moves = {0};
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(bytes != NULL);
    for (int i = 0; rank == 0 && i < BYTES; i++) bytes[i] = (char)(i * 7 + i / 1000);
    elastic_moves_add(&moves, rank, 0, 1, bytes, bytes, BYTES);
    RANKS_EXPECT(moves.count == 2);
    RANKS_EXPECT(elastic_moves_run(&moves, comm) == TUTTI_OK);
    RANKS_EXPECT(bytes[BYTES - 1] == (char)((BYTES - 1) * 7 + (BYTES - 1) / 1000));
    if (rank == 1) {
        RANKS_EXPECT(moves.received_bytes == BYTES);
        RANKS_EXPECT(elastic_moves_run(&moves, comm) == TUTTI_CORRUPT);
        RANKS_EXPECT(strstr(tutti_error_message(), "rank 0") != NULL);
    } else {
        const size_t sizes[2] = {ELASTIC_PIECE_BYTES, 100};
        uint32_t checks[2] = {crc32c(0, bytes, sizes[0]), crc32c(0, bytes, sizes[1])};
        struct tutti_request *requests[4];
        for (int i = 0; i < 2; i++) {
            char *const at = bytes + (size_t)i * ELASTIC_PIECE_BYTES;
            RANKS_EXPECT(tutti_send_start(at, sizes[i], TUTTI_UINT8, 1, 1, NULL, comm,
                                          &requests[2 * i]) == TUTTI_OK);
            RANKS_EXPECT(tutti_send_start(&checks[i], 1, TUTTI_UINT32, 1, 2, NULL, comm,
                                          &requests[2 * i + 1]) == TUTTI_OK);
        }
        for (int i = 0; i < 4; i++) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
    }
    elastic_moves_release(&moves);
    free(bytes);
    return 0;
}

static void pieces_that_arrive_changed_are_found(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, with_a_wrong_checksum, NULL), 0);
}

static void a_store_with_a_pipe_in_it_ends_when_it_should(void **state)
{
    struct elastic_folder_store *made;
    struct tutti_store store;
    char path[SCRATCH_BYTES + 16];
    uint64_t value;
    (void)state;
    snprintf(path, sizeof path, "%s/a.pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(elastic_folder_store_open(folder, &store, &made), TUTTI_OK);
    assert_int_not_equal(store.get(store.context, "a/pipe", &value, sizeof value, 1), 0);
    elastic_folder_store_close(made);
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
        cmocka_unit_test(a_joiner_with_other_arguments_is_sent_away),
        cmocka_unit_test(deaths_at_any_time_leave_the_bits_as_they_are),
        cmocka_unit_test(a_team_that_shrank_grows_again),
        cmocka_unit_test(another_run_goes_on_from_a_checkpoint),
        cmocka_unit_test(another_run_may_have_fewer_samples),
        cmocka_unit_test(a_disk_that_fails_does_not_end_the_loop),
        cmocka_unit_test(the_loop_ends_if_too_few_ranks_or_too_little_state_is_left),
        cmocka_unit_test(a_failure_without_a_death_is_tried_again_but_not_for_ever),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(pieces_that_arrive_changed_are_found),
        cmocka_unit_test(a_store_with_a_pipe_in_it_ends_when_it_should),
    };
    const int failed = cmocka_run_group_tests(tests, learn_what_is_wanted, NULL);
    scratch_remove(folder);
    return failed;
}
