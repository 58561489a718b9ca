/* local_test.c - local steps with synchronisations in between: the published numbers of Streaming
 * DiLoCo; every bit by a second computation; averages that move while ranks compute; state that
 * goes on through checkpoints, and after ranks died.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/elements.h"
#include "tests/kit/patient.h"
#include "tests/kit/scratch.h"
#include "tutti/train/local.h"

enum { TENSORS = 5, ELEMENTS = 300 + 7 + 64 + 1000, PARTS = 32 };

static const struct tutti_local_tensor shapes[TENSORS] = {{"embedding", NULL, 300, 1},
                                                          {"bias", NULL, 7, 0},
                                                          {"nothing", NULL, 0, 2},
                                                          {"weights", NULL, 64, 0},
                                                          {"head", NULL, 1000, 2}};
enum { FRAGMENTS = 3 };

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

/* ----------------------------------------------------------------------------------------- a model */

struct model {
    float data[ELEMENTS];
    struct tutti_local_tensor tensors[TENSORS];
};

static float random_number(uint64_t seed, uint64_t place)
{
    return ((float)(elements_mixed(seed, place) % 2001) - 1000) * 1e-3f;
}

static void model_init(struct model *model)
{
    float *at = model->data;
    memcpy(model->tensors, shapes, sizeof shapes);
    for (size_t i = 0; i < TENSORS; i++) {
        if (shapes[i].count > 0) model->tensors[i].data = at;
        at += shapes[i].count;
    }
    for (size_t e = 0; e < ELEMENTS; e++) model->data[e] = random_number(1, e);
}

/* A step of a rank's own optimizer. */
static void descend(float *data, uint64_t step, int rank)
{
    for (size_t e = 0; e < ELEMENTS; e++)
        data[e] -= 0.01f * random_number(1000 * step + (uint64_t)rank + 2, e);
}

/* Whether all ranks have these bits. */
static bool is_same(const float *numbers, size_t count, struct tutti_comm *comm)
{
    static _Thread_local float first[ELEMENTS];
    memcpy(first, numbers, count * sizeof *numbers);
    return tutti_broadcast(first, first, count, TUTTI_FLOAT32, 0, comm) == TUTTI_OK &&
           memcmp(first, numbers, count * sizeof *numbers) == 0;
}

static bool values_are_same(const struct tutti_local *local, struct tutti_comm *comm)
{
    bool is_good = true;
    for (size_t i = 0; i < TENSORS; i++) {
        const float *values;
        if (tutti_local_values(local, i, &values) != TUTTI_OK) return false;
        if ((values == NULL) != (shapes[i].count == 0)) return false;
        if (values != NULL) is_good = is_same(values, shapes[i].count, comm) && is_good;
    }
    return is_good;
}

static struct tutti_local_options options_of(int every, int delay, double mixing, double rate,
                                             double momentum, int nesterov)
{
    struct tutti_local_options options = TUTTI_LOCAL_OPTIONS_INIT;
    options.every = every;
    options.delay = delay;
    options.mixing = mixing;
    options.rate = rate;
    options.momentum = momentum;
    options.nesterov = nesterov;
    return options;
}

/* ------------------------------------------------------------------------------ published numbers */

/* Two weights that begin as 1, with gradient 2 and inner rate 1; outer rate 2. What they are after
 * the steps at which they are synchronised. */
struct fixture {
    int delay;
    double mixing;
    float first[3], second[2]; /* after steps 3, 9, 15; after steps 6, 12 */
};
static const struct fixture fixtures[] = {
    {0, 0, {-11, -35, -59}, {-23, -47}},
    {0, 0.5, {-8, -24.5f, -40.25f}, {-17, -32}},
    /* by hand: pseudo-gradients are of one step less */
    {1, 0, {-7, -27, -47}, {-19, -39}},
};

