/* forms_test.c - groups and prepared calls: what was called together ends together, what was
 * prepared can be run again and again, whatever else happens in between.
 *
 * (Each collective alone in each of its forms is tested in collectives, varying and lists.)
 *
 * ctest: timeout=120
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "call/communicator.h"
#include "health/lock.h"
#include "tests/kit/elements.h"
#include "tests/worlds/ranks.h"

static const struct tutti_comm_options comm_options = {.size_bytes =
                                                           sizeof(struct tutti_comm_options),
                                                       .rank = -1,
                                                       .size = -1,
                                                       .timeout_ns = 20000000000u};

static void on_ranks(int size, ranks_function *function, void *context)
{
    const struct ranks_options options = {.deadline_ms = 60000, .comm_options = &comm_options};
    assert_int_equal(ranks_run(size, &options, function, context), 0);
}

/* What rank `rank` puts at index i of its k-th buffer. */
static int64_t value(int rank, int k, size_t i)
{
    return (int64_t)(elements_mixed((uint64_t)rank * 64 + (uint64_t)k, i) % 1000);
}

static int64_t sum(int size, int k, size_t i)
{
    int64_t total = 0;
    for (int rank = 0; rank < size; rank++) total += value(rank, k, i);
    return total;
}

static void fill(int64_t *data, int rank, int k, size_t count)
{
    for (size_t i = 0; i < count; i++) data[i] = value(rank, k, i);
}

static bool is_sum(const int64_t *data, int size, int k, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (data[i] != sum(size, k, i)) return false;
    return true;
}

/* --------------------------------------------------------------------------------------- groups */

enum { CALLS = 30, COUNT_MAX = 3000, MESSAGE = 200000 };

static size_t count_of_call(int k)
{
    return 1 + elements_mixed(9, (uint64_t)k) % COUNT_MAX;
}

struct group_data {
    int64_t sums[CALLS][COUNT_MAX];
    int64_t mine[8], gathered[8], blocks[8 * 8], out[MESSAGE], in[MESSAGE];
};

/* More calls than there are slots, of all shapes, and messages around a ring, longer than what is
 * sent eagerly. */
static enum tutti_status call_everything(struct group_data *d, struct tutti_comm *comm, int rank,
                                         int size)
{
    static const size_t counts[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    enum tutti_status status = TUTTI_OK;
    for (int k = 0; k < CALLS && status == TUTTI_OK; k++) {
        const size_t half = count_of_call(k) / 2;
        const struct tutti_tensor tensors[] = {{d->sums[k], half},
                                               {d->sums[k] + half, count_of_call(k) - half}};
        const struct tutti_list list = {tensors, 2};
        status = k % 3 == 0 ? tutti_allreduce_list(&list, &list, TUTTI_INT64, TUTTI_SUM, comm)
                            : tutti_allreduce(d->sums[k], d->sums[k], count_of_call(k), TUTTI_INT64,
                                              TUTTI_SUM, comm);
        if (k == CALLS / 2 && status == TUTTI_OK)
            status = tutti_send(d->out, MESSAGE, TUTTI_INT64, (rank + 1) % size, 5, comm);
    }
    if (status == TUTTI_OK) status = tutti_allgather(&d->out[0], d->gathered, 1, TUTTI_INT64, comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    if (status == TUTTI_OK)
        status = tutti_allgatherv(d->mine, d->blocks, counts, NULL, TUTTI_INT64, comm);
    if (status == TUTTI_OK)
        status = tutti_recv(d->in, MESSAGE, TUTTI_INT64, (rank + size - 1) % size, 5, NULL, comm);
    return status;
}

static int group_of_everything(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed, (void)context;
    struct group_data *const d = calloc(1, sizeof *d);
    RANKS_EXPECT(d != NULL);
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < CALLS; k++) fill(d->sums[k], rank, k + round, count_of_call(k));
        fill(d->out, rank, 60 + round, MESSAGE);
        fill(d->mine, rank, 40 + round, 8);
        memset(d->in, 0xff, sizeof d->in);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK); /* the outermost end waits */
        const enum tutti_status called = call_everything(d, comm, rank, size);
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        RANKS_EXPECT(called == TUTTI_OK);
        for (int k = 0; k < CALLS; k++)
            RANKS_EXPECT(is_sum(d->sums[k], size, k + round, count_of_call(k)));
        for (size_t i = 0; i < MESSAGE; i++)
            RANKS_EXPECT(d->in[i] == value((rank + size - 1) % size, 60 + round, i));
        for (int r = 0, block = 0; r < size; block += r++) {
            RANKS_EXPECT(d->gathered[r] == value(r, 60 + round, 0));
            for (int i = 0; i < r; i++)
                RANKS_EXPECT(d->blocks[block + i] == value(r, 40 + round, (size_t)i));
        }
    }
    free(d);
    return 0;
}

static void a_group_waits_for_everything_in_it(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++) on_ranks(size, group_of_everything, NULL);
}

