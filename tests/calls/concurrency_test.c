/* Operations in flight beside each other: on one communicator, on several, from several threads.
 *
 * ctest: timeout=180
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "tests/kit/patient.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"

/* An allreduce whose result tells which one it was. */
struct job {
    int32_t *data;
    size_t count;
    int number;
    struct tutti_request *request;
};

/* What elements repeat. They are copied and compared in whole: sanitizers check that at once. */
enum { PERIOD = 100 };

static size_t until_end(const struct job *job, size_t first)
{
    const size_t left = job->count - first;
    return sizeof *job->data * (left < PERIOD ? left : PERIOD);
}

static bool job_init(struct job *job, int number, size_t count, int rank)
{
    int32_t period[PERIOD];
    *job = (struct job){.data = malloc(count * sizeof *job->data), .count = count, .number = number};
    for (int i = 0; i < PERIOD; i++) period[i] = number * 1000 + i + rank;
    for (size_t i = 0; job->data != NULL && i < count; i += PERIOD)
        memcpy(job->data + i, period, until_end(job, i));
    return job->data != NULL;
}

static enum tutti_status job_start(struct job *job, struct tutti_comm *comm)
{
    return tutti_allreduce_start(job->data, job->data, job->count, TUTTI_INT32, TUTTI_SUM, NULL,
                                 comm, &job->request);
}

static bool job_is_right(const struct job *job, int size)
{
    int32_t period[PERIOD];
    for (int i = 0; i < PERIOD; i++)
        period[i] = size * (job->number * 1000 + i) + size * (size - 1) / 2;
    for (size_t i = 0; i < job->count; i += PERIOD)
        if (memcmp(job->data + i, period, until_end(job, i)) != 0) return false;
    return true;
}

/* ----------------------------------------------------------------------------- one communicator */

/* Sizes of all kinds, the same on all ranks. */
static size_t count_of(int number)
{
    static const size_t counts[] = {1, 100, 5000, 70000, 3, 20000, 400000, 10};
    /* The largest take most of the time: the thread sanitizer sees a third of them. */
    const bool is_cut = IS_THREAD_SANITIZED && getenv("TUTTI_LONG") == NULL && number % 8 == 6 &&
                        number / 8 % 3 != 0;
    return counts[number % 8] / (is_cut ? 8 : 1) + (size_t)number;
}

struct batch {
    int jobs;
    int order; /* of waiting: 0 as started, 1 backwards, 2 shuffled, 3 tested in turn, 4 shuffled by rank */
    bool blocking_between;
};

static void order_jobs(int *order, const struct batch *batch, uint64_t seed, int rank)
{
    for (int i = 0; i < batch->jobs; i++) order[i] = batch->order == 1 ? batch->jobs - 1 - i : i;
    if (batch->order != 2 && batch->order != 4) return;
    if (batch->order == 4) seed += (uint64_t)rank * 77;
    for (int i = batch->jobs - 1; i > 0; i--) {
        const int j = (int)chance_next(&seed) % (i + 1);
        const int other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
}

static int finish_by_testing(struct job *jobs, int count, int rank)
{
    for (int left = count; left > 0;) {
        for (int i = 0; i < count; i++) {
            if (jobs[i].request == NULL) continue;
            const enum tutti_status status = tutti_test(&jobs[i].request);
            RANKS_EXPECT(status == TUTTI_OK || status == TUTTI_IN_PROGRESS);
            RANKS_EXPECT((status == TUTTI_OK) == (jobs[i].request == NULL));
            if (status == TUTTI_OK) left--;
        }
    }
    return 0;
}

static int run_batch(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    const struct batch *batch = context;
    struct job jobs[40];
    int order[40];
    order_jobs(order, batch, seed, rank);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < batch->jobs; i++)
            RANKS_EXPECT(job_init(&jobs[i], i + round, count_of(i), rank));
        for (int i = 0; i < batch->jobs; i++) RANKS_EXPECT(job_start(&jobs[i], comm) == TUTTI_OK);
        if (batch->blocking_between) {
            int32_t one = 1;
            RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
            RANKS_EXPECT(one == size);
            RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        }
        if (batch->order == 3) {
            if (finish_by_testing(jobs, batch->jobs, rank) != 0) return 1;
        } else {
            for (int i = 0; i < batch->jobs; i++) {
                RANKS_EXPECT(tutti_wait(&jobs[order[i]].request) == TUTTI_OK);
                RANKS_EXPECT(jobs[order[i]].request == NULL);
            }
        }
        for (int i = 0; i < batch->jobs; i++) {
            RANKS_EXPECT(job_is_right(&jobs[i], size));
            free(jobs[i].data);
        }
    }
    return 0;
}

