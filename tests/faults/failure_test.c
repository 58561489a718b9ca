/* Failures are named, reach everybody, come in time, and leave nothing behind.
 *
 * ctest: label=once timeout=180 serial
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "os/clock.h"
#include "tests/kit/belongings.h"
#include "tests/kit/call.h"
#include "tests/kit/fault_time.h"
#include "tests/worlds/ranks.h"

static const uint64_t SECOND = 1000000000u;

/* Shared between the ranks and the test. */
struct shared {
    struct tutti_id id;
    _Atomic uint64_t killed_ns;  /* when the victim died */
    _Atomic uint64_t slowest_ns; /* of the others, until they knew */
    _Atomic int ready;
};
static struct shared *shared;

static int run(int size, enum ranks_kind kind, uint64_t timeout_ns, ranks_function *function,
               void *context, struct ranks_outcome *outcomes)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = timeout_ns;
    comm_options.init_timeout_ns = 15 * SECOND;
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 30000, .comm_options = &comm_options, .outcomes = outcomes};
    return ranks_run(size, &options, function, context);
}

static struct tutti_failure failure_of(const struct tutti_comm *comm)
{
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    tutti_comm_failure(comm, &failure);
    return failure;
}

/* What a rank that calls nothing is told, once it is; within five seconds. */
static struct tutti_failure failure_to_come(const struct tutti_comm *comm)
{
    struct tutti_failure failure = failure_of(comm);
    for (int ms = 0; ms < 5000 && failure.status == TUTTI_OK; ms++) {
        ranks_nap_ms(1);
        failure = failure_of(comm);
    }
    return failure;
}

/* After a failure every call says the same at once. */
static int expect_all_calls_fail(struct tutti_comm *comm, int rank, enum tutti_status status)
{
    float x = 0;
    struct tutti_request *request = NULL;
    const uint64_t begin = clock_now_ns();
    RANKS_EXPECT(tutti_allreduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == status);
    RANKS_EXPECT(tutti_barrier(comm) == status);
    RANKS_EXPECT(tutti_error_message()[0] != '\0');
    RANKS_EXPECT(tutti_broadcast_start(&x, &x, 1, TUTTI_FLOAT32, 0, NULL, comm, &request) == status);
    RANKS_EXPECT(request == NULL);
    RANKS_EXPECT(clock_now_ns() - begin < SECOND / 10);
    return 0;
}

/* --------------------------------------------------------------------------------------- deaths */

struct death {
    bool within; /* inside a large allreduce, not between calls */
    bool started;
    int victim;
};

static void *kill_soon(void *unused)
{
    (void)unused;
    ranks_nap_ms(100);
    atomic_store(&shared->killed_ns, clock_now_ns());
    kill(getpid(), SIGKILL);
    return NULL;
}

static int die(struct tutti_comm *comm, const struct death *death, float *data, size_t count)
{
    pthread_t thread;
    if (death->within && pthread_create(&thread, NULL, kill_soon, NULL) == 0)
        for (;;)
            if (tutti_allreduce(data, data, count, TUTTI_FLOAT32, TUTTI_SUM, comm) != TUTTI_OK)
                pause();
    ranks_nap_ms(100);
    atomic_store(&shared->killed_ns, clock_now_ns());
    kill(getpid(), SIGKILL);
    return 1;
}

static enum tutti_status reduce_until_it_fails(struct tutti_comm *comm, const struct death *death,
                                               float *data, size_t count)
{
    enum tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK) {
        struct tutti_request *requests[16] = {0};
        if (!death->started) {
            status = tutti_allreduce(data, data, count, TUTTI_FLOAT32, TUTTI_SUM, comm);
            continue;
        }
        for (int i = 0; i < 16; i++)
            if (tutti_allreduce_start(data + (size_t)i * (count / 16),
                                      data + (size_t)i * (count / 16), count / 16, TUTTI_FLOAT32,
                                      TUTTI_SUM, NULL, comm, &requests[i]) != TUTTI_OK)
                break;
        for (int i = 0; i < 16 && requests[i] != NULL; i++) {
            const enum tutti_status one = tutti_wait(&requests[i]);
            if (one != TUTTI_OK) status = one;
        }
    }
    return status;
}

static int one_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    enum { COUNT = 1 << 20 };
    const struct death *death = context;
    float *const data = calloc(COUNT, sizeof *data);
    RANKS_EXPECT(data != NULL && tutti_barrier(comm) == TUTTI_OK);
    atomic_fetch_add(&shared->ready, 1);
    if (rank == death->victim) {
        /* A network card loses with a process what it has sent: nobody is late for the barrier. */
        for (int ms = 0; ms < 5000 && atomic_load(&shared->ready) < size; ms++) ranks_nap_ms(1);
        return die(comm, death, data, COUNT);
    }
    const enum tutti_status status = reduce_until_it_fails(comm, death, data, COUNT);
    const uint64_t took = clock_now_ns() - atomic_load(&shared->killed_ns);
    free(data);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    fault_time_raise(&shared->slowest_ns, took);

    const struct tutti_failure failure = failure_of(comm);
    char who[32];
    snprintf(who, sizeof who, "rank %d (", death->victim);
    RANKS_EXPECT(failure.status == TUTTI_PROC_FAILED && failure.culprit == death->victim);
    RANKS_EXPECT(failure.pid > 0 && failure.pid != getpid());
    RANKS_EXPECT(strstr(failure.message, who) != NULL && strstr(tutti_error_message(), who) != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED);
}