static int run_fixture(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct fixture *const fixture = context;
    const struct tutti_local_options options =
        options_of(6, fixture->delay, fixture->mixing, 2, 0, 0);
    float weights[2] = {1, 1};
    const struct tutti_local_tensor tensors[] = {{"a", &weights[0], 1, 0}, {"b", &weights[1], 1, 1}};
    struct tutti_local_counters counters = {.size_bytes = sizeof counters};
    struct tutti_local_result result;
    struct tutti_local *local;
    (void)size, (void)seed;
    RANKS_EXPECT(tutti_local_create(tensors, 2, &options, comm, &local) == TUTTI_OK);
    for (int step = 1; step <= 15; step++) {
        for (int i = 0; i < 2; i++) weights[i] -= 1.0f * 2;
        RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.dropped == 0);
        RANKS_EXPECT(result.fragment == (step % 6 == 3 ? 0 : step % 6 == 0 ? 1 : -1));
        if (step % 6 == 3) RANKS_EXPECT(weights[0] == fixture->first[step / 6]);
        if (step % 6 == 0) RANKS_EXPECT(weights[1] == fixture->second[step / 6 - 1]);
    }
    RANKS_EXPECT(tutti_local_count(local, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.steps == 15 && counters.synchronisations == 5 && counters.dropped == 0);
    RANKS_EXPECT(counters.parameter_bytes == 8 && counters.state_bytes == 16);
    RANKS_EXPECT(counters.sent_bytes == 4 * 5);
    return tutti_local_free(local) != TUTTI_OK;
}

static void streaming_diloco_has_its_published_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        struct fixture fixture = fixtures[i];
        expect_good_both(2, run_fixture, &fixture);
    }
}

/* ------------------------------------------------------------------------------ a second computation */

/* Rounded before it is added, whatever the compiler likes. */
static float times(float a, float b)
{
    volatile float product = a * b;
    return product;
}

/* Two ranks, all in one array each; the sum of two numbers has no order. */
struct twin {
    float own[2][ELEMENTS], global[ELEMENTS], velocity[ELEMENTS], average[ELEMENTS];
};

static size_t fragment_of(size_t element)
{
    size_t i = 0;
    for (; element >= shapes[i].count; i++) element -= shapes[i].count;
    return (size_t)shapes[i].fragment;
}

static bool is_due(const struct tutti_local_options *o, size_t f, int step)
{
    return step % o->every == (int)(f + 1) * o->every / FRAGMENTS % o->every;
}

static void twin_synchronise(struct twin *twin, const struct tutti_local_options *o, size_t e)
{
    const float rate = (float)o->rate, momentum = (float)o->momentum, mixing = (float)o->mixing;
    const float delta = twin->average[e];
    twin->velocity[e] = times(momentum, twin->velocity[e]) + delta;
    const float change =
        o->nesterov ? delta + times(momentum, twin->velocity[e]) : twin->velocity[e];
    twin->global[e] -= times(rate, change);
    for (int r = 0; r < 2; r++)
        twin->own[r][e] = twin->global[e] + times(mixing, twin->own[r][e] - twin->global[e]);
}

static void twin_step(struct twin *twin, const struct tutti_local_options *o, int step)
{
    for (int r = 0; r < 2; r++) descend(twin->own[r], (uint64_t)step, r);
    for (size_t e = 0; e < ELEMENTS; e++) {
        const size_t f = fragment_of(e);
        if (o->delay > 0 && step > o->delay && is_due(o, f, step)) twin_synchronise(twin, o, e);
        if (is_due(o, f, step + o->delay))
            twin->average[e] =
                ((twin->global[e] - twin->own[0][e]) + (twin->global[e] - twin->own[1][e])) / 2;
        if (o->delay == 0 && is_due(o, f, step)) twin_synchronise(twin, o, e);
    }
}

