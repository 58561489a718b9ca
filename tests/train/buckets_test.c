/* buckets_test.c - gradient buckets: whatever the order in which gradients become ready on each
 * rank, all ranks end with the same averages, and with what norms and unused gradients make of
 * them.
 *
 * Gradients are small whole numbers, and ranks a power of two, so that averages are exact in every
 * dtype. */
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
#include "tutti/train.h"

enum { GRADIENTS = 40, COUNT_MAX = 3000, STEPS = 5, RANKS = 4 };

struct model {
    struct tutti_gradient gradients[GRADIENTS];
    size_t count;
};

/* The same on all ranks but for the memory; some gradients are empty. */
static int model_init(struct model *model, uint64_t seed, bool mixed)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_FLOAT32, TUTTI_FLOAT64};
    model->count = 1 + seed % GRADIENTS;
    for (size_t i = 0; i < model->count; i++) {
        const uint64_t h = elements_mixed(seed, i);
        model->gradients[i] =
            (struct tutti_gradient){NULL, h % 7 == 0 ? 0 : h / 7 % COUNT_MAX,
                                    mixed ? dtypes[h >> 32 & 1 ? 2 : 0] : TUTTI_FLOAT32};
        model->gradients[i].data = malloc(model->gradients[i].count * sizeof(double) + 1);
        if (model->gradients[i].data == NULL) return 1;
    }
    return 0;
}

static void model_release(struct model *model)
{
    for (size_t i = 0; i < model->count; i++) free(model->gradients[i].data);
}

static double get(const struct tutti_gradient *g, size_t i)
{
    return g->dtype == TUTTI_FLOAT64 ? ((double *)g->data)[i] : (double)((float *)g->data)[i];
}

static void set(const struct tutti_gradient *g, size_t i, double value)
{
    if (g->dtype == TUTTI_FLOAT64)
        ((double *)g->data)[i] = value;
    else
        ((float *)g->data)[i] = (float)value;
}

/* What rank computes in a step for an element. */
static double value_of(uint64_t seed, int step, size_t gradient, size_t i, int rank)
{
    const uint64_t h = elements_mixed(seed + (uint64_t)step, gradient * COUNT_MAX + i);
    return (double)((int)(h % 16) - 8 + (rank & 3) * (int)(h >> 8 & 3));
}

static void compute(const struct model *model, uint64_t seed, int step, int rank)
{
    for (size_t g = 0; g < model->count; g++)
        for (size_t i = 0; i < model->gradients[g].count; i++)
            set(&model->gradients[g], i, value_of(seed, step, g, i, rank));
}

/* Of those ranks whose bit is set in users[gradient]; the others count as zero. */
static double average_of(uint64_t seed, int step, size_t gradient, size_t i, int size,
                         unsigned users)
{
    double sum = 0;
    for (int r = 0; r < size; r++)
        if (users >> r & 1) sum += value_of(seed, step, gradient, i, r);
    return sum / size;
}