/* Between communicators there is no order, so ranks may call in opposite ones. */
static int group_over_two(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 50000 };
    struct tutti_comm *other, *comms[2];
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &other) == TUTTI_OK);
    int64_t *const data[2] = {malloc(COUNT * sizeof(int64_t)), malloc(COUNT * sizeof(int64_t))};
    RANKS_EXPECT(data[0] != NULL && data[1] != NULL);
    comms[0] = comm;
    comms[1] = other;
    for (int round = 0; round < 10; round++) {
        fill(data[0], rank, 1, COUNT);
        fill(data[1], rank, 2, COUNT);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        for (int i = 0; i < 2; i++) {
            const int which = (i + rank) % 2;
            RANKS_EXPECT(tutti_allreduce(data[which], data[which], COUNT, TUTTI_INT64, TUTTI_SUM,
                                         comms[which]) == TUTTI_OK);
        }
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        RANKS_EXPECT(is_sum(data[0], size, 1, COUNT) && is_sum(data[1], size, 2, COUNT));
    }
    free(data[0]);
    free(data[1]);
    RANKS_EXPECT(tutti_comm_free(other) == TUTTI_OK);
    return 0;
}

static void a_group_may_call_communicators_in_any_order(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) on_ranks(size, group_over_two, NULL);
}

/* One rank is late with one of four calls, each on a communicator of its own; whichever it is, the
 * others' groups end only with it. */
static int group_with_a_latecomer(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)seed, (void)context;
    enum { COMMS = 4 };
    struct tutti_comm *comms[COMMS];
    for (int c = 0; c < COMMS; c++) RANKS_EXPECT(tutti_comm_dup(comm, NULL, &comms[c]) == TUTTI_OK);
    for (int late = 0; late < COMMS; late++) {
        int64_t sums[COMMS];
        for (int c = 0; c < COMMS; c++) sums[c] = value(rank, late, (size_t)c);
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        for (int i = 0; i < COMMS; i++) {
            const int c = rank == 0 ? (late + 1 + i) % COMMS : i;
            if (rank == 0 && c == late) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
            RANKS_EXPECT(tutti_allreduce(&sums[c], &sums[c], 1, TUTTI_INT64, TUTTI_SUM, comms[c]) ==
                         TUTTI_OK);
        }
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
        RANKS_EXPECT(is_sum(sums, size, late, COMMS));
    }
    for (int c = 0; c < COMMS; c++) RANKS_EXPECT(tutti_comm_free(comms[c]) == TUTTI_OK);
    return 0;
}

static void a_group_waits_for_its_last_call_whichever_that_is(void **state)
{
    (void)state;
    on_ranks(3, group_with_a_latecomer, NULL);
}

static int group_with_a_mistake(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    int64_t a = rank, b = rank;
    RANKS_EXPECT(tutti_group_end() == TUTTI_INVALID_REQUEST); /* none was begun */
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(&a, &a, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_broadcast(&b, &b, 1, TUTTI_INT64, size, comm) == TUTTI_INVALID_ROOT);
    RANKS_EXPECT(tutti_allreduce(&b, &b, 1, TUTTI_INT64, TUTTI_MAX, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(a == (int64_t)size * (size - 1) / 2 && b == size - 1);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK); /* of nothing */
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK); /* which is a blocking call again */
    return 0;
}

static void a_mistake_in_a_group_is_only_its_own(void **state)
{
    (void)state;
    on_ranks(3, group_with_a_mistake, NULL);
}

/* ------------------------------------------------------------------------------------- prepared */

enum { PREPARED = 6, ROUNDS = 8 };

/* Started in one order and waited for in the other, with plain calls of many shapes in between. */
static int prepared_again_and_again(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)seed, (void)context;
    static const size_t counts[PREPARED] = {1, 7, 1000, 20011, 3, 70001};
    struct tutti_prepared *prepared[PREPARED];
    int64_t *data[PREPARED], small[2];
    for (int k = 0; k < PREPARED; k++) {
        data[k] = malloc(counts[k] * sizeof(int64_t));
        RANKS_EXPECT(data[k] != NULL);
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.priority = k % 2 == 0 ? 10 : -10;
        RANKS_EXPECT(tutti_allreduce_prepare(data[k], data[k], counts[k], TUTTI_INT64, TUTTI_SUM,
                                             &options, comm, &prepared[k]) == TUTTI_OK);
        memset(&options, 0xff, sizeof options); /* it was copied */
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct tutti_request *requests[PREPARED];
        for (int k = 0; k < PREPARED; k++) {
            fill(data[k], rank, k + round, counts[k]);
            RANKS_EXPECT(tutti_start(prepared[k], &requests[k]) == TUTTI_OK);
        }
        for (size_t count = 1; count <= 2; count++) {
            small[0] = small[1] = rank + round;
            RANKS_EXPECT(tutti_allreduce(small, small, count, TUTTI_INT64, TUTTI_MAX, comm) ==
                         TUTTI_OK);
            RANKS_EXPECT(small[0] == size - 1 + round);
        }
        for (int k = PREPARED - 1; k >= 0; k--) {
            RANKS_EXPECT(tutti_wait(&requests[k]) == TUTTI_OK && requests[k] == NULL);
            RANKS_EXPECT(is_sum(data[k], size, k + round, counts[k]));
        }
    }
    for (int k = 0; k < PREPARED; k++) {
        RANKS_EXPECT(tutti_prepared_free(prepared[k]) == TUTTI_OK);
        free(data[k]);
    }
    RANKS_EXPECT(tutti_prepared_free(NULL) == TUTTI_OK);
    return 0;
}