static void expect_death_is_noticed(int size, struct death death)
{
    uint64_t slowest = 0;
    for (int attempt = 0; attempt < 3; attempt++) { /* again on a loaded machine */
        struct ranks_outcome outcomes[8];
        atomic_store(&shared->slowest_ns, 0);
        atomic_store(&shared->ready, 0);
        assert_int_equal(run(size, RANKS_PROCESSES, 20 * SECOND, one_dies, &death, outcomes), 1);
        assert_int_equal(outcomes[death.victim].fate, RANKS_SIGNALLED);
        slowest = atomic_load(&shared->slowest_ns);
        print_message("rank %d of %d died%s%s: the last one knew after %.0f ms\n", death.victim,
                      size, death.within ? " in an allreduce" : "",
                      death.started ? ", others had started ones" : "", (double)slowest * 1e-6);
        fault_time_print(ranks_are_on_hosts() ? "killed_far" : "killed", slowest);
        if (slowest < SECOND / 2) return;
    }
    fail_msg("it took %.3f s until everybody knew", (double)slowest * 1e-9);
}

static void a_death_between_calls_is_noticed_by_all(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    expect_death_is_noticed(3, (struct death){.victim = 1});
    expect_death_is_noticed(4, (struct death){.victim = 0});
    expect_death_is_noticed(3, (struct death){.victim = 2, .started = true});
}

static void a_death_within_a_large_allreduce_is_noticed_by_all(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    expect_death_is_noticed(2, (struct death){.victim = 1, .within = true});
    expect_death_is_noticed(4, (struct death){.victim = 2, .within = true});
}

/* A process of two ranks, of which the first has left, dies: the second is who is missed. */
struct late_rank {
    struct tutti_comm *comm;
    int rank;
};

static void *be_left_over(void *argument)
{
    struct late_rank *late = argument;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = late->rank;
    options.size = 3;
    options.id = &shared->id;
    options.timeout_ns = options.init_timeout_ns = 10 * SECOND;
    if (tutti_comm_create(&options, &late->comm) != TUTTI_OK) late->comm = NULL;
    return NULL;
}

static int first_leaves_second_dies(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)unused, (void)size, (void)seed, (void)context;
    struct late_rank own = {NULL, rank == 0 ? 0 : 1}, second = {NULL, 2};
    pthread_t thread;
    if (rank == 1) RANKS_EXPECT(pthread_create(&thread, NULL, be_left_over, &second) == 0);
    be_left_over(&own);
    if (rank == 1) {
        pthread_join(thread, NULL);
        RANKS_EXPECT(own.comm != NULL && second.comm != NULL);
        tutti_comm_free(own.comm);
        kill(getpid(), SIGKILL);
    }
    RANKS_EXPECT(own.comm != NULL);
    const uint64_t begin = clock_now_ns();
    RANKS_EXPECT(tutti_barrier(own.comm) == TUTTI_PROC_FAILED);
    RANKS_EXPECT(clock_now_ns() - begin < 2 * SECOND);
    RANKS_EXPECT(failure_of(own.comm).culprit == 1 || failure_of(own.comm).culprit == 2);
    RANKS_EXPECT(tutti_comm_free(own.comm) == TUTTI_OK);
    return 0;
}

static void a_death_of_the_last_rank_of_a_process_is_noticed(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
    const struct ranks_options options = {
        .kind = RANKS_PROCESSES, .deadline_ms = 25000, .without_comm = true};
    assert_int_equal(ranks_run(2, &options, first_leaves_second_dies, NULL), 1);
}

/* ------------------------------------------------------------------------------------ deadlines */

static int one_never_calls(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const int culprit = size - 1;
    const bool started = context != NULL;
    double x = 1;
    const uint64_t begin = clock_now_ns();
    if (rank != culprit) {
        struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
        options.timeout_ns = SECOND * 4 / 10;
        enum tutti_status status;
        if (started) {
            struct tutti_request *request;
            status = tutti_allreduce_start(&x, &x, 1, TUTTI_FLOAT64, TUTTI_SUM, &options, comm,
                                           &request);
            if (status == TUTTI_OK) status = tutti_wait(&request);
        } else {
            status = tutti_allreduce_with(&x, &x, 1, TUTTI_FLOAT64, TUTTI_SUM, &options, comm);
        }
        const uint64_t took = clock_now_ns() - begin;
        RANKS_EXPECT(status == TUTTI_TIMEOUT);
        RANKS_EXPECT(took >= options.timeout_ns * 9 / 10 && took < options.timeout_ns + SECOND);
    }
    const struct tutti_failure failure = failure_to_come(comm);
    RANKS_EXPECT(failure.status == TUTTI_TIMEOUT && failure.culprit == culprit &&
                 failure.sequence == 1);
    RANKS_EXPECT(strstr(failure.message, "has not called") != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_TIMEOUT);
}

static void a_rank_that_never_calls_is_named_at_the_deadline(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        assert_int_equal(run(3, (enum ranks_kind)kind, 10 * SECOND, one_never_calls, NULL, NULL), 0);
        assert_int_equal(run(2, (enum ranks_kind)kind, 10 * SECOND, one_never_calls, shared, NULL),
                         0);
    }
}

/* -------------------------------------------------------------------------------- disagreements */

/* What the last rank does otherwise. */
struct disagreement {
    struct test_call call, other;
    enum tutti_status status;
    const char *mine, *theirs; /* both must be in the message */
    bool started;
};

