/* pipeline_test.c - a pipeline computes, bit for bit, what one process computes, whatever the
 * schedule; with as many messages as there must be; and fails on all ranks at once.
 *
 * The model: part q makes x[i] * weight + q + i of each element x[i], in whole numbers that wrap.
 * So gradients are exact, and every micro- batch that is missing, doubled or of another one's data
 * shows in them.
 *
 * ctest: timeout=240 waits
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"
#include "tests/train/schedules.h"
#include "tests/worlds/ranks.h"
#include "tutti/train/pipeline.h"

enum { PARTS_MAX = 16, MICRO_MAX = 16, STEPS = 2 };

struct model {
    int part_count, micro_batch_count, step;
    size_t count;
    uint64_t weights[PARTS_MAX], gradients[PARTS_MAX];
};

/* The batch's tensors; and the gradient of the loss with respect to the result. */
static uint64_t datum(const struct model *model, int micro, size_t i)
{
    return elements_mixed((uint64_t)(model->step * MICRO_MAX + micro), i);
}

static uint64_t loss_gradient(const struct model *model, int micro, size_t i)
{
    return elements_mixed((uint64_t)(model->step * MICRO_MAX + micro) + 1000000, i);
}

static void model_init(struct model *model, int part_count, int micro_batch_count, size_t count)
{
    *model = (struct model){part_count, micro_batch_count, 0, count, {0}, {0}};
    for (int q = 0; q < part_count; q++) model->weights[q] = 2 * (uint64_t)q + 3;
}

static uint64_t part_output(const struct model *model, int part, uint64_t x, size_t i)
{
    return x * model->weights[part] + (uint64_t)part + i;
}

/* After a step: parameters move, so that the next step depends on this one. */
static void update(struct model *model)
{
    for (int q = 0; q < model->part_count; q++) {
        model->weights[q] += 2 * model->gradients[q];
        model->gradients[q] = 0;
    }
    model->step++;
}

/* All parts in one process. */
static void compute_alone(struct model *model)
{
    for (int micro = 0; micro < model->micro_batch_count; micro++) {
        for (size_t i = 0; i < model->count; i++) {
            uint64_t x[PARTS_MAX + 1], g = loss_gradient(model, micro, i);
            x[0] = datum(model, micro, i);
            for (int q = 0; q < model->part_count; q++) x[q + 1] = part_output(model, q, x[q], i);
            for (int q = model->part_count; q-- > 0;) {
                model->gradients[q] += g * x[q];
                g *= model->weights[q];
            }
        }
    }
}

/* -------------------------------------------------------------------------------------- a stage */

struct stage {
    struct model *model; /* of which it has some parts */
    int rank, size;
    const uint64_t *inputs[MICRO_MAX * PARTS_MAX]; /* as forward got them, for backward */
    int forwards, backwards;
    int fails_at;             /* the pass that fails, of both kinds; 0: none */
    enum tutti_status status; /* with which it fails */
    struct tutti_comm *waits; /* the pass does not return before this has failed; or NULL */
    struct chance *naps;      /* or NULL */
};

static enum tutti_status begin_pass(struct stage *stage)
{
    if (stage->naps != NULL && chance_below(stage->naps, 8) == 0)
        usleep((useconds_t)chance_below(stage->naps, 2000));
    if (stage->forwards + stage->backwards != stage->fails_at) return TUTTI_OK;
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    for (int i = 0; i < 40000 && stage->waits != NULL && failure.status == TUTTI_OK; i++) {
        ranks_nap_ms(1);
        tutti_comm_failure(stage->waits, &failure);
    }
    return stage->status;
}

static enum tutti_status forward(void *context, int chunk, int micro, const void *input,
                                 void *output)
{
    struct stage *const stage = context;
    struct model *const model = stage->model;
    const int part = chunk * stage->size + stage->rank;
    const uint64_t *const x = input;
    uint64_t *const y = output;
    stage->forwards++;
    if ((x == NULL) != (part == 0) || (y == NULL) != (part == model->part_count - 1) ||
        (uintptr_t)x % 64 != 0 || (uintptr_t)y % 64 != 0)
        return TUTTI_INTERNAL;
    stage->inputs[part * MICRO_MAX + micro] = x;
    for (size_t i = 0; i < model->count && y != NULL; i++)
        y[i] = part_output(model, part, x != NULL ? x[i] : datum(model, micro, i), i);
    return begin_pass(stage);
}