static void shuffle(size_t *order, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t i = count; i > 1; i--) {
        const size_t j = elements_mixed(seed, i) % i, kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* ------------------------------------------------------------------------------------- averages */

static int average(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context;
    for (int turn = 0; turn < 6; turn++) {
        struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
        struct tutti_buckets *buckets;
        struct model model;
        const uint64_t own = elements_mixed(seed, (uint64_t)turn);
        options.bucket_bytes = turn == 0 ? 0 : 1 + own % 40000;
        options.find_unused = 1;
        options.start = (enum tutti_buckets_start)(turn % 3);
        RANKS_EXPECT(model_init(&model, own, turn % 2 == 1) == 0);
        RANKS_EXPECT(tutti_buckets_create(model.gradients, model.count, &options, comm, &buckets) ==
                     TUTTI_OK);
        for (int step = 0; step < STEPS; step++) {
            size_t order[GRADIENTS];
            compute(&model, own, step, rank);
            shuffle(order, model.count, elements_mixed(own, (uint64_t)(step * 64 + rank)));
            for (size_t k = 0; k < model.count; k++) {
                const unsigned users =
                    (unsigned)elements_mixed(own + 7, order[k]) | (step == 0 ? 15u : 0);
                if (users >> rank & 1)
                    RANKS_EXPECT(tutti_buckets_ready(buckets, order[k]) == TUTTI_OK);
            }
            RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_OK);
            for (size_t g = 0; g < model.count; g++) {
                const unsigned users = (unsigned)elements_mixed(own + 7, g) | (step == 0 ? 15u : 0);
                const bool is_used = (users & ((1u << size) - 1)) != 0;
                RANKS_EXPECT(tutti_buckets_is_used(buckets, g) == is_used);
                for (size_t i = 0; i < model.gradients[g].count; i++)
                    RANKS_EXPECT(get(&model.gradients[g], i) ==
                                 average_of(own, step, g, i, size, users));
            }
        }
        RANKS_EXPECT(tutti_buckets_free(buckets) == TUTTI_OK);
        model_release(&model);
    }
    return 0;
}

static void gradients_are_averaged_in_any_order(void **state)
{
    (void)state;
    expect_good_both(RANKS, average, NULL);
    expect_good(2, RANKS_DEFAULT, average, NULL);
    expect_good(1, RANKS_DEFAULT, average, NULL);
}

/* ---------------------------------------------------------------------------------------- norms */

static int clip(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)context;
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    struct tutti_buckets_result result;
    struct model model;
    options.bucket_bytes = 5000;
    options.norm_max = 100;
    RANKS_EXPECT(model_init(&model, seed | 31, true) == 0);
    RANKS_EXPECT(tutti_buckets_create(model.gradients, model.count, &options, comm, &buckets) ==
                 TUTTI_OK);
    for (int step = 0; step < 3; step++) {
        const double shrunk = step == 1 ? 1e-3 : 1; /* too small to be scaled */
        compute(&model, seed, step, rank);
        double sum = 0;
        for (size_t g = 0; g < model.count; g++) {
            for (size_t i = 0; i < model.gradients[g].count; i++) {
                set(&model.gradients[g], i, get(&model.gradients[g], i) * shrunk);
                const double a = average_of(seed, step, g, i, size, ~0u) * shrunk;
                sum += a * a;
            }
            RANKS_EXPECT(tutti_buckets_ready(buckets, g) == TUTTI_OK);
        }
        const bool has_nan = step == 2 && model.gradients[0].count > 0;
        if (has_nan && rank == 0) set(&model.gradients[0], 0, NAN);
        RANKS_EXPECT(tutti_buckets_finish(buckets, &result) == TUTTI_OK);
        if (has_nan) {
            RANKS_EXPECT(isnan(result.norm) && !result.scaled);
            continue;
        }
        RANKS_EXPECT(fabs(result.norm - sqrt(sum)) < 1e-5 * sqrt(sum));
        RANKS_EXPECT(result.scaled == (sqrt(sum) > 100));
        const double factor = result.scaled ? 100 / sqrt(sum) : 1;
        for (size_t g = 0; g < model.count; g++)
            for (size_t i = 0; i < model.gradients[g].count; i++)
                RANKS_EXPECT(fabs(get(&model.gradients[g], i) -
                                  average_of(seed, step, g, i, size, ~0u) * shrunk * factor) < 1e-5);
    }
    RANKS_EXPECT(tutti_buckets_free(buckets) == TUTTI_OK);
    model_release(&model);
    return 0;
}

static void norms_are_limited(void **state)
{
    (void)state;
    expect_good_both(RANKS, clip, NULL);
    expect_good(1, RANKS_DEFAULT, clip, NULL);
}

/* ----------------------------------------------------------------------------- which goes where */