static void sixteen_started_operations_finish_in_any_order(void **state)
{
    (void)state;
    for (int order = 0; order < 5; order++)
        expect_good_both(3, run_batch, &(struct batch){16, order, false});
}

static void forty_started_operations_queue(void **state)
{
    (void)state;
    for (int order = 0; order < 5; order++)
        expect_good_both(2, run_batch, &(struct batch){40, order, false});
    expect_good(5, RANKS_THREADS, run_batch, &(struct batch){40, 2, false});
}

static void blocking_calls_pass_started_ones(void **state)
{
    (void)state;
    for (int order = 0; order < 4; order++)
        expect_good_both(3, run_batch, &(struct batch){40, order, true});
}

/* More shapes than are remembered, queued, while a blocking call runs: what it uses must not be
 * forgotten. */
static int many_shapes(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { JOBS = 40, ROUNDS = 60 }; /* a seventh of these shapes is still more than 256 */
    for (int round = 0; round < some_of(ROUNDS); round++) {
        struct job jobs[JOBS], blocking;
        for (int i = 0; i < JOBS; i++) {
            RANKS_EXPECT(job_init(&jobs[i], i, (size_t)(1 + round * JOBS + i), rank));
            RANKS_EXPECT(job_start(&jobs[i], comm) == TUTTI_OK);
        }
        RANKS_EXPECT(job_init(&blocking, 7, 3000 + (size_t)round, rank));
        RANKS_EXPECT(tutti_allreduce(blocking.data, blocking.data, blocking.count, TUTTI_INT32,
                                     TUTTI_SUM, comm) == TUTTI_OK);
        RANKS_EXPECT(job_is_right(&blocking, size));
        free(blocking.data);
        for (int i = 0; i < JOBS; i++) {
            RANKS_EXPECT(tutti_wait(&jobs[i].request) == TUTTI_OK);
            RANKS_EXPECT(job_is_right(&jobs[i], size));
            free(jobs[i].data);
        }
    }
    return 0;
}

static void more_shapes_than_are_remembered_are_right(void **state)
{
    (void)state;
    expect_good_both(2, many_shapes, NULL);
}

/* The application computes; nobody waits or tests until all must be done long since. */
static int progress_without_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)seed, (void)context;
    struct job job;
    RANKS_EXPECT(job_init(&job, 1, 50000, rank));
    RANKS_EXPECT(job_start(&job, comm) == TUTTI_OK);
    const volatile int32_t *last = &job.data[job.count - 1];
    const int32_t expected =
        size * (1000 + (int32_t)((job.count - 1) % 100)) + size * (size - 1) / 2;
    for (int i = 0; i < 5000 && *last != expected; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    RANKS_EXPECT(*last == expected);
    RANKS_EXPECT(tutti_wait(&job.request) == TUTTI_OK);
    RANKS_EXPECT(job_is_right(&job, size));
    free(job.data);
    return 0;
}

static void started_operations_move_without_further_calls(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it peeks at a buffer that still belongs to the operation */
#endif
    expect_good_both(3, progress_without_calls, NULL);
}