static enum tutti_status backward(void *context, int chunk, int micro, const void *output_gradient,
                                  void *input_gradient)
{
    struct stage *const stage = context;
    struct model *const model = stage->model;
    const int part = chunk * stage->size + stage->rank;
    const uint64_t *const x = stage->inputs[part * MICRO_MAX + micro], *const g = output_gradient;
    uint64_t *const h = input_gradient;
    stage->backwards++;
    if ((h == NULL) != (part == 0) || (g == NULL) != (part == model->part_count - 1))
        return TUTTI_INTERNAL;
    for (size_t i = 0; i < model->count; i++) {
        const uint64_t gradient = g != NULL ? g[i] : loss_gradient(model, micro, i);
        model->gradients[part] += gradient * (x != NULL ? x[i] : datum(model, micro, i));
        if (h != NULL) h[i] = gradient * model->weights[part];
    }
    return begin_pass(stage);
}

static struct tutti_pipeline_options options_for(struct stage *stage)
{
    struct tutti_pipeline_options options = TUTTI_PIPELINE_OPTIONS_INIT;
    options.count = stage->model->count;
    options.dtype = TUTTI_UINT64;
    options.first_tag = 17;
    options.forward = forward;
    options.backward = backward;
    options.context = stage;
    return options;
}

/* -------------------------------------------------------------------------------- right results */

/* Messages of this rank in so many steps: one each way for each boundary on its sides. */
static int expect_counters(const struct tutti_pipeline *pipeline,
                           const struct tutti_schedule_shape *shape, int rank, size_t count)
{
    const uint64_t p = (uint64_t)shape->stage_count, v = (uint64_t)shape->chunk_count;
    const uint64_t each = STEPS * (uint64_t)shape->micro_batch_count;
    const uint64_t before = p == 1 ? 0 : v - (rank == 0),
                   behind = p == 1 ? 0 : v - (rank == (int)p - 1);
    struct tutti_pipeline_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_pipeline_count(pipeline, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.steps == STEPS);
    RANKS_EXPECT(counters.activations_received == each * before);
    RANKS_EXPECT(counters.activations_sent == each * behind);
    RANKS_EXPECT(counters.gradients_received == each * behind);
    RANKS_EXPECT(counters.gradients_sent == each * before);
    RANKS_EXPECT(counters.bytes_sent == each * (before + behind) * count * 8);
    RANKS_EXPECT(counters.bytes_received == counters.bytes_sent);
    RANKS_EXPECT(counters.buffer_bytes == counters.buffer_count * ((count * 8 + 63) / 64 * 64));
    return 0;
}

static int expect_same(const struct tutti_schedule *schedule, struct tutti_comm *comm, int rank,
                       size_t count, struct chance *naps)
{
    struct tutti_schedule_shape shape;
    tutti_schedule_describe(schedule, &shape);
    const int parts = shape.stage_count * shape.chunk_count;
    struct model alone, own;
    struct stage stage = {.model = &own, .rank = rank, .size = shape.stage_count, .naps = naps};
    struct tutti_pipeline *pipeline;
    model_init(&alone, parts, shape.micro_batch_count, count);
    model_init(&own, parts, shape.micro_batch_count, count);
    const struct tutti_pipeline_options options = options_for(&stage);
    RANKS_EXPECT(tutti_pipeline_create(schedule, &options, comm, &pipeline) == TUTTI_OK);
    for (int step = 0; step < STEPS; step++) {
        RANKS_EXPECT(tutti_pipeline_run(pipeline) == TUTTI_OK);
        compute_alone(&alone);
        for (int q = rank; q < parts; q += shape.stage_count)
            RANKS_EXPECT(own.gradients[q] == alone.gradients[q]);
        update(&alone);
        update(&own);
    }
    RANKS_EXPECT(stage.forwards == STEPS * shape.micro_batch_count * shape.chunk_count);
    RANKS_EXPECT(stage.backwards == stage.forwards);
    if (expect_counters(pipeline, &shape, rank, count) != 0) return 1;
    RANKS_EXPECT(tutti_pipeline_free(pipeline) == TUTTI_OK);
    return 0;
}