static int follow_twin(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    static _Thread_local struct twin twin;
    const struct tutti_local_options *const options = context;
    struct tutti_local *local;
    (void)size, (void)seed;
    model_init(&model);
    memset(&twin, 0, sizeof twin);
    for (int r = 0; r < 2; r++) memcpy(twin.own[r], model.data, sizeof model.data);
    memcpy(twin.global, model.data, sizeof model.data);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, options, comm, &local) == TUTTI_OK);
    for (int step = 1; step <= 20; step++) {
        descend(model.data, (uint64_t)step, rank);
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_OK);
        twin_step(&twin, options, step);
        RANKS_EXPECT(memcmp(model.data, twin.own[rank], sizeof model.data) == 0);
    }
    RANKS_EXPECT(values_are_same(local, comm));
    RANKS_EXPECT(tutti_local_synchronise(local, NULL) == TUTTI_OK);
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    return tutti_local_free(local) != TUTTI_OK;
}

static void every_bit_is_what_the_papers_say(void **state)
{
    (void)state;
    struct tutti_local_options options[] = {
        options_of(3, 0, 0, 1, 0, 0),       /* local SGD */
        options_of(5, 0, 0, 0.7, 0.9, 1),   /* DiLoCo, in fragments */
        options_of(7, 2, 0.5, 0.4, 0.9, 1), /* Streaming DiLoCo */
        options_of(7, 6, 0.3, 0.7, 0.5, 0), /* the first one would have started before step 1 */
        options_of(2, 1, 0.9, 1.5, 0, 0)};  /* several fragments at a step */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_good(2, i == 2 ? RANKS_THREADS : RANKS_DEFAULT, follow_twin, &options[i]);
}

/* With more ranks, and in fewer bytes, all have the same. */
static int stay_same(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    struct tutti_local_options options = options_of(3, 0, 0, 0.7, 0.9, 1);
    char encoding[] = "int8/everywhere/required";
    struct tutti_local *local;
    struct tutti_local_result result;
    (void)size, (void)seed, (void)context;
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1) options.encoding = encoding;
        model_init(&model);
        RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
        if (turn == 1) encoding[0] = 'x'; /* it was copied */
        for (uint64_t step = 1; step <= 9; step++) {
            descend(model.data, step, rank);
            RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK);
            RANKS_EXPECT(result.fragment == (int)(step - 1) % 3);
            for (size_t i = 0; i < TENSORS; i++)
                if (shapes[i].fragment == result.fragment && shapes[i].count > 0)
                    RANKS_EXPECT(is_same(model.tensors[i].data, shapes[i].count, comm));
        }
        RANKS_EXPECT(tutti_local_free(local) == TUTTI_OK);
    }
    return 0;
}

static void replicas_have_the_same_bits(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, stay_same, NULL);
    expect_good(5, RANKS_THREADS, stay_same, NULL);
}

/* ---------------------------------------------------------------------------------------- overlap */

/* Fragment 0 starts at step 2 and is due at step 4. Rank 1 comes to step 2 only when it hears that
 * rank 0 has left it: with an average that rank 0 waited for, neither would go on. */
static int overlap(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct tutti_local_options options = options_of(4, 2, 0, 1, 0, 0);
    float weights[3] = {4, 5, 6};
    const struct tutti_local_tensor tensor = {"a", weights, 3, 0};
    struct tutti_local_result result;
    struct tutti_local *local;
    uint8_t word = 7;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_local_create(&tensor, 1, &options, comm, &local) == TUTTI_OK);
    for (int step = 1; step <= 8; step++) {
        const bool starts = step % 4 == 2;
        const int leader = step < 4 ? 0 : 1;
        for (int i = 0; i < 3; i++) weights[i] -= (float)(rank + 1);
        if (starts && rank != leader)
            RANKS_EXPECT(tutti_recv(&word, 1, TUTTI_UINT8, leader, 3, NULL, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK);
        if (starts && rank == leader)
            RANKS_EXPECT(tutti_send(&word, 1, TUTTI_UINT8, 1 - leader, 3, comm) == TUTTI_OK);
        RANKS_EXPECT(result.fragment == (step % 4 == 0 ? 0 : -1));
        if (step == 4) RANKS_EXPECT(weights[0] == 4 - 3); /* the average of 2 and 4 */
    }
    return tutti_local_free(local) != TUTTI_OK;
}