static int disagree(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed;
    const struct disagreement *d = context;
    struct test_call call = rank == size - 1 ? d->other : d->call;
    double *const send = calloc(4096, sizeof *send), *const recv = calloc(4096, sizeof *recv);
    RANKS_EXPECT(send != NULL && recv != NULL);
    call.send = send;
    call.recv = recv;
    const uint64_t begin = clock_now_ns();
    enum tutti_status status;
    if (d->started) {
        struct tutti_request *request = NULL;
        status = test_call_start(&call, comm, &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
    } else {
        status = test_call(&call, comm);
    }
    /* Some ranks may be through with their part before it shows; a barrier tells them. */
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    free(send);
    free(recv);
    const struct tutti_failure failure = failure_of(comm);
    if (status != d->status || strstr(failure.message, d->mine) == NULL ||
        strstr(failure.message, d->theirs) == NULL || failure.culprit < 0)
        fprintf(stderr, "rank %d: %s, culprit %d: %s; expected %s, %s and %s\n", rank,
                tutti_status_name(status), failure.culprit, failure.message,
                tutti_status_name(d->status), d->mine, d->theirs);
    RANKS_EXPECT(status == d->status && failure.status == d->status);
    RANKS_EXPECT(failure.culprit >= 0 && failure.culprit < size &&
                 failure.reporter != failure.culprit);
    RANKS_EXPECT((failure.culprit == size - 1) != (failure.reporter == size - 1));
    RANKS_EXPECT(strstr(failure.message, d->mine) != NULL &&
                 strstr(failure.message, d->theirs) != NULL);
    fault_time_raise(&shared->slowest_ns, clock_now_ns() - begin);
    RANKS_EXPECT(clock_now_ns() - begin < 3 * SECOND);
    return expect_all_calls_fail(comm, rank, d->status);
}

static void expect_disagreement(struct disagreement d)
{
    for (int form = 0; form < 2; form++) {
        d.started = form == 1;
        atomic_store(&shared->slowest_ns, 0);
        assert_int_equal(run(3, RANKS_DEFAULT, 5 * SECOND, disagree, &d, NULL), 0);
        fault_time_print(d.status == TUTTI_DESYNC ? "desync" : "mismatch",
                         atomic_load(&shared->slowest_ns));
        if (!d.started) assert_int_equal(run(2, RANKS_THREADS, 5 * SECOND, disagree, &d, NULL), 0);
    }
}

static const struct test_call allreduce_1000 = {
    .collective = COLLECTIVE_ALLREDUCE, .count = 1000, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM};

static void other_counts_are_a_mismatch(void **state)
{
    (void)state;
    struct disagreement d = {allreduce_1000, allreduce_1000, TUTTI_MISMATCH,
                             "count 1000",   "count 999",    false};
    d.other.count = 999;
    expect_disagreement(d);
}

static void other_dtypes_are_a_mismatch(void **state)
{
    (void)state;
    struct disagreement d = {allreduce_1000, allreduce_1000, TUTTI_MISMATCH,
                             "float32",      "int32",        false};
    d.other.dtype = TUTTI_INT32;
    expect_disagreement(d);
}

static void other_operations_are_a_mismatch(void **state)
{
    (void)state;
    struct disagreement d = {allreduce_1000, allreduce_1000, TUTTI_MISMATCH, "sum", "max", false};
    d.other.op = TUTTI_MAX;
    expect_disagreement(d);
}

static void other_algorithms_are_a_mismatch(void **state)
{
    (void)state;
    static const struct tutti_call_options ring = {sizeof ring, 0, "ring", 0, 0, NULL, 0, 0, NULL};
    static const struct tutti_call_options tree = {sizeof tree, 0, "tree", 0, 0, NULL, 0, 0, NULL};
    struct disagreement d = {allreduce_1000, allreduce_1000,      TUTTI_MISMATCH,
                             "count 1000",   "another algorithm", false};
    d.call.options = &ring;
    d.other.options = &tree;
    expect_disagreement(d);
}

static void other_roots_are_a_mismatch(void **state)
{
    (void)state;
    const struct test_call reduce = {.collective = COLLECTIVE_REDUCE,
                                     .count = 100,
                                     .dtype = TUTTI_FLOAT32,
                                     .op = TUTTI_SUM,
                                     .root = 0};
    struct disagreement d = {reduce, reduce, TUTTI_MISMATCH, "root 0", "root 1", false};
    d.other.root = 1;
    expect_disagreement(d);
}

static void other_collectives_are_a_desync(void **state)
{
    (void)state;
    struct disagreement d = {allreduce_1000, allreduce_1000, TUTTI_DESYNC,
                             "allreduce",    "alltoall",     false};
    d.other.collective = COLLECTIVE_ALLTOALL;
    d.other.count = 10;
    expect_disagreement(d);
}

/* Rank 1 calls a barrier where the others gather. Who only has to send is through with that, and in
 * the barrier behind it when it meets rank 1's; the root comes last. */
static int some_are_through_before(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)size, (void)seed, (void)context;
    enum { DEVIATES = 1, ROOT = 5 };
    float mine = 0, all[8];
    enum tutti_status status = TUTTI_OK;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 0) ranks_nap_ms(30);
    if (rank == ROOT) ranks_nap_ms(150);
    if (rank != DEVIATES) status = tutti_gather(&mine, all, 1, TUTTI_FLOAT32, ROOT, comm);
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    RANKS_EXPECT(status == TUTTI_DESYNC);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT((failure.culprit == DEVIATES) != (failure.reporter == DEVIATES));
    RANKS_EXPECT(strstr(failure.message, "gather(") != NULL &&
                 strstr(failure.message, "barrier()") != NULL);
    return 0;
}

static void who_was_through_before_is_told_of_the_desync_too(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* what another host called before is not known */
    for (int round = 0; round < 5; round++)
        assert_int_equal(run(8, RANKS_DEFAULT, 5 * SECOND, some_are_through_before, NULL, NULL), 0);
}

/* Rank 0 broadcasts until its links are full, so it is as far ahead as a rank can be, and the calls
 * of the last rank, which does something else, are its first after a barrier. Both are named. */