struct kind {
    const char *name;
    int chunks;
};

static int by_name(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct kind *const kind = context;
    static const size_t counts[] = {1, 300, 9000}; /* small, and such as wait at their sender */
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (int m = size; m <= 3 * size; m += size) {
            if (is_left_out((unsigned)c + (unsigned)(m / size))) continue;
            const struct tutti_schedule_shape shape = {size, m, kind->chunks};
            struct tutti_schedule *schedule;
            RANKS_EXPECT(tutti_schedule_create(kind->name, &shape, &schedule) == TUTTI_OK);
            if (expect_same(schedule, comm, rank, counts[c], NULL) != 0) return 1;
            tutti_schedule_free(schedule);
        }
    }
    return 0;
}

static void schedules_by_name_compute_what_one_process_does(void **state)
{
    (void)state;
    struct kind kinds[] = {{"gpipe", 1}, {"1f1b", 1}, {"interleaved", 2}, {"interleaved", 3}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        expect_good_both(2, by_name, &kinds[k]);
        expect_good_both(4, by_name, &kinds[k]);
        expect_good(3, RANKS_DEFAULT, by_name, &kinds[k]);
        expect_good(1, RANKS_DEFAULT, by_name, &kinds[k]);
    }
}

/* Ranks draw the same schedules, and different naps. */
static int any_order(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context;
    struct chance chance = {seed, 0}, naps = {seed + (uint64_t)rank + 1, 0};
    for (int turn = 0; turn < some_of(12); turn++) {
        const struct tutti_schedule_shape shape = {size, 1 + chance_below(&chance, 10),
                                                   1 + chance_below(&chance, 3)};
        struct tutti_schedule *const schedule = schedules_random(&chance, &shape);
        RANKS_EXPECT(schedule != NULL);
        const size_t count = chance_of_any_size(&chance, 20000);
        if (expect_same(schedule, comm, rank, count, &naps) != 0) return 1;
        tutti_schedule_free(schedule);
    }
    return 0;
}

static void schedules_in_any_order_do_too(void **state)
{
    (void)state;
    expect_good_both(3, any_order, NULL);
    expect_good(2, RANKS_DEFAULT, any_order, NULL);
    expect_good(4, RANKS_DEFAULT, any_order, NULL);
    expect_good(1, RANKS_DEFAULT, any_order, NULL);
}

/* The first stage reads no gradient before it has sent all activations, and the second one makes
 * one of each at once. */
static int lining_up(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)size, (void)context;
    static const char text[] = "schedule stages 2 micro_batches 12 chunks 1\n"
                               "stage 0: F0 F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 "
                               "B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11\n"
                               "stage 1: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 "
                               "F6 B6 F7 B7 F8 B8 F9 B9 F10 B10 F11 B11\n";
    struct tutti_schedule *schedule;
    RANKS_EXPECT(tutti_schedule_parse(text, sizeof text - 1, &schedule) == TUTTI_OK);
    if (expect_same(schedule, comm, rank, 40000, NULL) != 0) return 1;
    tutti_schedule_free(schedule);
    return 0;
}

static void messages_that_line_up_hold_nobody_up(void **state)
{
    (void)state;
    expect_good_both(2, lining_up, NULL);
}

/* Little memory: no more than what is in flight, what is about to come, and two of each that
 * leave. */