static int nobody_waits(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)comm, (void)seed;
    struct tutti_comm_options options = patient;
    options.rank = rank;
    options.size = size;
    options.id = context;
    struct tutti_comm *own;
    RANKS_EXPECT(tutti_comm_create(&options, &own) == TUTTI_OK);
    struct job jobs[24];
    for (int i = 0; i < 24; i++) {
        RANKS_EXPECT(job_init(&jobs[i], i, count_of(i), rank));
        RANKS_EXPECT(job_start(&jobs[i], own) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_free(own) == TUTTI_OK);
    for (int i = 0; i < 24; i++) {
        RANKS_EXPECT(job_is_right(&jobs[i], size));
        free(jobs[i].data);
    }
    return 0;
}

static void operations_that_nobody_waits_for_end_with_the_communicator(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        struct tutti_id id;
        assert_int_equal(tutti_id_create(&id), TUTTI_OK);
        const struct ranks_options options = {
            .kind = (enum ranks_kind)kind, .deadline_ms = 50000, .without_comm = true};
        assert_int_equal(ranks_run(3, &options, nobody_waits, &id), 0);
    }
}

/* One thread waits for a started operation while another issues blocking calls. */
struct waiter {
    struct tutti_request *request;
    enum tutti_status status;
};

static void *wait_for_it(void *argument)
{
    struct waiter *waiter = argument;
    waiter->status = tutti_wait(&waiter->request);
    return NULL;
}

static int wait_elsewhere(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    for (int round = 0; round < some_of(20); round++) {
        struct job job;
        RANKS_EXPECT(job_init(&job, round, 30000, rank));
        RANKS_EXPECT(job_start(&job, comm) == TUTTI_OK);
        struct waiter waiter = {job.request, TUTTI_INTERNAL};
        pthread_t thread;
        RANKS_EXPECT(pthread_create(&thread, NULL, wait_for_it, &waiter) == 0);
        for (int i = 0; i < 5; i++) RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
        RANKS_EXPECT(pthread_join(thread, NULL) == 0);
        RANKS_EXPECT(waiter.status == TUTTI_OK && waiter.request == NULL);
        RANKS_EXPECT(job_is_right(&job, size));
        free(job.data);
    }
    return 0;
}

static void waiting_happens_in_any_thread(void **state)
{
    (void)state;
    expect_good_both(2, wait_elsewhere, NULL);
}

/* ------------------------------------------------------------------------ several communicators */

struct ids {
    struct tutti_id id[12];
};

static int ids_init(struct ids *ids)
{
    for (size_t i = 0; i < sizeof ids->id / sizeof *ids->id; i++)
        if (tutti_id_create(&ids->id[i]) != TUTTI_OK) return -1;
    return 0;
}

static enum tutti_status join(const struct tutti_id *id, int rank, int size,
                              struct tutti_comm **comm)
{
    struct tutti_comm_options options = patient;
    options.rank = rank;
    options.size = size;
    options.id = id;
    return tutti_comm_create(&options, comm);
}

/* A thread of a rank that uses two communicators; each has jobs of its own number and size. */
struct side {
    struct tutti_comm *comm[2];
    bool swapped; /* B before A */
    int rank, size, result;
};

static int start_and_wait(const struct side *side)
{
    const int rank = side->rank, first = side->swapped ? 1 : 0;
    for (int round = 0; round < some_of(30); round++) {
        struct job jobs[2];
        RANKS_EXPECT(job_init(&jobs[0], 1, 2000, rank) && job_init(&jobs[1], 2, 60000, rank));
        RANKS_EXPECT(job_start(&jobs[first], side->comm[first]) == TUTTI_OK);
        RANKS_EXPECT(job_start(&jobs[1 - first], side->comm[1 - first]) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&jobs[first].request) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&jobs[1 - first].request) == TUTTI_OK);
        for (int i = 0; i < 2; i++) {
            RANKS_EXPECT(job_is_right(&jobs[i], side->size));
            free(jobs[i].data);
        }
    }
    return 0;
}