static int one_is_far_ahead(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context;
    int32_t element = 7, sum = 0;
    enum tutti_status status = TUTTI_OK;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == size - 1) {
        ranks_nap_ms(200);
        status = tutti_allreduce(&element, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm);
    }
    for (int i = 0; status == TUTTI_OK && i < 1000; i++)
        status = tutti_broadcast(&element, &sum, 1, TUTTI_INT32, 0, comm);
    const struct tutti_failure failure = failure_of(comm);
    if (status != TUTTI_DESYNC || strstr(failure.message, "allreduce(") == NULL ||
        strstr(failure.message, "broadcast(") == NULL)
        fprintf(stderr, "rank %d: %s, culprit %d: %s\n", rank, tutti_status_name(status),
                failure.culprit, failure.message);
    RANKS_EXPECT(status == TUTTI_DESYNC);
    RANKS_EXPECT((failure.culprit == size - 1) != (failure.reporter == size - 1));
    RANKS_EXPECT(strstr(failure.message, "allreduce(") != NULL &&
                 strstr(failure.message, "broadcast(") != NULL);
    return 0;
}

static void a_rank_that_is_far_ahead_is_told_of_the_desync(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* credit bounds how far ahead it is */
    for (int size = 2; size <= 4; size++)
        assert_int_equal(run(size, RANKS_DEFAULT, 5 * SECOND, one_is_far_ahead, NULL, NULL), 0);
}

/* --------------------------------------------------------------------------------------- aborts */

struct aborter {
    struct tutti_comm *comm;
};

static void *abort_soon(void *argument)
{
    ranks_nap_ms(100);
    tutti_comm_abort(((struct aborter *)argument)->comm, "enough of it");
    return NULL;
}

static int blocked_and_aborted(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed;
    const bool waiting = context != NULL;
    struct aborter aborter = {comm};
    pthread_t thread;
    int32_t x = 1;
    /* Rank 1 never comes; rank 0, itself blocked, is aborted by its other thread. */
    if (rank == 0) RANKS_EXPECT(pthread_create(&thread, NULL, abort_soon, &aborter) == 0);
    const uint64_t begin = clock_now_ns();
    if (rank != 1) {
        enum tutti_status status;
        if (waiting) {
            struct tutti_request *request;
            RANKS_EXPECT(tutti_allreduce_start(&x, &x, 1, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                               &request) == TUTTI_OK);
            status = tutti_wait(&request);
        } else {
            status = tutti_allreduce(&x, &x, 1, TUTTI_INT32, TUTTI_SUM, comm);
        }
        RANKS_EXPECT(status == TUTTI_ABORTED);
    }
    const struct tutti_failure failure = failure_to_come(comm);
    RANKS_EXPECT(clock_now_ns() - begin < 2 * SECOND);
    if (rank == 0) pthread_join(thread, NULL);
    RANKS_EXPECT(failure.status == TUTTI_ABORTED && failure.reporter == 0 && size > 1);
    RANKS_EXPECT(strstr(failure.message, "enough of it") != NULL);
    return expect_all_calls_fail(comm, rank, TUTTI_ABORTED);
}

static void an_abort_from_another_thread_ends_blocked_calls_everywhere(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        assert_int_equal(
            run(3, (enum ranks_kind)kind, 10 * SECOND, blocked_and_aborted, NULL, NULL), 0);
        assert_int_equal(
            run(3, (enum ranks_kind)kind, 10 * SECOND, blocked_and_aborted, shared, NULL), 0);
    }
}

static int the_first_one_wins(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                              void *context)
{
    (void)size, (void)seed, (void)context;
    char reason[32];
    snprintf(reason, sizeof reason, "reason of %d", rank);
    RANKS_EXPECT(tutti_comm_abort(comm, reason) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_abort(comm, NULL) == TUTTI_OK);
    const struct tutti_failure failure = failure_of(comm);
    snprintf(reason, sizeof reason, "reason of %d", failure.reporter);
    RANKS_EXPECT(failure.status == TUTTI_ABORTED && strstr(failure.message, reason) != NULL);
    return 0;
}

static void of_many_aborts_one_wins(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++)
        assert_int_equal(run(4, RANKS_THREADS, 10 * SECOND, the_first_one_wins, NULL, NULL), 0);
}

/* The last rank never comes. The others wait for nothing: only the progress thread, which they
 * share, ends their calls, whose memory they may read of each other. It waits for neither of them
 * meanwhile. */
static int started_and_aborted(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    enum { CALLS = 8, COUNT = 100000 };
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    struct tutti_request *requests[CALLS];
    struct pollfd told = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    (void)seed, (void)context;
    options.algorithm = "ring";
    if (rank == size - 1) {
        while (atomic_load(&shared->ready) < size - 1) ranks_nap_ms(1);
        tutti_comm_abort(comm, NULL);
        while (atomic_load(&shared->ready) < 2 * (size - 1)) ranks_nap_ms(1);
        close(told.fd);
        return 0;
    }
    float *const numbers = calloc(CALLS * COUNT, sizeof *numbers);
    RANKS_EXPECT(numbers != NULL && told.fd >= 0);
    for (int i = 0; i < CALLS; i++) {
        float *const own = numbers + (size_t)i * COUNT;
        RANKS_EXPECT(tutti_allreduce_start(own, own, COUNT, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                           comm, &requests[i]) == TUTTI_OK);
        RANKS_EXPECT(tutti_notify(requests[i], told.fd) == TUTTI_OK);
    }
    atomic_fetch_add(&shared->ready, 1);
    const uint64_t deadline_ns = clock_now_ns() + 10 * SECOND;
    for (uint64_t over = 0, more; over < CALLS; over += more) {
        RANKS_EXPECT(poll(&told, 1, 10000) == 1 && clock_now_ns() < deadline_ns);
        RANKS_EXPECT(read(told.fd, &more, sizeof more) == sizeof more);
    }
    for (int i = 0; i < CALLS; i++) RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_ABORTED);
    atomic_fetch_add(&shared->ready, 1);
    free(numbers);
    close(told.fd);
    return 0;
}

static void calls_of_threads_that_compute_end_together(void **state)
{
    (void)state;
    atomic_store(&shared->ready, 0);
    assert_int_equal(run(3, RANKS_THREADS, 30 * SECOND, started_and_aborted, NULL, NULL), 0);
}

/* -------------------------------------------------------------------------------------- leaving */