static int memory(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_schedule_shape shape = {size, 16, 1};
    struct tutti_schedule *schedule;
    struct tutti_pipeline *pipeline;
    struct tutti_pipeline_counters counters = {.size_bytes = sizeof counters};
    struct model model;
    struct stage stage = {.model = &model, .rank = rank, .size = size};
    model_init(&model, size, 16, 1000);
    const struct tutti_pipeline_options options = options_for(&stage);
    RANKS_EXPECT(tutti_schedule_create("1f1b", &shape, &schedule) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_create(schedule, &options, comm, &pipeline) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_count(pipeline, &counters) == TUTTI_OK);
    const size_t before = rank > 0 ? (size_t)(size - rank + 1) + 2 : 0;
    RANKS_EXPECT(counters.buffer_count == before + (rank < size - 1 ? 4 : 0));
    counters.size_bytes = 0;
    RANKS_EXPECT(tutti_pipeline_count(pipeline, &counters) == TUTTI_INVALID_OPTIONS);
    tutti_schedule_free(schedule);
    return tutti_pipeline_free(pipeline) != TUTTI_OK || tutti_pipeline_free(NULL) != TUTTI_OK;
}

static void memory_is_bounded_by_what_is_in_flight(void **state)
{
    (void)state;
    expect_good_both(4, memory, NULL);
}

/* ------------------------------------------------------------------------------------- failures */

static int refusals(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_schedule_shape shape = {size, 4, 1}, other = {size + 1, 4, 1},
                                      half = {size, 2, 1};
    struct tutti_schedule *schedule, *foreign, *wrong, *fewer, *own, *near;
    struct tutti_pipeline *pipeline;
    struct model model;
    struct stage stage = {.model = &model, .rank = rank, .size = size};
    model_init(&model, size, 4, 10);
    static const char text[] = "schedule stages 2 micro_batches 2 chunks 1\n"
                               "stage 0: F0 B0 F1 B1\nstage 1: F0 F1 B0 B1\n";
#define OWN_SCHEDULE(two_passes)                                                      \
    "schedule stages 2 micro_batches 10 chunks 1\n"                                   \
    "stage 0: F0 F1 F2 F3 F4 F5 F6 F7 F8 " two_passes " B1 B2 B3 B4 B5 B6 B7 B8 B9\n" \
    "stage 1: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 F8 B8 F9 B9\n"
    static const char own_text[] = OWN_SCHEDULE("F9 B0"), near_text[] = OWN_SCHEDULE("B0 F9");
    RANKS_EXPECT(tutti_schedule_create("gpipe", &shape, &schedule) == TUTTI_OK);
    RANKS_EXPECT(tutti_schedule_create("gpipe", &other, &foreign) == TUTTI_OK);
    RANKS_EXPECT(tutti_schedule_parse(text, sizeof text - 1, &wrong) == TUTTI_OK);
    RANKS_EXPECT(tutti_schedule_create("1f1b", &half, &fewer) == TUTTI_OK);
    RANKS_EXPECT(tutti_schedule_parse(own_text, sizeof own_text - 1, &own) == TUTTI_OK);
    RANKS_EXPECT(tutti_schedule_parse(near_text, sizeof near_text - 1, &near) == TUTTI_OK);
    const struct tutti_pipeline_options good = options_for(&stage);
    struct tutti_pipeline_options bad[6] = {good, good, good, good, good, good};
    const enum tutti_status statuses[6] = {TUTTI_INVALID_OPTIONS, TUTTI_INVALID_OPTIONS,
                                           TUTTI_INVALID_COUNT,   TUTTI_INVALID_COUNT,
                                           TUTTI_INVALID_DTYPE,   TUTTI_INVALID_TAG};
    bad[0].forward = NULL;
    bad[1].backward = NULL;
    bad[2].count = 0;
    bad[3].count = SIZE_MAX / 16;
    bad[4].dtype = (enum tutti_dtype)99;
    bad[5].first_tag = INT32_MAX - 7; /* one too many */
    for (int i = 0; i < 6; i++) {
        const bool is_mine = i % size == rank; /* the others hear of it */
        RANKS_EXPECT(tutti_pipeline_create(schedule, is_mine ? &bad[i] : &good, comm, &pipeline) ==
                     (is_mine ? statuses[i] : TUTTI_MISMATCH));
        char words[64];
        snprintf(words, sizeof words, "tutti_pipeline_create: rank %d failed: ", i % size);
        RANKS_EXPECT(is_mine || strstr(tutti_error_message(), words) != NULL);
        RANKS_EXPECT(pipeline == NULL);
    }
    bad[0] = good;
    bad[0].count += (size_t)rank;
    RANKS_EXPECT(tutti_pipeline_create(schedule, &bad[0], comm, &pipeline) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 0 has 'options.count: ") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "', rank 1 has 'options.count: ") != NULL);
    const struct tutti_schedule *const unlike[2][2] = {{schedule, fewer}, {own, near}};
    static const char *const told[2] = {
        "tutti_pipeline_create: rank 0 has 'schedule: gpipe, stages 2, micro-batches 4, chunks 1', "
        "rank 1 has 'schedule: 1f1b, stages 2, micro-batches 2, chunks 1'",
        "tutti_pipeline_create: rank 0 has 'stage 0, from position 8: F8 F9 B0 B1 B2 B3 B4 B5', "
        "rank 1 has 'stage 0, from position 8: F8 B0 F9 B1 B2 B3 B4 B5'"};
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(tutti_pipeline_create(unlike[i][rank], &good, comm, &pipeline) ==
                     TUTTI_MISMATCH);
        RANKS_EXPECT(strcmp(tutti_error_message(), told[i]) == 0);
    }
    RANKS_EXPECT(tutti_pipeline_create(foreign, &good, comm, &pipeline) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_pipeline_create(wrong, &good, comm, &pipeline) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "deadlock: stage 0, position 1: B0 waits for") !=
                 NULL);
    RANKS_EXPECT(tutti_pipeline_create(NULL, &good, comm, &pipeline) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_pipeline_create(schedule, NULL, comm, &pipeline) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_pipeline_create(schedule, &good, NULL, &pipeline) == TUTTI_INVALID_COMM);
    /* The communicator lives on. */
    RANKS_EXPECT(tutti_pipeline_create(schedule, &good, comm, &pipeline) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_run(pipeline) == TUTTI_OK);
    tutti_schedule_free(schedule);
    tutti_schedule_free(foreign);
    tutti_schedule_free(wrong);
    tutti_schedule_free(fewer);
    tutti_schedule_free(own);
    tutti_schedule_free(near);
    return tutti_pipeline_free(pipeline) != TUTTI_OK;
}