static void averages_move_while_ranks_compute(void **state)
{
    (void)state;
    expect_good_both(2, overlap, NULL);
}

/* ---------------------------------------------------------------------------------- ranks that die */

/* A rank dies while an average is under way. The others go on with what they have learnt. They have started that average when it dies, and so
 * all of them fail in the same step. */
static int lose_a_rank(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static struct model model, before;
    const struct tutti_local_options options = options_of(6, 1, 0.25, 0.7, 0.9, 1);
    struct tutti_local *local, *next;
    struct tutti_comm *smaller;
    enum tutti_status status = TUTTI_OK;
    struct tutti_local_counters counters = {.size_bytes = sizeof counters};
    _Atomic int *const started = context;
    uint64_t step = 1;
    (void)seed;
    model_init(&model);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
    for (; step < 9 && status == TUTTI_OK; step++) {
        descend(model.data, step, rank);
        if (step == 7 && rank == size - 1) { /* which would start fragment 0 */
            ranks_meet(started, size);
            raise(SIGKILL);
        }
        memcpy(before.data, model.data, sizeof model.data);
        status = tutti_local_step(local, NULL);
        if (step == 7) ranks_meet(started, size);
    }
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(memcmp(before.data, model.data, sizeof model.data) == 0);
    RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_shrink(comm, NULL, &smaller) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, smaller, &next) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_take(next, local) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_free(local) == TUTTI_OK);
    RANKS_EXPECT(memcmp(before.data, model.data, sizeof model.data) == 0);
    RANKS_EXPECT(values_are_same(next, smaller));
    RANKS_EXPECT(tutti_local_count(next, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.synchronisations == FRAGMENTS && counters.steps == 8);
    for (; step < 20; step++) {
        descend(model.data, step, rank);
        RANKS_EXPECT(tutti_local_step(next, NULL) == TUTTI_OK);
        RANKS_EXPECT(values_are_same(next, smaller));
    }
    RANKS_EXPECT(tutti_local_synchronise(next, NULL) == TUTTI_OK);
    RANKS_EXPECT(is_same(model.data, ELEMENTS, smaller));
    RANKS_EXPECT(tutti_local_free(next) == TUTTI_OK);
    return tutti_comm_free(smaller) != TUTTI_OK;
}

static void survivors_go_on(void **state)
{
    struct ranks_outcome outcomes[3];
    const struct ranks_options options = {.kind = RANKS_PROCESSES,
                                          .deadline_ms = 90000,
                                          .comm_options = &patient,
                                          .outcomes = outcomes};
    (void)state;
    if (ranks_are_threads()) skip(); /* they cannot die */
    assert_int_equal(ranks_run(3, &options, lose_a_rank, ranks_share(sizeof(_Atomic int))), 1);
    assert_int_equal(outcomes[2].fate, RANKS_SIGNALLED);
}

/* Rank 0 has taken a synchronisation more than rank 1, and rank 2 joins. Each has had a communicator
 * of its own, so that nothing depends on when a rank dies. */