/* The last rank goes home while the others still need it; without_comm: each frees its own. */
struct departure {
    struct test_call call;
    bool heap;
};

static int one_leaves(struct tutti_comm *unused, int rank, int size, uint64_t seed, void *context)
{
    (void)unused, (void)seed;
    const struct departure *departure = context;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &shared->id;
    options.timeout_ns = options.init_timeout_ns = 8 * SECOND;
    struct tutti_comm *comm;
    RANKS_EXPECT(tutti_comm_create(&options, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == size - 1) {
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
        /* Alive, but not here, until all others have named it. */
        for (int ms = 0; ms < 5000 && atomic_load(&shared->ready) < size - 1; ms++) ranks_nap_ms(1);
        return 0;
    }
    struct test_call call = departure->call;
    call.op = TUTTI_SUM;
    const size_t bytes = call.count * 8 * (size_t)size;
    void *send, *recv;
    if (departure->heap) {
        RANKS_EXPECT(tutti_mem_alloc(bytes, &send) == TUTTI_OK &&
                     tutti_mem_alloc(bytes, &recv) == TUTTI_OK);
    } else {
        send = calloc(1, bytes);
        recv = calloc(1, bytes);
        RANKS_EXPECT(send != NULL && recv != NULL);
    }
    call.send = send;
    call.recv = recv;
    const uint64_t begin = clock_now_ns();
    enum tutti_status status = test_call(&call, comm);
    /* Who does not need the leaver may get through; the next barrier needs everybody. */
    if (status == TUTTI_OK) status = tutti_barrier(comm);
    RANKS_EXPECT(status == TUTTI_PROC_FAILED);
    RANKS_EXPECT(clock_now_ns() - begin < 3 * SECOND);
    const struct tutti_failure failure = failure_of(comm);
    RANKS_EXPECT(failure.culprit == size - 1 && strstr(failure.message, "left") != NULL);
    if (expect_all_calls_fail(comm, rank, TUTTI_PROC_FAILED) != 0) return 1;
    atomic_fetch_add(&shared->ready, 1);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    if (departure->heap) {
        tutti_mem_free(send);
        tutti_mem_free(recv);
    } else {
        free(send);
        free(recv);
    }
    return 0;
}

static void a_rank_that_left_is_named(void **state)
{
    (void)state;
    static const struct test_call calls[] = {
        {.collective = COLLECTIVE_ALLREDUCE, .count = 10, .dtype = TUTTI_INT64},
        {.collective = COLLECTIVE_BARRIER},
        {.collective = COLLECTIVE_BROADCAST, .count = 100000, .dtype = TUTTI_FLOAT64},
        {.collective = COLLECTIVE_ALLGATHER, .count = 20000, .dtype = TUTTI_FLOAT64},
        {.collective = COLLECTIVE_REDUCE, .count = 100, .dtype = TUTTI_FLOAT64},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (int variant = 0; variant < 3; variant++) {
            struct departure departure = {calls[i], variant == 1};
            const struct ranks_options options = {.kind =
                                                      variant == 2 ? RANKS_THREADS : RANKS_DEFAULT,
                                                  .deadline_ms = 25000,
                                                  .without_comm = true};
            assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
            atomic_store(&shared->ready, 0);
            assert_int_equal(ranks_run(3, &options, one_leaves, &departure), 0);
        }
    }
}

/* ------------------------------------------------------------------------------------- start-up */

static enum tutti_status join_as(int rank, int size, uint64_t init_timeout_ns,
                                 struct tutti_comm **comm)
{
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.id = &shared->id;
    options.timeout_ns = 10 * SECOND;
    options.init_timeout_ns = init_timeout_ns;
    return tutti_comm_create(&options, comm);
}

static int some_are_missing(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)unused, (void)seed;
    const int first = *(const int *)context; /* who comes: first, first + 1, ... of size + 2 */
    struct tutti_comm *comm = (struct tutti_comm *)&shared;
    const uint64_t begin = clock_now_ns();
    /* Long enough for those who come to meet on a crowded machine. */
    RANKS_EXPECT(join_as(first + rank, size + 2, 2 * SECOND, &comm) == TUTTI_INIT_TIMEOUT);
    const uint64_t took = clock_now_ns() - begin;
    RANKS_EXPECT(comm == NULL);
    RANKS_EXPECT(took < 10 * SECOND);
    fault_time_raise(&shared->slowest_ns, fault_time_beyond(took, 2 * SECOND));
    const char *const message = tutti_error_message();
    if (first == 0) {
        RANKS_EXPECT(strstr(message, "2 of 4 ranks are missing: 2 3") != NULL);
    } else {
        RANKS_EXPECT(strstr(message, "rank 0 is missing") != NULL);
    }
    return 0;
}

static void missing_ranks_are_listed_at_the_start_up_deadline(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
             kind += RANKS_THREADS) {
            const struct ranks_options options = {
                .kind = (enum ranks_kind)kind, .deadline_ms = 20000, .without_comm = true};
            assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
            atomic_store(&shared->slowest_ns, 0);
            assert_int_equal(ranks_run(2, &options, some_are_missing, &first), 0);
            fault_time_print("missing", atomic_load(&shared->slowest_ns));
        }
    }
}

/* The address at which rank 0 of shared->id listens, see bootstrap/rendezvous.c. */
static socklen_t meeting_place(struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int used = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "tutti-");
    for (int i = 0; i < 16; i++)
        used += snprintf(address->sun_path + 1 + used, sizeof address->sun_path - 1 - (size_t)used,
                         "%02x", shared->id.bytes[i]);
    used +=
        snprintf(address->sun_path + 1 + used, sizeof address->sun_path - 1 - (size_t)used, "-0");
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)used);
}