static void what_cannot_run_is_refused_on_all_ranks(void **state)
{
    (void)state;
    expect_good_both(2, refusals, NULL);
}

/* Which rank fails, at which pass, and how; and what the others get. */
struct fault {
    int rank, pass;
    bool hangs;
    enum tutti_status others;
};

/* After tutti_pipeline_run on a rank beside the one whose callback failed. */
static int expect_cause(const struct tutti_comm *comm, int rank, int culprit)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    char words[512], pass[16];
    int micro, chunk, stage, teller;
    snprintf(words, sizeof words, "%s", tutti_error_message());
    RANKS_EXPECT(sscanf(words,
                        "rank %d revoked the communicator: tutti_pipeline_run: the %15s pass of "
                        "micro-batch %d through chunk %d of stage %d returned UNSUPPORTED",
                        &teller, pass, &micro, &chunk, &stage) == 5);
    RANKS_EXPECT(strstr(words, "returned UNSUPPORTED") != NULL);
    RANKS_EXPECT(teller == culprit && stage == culprit && chunk == 0 && micro >= 0 && micro < 6);
    RANKS_EXPECT(strcmp(pass, "forward") == 0 || strcmp(pass, "backward") == 0);
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK && failure.culprit == culprit);
    return 0;
}

static int failing(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct fault *const fault = context;
    const struct tutti_schedule_shape shape = {size, 6, 1};
    struct tutti_schedule *schedule;
    struct tutti_pipeline *pipeline;
    struct model model;
    struct stage stage = {.model = &model, .rank = rank, .size = size};
    model_init(&model, size, 6, 20000);
    if (rank == fault->rank) {
        stage.fails_at = fault->pass;
        stage.status = fault->hangs ? TUTTI_OK : TUTTI_UNSUPPORTED;
        stage.waits = fault->hangs ? comm : NULL;
    }
    const struct tutti_pipeline_options options = options_for(&stage);
    RANKS_EXPECT(tutti_schedule_create("1f1b", &shape, &schedule) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_create(schedule, &options, comm, &pipeline) == TUTTI_OK);
    const enum tutti_status status = tutti_pipeline_run(pipeline);
    if (rank == fault->rank && !fault->hangs) {
        RANKS_EXPECT(status == TUTTI_UNSUPPORTED);
        RANKS_EXPECT(strstr(tutti_error_message(), "returned UNSUPPORTED") != NULL);
    } else {
        RANKS_EXPECT(status == fault->others);
        if (!fault->hangs && expect_cause(comm, rank, fault->rank) != 0) return 1;
    }
    RANKS_EXPECT(tutti_pipeline_run(pipeline) == TUTTI_INVALID_OPTIONS);
    struct tutti_pipeline_counters counters = {.size_bytes = sizeof counters};
    RANKS_EXPECT(tutti_pipeline_count(pipeline, &counters) == TUTTI_OK && counters.steps == 0);
    tutti_schedule_free(schedule);
    return tutti_pipeline_free(pipeline) != TUTTI_OK;
}