static int take_what_is_newest(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    static _Thread_local struct model model;
    static _Thread_local float own[ELEMENTS];
    const struct tutti_local_options options = options_of(6, 0, 0, 0.7, 0.9, 1);
    struct tutti_local_counters counters = {.size_bytes = sizeof counters};
    struct tutti_local *local = NULL, *next, *third;
    struct tutti_comm *alone;
    const float *values;
    (void)size, (void)seed, (void)context;
    model_init(&model);
    RANKS_EXPECT(tutti_comm_split(comm, rank, 0, NULL, &alone) == TUTTI_OK);
    if (rank < 2)
        RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, alone, &local) == TUTTI_OK);
    for (uint64_t step = 1; step <= (rank == 0 ? 4u : rank == 1 ? 3u : 0u); step++) {
        descend(model.data, step, rank);
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_OK);
    }
    descend(model.data, 9, rank);
    memcpy(own, model.data, sizeof own);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &next) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_take(next, local) == TUTTI_OK);
    RANKS_EXPECT(values_are_same(next, comm));
    RANKS_EXPECT(tutti_local_count(next, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.synchronisations == 2 && counters.steps == 4);
    for (size_t i = 0; i < TENSORS; i++) { /* fragment 1 is where rank 0 is ahead */
        if (shapes[i].count == 0) continue;
        RANKS_EXPECT(tutti_local_values(next, i, &values) == TUTTI_OK);
        const size_t bytes = shapes[i].count * sizeof(float);
        const bool is_behind = rank == 2 || (rank == 1 && shapes[i].fragment == 1);
        RANKS_EXPECT((memcmp(model.tensors[i].data, values, bytes) == 0) == is_behind);
        if (!is_behind)
            RANKS_EXPECT(memcmp(model.tensors[i].data, own + (model.tensors[i].data - model.data),
                                bytes) == 0);
    }
    if (rank < 2) {
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(strstr(tutti_error_message(), "given away") != NULL);
    }
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &third) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_take(third, rank == 0 ? local : NULL) ==
                 (rank == 0 ? TUTTI_INVALID_OPTIONS : TUTTI_MISMATCH));
    RANKS_EXPECT(strstr(tutti_error_message(), "given its state away before") != NULL);
    RANKS_EXPECT(tutti_local_free(third) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_take(next, NULL) == TUTTI_INVALID_OPTIONS); /* it has state */
    RANKS_EXPECT(tutti_local_synchronise(next, NULL) == TUTTI_OK);
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    RANKS_EXPECT(tutti_local_free(local) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_free(next) == TUTTI_OK);
    return tutti_comm_free(alone) != TUTTI_OK;
}

static void the_newest_values_count(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, take_what_is_newest, NULL);
}

/* ------------------------------------------------------------------------------------- checkpoints */

enum { SAVED_AT = 8, LAST = 17 };

struct run {
    uint64_t from, to;
    bool dies;
    float *result; /* shared: parameters of all ranks, in the end */
};

static int train(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct run *const run = context;
    /* At step 8, fragment 0, which is due at 9, and fragment 1, due at 10, are under way. */
    const struct tutti_local_options options = options_of(7, 3, 0.4, 0.7, 0.9, 1);
    struct tutti_checkpoint_tensor parts[PARTS];
    struct tutti_checkpoints *checkpoints;
    struct tutti_local *local;
    size_t count;
    (void)size, (void)seed;
    model_init(&model);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    if (run->from > 0) RANKS_EXPECT(tutti_local_load(local, checkpoints, run->from) == TUTTI_OK);
    for (uint64_t step = run->from + 1; step <= run->to; step++) {
        descend(model.data, step, rank);
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_OK);
        if (run->from > 0 || step != SAVED_AT) continue;
        RANKS_EXPECT(tutti_local_parts(local, parts, PARTS, &count) == TUTTI_OK && count <= PARTS);
        RANKS_EXPECT(tutti_checkpoints_save(checkpoints, step, parts, count) == TUTTI_OK);
        RANKS_EXPECT(tutti_checkpoints_wait(checkpoints) == TUTTI_OK);
    }
    if (run->dies) raise(SIGKILL);
    memcpy(run->result + (size_t)rank * ELEMENTS, model.data, sizeof model.data);
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    return tutti_local_free(local) != TUTTI_OK;
}