static int deal(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    float a[1000], b[1000], c[1000], d[1000];
    double e[10];
    const struct tutti_gradient gradients[] = {{a, 1000, TUTTI_FLOAT32},
                                               {b, 1000, TUTTI_FLOAT32},
                                               {e, 10, TUTTI_FLOAT64},
                                               {c, 1000, TUTTI_FLOAT32},
                                               {d, 1000, TUTTI_FLOAT32}};
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    options.bucket_bytes = 8000;
    options.first_bucket_bytes = 100;
    RANKS_EXPECT(tutti_buckets_create(gradients, 5, &options, comm, &buckets) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_count(buckets) == 4);
    RANKS_EXPECT(tutti_buckets_find(buckets, 4) == 0); /* full at once */
    RANKS_EXPECT(tutti_buckets_find(buckets, 2) == 1); /* another dtype, complete before the next */
    RANKS_EXPECT(tutti_buckets_find(buckets, 3) == 2);
    RANKS_EXPECT(tutti_buckets_find(buckets, 1) == 2);
    RANKS_EXPECT(tutti_buckets_find(buckets, 0) == 3);
    RANKS_EXPECT(tutti_buckets_find(buckets, 5) == -1);
    RANKS_EXPECT(tutti_buckets_is_used(buckets, 5) == -1);
    RANKS_EXPECT(tutti_buckets_free(buckets) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_create(NULL, 0, NULL, comm, &buckets) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_OK);
    return tutti_buckets_free(buckets) != TUTTI_OK;
}

static void buckets_follow_the_backward_pass(void **state)
{
    (void)state;
    expect_good(2, RANKS_DEFAULT, deal, NULL);
}

/* A bucket that is full moves while its rank does something else. */
static int overlap(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 20000 };
    float early[COUNT], late[COUNT];
    const struct tutti_gradient gradients[] = {{late, COUNT, TUTTI_FLOAT32},
                                               {early, COUNT, TUTTI_FLOAT32}};
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    options.bucket_bytes = 1;
    options.start = TUTTI_BUCKETS_START_WHEN_FULL;
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, &options, comm, &buckets) == TUTTI_OK);
    for (int i = 0; i < COUNT; i++) early[i] = late[i] = (float)(rank + 1);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 1) == TUTTI_OK);
#if !defined(__SANITIZE_THREAD__) /* it peeks at what still belongs to the operation */
    const float average = (float)(size + 1) / 2;
    for (int i = 0; i < 20000 && *(volatile float *)&early[COUNT - 1] != average; i++)
        ranks_nap_ms(1);
    RANKS_EXPECT(*(volatile float *)&early[COUNT - 1] == average);
#else
    (void)size;
#endif
    RANKS_EXPECT(tutti_buckets_ready(buckets, 0) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_OK);
    RANKS_EXPECT(late[0] == (float)(size + 1) / 2);
    return tutti_buckets_free(buckets) != TUTTI_OK;
}

static void a_full_bucket_starts_by_itself(void **state)
{
    (void)state;
    expect_good_both(2, overlap, NULL);
}

/* Everything is ready, and still this rank's. */
static int wait_for_finish(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float data[3] = {(float)rank, (float)rank, (float)rank};
    const struct tutti_gradient gradients[] = {
        {data, 1, TUTTI_FLOAT32}, {data + 1, 1, TUTTI_FLOAT32}, {data + 2, 1, TUTTI_FLOAT32}};
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    options.bucket_bytes = 1;
    options.start = TUTTI_BUCKETS_START_AT_FINISH;
    RANKS_EXPECT(tutti_buckets_create(gradients, 3, &options, comm, &buckets) == TUTTI_OK);
    for (size_t i = 3; i-- > 0;) RANKS_EXPECT(tutti_buckets_ready(buckets, i) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_nap_ms(20);
    for (int i = 0; i < 3; i++) {
        RANKS_EXPECT(data[i] == (float)rank);
        data[i] += 1;
    }
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_OK);
    for (int i = 0; i < 3; i++) RANKS_EXPECT(data[i] == (float)(size + 1) / 2);
    return tutti_buckets_free(buckets) != TUTTI_OK;
}