/* Connects as soon as rank 0 listens, and says that, or nothing. */
static int connect_and_say(const void *words, size_t bytes, int descriptors)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = meeting_place(&address);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    for (int i = 0; connect(fd, (struct sockaddr *)&address, address_bytes) != 0; i++) {
        if (i == 2000) {
            perror("a stranger's connect");
            close(fd);
            return -1;
        }
        ranks_nap_ms(1);
    }
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * 8)];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)words, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptors > 0) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)descriptors);
        control.header =
            (struct cmsghdr){CMSG_LEN(sizeof(int) * (size_t)descriptors), SOL_SOCKET, SCM_RIGHTS};
        for (int i = 0; i < descriptors; i++)
            memcpy(CMSG_DATA(&control.header) + i * (int)sizeof fd, &fd, sizeof fd);
    }
    if (bytes > 0 && sendmsg(fd, &message, MSG_NOSIGNAL) < 0 && errno != EPIPE) {
        perror("a stranger's sendmsg");
        close(fd);
        return -1;
    }
    return fd;
}

static int strangers_come_first(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)unused, (void)context;
    int strangers[12];
    if (rank == 1) {
        char noise[600];
        for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(seed >> i % 57);
        static const size_t sizes[] = {0, 1, 3, 80, 467, 468, 469, 600, 0, 0, 468, 469};
        for (int i = 0; i < 12; i++) {
            strangers[i] = connect_and_say(noise, sizes[i], i % 4);
            RANKS_EXPECT(strangers[i] >= 0);
            if (i % 3 == 1) {
                close(strangers[i]);
                strangers[i] = -1;
            }
        }
    } else if (rank == 2) {
        ranks_nap_ms(200);
    }
    struct tutti_comm *comm;
    RANKS_EXPECT(join_as(rank, size, 15 * SECOND, &comm) == TUTTI_OK);
    int32_t one = 1;
    RANKS_EXPECT(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK &&
                 one == size);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    if (rank == 1)
        for (int i = 0; i < 12; i++)
            if (strangers[i] >= 0) close(strangers[i]);
    return 0;
}

static void strangers_are_dropped_and_the_meeting_goes_on(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* strangers come to the sockets of one host */
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS) {
        const struct ranks_options options = {
            .kind = (enum ranks_kind)kind, .deadline_ms = 25000, .without_comm = true};
        assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
        assert_int_equal(ranks_run(3, &options, strangers_come_first, NULL), 0);
    }
}

static int a_crowd_of_silent_strangers(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                       void *context)
{
    (void)unused, (void)seed, (void)context;
    enum { CROWD = 100 };
    int strangers[CROWD];
    if (rank == 1)
        for (int i = 0; i < CROWD; i++)
            RANKS_EXPECT((strangers[i] = connect_and_say(NULL, 0, 0)) >= 0);
    struct tutti_comm *comm;
    RANKS_EXPECT(join_as(rank, size, 15 * SECOND, &comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    for (int i = 0; rank == 1 && i < CROWD; i++) close(strangers[i]);
    return 0;
}

static void a_crowd_of_silent_strangers_gives_way(void **state)
{
    (void)state;
    if (ranks_are_on_hosts()) skip(); /* the same */
    const struct ranks_options options = {.deadline_ms = 25000, .without_comm = true};
    assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
    assert_int_equal(ranks_run(2, &options, a_crowd_of_silent_strangers, NULL), 0);
}

static int two_say_they_are_rank_1(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)unused, (void)size, (void)seed, (void)context;
    struct tutti_comm *comm;
    if (rank == 3) ranks_nap_ms(300); /* it completes the meeting */
    const enum tutti_status status = join_as(rank == 3   ? 2
                                             : rank == 2 ? 1
                                                         : rank,
                                             3, 10 * SECOND, &comm);
    if (status == TUTTI_INVALID_RANK) {
        RANKS_EXPECT((rank == 1 || rank == 2) && comm == NULL);
        RANKS_EXPECT(strstr(tutti_error_message(), "rank 1 came twice") != NULL);
        atomic_fetch_add(&shared->ready, 1);
        return 0;
    }
    RANKS_EXPECT(status == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return 0;
}

static void of_two_that_say_they_are_one_rank_one_is_refused(void **state)
{
    (void)state;
    const struct ranks_options options = {.deadline_ms = 25000, .without_comm = true};
    assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
    atomic_store(&shared->ready, 0);
    assert_int_equal(ranks_run(4, &options, two_say_they_are_rank_1, NULL), 0);
    assert_int_equal(atomic_load(&shared->ready), 1);
}

/* ---------------------------------------------------------------------------- invalid arguments */

static int expect_invalid(const struct test_call *call, struct tutti_comm *comm, int rank,
                          enum tutti_status expected, const char *word)
{
    struct tutti_request *request = (struct tutti_request *)&shared;
    enum tutti_status got[3];
    const char *what[] = {"with", "start", "plain"};
    for (int form = 0; form < (call->options == NULL ? 3 : 2); form++) {
        got[form] = form == 0   ? test_call(call, comm)
                    : form == 1 ? test_call_start(call, comm, &request)
                                : test_call_plain(call, comm);
        if (got[form] == expected && strstr(tutti_error_message(), word) != NULL &&
            (expected == TUTTI_INVALID_OPTIONS ||
             strstr(tutti_error_message(), collective_name(call->collective)) != NULL))
            continue;
        fprintf(stderr, "rank %d: %s %s: %s instead of %s; \"%s\" should name %s\n", rank,
                collective_name(call->collective), what[form], tutti_status_name(got[form]),
                tutti_status_name(expected), tutti_error_message(), word);
        return 1;
    }
    RANKS_EXPECT(request == NULL);
    return 0;
}

static int one_collective(struct tutti_comm *comm, enum collective collective, int rank, int size)
{
    float send[64] = {0}, recv[64] = {0};
    const bool sends = test_send_blocks(collective, rank, size, 0) > 0;
    const bool receives = test_recv_blocks(collective, rank, size, 0) > 0;
    const struct test_call good = {collective, send, recv, 8, TUTTI_FLOAT32, TUTTI_SUM, 0, NULL};
    struct test_call bad = good;
    int wrong = expect_invalid(&bad, NULL, rank, TUTTI_INVALID_COMM, "communicator");
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    bad.options = &options;
    options.algorithm = "magic";
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_ALGORITHM, "magic");
    options.algorithm = NULL;
    options.priority = 101;
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_OPTIONS,
                            "priority must be -100 to 100, is 101");
    options.size_bytes = 3;
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_OPTIONS, "size_bytes");
    if (collective == COLLECTIVE_BARRIER) return wrong;

    bad = good;
    bad.dtype = (enum tutti_dtype)77;
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_DTYPE, "77");
    bad.dtype = (enum tutti_dtype) - 1;
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_DTYPE, "-1");
    bad = good;
    bad.count = SIZE_MAX / 4;
    wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_COUNT, "elements");
    if (collective_reduces(collective)) {
        bad = good;
        bad.op = (tutti_op)99;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_OP, "not an operation");
        bad.op = TUTTI_BAND;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_OP, "band is not for float32");
    }
    if (collective_is_rooted(collective)) {
        bad = good;
        bad.root = size;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_ROOT, "root");
        bad.root = -1;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_ROOT,
                                "root must be a rank, 0 to 2, is -1");
    }
    if (sends) {
        bad = good;
        bad.send = NULL;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_BUFFER, "send");
    }
    if (receives) {
        bad = good;
        bad.recv = NULL;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_BUFFER, "recv");
    }
    if (sends && receives) {
        bad = good;
        bad.recv = send + 1;
        wrong |= expect_invalid(&bad, comm, rank, TUTTI_INVALID_BUFFER, "overlap");
    }
    return wrong;
}