static void a_run_that_was_killed_has_the_same_bits(void **state)
{
    const size_t bytes = 3 * ELEMENTS * sizeof(float);
    float *const whole = ranks_share(2 * bytes), *const again = whole + 3 * ELEMENTS;
    (void)state;
    struct run run = {0, LAST, false, whole};
    scratch_remove(folder);
    scratch_make(folder);
    expect_good(3, RANKS_DEFAULT, train, &run);
    scratch_remove(folder);
    scratch_make(folder);
    run = (struct run){0, SAVED_AT + 2, !ranks_are_threads(), again};
    assert_int_equal(ranks_run(3, NULL, train, &run), ranks_are_threads() ? 0 : 3);
    run = (struct run){SAVED_AT, LAST, false, again};
    expect_good(3, RANKS_DEFAULT, train, &run);
    assert_memory_equal(whole, again, bytes);
    assert_memory_not_equal(whole, whole + ELEMENTS, ELEMENTS * sizeof(float)); /* ranks differ */
}

/* Other ranks begin with the average of all. */
static int load_elsewhere(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct tutti_local_options options = options_of(7, 3, 0.4, 0.7, 0.9, 1);
    struct tutti_checkpoints *checkpoints;
    struct tutti_local *local;
    float row[1000];
    double expected[1000] = {0}, most = 0;
    (void)size, (void)seed, (void)context;
    model_init(&model);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_load(local, checkpoints, SAVED_AT) == TUTTI_OK);
    for (size_t r = 0; r < 3; r++) {
        const struct tutti_checkpoint_tensor part = {
            "head, own values", TUTTI_FLOAT32, 2, {3, 1000}, {r, 0}, {1, 1000}, 0, 1000, row};
        RANKS_EXPECT(tutti_checkpoints_load(checkpoints, SAVED_AT, &part, 1) == TUTTI_OK);
        for (size_t i = 0; i < 1000; i++) expected[i] += (double)row[i] / 3;
    }
    for (size_t i = 0; i < 1000; i++) {
        most = fmax(most, fabs((double)row[i] - expected[i]));
        RANKS_EXPECT(fabs((double)model.tensors[4].data[i] - expected[i]) < 1e-6);
    }
    RANKS_EXPECT(most > 1e-3); /* ranks had different values */
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm));
    for (uint64_t step = SAVED_AT + 1; step <= LAST; step++) {
        descend(model.data, step, rank);
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_OK);
        RANKS_EXPECT(values_are_same(local, comm));
    }
    RANKS_EXPECT(tutti_checkpoints_close(checkpoints) == TUTTI_OK);
    return tutti_local_free(local) != TUTTI_OK;
}

static void other_ranks_load_the_average(void **state) /* of the checkpoint of the test before */
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, load_elsewhere, NULL);
    expect_good(4, RANKS_DEFAULT, load_elsewhere, NULL);
}

/* A checkpoint that cannot be right. */
static int load_nonsense(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    const struct tutti_local_options options = options_of(6, 0, 0, 0.7, 0.9, 1);
    static const char *const spoilt[] = {"local training, ranks", "local training, counts",
                                         "weights, global values", "head, momentum"};
    struct tutti_checkpoint_tensor parts[PARTS];
    struct tutti_checkpoints *checkpoints;
    struct tutti_local *local;
    size_t count;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_checkpoints_open(folder, NULL, comm, &checkpoints) == TUTTI_OK);
    for (uint64_t turn = 0; turn < 4; turn++) {
        model_init(&model);
        RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
        RANKS_EXPECT(tutti_local_parts(local, parts, PARTS, &count) == TUTTI_OK);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(parts[i].name, spoilt[turn]) != 0) continue;
            if (turn < 2) *(uint64_t *)parts[i].data = UINT64_MAX;
            if (turn >= 2) ((float *)parts[i].data)[5] = NAN;
        }
        RANKS_EXPECT(tutti_checkpoints_save(checkpoints, 100 + turn, parts, count) == TUTTI_OK);
        RANKS_EXPECT(tutti_local_load(local, checkpoints, 100 + turn) == TUTTI_CORRUPT);
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_INVALID_OPTIONS);
        RANKS_EXPECT(tutti_local_free(local) == TUTTI_OK);
    }
    /* Other tensors, and other fragments. */
    RANKS_EXPECT(tutti_local_create(model.tensors, 2, &options, comm, &local) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_load(local, checkpoints, 103) == TUTTI_MISMATCH);
    RANKS_EXPECT(tutti_local_free(local) == TUTTI_OK);
    return tutti_checkpoints_close(checkpoints) != TUTTI_OK;
}