static void a_callback_that_fails_ends_the_step_everywhere(void **state)
{
    (void)state;
    struct fault fault = {.others = TUTTI_REVOKED};
    for (fault.rank = 0; fault.rank < 3; fault.rank++) {
        static const int passes[] = {1, 5, 6}; /* before any rank can be done */
        for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
            fault.pass = passes[i];
            expect_good_both(3, failing, &fault);
        }
    }
}

/* Another rank's deadline ends the pass; the rank itself finds that the communicator has failed. */
static void a_stage_that_hangs_is_a_timeout(void **state)
{
    (void)state;
    struct tutti_comm_options hasty = patient;
    hasty.timeout_ns = 5000000000u;
    const struct ranks_options options = {.deadline_ms = 50000, .comm_options = &hasty};
    struct fault fault = {.rank = 1, .pass = 4, .hangs = true, .others = TUTTI_TIMEOUT};
    assert_int_equal(ranks_run(3, &options, failing, &fault), 0);
}

static enum tutti_status die(void *context, int chunk, int micro, const void *input, void *output)
{
    const struct stage *const stage = context;
    if (micro == 2) _exit(stage->rank == 1 ? 7 : 8);
    return forward(context, chunk, micro, input, output);
}

static int dying(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    const struct tutti_schedule_shape shape = {size, 6, 1};
    struct tutti_schedule *schedule;
    struct tutti_pipeline *pipeline;
    struct model model;
    struct stage stage = {.model = &model, .rank = rank, .size = size};
    model_init(&model, size, 6, 20000);
    struct tutti_pipeline_options options = options_for(&stage);
    if (rank == 1) options.forward = die;
    RANKS_EXPECT(tutti_schedule_create("gpipe", &shape, &schedule) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_create(schedule, &options, comm, &pipeline) == TUTTI_OK);
    RANKS_EXPECT(tutti_pipeline_run(pipeline) == TUTTI_PROC_FAILED);
    tutti_schedule_free(schedule);
    return tutti_pipeline_free(pipeline) != TUTTI_OK;
}

static void a_stage_that_dies_is_named(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip(); /* they die together */
    struct ranks_outcome outcomes[3];
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 50000,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    assert_int_equal(ranks_run(3, &options, dying, NULL), 1);
    assert_int_equal(outcomes[1].fate, RANKS_EXITED);
    assert_int_equal(outcomes[1].value, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_by_name_compute_what_one_process_does),
        cmocka_unit_test(schedules_in_any_order_do_too),
        cmocka_unit_test(messages_that_line_up_hold_nobody_up),
        cmocka_unit_test(memory_is_bounded_by_what_is_in_flight),
        cmocka_unit_test(what_cannot_run_is_refused_on_all_ranks),
        cmocka_unit_test(a_callback_that_fails_ends_the_step_everywhere),
        cmocka_unit_test(a_stage_that_hangs_is_a_timeout),
        cmocka_unit_test(a_stage_that_dies_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