static int all_invalid(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    for (int c = 0; c < COLLECTIVE_COUNT; c++)
        if (one_collective(comm, (enum collective)c, rank, size) != 0) return 1;
    float x = 0;
    RANKS_EXPECT(tutti_allreduce_start(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, NULL) ==
                 TUTTI_INVALID_REQUEST);
    struct tutti_request *none = NULL;
    RANKS_EXPECT(tutti_wait(NULL) == TUTTI_INVALID_REQUEST &&
                 tutti_wait(&none) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_test(NULL) == TUTTI_INVALID_REQUEST &&
                 tutti_test(&none) == TUTTI_INVALID_REQUEST);
    /* An algorithm that cannot do this many ranks, or not in this mode. */
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    float blocks[8];
    options.algorithm = "doubling";
    RANKS_EXPECT(tutti_allgather_with(&x, blocks, 1, TUTTI_FLOAT32, &options, comm) ==
                 TUTTI_INVALID_ALGORITHM);
    options.algorithm = "ring";
    options.deterministic = 1;
    RANKS_EXPECT(tutti_allreduce_with(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, &options, comm) ==
                 TUTTI_INVALID_ALGORITHM);
    struct tutti_failure failure = {.size_bytes = 1};
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_failure(comm, NULL) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_comm_failure(NULL, &failure) == TUTTI_INVALID_COMM);
    RANKS_EXPECT(tutti_comm_abort(NULL, "") == TUTTI_INVALID_COMM);
    /* Nothing of this has changed anything. */
    RANKS_EXPECT(failure_of(comm).status == TUTTI_OK);
    x = 1;
    RANKS_EXPECT(tutti_allreduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK &&
                 x == (float)size);
    return 0;
}

static void invalid_arguments_are_named_and_change_nothing(void **state)
{
    (void)state;
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS)
        assert_int_equal(run(3, (enum ranks_kind)kind, 10 * SECOND, all_invalid, NULL, NULL), 0);
}

static void expect_no_comm(const struct tutti_comm_options *options, enum tutti_status expected,
                           const char *word)
{
    struct tutti_comm *comm = (struct tutti_comm *)&shared;
    assert_int_equal(tutti_comm_create(options, &comm), expected);
    assert_null(comm);
    if (strstr(tutti_error_message(), word) == NULL)
        fail_msg("\"%s\" should name %s", tutti_error_message(), word);
}

static void invalid_options_make_no_communicator(void **state)
{
    (void)state;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.id = &shared->id;
    options.size = 2;
    options.rank = 2;
    expect_no_comm(&options, TUTTI_INVALID_RANK, "rank 2 of 2");
    options.rank = -2;
    expect_no_comm(&options, TUTTI_INVALID_RANK, "rank -2");
    options.rank = 0;
    options.size = 0;
    expect_no_comm(&options, TUTTI_INVALID_RANK, "of 0");
    options.size = 1 << 30;
    expect_no_comm(&options, TUTTI_INVALID_RANK, "size");
    options.size = 2;
    options.algorithms = "allreduce=magic";
    options.init_timeout_ns = SECOND / 10; /* in which it would tell the other rank */
    expect_no_comm(&options, TUTTI_INVALID_OPTIONS, "magic");
    options.algorithms = NULL;
    options.id = NULL;
    expect_no_comm(&options, TUTTI_INVALID_OPTIONS, "id");
    options.size_bytes--;
    expect_no_comm(&options, TUTTI_INVALID_OPTIONS, "size_bytes");
    assert_int_equal(tutti_comm_create(NULL, NULL), TUTTI_INVALID_COMM);
    assert_int_equal(tutti_id_create(NULL), TUTTI_INVALID_OPTIONS);
    assert_int_equal(tutti_comm_free(NULL), TUTTI_OK);
    assert_int_equal(tutti_comm_rank(NULL), -1);
    assert_int_equal(tutti_comm_size(NULL), -1);
    void *memory = &options;
    assert_int_equal(tutti_mem_alloc((size_t)1 << 60, &memory), TUTTI_NO_SPACE);
    assert_null(memory);
    assert_int_equal(tutti_mem_alloc(SIZE_MAX, &memory), TUTTI_NO_SPACE);
    assert_int_equal(tutti_mem_alloc(1, NULL), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_mem_free(&options), TUTTI_INVALID_BUFFER);
    assert_int_equal(tutti_mem_free(NULL), TUTTI_OK);
}