static void checkpoints_are_not_believed(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, load_nonsense, NULL);
}

/* ----------------------------------------------------------------------------- numbers, and mistakes */

static int drop(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static _Thread_local struct model model;
    static _Thread_local float before[ELEMENTS];
    const struct tutti_local_options options = options_of(3, 0, 0.5, 0.7, 0.9, 1);
    struct tutti_local_counters counters = {.size_bytes = sizeof counters};
    struct tutti_local_result result;
    struct tutti_local *local;
    (void)size, (void)seed, (void)context;
    model_init(&model);
    memcpy(before, model.data, sizeof before);
    RANKS_EXPECT(tutti_local_create(model.tensors, TENSORS, &options, comm, &local) == TUTTI_OK);
    descend(model.data, 1, rank);
    if (rank == 1) model.tensors[3].data[9] = NAN; /* of fragment 0, which is due first */
    RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK);
    RANKS_EXPECT(result.fragment == 0 && result.dropped == 1);
    RANKS_EXPECT(memcmp(model.tensors[3].data, before + 307, 64 * sizeof(float)) == 0);
    RANKS_EXPECT(memcmp(model.tensors[1].data, before + 300, 7 * sizeof(float)) == 0);
    RANKS_EXPECT(memcmp(model.tensors[0].data, before, 300 * sizeof(float)) != 0);
    for (uint64_t step = 2; step <= 6; step++) {
        descend(model.data, step, rank);
        RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.dropped == 0);
    }
    RANKS_EXPECT(tutti_local_count(local, &counters) == TUTTI_OK);
    RANKS_EXPECT(counters.synchronisations == 6 && counters.dropped == 1);
    RANKS_EXPECT(tutti_local_synchronise(local, &result) == TUTTI_OK && result.dropped == 0);
    RANKS_EXPECT(is_same(model.data, ELEMENTS, comm) && isfinite(model.data[316]));
    return tutti_local_free(local) != TUTTI_OK;
}

static void numbers_that_are_not_finite_do_not_spread(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, drop, NULL);
}

/* Other options in the middle: what is under way is taken first, and the schedule begins again. */
static int change(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    struct tutti_local_options options = options_of(8, 4, 0, 1, 0, 0);
    struct tutti_local_result result;
    float weights[2] = {0, 0};
    const struct tutti_local_tensor tensor = {"a", weights, 2, 0};
    struct tutti_local *local;
    (void)size, (void)seed, (void)context;
    RANKS_EXPECT(tutti_local_create(&tensor, 1, &options, comm, &local) == TUTTI_OK);
    for (int step = 1; step <= 5; step++) {
        weights[0] += (float)(rank + 1), weights[1] += 1;
        RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_OK);
    }
    options = options_of(rank == 0 ? 1 : 2, 0, 0, 1, 0, 0);
    RANKS_EXPECT(tutti_local_change(local, &options) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 0 has 'options.every: 1', rank 1 has "
                                               "'options.every: 2'") != NULL);
    RANKS_EXPECT(weights[1] == 5);
    options = options_of(1, 0, 0, 1, 0.5, 0);
    RANKS_EXPECT(tutti_local_change(local, &options) == TUTTI_OK);
    RANKS_EXPECT(weights[0] == 6 && weights[1] == 4); /* the average of step 4 */
    weights[0] += (float)(rank + 1), weights[1] += 1;
    RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.fragment == 0);
    RANKS_EXPECT(weights[0] == 7.5f && weights[1] == 5);
    weights[1] += 1;
    RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.fragment == 0);
    RANKS_EXPECT(weights[1] == 6.5f); /* by momentum */
    options = options_of(2, 0, 0, 1, 0, 0);
    RANKS_EXPECT(tutti_local_change(local, &options) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.fragment == -1);
    RANKS_EXPECT(tutti_local_step(local, &result) == TUTTI_OK && result.fragment == 0);
    RANKS_EXPECT(weights[1] == 6.5f);
    return tutti_local_free(local) != TUTTI_OK;
}