static void nothing_starts_before_finish_where_that_is_wanted(void **state)
{
    (void)state;
    expect_good_both(2, wait_for_finish, NULL);
}

/* ------------------------------------------------------------------------------------- mistakes */

static int go_wrong(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float data[100];
    struct tutti_gradient gradients[] = {{data, 50, TUTTI_FLOAT32}, {data + 50, 50, TUTTI_FLOAT32}};
    struct tutti_buckets_options options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    options.norm_max = -1;
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, &options, comm, &buckets) ==
                 TUTTI_INVALID_OPTIONS);
    options.norm_max = 0;
    options.start = (enum tutti_buckets_start)3;
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, &options, comm, &buckets) ==
                 TUTTI_INVALID_OPTIONS);
    options.start = rank == 0 ? TUTTI_BUCKETS_START_WHEN_FULL : TUTTI_BUCKETS_START_AT_FINISH;
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, &options, comm, &buckets) == TUTTI_MISMATCH);
    RANKS_EXPECT(strstr(tutti_error_message(),
                        "rank 0 has 'options.start: 1', rank 1 has 'options.start: 2'") != NULL);
    gradients[0].dtype = TUTTI_INT32;
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, NULL, comm, &buckets) == TUTTI_INVALID_DTYPE);
    gradients[0].dtype = TUTTI_FLOAT32;
    gradients[1].count -= rank == size - 1; /* one rank differs, all are told */
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, NULL, comm, &buckets) == TUTTI_MISMATCH);
    gradients[1].count = 50;
    gradients[0].data = rank == 0 ? NULL : data; /* one rank cannot, all are told */
    RANKS_EXPECT(tutti_buckets_create(gradients, 2, NULL, comm, &buckets) ==
                 (rank == 0 ? TUTTI_INVALID_BUFFER : TUTTI_MISMATCH));
    RANKS_EXPECT(rank == 0 || strstr(tutti_error_message(), "rank 0 failed: ") != NULL);
    RANKS_EXPECT(buckets == NULL);
    gradients[0].data = data;

    RANKS_EXPECT(tutti_buckets_create(gradients, 2, NULL, comm, &buckets) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 2) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_buckets_hold(buckets, 1) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 1) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 1) == TUTTI_OK); /* nothing is counted */
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_buckets_hold(buckets, 0) == TUTTI_OK);
    for (int i = 0; i < 100; i++) data[i] = (float)(2 * rank);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 1) == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 1) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_buckets_hold(buckets, 1) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 0) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK); /* where the sum would not have come yet */
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(strstr(tutti_error_message(), "tutti_buckets_finish: must not be called between "
                                               "tutti_group_begin") != NULL);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_OK);
    RANKS_EXPECT(data[99] == (float)(size - 1));
    const enum tutti_status status = tutti_barrier(comm); /* others may have aborted already */
    RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_ABORTED);
    RANKS_EXPECT(tutti_comm_abort(comm, "test") == TUTTI_OK);
    RANKS_EXPECT(tutti_buckets_finish(buckets, NULL) == TUTTI_ABORTED);
    RANKS_EXPECT(tutti_buckets_ready(buckets, 0) == TUTTI_INVALID_OPTIONS); /* it cannot go on */
    return tutti_buckets_free(buckets) != TUTTI_OK;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    expect_good(3, RANKS_DEFAULT, go_wrong, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_averaged_in_any_order),
        cmocka_unit_test(norms_are_limited),
        cmocka_unit_test(buckets_follow_the_backward_pass),
        cmocka_unit_test(a_full_bucket_starts_by_itself),
        cmocka_unit_test(nothing_starts_before_finish_where_that_is_wanted),
        cmocka_unit_test(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