/* ------------------------------------------------------------------------------------ leftovers */

static void expect_nothing_left(const struct belongings *before, int shared_names)
{
    const struct belongings now = belongings_in_the_end(before);
    assert_int_equal(now.descriptors, before->descriptors);
    assert_int_equal(now.mappings, before->mappings);
    assert_int_equal(now.threads, before->threads);
    assert_int_equal(belongings_shared_names(), shared_names);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static int use_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    void *memory;
    RANKS_EXPECT(tutti_mem_alloc(1 << 20, &memory) == TUTTI_OK);
    struct tutti_request *request;
    RANKS_EXPECT(tutti_allreduce_start(memory, memory, 1 << 17, TUTTI_FLOAT64, TUTTI_SUM, NULL,
                                       comm, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK && tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_mem_free(memory) == TUTTI_OK);
    RANKS_EXPECT(size > 1);
    return 0;
}

static int look_around_in_a_process(struct tutti_comm *unused, int rank, int size, uint64_t seed,
                                    void *context)
{
    (void)unused;
    struct belongings before = {0}, now;
    for (int round = 0; round < 3; round++) {
        struct tutti_comm *comm;
        now = round == 0 ? belongings_now() : belongings_in_the_end(&before);
        RANKS_EXPECT(round == 0 || memcmp(&before, &now, sizeof now) == 0);
        before = now;
        RANKS_EXPECT(join_as(rank, size, 10 * SECOND, &comm) == TUTTI_OK);
        if (use_it(comm, rank, size, seed, context) != 0) return 1;
        /* An abort also ends what the other one is not through with. */
        atomic_fetch_add(&shared->ready, 1);
        for (int i = 0; i < 5000 && atomic_load(&shared->ready) < (round + 1) * size; i++)
            ranks_nap_ms(1);
        if (round == 1) tutti_comm_abort(comm, "it must clean up all the same");
        RANKS_EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    }
    return 0;
}

static void nothing_is_left_behind(void **state)
{
    (void)state;
    const struct belongings before = belongings_now();
    const int shared_names = belongings_shared_names();
    assert_int_equal(run(4, RANKS_THREADS, 10 * SECOND, use_it, NULL, NULL), 0);
    expect_nothing_left(&before, shared_names);
    assert_int_equal(run(3, RANKS_THREADS, 10 * SECOND, blocked_and_aborted, NULL, NULL), 0);
    expect_nothing_left(&before, shared_names);
    assert_int_equal(run(3, RANKS_THREADS, 10 * SECOND, one_never_calls, NULL, NULL), 0);
    expect_nothing_left(&before, shared_names);
    const struct ranks_options options = {
        .kind = RANKS_THREADS, .deadline_ms = 20000, .without_comm = true};
    for (int first = 0; first < 2; first++) {
        assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
        assert_int_equal(ranks_run(2, &options, some_are_missing, &first), 0);
        expect_nothing_left(&before, shared_names);
    }
    assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
    assert_int_equal(ranks_run(3, &options, strangers_come_first, NULL), 0);
    expect_nothing_left(&before, shared_names);
    if (ranks_are_threads()) return;
    const struct ranks_options processes = {
        .kind = RANKS_PROCESSES, .deadline_ms = 20000, .without_comm = true};
    assert_int_equal(tutti_id_create(&shared->id), TUTTI_OK);
    atomic_store(&shared->ready, 0);
    assert_int_equal(ranks_run(2, &processes, look_around_in_a_process, NULL), 0);
    expect_nothing_left(&before, shared_names);
    expect_death_is_noticed(3, (struct death){.victim = 1, .within = true});
    expect_nothing_left(&before, shared_names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_between_calls_is_noticed_by_all),
        cmocka_unit_test(a_death_within_a_large_allreduce_is_noticed_by_all),
        cmocka_unit_test(a_death_of_the_last_rank_of_a_process_is_noticed),
        cmocka_unit_test(a_rank_that_never_calls_is_named_at_the_deadline),
        cmocka_unit_test(other_counts_are_a_mismatch),
        cmocka_unit_test(other_dtypes_are_a_mismatch),
        cmocka_unit_test(other_operations_are_a_mismatch),
        cmocka_unit_test(other_algorithms_are_a_mismatch),
        cmocka_unit_test(other_roots_are_a_mismatch),
        cmocka_unit_test(other_collectives_are_a_desync),
        cmocka_unit_test(who_was_through_before_is_told_of_the_desync_too),
        cmocka_unit_test(a_rank_that_is_far_ahead_is_told_of_the_desync),
        cmocka_unit_test(an_abort_from_another_thread_ends_blocked_calls_everywhere),
        cmocka_unit_test(of_many_aborts_one_wins),
        cmocka_unit_test(calls_of_threads_that_compute_end_together),
        cmocka_unit_test(a_rank_that_left_is_named),
        cmocka_unit_test(missing_ranks_are_listed_at_the_start_up_deadline),
        cmocka_unit_test(strangers_are_dropped_and_the_meeting_goes_on),
        cmocka_unit_test(a_crowd_of_silent_strangers_gives_way),
        cmocka_unit_test(of_two_that_say_they_are_one_rank_one_is_refused),
        cmocka_unit_test(invalid_arguments_are_named_and_change_nothing),
        cmocka_unit_test(invalid_options_make_no_communicator),
        cmocka_unit_test(nothing_is_left_behind),
    };
    setenv("TUTTI_LOG", "off", 0); /* failures are what is expected here */
    shared = ranks_share(sizeof *shared);
    cmocka_set_test_filter(getenv("TUTTI_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