static void options_change_where_all_agree(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, change, NULL);
}

static int go_wrong(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    float data[40] = {0};
    struct tutti_local_tensor tensors[] = {{"a", data, 20, 0}, {"b", data + 20, 20, 1}};
    struct tutti_local_options options = TUTTI_LOCAL_OPTIONS_INIT;
    struct tutti_local *local;
    const float *values;
    (void)size, (void)seed, (void)context;
#define REFUSED(field, value, text)                                                                  \
    do {                                                                                             \
        struct tutti_local_options wrong = options;                                                  \
        wrong.field = (value);                                                                       \
        RANKS_EXPECT(tutti_local_create(tensors, 2, &wrong, comm, &local) == TUTTI_INVALID_OPTIONS); \
        RANKS_EXPECT(local == NULL && strstr(tutti_error_message(), text) != NULL);                  \
    } while (0)
    REFUSED(every, 0, "options.every must be 1 or more, is 0");
    REFUSED(delay, 100, "options.delay must be from 0 to below options.every, is 100");
    REFUSED(delay, -1, "options.delay");
    REFUSED(mixing, 1, "options.mixing must be from 0 to below 1");
    REFUSED(mixing, (double)NAN, "options.mixing");
    REFUSED(rate, 0, "options.rate must be above 0");
    REFUSED(momentum, 1, "options.momentum must be from 0 to below 1");
    REFUSED(encoding, "int9/everywhere/required", "int9");
    tensors[1].fragment = 2;
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_INVALID_OPTIONS);
    tensors[0].fragment = tensors[1].fragment = 1;
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "fragment 0 of 2 has no tensor") != NULL);
    tensors[0].fragment = 0;
    tensors[1].name = "a";
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(strstr(tutti_error_message(), "two tensors have the name 'a'") != NULL);
    tensors[1].name = rank == 0 ? "b" : "c";
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 has 'tensor 1: 'c' of 20 elements in "
                                               "fragment 1'") != NULL);
    tensors[1].name = "b";
    tensors[0].data = NULL;
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_INVALID_BUFFER);
    tensors[0].data = data;
    RANKS_EXPECT(tutti_local_create(NULL, 0, NULL, comm, &local) == TUTTI_INVALID_COUNT);
    /* Ranks that begin with different values. */
    if (rank == 1) data[30] = 1;
    RANKS_EXPECT(tutti_local_create(tensors, 2, NULL, comm, &local) == TUTTI_OK);
    RANKS_EXPECT(tutti_local_values(local, 2, &values) == TUTTI_INVALID_OPTIONS && values == NULL);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_local_step(local, NULL) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(), "first values of tensor 'b'") != NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "give all ranks the same first values") != NULL);
    return tutti_local_free(local) != TUTTI_OK;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, go_wrong, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streaming_diloco_has_its_published_numbers),
        cmocka_unit_test(every_bit_is_what_the_papers_say),
        cmocka_unit_test(replicas_have_the_same_bits),
        cmocka_unit_test(averages_move_while_ranks_compute),
        cmocka_unit_test(survivors_go_on),
        cmocka_unit_test(the_newest_values_count),
        cmocka_unit_test(a_run_that_was_killed_has_the_same_bits),
        cmocka_unit_test(other_ranks_load_the_average),
        cmocka_unit_test(checkpoints_are_not_believed),
        cmocka_unit_test(numbers_that_are_not_finite_do_not_spread),
        cmocka_unit_test(options_change_where_all_agree),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