static void prepared_calls_run_again_and_again(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++) on_ranks(size, prepared_again_and_again, NULL);
}

/* A prepared call keeps its plan, whatever shapes push others out of the cache. */
static int prepared_beside_many_shapes(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                       void *context)
{
    (void)seed, (void)context;
    enum { COUNT = 500, SHAPES = 700 };
    int64_t data[COUNT] = {0}, other[SHAPES];
    struct tutti_prepared *prepared;
    RANKS_EXPECT(tutti_allreduce_prepare(data, data, COUNT, TUTTI_INT64, TUTTI_SUM, NULL, comm,
                                         &prepared) == TUTTI_OK);
    for (size_t shape = 1; shape < SHAPES; shape++) {
        fill(other, rank, 3, shape);
        RANKS_EXPECT(tutti_allreduce(other, other, shape, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(other[shape - 1] == sum(size, 3, shape - 1));
        if (shape % 100 != 0) continue;
        struct tutti_request *request;
        fill(data, rank, (int)(shape / 100), COUNT);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        RANKS_EXPECT(is_sum(data, size, (int)(shape / 100), COUNT));
    }
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    return 0;
}

static void prepared_calls_keep_their_plans(void **state)
{
    (void)state;
    on_ranks(2, prepared_beside_many_shapes, NULL);
    on_ranks(3, prepared_beside_many_shapes, NULL);
}

struct holder {
    struct tutti_comm *comm;
    atomic_bool holds;
};

/* As the progress thread does for a moment, again and again. */
static void *hold(void *context)
{
    struct holder *const holder = context;
    while (!domain_try_lock(&holder->comm->team.domain)) ranks_nap_ms(1);
    atomic_store(&holder->holds, true);
    ranks_nap_ms(100);
    health_unlock(&holder->comm->health);
    return NULL;
}

static int prepared_until_a_failure(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)size, (void)seed, (void)context;
    int64_t data = rank;
    struct tutti_prepared *prepared;
    struct holder holder = {.comm = comm};
    pthread_t thread;
    RANKS_EXPECT(tutti_allreduce_prepare(&data, &data, 1, TUTTI_INT64, TUTTI_SUM, NULL, comm,
                                         &prepared) == TUTTI_OK);
    (void)!tutti_barrier(comm); /* the other one may have aborted it since it prepared */
    RANKS_EXPECT(tutti_comm_abort(comm, "the test says so") == TUTTI_OK);
    RANKS_EXPECT(pthread_create(&thread, NULL, hold, &holder) == 0);
    while (!atomic_load(&holder.holds)) ranks_nap_ms(1);
    const enum tutti_status status = tutti_prepared_free(prepared);
    pthread_join(thread, NULL);
    RANKS_EXPECT(status == TUTTI_OK);
    return 0;
}

static void what_was_prepared_is_forgotten_also_after_a_failure(void **state)
{
    (void)state;
    on_ranks(2, prepared_until_a_failure, NULL);
}

static int prepared_and_started(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    int64_t mine = rank, theirs = rank;
    struct tutti_request *request;
    if (rank % 2 == 0) { /* prepared here */
        struct tutti_prepared *prepared;
        RANKS_EXPECT(tutti_allreduce_prepare(&mine, &theirs, 1, TUTTI_INT64, TUTTI_SUM, NULL, comm,
                                             &prepared) == TUTTI_OK);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
        RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    } else if (rank % 4 == 1) { /* started there */
        RANKS_EXPECT(tutti_allreduce_start(&mine, &theirs, 1, TUTTI_INT64, TUTTI_SUM, NULL, comm,
                                           &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    } else {
        RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce(&mine, &theirs, 1, TUTTI_INT64, TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    }
    RANKS_EXPECT(theirs == (int64_t)size * (size - 1) / 2);
    return 0;
}

static void started_prepared_and_grouped_calls_meet(void **state)
{
    (void)state;
    on_ranks(4, prepared_and_started, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_waits_for_everything_in_it),
        cmocka_unit_test(a_group_waits_for_its_last_call_whichever_that_is),
        cmocka_unit_test(a_group_may_call_communicators_in_any_order),
        cmocka_unit_test(a_mistake_in_a_group_is_only_its_own),
        cmocka_unit_test(prepared_calls_run_again_and_again),
        cmocka_unit_test(prepared_calls_keep_their_plans),
        cmocka_unit_test(what_was_prepared_is_forgotten_also_after_a_failure),
        cmocka_unit_test(started_prepared_and_grouped_calls_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