static void *be_side(void *argument)
{
    struct side *side = argument;
    side->result = start_and_wait(side);
    return NULL;
}

/* One thread uses A before B and the other C before D; odd ranks the other way round, each. */
static int opposite_orders(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                           void *context)
{
    (void)unused, (void)seed;
    const struct ids *ids = context;
    struct tutti_comm *comm[4];
    for (int i = 0; i < 4; i++) RANKS_EXPECT(join(&ids->id[i], rank, size, &comm[i]) == TUTTI_OK);
    const bool odd = rank % 2 == 1;
    struct side mine = {{comm[0], comm[1]}, odd, rank, size, 0};
    struct side other = {{comm[2], comm[3]}, !odd, rank, size, 0};
    pthread_t thread;
    RANKS_EXPECT(pthread_create(&thread, NULL, be_side, &other) == 0);
    mine.result = start_and_wait(&mine);
    RANKS_EXPECT(pthread_join(thread, NULL) == 0);
    for (int i = 3; i >= 0; i--) RANKS_EXPECT(tutti_comm_free(comm[i]) == TUTTI_OK);
    return mine.result != 0 || other.result != 0;
}

static void expect_good_with_ids(int size, enum ranks_kind kind, ranks_function *function)
{
    struct ids ids;
    assert_int_equal(ids_init(&ids), 0);
    const struct ranks_options options = {.kind = kind, .deadline_ms = 50000, .without_comm = true};
    assert_int_equal(ranks_run(size, &options, function, &ids), 0);
}

static void communicators_used_in_opposite_orders_do_not_wait_for_each_other(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        expect_good_with_ids(3, (enum ranks_kind)kind, opposite_orders);
    }
}

static int many_communicators(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)unused, (void)seed;
    enum { COMMS = 12 };
    const struct ids *ids = context;
    struct tutti_comm *comm[COMMS];
    struct job jobs[COMMS];
    for (int i = 0; i < COMMS; i++)
        RANKS_EXPECT(join(&ids->id[i], rank, size, &comm[i]) == TUTTI_OK);
    for (int i = 0; i < COMMS; i++) {
        RANKS_EXPECT(job_init(&jobs[i], i, count_of(i), rank));
        RANKS_EXPECT(job_start(&jobs[i], comm[i]) == TUTTI_OK);
    }
    for (int i = COMMS - 1; i >= 0; i--) {
        RANKS_EXPECT(tutti_barrier(comm[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&jobs[i].request) == TUTTI_OK);
        RANKS_EXPECT(job_is_right(&jobs[i], size));
        free(jobs[i].data);
    }
    for (int i = 0; i < COMMS; i++) RANKS_EXPECT(tutti_comm_free(comm[i]) == TUTTI_OK);
    return 0;
}

static void a_process_has_many_communicators(void **state)
{
    (void)state;
    expect_good_with_ids(3, RANKS_DEFAULT, many_communicators);
    if (!ranks_repeat(RANKS_THREADS)) expect_good_with_ids(3, RANKS_THREADS, many_communicators);
}

static void a_rank_alone_needs_nobody(void **state)
{
    (void)state;
    struct tutti_comm_options options = patient;
    options.rank = 0;
    options.size = 1;
    struct tutti_comm *comm;
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_OK);
    assert_int_equal(tutti_comm_rank(comm), 0);
    assert_int_equal(tutti_comm_size(comm), 1);
    const float in[3] = {1, 2, 3};
    float out[3] = {0};
    assert_int_equal(tutti_allreduce(in, out, 3, TUTTI_FLOAT32, TUTTI_AVG, comm), TUTTI_OK);
    assert_memory_equal(in, out, sizeof in);
    memset(out, 0, sizeof out);
    struct tutti_request *request[20];
    for (int i = 0; i < 20; i++)
        assert_int_equal(tutti_alltoall_start(in, out, 3, TUTTI_FLOAT32, NULL, comm, &request[i]),
                         TUTTI_OK);
    assert_int_equal(tutti_barrier(comm), TUTTI_OK);
    for (int i = 0; i < 19; i++) assert_int_equal(tutti_wait(&request[i]), TUTTI_OK);
    assert_int_equal(tutti_test(&request[19]), TUTTI_OK);
    assert_null(request[19]);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(tutti_comm_abort(comm, "enough"), TUTTI_OK);
    assert_int_equal(tutti_barrier(comm), TUTTI_ABORTED);
    assert_int_equal(tutti_comm_free(comm), TUTTI_OK);
}

/* ------------------------------------------------------------------------- threads in processes */

struct cell {
    const struct tutti_id *id;
    int rank, size;
    uint64_t seed;
    int result;
};

static int mixed_calls(const struct cell *cell, struct tutti_comm *comm)
{
    const int rank = cell->rank, size = cell->size;
    if (run_batch(comm, rank, size, cell->seed, &(struct batch){20, 2, true}) != 0) return 1;
    void *memory;
    RANKS_EXPECT(tutti_mem_alloc(sizeof(double) * 100000, &memory) == TUTTI_OK);
    double *const shared = memory, *const own = malloc(sizeof(double) * 100000);
    RANKS_EXPECT(own != NULL);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 100000; i++) shared[i] = own[i] = rank + i % 7;
        RANKS_EXPECT(tutti_allreduce(shared, shared, 100000, TUTTI_FLOAT64, TUTTI_SUM, comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(tutti_allreduce(own, own, 100000, TUTTI_FLOAT64, TUTTI_SUM, comm) == TUTTI_OK);
        for (int i = 0; i < 100000; i++)
            RANKS_EXPECT(shared[i] == size * (size - 1) / 2 + size * (i % 7) && own[i] == shared[i]);
        RANKS_EXPECT(tutti_broadcast(own, own, 100000, TUTTI_FLOAT64, round % size, comm) ==
                     TUTTI_OK);
        RANKS_EXPECT(own[99] == shared[99]);
    }
    free(own);
    RANKS_EXPECT(tutti_mem_free(memory) == TUTTI_OK);
    return 0;
}

static int be_rank(const struct cell *cell)
{
    const int rank = cell->rank;
    struct tutti_comm *comm;
    RANKS_EXPECT(join(cell->id, rank, cell->size, &comm) == TUTTI_OK);
    const int result = mixed_calls(cell, comm);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return result;
}

static void *be_cell(void *argument)
{
    struct cell *cell = argument;
    cell->result = be_rank(cell);
    return NULL;
}

enum { THREADS = 3 };

/* Two processes of three ranks each; neighbours in rank order are in different processes. */
static int three_ranks_a_process(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)unused;
    const struct ids *ids = context;
    struct cell cells[THREADS];
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) {
        cells[t] = (struct cell){&ids->id[0], t * size + rank, THREADS * size, seed, 1};
        RANKS_EXPECT(pthread_create(&threads[t], NULL, be_cell, &cells[t]) == 0);
    }
    int result = 0;
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        result |= cells[t].result;
    }
    return result;
}

static void processes_hold_several_ranks(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    expect_good_with_ids(2, RANKS_PROCESSES, three_ranks_a_process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_started_operations_finish_in_any_order),
        cmocka_unit_test(forty_started_operations_queue),
        cmocka_unit_test(blocking_calls_pass_started_ones),
        cmocka_unit_test(more_shapes_than_are_remembered_are_right),
        cmocka_unit_test(started_operations_move_without_further_calls),
        cmocka_unit_test(operations_that_nobody_waits_for_end_with_the_communicator),
        cmocka_unit_test(waiting_happens_in_any_thread),
        cmocka_unit_test(communicators_used_in_opposite_orders_do_not_wait_for_each_other),
        cmocka_unit_test(a_process_has_many_communicators),
        cmocka_unit_test(a_rank_alone_needs_nobody),
        cmocka_unit_test(processes_hold_several_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
