/* Calls that wait for gates: they run when the gate opens and not before, hold up nobody else, and
 * tell the gate once that they are over, whatever ends them.
 *
 * The interface has no gates yet, so the calls are made here as src/api/check.c makes them. What
 * tutti-trace says about them is in tests/tools/trace_test.sh.
 *
 * ctest: label=once waits
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/op.h"
#include "call/call.h"
#include "call/communicator.h"
#include "call/gated.h"
#include "call/start.h"
#include "os/clock.h"
#include "tests/kit/cases.h"
#include "tests/kit/log_reader.h"
#include "tests/worlds/dumped.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 3, COUNT = 1000, LARGE = 100000, UNTOUCHED = -7 };
static const uint64_t MILLISECOND = 1000000;

/* ------------------------------------------------------------------------------ gates and calls */

struct gate {
    struct operation_gate base;
    _Atomic bool opens, has_opened, is_done;
    _Atomic int looks, ends, mistakes;
};

static bool is_open(struct operation_gate *base)
{
    struct gate *gate = (struct gate *)base;
    gate->looks++;
    if (gate->has_opened || gate->ends > 0) gate->mistakes++;
    if (!gate->opens) return false;
    gate->has_opened = true;
    return true;
}

static void end(struct operation_gate *base, bool is_done)
{
    struct gate *gate = (struct gate *)base;
    if (gate->ends++ > 0 || (is_done && !gate->has_opened)) gate->mistakes++;
    gate->is_done = is_done;
}

static void gate_init(struct gate *gate)
{
    static const struct operation_gate_ops ops = {is_open, end};
    *gate = (struct gate){.base = {&ops}};
}

static bool ended(const struct gate *gate, bool is_done)
{
    return gate->ends == 1 && gate->is_done == is_done && gate->mistakes == 0;
}

static struct call sum_call(struct tutti_comm *comm, int32_t *send, int32_t *recv, size_t count,
                            uint64_t timeout_ms, struct gate *gate)
{
    const struct tutti_operation *op = op_resolve(TUTTI_SUM);
    struct call call = {.what = {.collective = COLLECTIVE_ALLREDUCE,
                                 .dtype = TUTTI_INT32,
                                 .op = op->kind,
                                 .count = count},
                        .op = op,
                        .send = send,
                        .recv = recv,
                        .in_place = send == recv,
                        .timeout_ns = timeout_ms > 0 ? timeout_ms * MILLISECOND
                                                     : comm->team.settings.timeout_ns};
    if (gate != NULL && gated_set(&call, &gate->base) != TUTTI_OK) abort();
    return call;
}

static enum tutti_status start(struct tutti_comm *comm, int32_t *send, int32_t *recv, size_t count,
                               uint64_t timeout_ms, struct gate *gate,
                               struct tutti_request **request)
{
    struct call call = sum_call(comm, send, recv, count, timeout_ms, gate);
    return call_start(comm, &call, false, request);
}

static enum tutti_status block(struct tutti_comm *comm, int32_t *send, int32_t *recv, size_t count,
                               uint64_t timeout_ms, struct gate *gate)
{
    struct call call = sum_call(comm, send, recv, count, timeout_ms, gate);
    return call_run(comm, &call);
}

static void fill(int32_t *data, size_t count, int32_t value)
{
    for (size_t i = 0; i < count; i++) data[i] = value;
}

static bool is_all(const int32_t *data, size_t count, int32_t value)
{
    for (size_t i = 0; i < count; i++)
        if (data[i] != value) return false;
    return true;
}

/* A thread that opens a gate after a while, as a device would. */
struct opener {
    pthread_t thread;
    struct gate *gate;
    long ms;
    long awake_ms; /* after so much of it, it counts the looks at the gate */
    int looks;
    int32_t *send; /* and fills it before that with a value; or NULL */
    size_t count;
    int32_t value;
};

static void *open_later(void *argument)
{
    struct opener *opener = argument;
    ranks_nap_ms(opener->awake_ms);
    const int before = opener->gate->looks;
    ranks_nap_ms(opener->ms - opener->awake_ms);
    opener->looks = opener->gate->looks - before;
    if (opener->send != NULL) fill(opener->send, opener->count, opener->value);
    opener->gate->opens = true;
    return NULL;
}

static int run(int size, int kind, uint64_t timeout_ms, ranks_function *function,
               struct ranks_outcome *outcomes, void *context)
{
    struct tutti_comm_options comm_options = TUTTI_COMM_OPTIONS_INIT;
    comm_options.timeout_ns = timeout_ms * MILLISECOND;
    const struct ranks_options options = {.kind = (enum ranks_kind)kind,
                                          .deadline_ms = 50000,
                                          .comm_options = &comm_options,
                                          .outcomes = outcomes};
    return ranks_run(size, &options, function, context);
}

static void run_both_kinds(uint64_t timeout_ms, ranks_function *function)
{
    for (int kind = RANKS_DEFAULT; kind <= RANKS_THREADS && !ranks_repeat(kind);
         kind += RANKS_THREADS)
        assert_int_equal(run(RANKS, kind, timeout_ms, function, NULL, NULL), 0);
}

static uint64_t ms_since(uint64_t begin_ns)
{
    return (clock_now_ns() - begin_ns) / MILLISECOND;
}

/* ------------------------------------------------------------------------------------ they open */

/* The gates of a large started call and of a small blocking one open later than the deadline would
 * be, and what is sent is written just before. */
static int open_after_the_deadline(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                   void *context)
{
    (void)seed, (void)context;
    enum { CLOSED_MS = 1200, DEADLINE_MS = 1000 };
    const size_t counts[] = {LARGE, 2};
    int32_t *send[2], *recv[2];
    struct gate gates[2];
    struct opener openers[2];
    struct tutti_request *request;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        send[i] = malloc(counts[i] * sizeof **send);
        recv[i] = malloc(counts[i] * sizeof **recv);
        RANKS_EXPECT(send[i] != NULL && recv[i] != NULL);
        gate_init(&gates[i]);
        fill(send[i], counts[i], UNTOUCHED);
        fill(recv[i], counts[i], UNTOUCHED);
        openers[i] = (struct opener){.gate = &gates[i],
                                     .ms = CLOSED_MS,
                                     .send = send[i],
                                     .count = counts[i],
                                     .value = rank + i};
        RANKS_EXPECT(pthread_create(&openers[i].thread, NULL, open_later, &openers[i]) == 0);
    }
    RANKS_EXPECT(start(comm, send[0], recv[0], counts[0], DEADLINE_MS, &gates[0], &request) ==
                 TUTTI_OK);
    ranks_nap_ms(CLOSED_MS / 4);
    RANKS_EXPECT(tutti_test(&request) == TUTTI_IN_PROGRESS);
    RANKS_EXPECT(gates[0].ends == 0 && is_all(recv[0], counts[0], UNTOUCHED));
    RANKS_EXPECT(block(comm, send[1], recv[1], counts[1], DEADLINE_MS, &gates[1]) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(ended(&gates[i], true));
        RANKS_EXPECT(is_all(recv[i], counts[i], size * (size - 1) / 2 + size * i));
        RANKS_EXPECT(pthread_join(openers[i].thread, NULL) == 0);
        free(send[i]);
        free(recv[i]);
    }
    RANKS_EXPECT(comm->gated.count == 0);
    return 0;
}

static void the_deadline_counts_from_when_the_gate_opens(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, RANKS_DEFAULT, 20000, open_after_the_deadline, NULL, NULL), 0);
}

/* A thread that waits for a gate looks at it often enough, and not without a pause. */
static int look_now_and_then(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                             void *context)
{
    (void)seed, (void)context;
    enum { AWAKE_MS = 100, CLOSED_MS = 400 };
    struct gate gate;
    int32_t data = 1;
    gate_init(&gate);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    struct opener opener = {.gate = &gate, .ms = CLOSED_MS, .awake_ms = AWAKE_MS};
    RANKS_EXPECT(pthread_create(&opener.thread, NULL, open_later, &opener) == 0);
    RANKS_EXPECT(block(comm, &data, &data, 1, 0, &gate) == TUTTI_OK);
    RANKS_EXPECT(data == size && pthread_join(opener.thread, NULL) == 0);
    RANKS_EXPECT(opener.looks > 2 &&
                 opener.looks < 20000); /* on a crowded machine it gets few turns */
    return 0;
}

static void a_closed_gate_is_looked_at_now_and_then(void **state)
{
    (void)state;
    assert_int_equal(run(RANKS, RANKS_THREADS, 20000, look_now_and_then, NULL, NULL), 0);
}

static int pass_by(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    enum { SLOTS = STARTED_SLOT_COUNT, CALLS = SLOTS + 4 };
    static _Thread_local int32_t data[CALLS][COUNT];
    struct gate gates[CALLS];
    struct tutti_request *requests[CALLS], *other;
    int32_t one = 1;
    struct tutti_comm *copy;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    /* One waits: calls of all other slots pass, and those of other communicators. */
    for (int i = 0; i < CALLS; i++) gate_init(&gates[i]);
    fill(data[0], COUNT, rank);
    RANKS_EXPECT(start(comm, data[0], data[0], COUNT, 0, &gates[0], &requests[0]) == TUTTI_OK);
    for (int i = 1; i < SLOTS; i++) {
        one = 1;
        RANKS_EXPECT(tutti_allreduce_start(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                           &other) == TUTTI_OK);
        RANKS_EXPECT(tutti_wait(&other) == TUTTI_OK && one == size);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK && tutti_barrier(copy) == TUTTI_OK);
    }
    RANKS_EXPECT(gates[0].ends == 0 && is_all(data[0], COUNT, rank));
    gates[0].opens = true;
    RANKS_EXPECT(tutti_wait(&requests[0]) == TUTTI_OK && ended(&gates[0], true));
    RANKS_EXPECT(is_all(data[0], COUNT, size * (size - 1) / 2));
    /* All slots are taken, and some calls wait in line; the gates open from the last to the
     * first. */
    gate_init(&gates[0]);
    for (int i = 0; i < CALLS; i++) {
        fill(data[i], COUNT, rank + i);
        RANKS_EXPECT(start(comm, data[i], data[i], COUNT, 0, &gates[i], &requests[i]) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK && tutti_barrier(copy) == TUTTI_OK);
    for (int i = CALLS - 1; i >= 0; i--) gates[i].opens = true;
    for (int i = CALLS - 1; i >= 0; i--) {
        RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK && ended(&gates[i], true));
        RANKS_EXPECT(is_all(data[i], COUNT, size * (size - 1) / 2 + size * i));
    }
    RANKS_EXPECT(comm->gated.count == 0);
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    return 0;
}

static void other_calls_pass_one_that_waits(void **state)
{
    (void)state;
    run_both_kinds(20000, pass_by);
}

/* A blocking call that waits moves what was started, too. */
static int move_others_meanwhile(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t started[LARGE];
    struct tutti_request *request;
    struct gate gate;
    int32_t data = 1;
    gate_init(&gate);
    fill(started, LARGE, 1);
    RANKS_EXPECT(tutti_allreduce_start(started, started, LARGE, TUTTI_INT32, TUTTI_SUM, NULL, comm,
                                       &request) == TUTTI_OK);
    struct opener opener = {.gate = &gate, .ms = rank == 1 ? 200 : 0};
    RANKS_EXPECT(pthread_create(&opener.thread, NULL, open_later, &opener) == 0);
    RANKS_EXPECT(block(comm, &data, &data, 1, 0, &gate) == TUTTI_OK);
    RANKS_EXPECT(data == size && ended(&gate, true));
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && is_all(started, LARGE, size));
    RANKS_EXPECT(pthread_join(opener.thread, NULL) == 0);
    return 0;
}

static void a_blocking_call_waits_and_moves_started_ones(void **state)
{
    (void)state;
    run_both_kinds(20000, move_others_meanwhile);
}

static int run_prepared(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t data[COUNT];
    struct tutti_prepared *prepared;
    struct tutti_request *request;
    struct gate gate;
    gate_init(&gate);
    struct call call = sum_call(comm, data, data, COUNT, 0, &gate);
    RANKS_EXPECT(call_prepare(comm, &call, &prepared) == TUTTI_OK);
    for (int i = 0; i < 3; i++) {
        fill(data, COUNT, rank + i);
        gate_init(&gate);
        RANKS_EXPECT(tutti_start(prepared, &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK && gate.ends == 0);
        gate.opens = true;
        RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK && ended(&gate, true));
        RANKS_EXPECT(is_all(data, COUNT, size * (size - 1) / 2 + size * i));
    }
    RANKS_EXPECT(tutti_prepared_free(prepared) == TUTTI_OK);
    return 0;
}

static void a_prepared_call_waits_in_each_run(void **state)
{
    (void)state;
    run_both_kinds(20000, run_prepared);
    assert_int_equal(run(1, RANKS_THREADS, 20000, run_prepared, NULL, NULL), 0);
}

/* ------------------------------------------------------------------------------ they never open */

/* Rank 1 aborts while the others wait: some started, some in line, and a blocking one. */
static int abort_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    enum { CALLS = STARTED_SLOT_COUNT + 2 };
    static _Thread_local int32_t data[CALLS + 1][COUNT];
    struct gate gates[CALLS + 1];
    struct tutti_request *requests[CALLS], *refused;
    for (int i = 0; i <= CALLS; i++) {
        gate_init(&gates[i]);
        fill(data[i], COUNT, UNTOUCHED);
        if (i < CALLS)
            RANKS_EXPECT(start(comm, data[i], data[i], COUNT, 0, &gates[i], &requests[i]) ==
                         TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 1) {
        ranks_nap_ms(100);
        RANKS_EXPECT(tutti_comm_abort(comm, "enough") == TUTTI_OK);
    }
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(block(comm, data[CALLS], data[CALLS], COUNT, 0, &gates[CALLS]) == TUTTI_ABORTED);
    RANKS_EXPECT(ended(&gates[CALLS], false));
    for (int i = 0; i < CALLS; i++) {
        RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_ABORTED && ended(&gates[i], false));
        gates[i].opens = true;
    }
    RANKS_EXPECT(ms_since(begin_ns) < 5000 && comm->gated.count == 0);
    ranks_nap_ms(50);
    for (int i = 0; i <= CALLS; i++)
        RANKS_EXPECT(is_all(data[i], COUNT, UNTOUCHED) && ended(&gates[i], false));
    /* A start that is refused tells nobody, a blocking call does. */
    gate_init(&gates[0]);
    RANKS_EXPECT(start(comm, data[0], data[0], COUNT, 0, &gates[0], &refused) == TUTTI_ABORTED);
    RANKS_EXPECT(gates[0].ends == 0 && refused == NULL);
    RANKS_EXPECT(block(comm, data[0], data[0], COUNT, 0, &gates[0]) == TUTTI_ABORTED);
    RANKS_EXPECT(ended(&gates[0], false) && !gates[0].has_opened);
    return 0;
}

static void an_abort_ends_those_that_wait(void **state)
{
    (void)state;
    run_both_kinds(20000, abort_it);
    assert_int_equal(run(2, RANKS_THREADS, 20000, abort_it, NULL, NULL), 0);
}

static int one_dies(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    _Atomic int *const met = context;
    (void)seed;
    static int32_t data[2][COUNT];
    struct gate gates[2];
    struct tutti_request *request;
    for (int i = 0; i < 2; i++) {
        gate_init(&gates[i]);
        fill(data[i], COUNT, UNTOUCHED);
    }
    RANKS_EXPECT(start(comm, data[0], data[0], COUNT, 0, &gates[0], &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_meet(met, size);
    if (rank == 1) raise(SIGKILL);
    if (rank == 0)
        RANKS_EXPECT(block(comm, data[1], data[1], COUNT, 0, &gates[1]) == TUTTI_PROC_FAILED &&
                     ended(&gates[1], false));
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_PROC_FAILED && ended(&gates[0], false));
    gates[0].opens = true;
    ranks_nap_ms(20);
    RANKS_EXPECT(is_all(data[0], COUNT, UNTOUCHED) && is_all(data[1], COUNT, UNTOUCHED));
    return 0;
}

static void a_death_ends_those_that_wait(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    struct ranks_outcome outcomes[RANKS];
    const uint64_t begin_ns = clock_now_ns();
    assert_int_equal(
        run(RANKS, RANKS_PROCESSES, 40000, one_dies, outcomes, ranks_share(sizeof(_Atomic int))), 1);
    assert_int_equal(outcomes[1].fate, RANKS_SIGNALLED);
    assert_true(ms_since(begin_ns) < 20000);
}

/* Rank 1 does not call it; rank 0 waits for its gate first, which is nobody's fault, and then for
 * rank 1. */
static int time_out_after_opening(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                  void *context)
{
    (void)size, (void)seed, (void)context;
    enum { CLOSED_MS = 1900, DEADLINE_MS = 300 }; /* 1.5 s is enough to be reported as late */
    static int32_t data[COUNT];
    struct gate gate;
    struct tutti_request *request;
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    if (rank == 1) {
        const uint64_t begin_ns = clock_now_ns();
        while (!board_has_failed(comm->health.board) && ms_since(begin_ns) < 10000) ranks_nap_ms(5);
        RANKS_EXPECT(tutti_barrier(comm) == TUTTI_TIMEOUT);
        return 0;
    }
    gate_init(&gate);
    fill(data, COUNT, UNTOUCHED);
    RANKS_EXPECT(start(comm, data, data, COUNT, DEADLINE_MS, &gate, &request) == TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    while (ms_since(begin_ns) < CLOSED_MS) {
        RANKS_EXPECT(tutti_test(&request) == TUTTI_IN_PROGRESS);
        RANKS_EXPECT(!comm->calls.report.is_open && comm->health.straggler.sequence == 0);
        ranks_nap_ms(5);
    }
    struct record record;
    RANKS_EXPECT(recorder_read(&comm->health.recorder, 2, &record));
    RANKS_EXPECT(record.is_gated && record.waits_for == -1 && record.end_ns == 0);
    const uint64_t opened_ns = clock_now_ns();
    gate.opens = true;
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_TIMEOUT && ended(&gate, false) && gate.has_opened);
    RANKS_EXPECT(ms_since(opened_ns) + 1 >= DEADLINE_MS);
    RANKS_EXPECT(strstr(tutti_error_message(), "has not called it") != NULL);
    RANKS_EXPECT(recorder_read(&comm->health.recorder, 2, &record));
    RANKS_EXPECT(!record.is_gated && record.waits_for == 1);
    return 0;
}

static void a_deadline_after_the_opening_names_who_has_not_called(void **state)
{
    (void)state;
    assert_int_equal(run(2, RANKS_DEFAULT, 20000, time_out_after_opening, NULL, NULL), 0);
}

/* The others wait for rank 1, which has called it. context: for so many ms. */
static int blame_the_gate(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed;
    static _Thread_local int32_t data[COUNT];
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    struct gate gate;
    gate_init(&gate);
    fill(data, COUNT, UNTOUCHED);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(block(comm, data, data, COUNT, *(uint64_t *)context, rank == 1 ? &gate : NULL) ==
                 TUTTI_TIMEOUT);
    RANKS_EXPECT(ms_since(begin_ns) < 10000);
    if (rank == 1) RANKS_EXPECT(ended(&gate, false) && is_all(data, COUNT, UNTOUCHED));
    RANKS_EXPECT(tutti_comm_failure(comm, &failure) == TUTTI_OK);
    RANKS_EXPECT(failure.status == TUTTI_TIMEOUT && failure.culprit == 1);
    RANKS_EXPECT(strstr(failure.message, "has called it, and waits for its gate") != NULL);
    return 0;
}

static void count_line(const char *line, void *context)
{
    if (strstr(line, "LATE: rank 1 (") != NULL &&
        strstr(line, "has called allreduce(count 1000, int32, sum) #2, and waits for its gate") !=
            NULL)
        ++*(_Atomic int *)context;
}

static void a_rank_whose_gate_is_closed_is_named_as_such(void **state)
{
    (void)state;
    uint64_t deadline_ms = 2000; /* it is said after 1.5 s */
    _Atomic int *lines = ranks_share(sizeof *lines);
    struct log_reader reader;
    log_reader_begin(&reader, count_line, lines);
    const int bad = run(RANKS, RANKS_DEFAULT, 20000, blame_the_gate, NULL, &deadline_ms);
    log_reader_end(&reader);
    assert_int_equal(bad, 0);
    assert_true(*lines > 0);
}

static void so_it_is_by_ranks_of_other_hosts(void **state)
{
    (void)state;
    if (ranks_are_threads()) skip();
    uint64_t deadline_ms = 800;
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    const int bad = run(2, RANKS_PROCESSES, 20000, blame_the_gate, NULL, &deadline_ms);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(bad, 0);
}

/* ---------------------------------------------------------------------------- communicators end */

/* A communicator is freed while calls that nobody waits for are at their gates, which open a little
 * later. */
static int free_before_it_opens(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t data[2][COUNT];
    struct gate gates[2];
    struct tutti_request *requests[2];
    struct opener openers[2];
    struct tutti_comm *copy;
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        gate_init(&gates[i]);
        fill(data[i], COUNT, rank);
        RANKS_EXPECT(start(copy, data[i], data[i], COUNT, 0, &gates[i], &requests[i]) == TUTTI_OK);
        openers[i] = (struct opener){.gate = &gates[i], .ms = 100 + 50 * i};
        RANKS_EXPECT(pthread_create(&openers[i].thread, NULL, open_later, &openers[i]) == 0);
    }
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        RANKS_EXPECT(pthread_join(openers[i].thread, NULL) == 0);
        RANKS_EXPECT(ended(&gates[i], true) && is_all(data[i], COUNT, size * (size - 1) / 2));
        RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK);
    }
    return 0;
}

static void a_communicator_that_is_freed_waits_for_gates(void **state)
{
    (void)state;
    run_both_kinds(20000, free_before_it_opens);
    assert_int_equal(run(1, RANKS_THREADS, 20000, free_before_it_opens, NULL, NULL), 0);
}

static int free_what_never_opens(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                 void *context)
{
    (void)size, (void)seed, (void)context;
    static _Thread_local int32_t data[COUNT];
    struct gate gate;
    struct tutti_request *request;
    struct tutti_comm *copy;
    gate_init(&gate);
    RANKS_EXPECT(tutti_comm_dup(comm, NULL, &copy) == TUTTI_OK);
    fill(data, COUNT, UNTOUCHED);
    RANKS_EXPECT(start(copy, data, data, COUNT, 300, &gate, &request) == TUTTI_OK);
    const uint64_t begin_ns = clock_now_ns();
    RANKS_EXPECT(tutti_comm_free(copy) == TUTTI_OK);
    RANKS_EXPECT(ms_since(begin_ns) >= 200 && ms_since(begin_ns) < 10000);
    RANKS_EXPECT(ended(&gate, false) && is_all(data, COUNT, UNTOUCHED));
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_TIMEOUT);
    RANKS_EXPECT(strstr(tutti_error_message(), "waits for its gate") != NULL);
    return 0;
}

static void but_no_longer_than_until_the_deadline(void **state)
{
    (void)state;
    run_both_kinds(20000, free_what_never_opens);
    assert_int_equal(run(1, RANKS_THREADS, 20000, free_what_never_opens, NULL, NULL), 0);
}

/* ---------------------------------------------------------------------------------------- alone */

static int wait_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    enum { CALLS = STARTED_SLOT_COUNT + 3 };
    static int32_t send[CALLS][COUNT], recv[CALLS][COUNT];
    struct gate gates[CALLS];
    struct tutti_request *requests[CALLS];
    for (int i = 0; i < CALLS; i++) {
        gate_init(&gates[i]);
        fill(send[i], COUNT, UNTOUCHED);
        fill(recv[i], COUNT, UNTOUCHED);
        RANKS_EXPECT(start(comm, send[i], recv[i], COUNT, 0, &gates[i], &requests[i]) == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    ranks_nap_ms(20);
    for (int i = 0; i < CALLS; i++) {
        RANKS_EXPECT(tutti_test(&requests[i]) == TUTTI_IN_PROGRESS && gates[i].ends == 0);
        RANKS_EXPECT(is_all(recv[i], COUNT, UNTOUCHED));
        fill(send[i], COUNT, i);
    }
    for (int i = CALLS - 1; i >= 0; i--) gates[i].opens = true;
    for (int i = 0; i < CALLS; i++) {
        RANKS_EXPECT(tutti_wait(&requests[i]) == TUTTI_OK && ended(&gates[i], true));
        RANKS_EXPECT(is_all(recv[i], COUNT, i));
    }
    /* A blocking one. */
    gate_init(&gates[0]);
    struct opener opener = {
        .gate = &gates[0], .ms = 50, .send = send[0], .count = COUNT, .value = 42};
    RANKS_EXPECT(pthread_create(&opener.thread, NULL, open_later, &opener) == 0);
    RANKS_EXPECT(block(comm, send[0], recv[0], COUNT, 0, &gates[0]) == TUTTI_OK);
    RANKS_EXPECT(ended(&gates[0], true) && is_all(recv[0], COUNT, 42));
    RANKS_EXPECT(pthread_join(opener.thread, NULL) == 0);
    RANKS_EXPECT(comm->gated.count == 0);
    return 0;
}

static void a_rank_alone_waits_for_its_gates(void **state)
{
    (void)state;
    assert_int_equal(run(1, RANKS_THREADS, 20000, wait_alone, NULL, NULL), 0);
}

static void *abort_later(void *argument)
{
    ranks_nap_ms(50);
    return tutti_comm_abort(argument, "enough") == TUTTI_OK ? NULL : argument;
}

static int abort_alone(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    static int32_t data[COUNT];
    struct gate gates[2];
    struct tutti_request *request;
    pthread_t thread;
    void *failed;
    gate_init(&gates[0]);
    gate_init(&gates[1]);
    fill(data, COUNT, UNTOUCHED);
    RANKS_EXPECT(start(comm, data, data, COUNT, 0, &gates[0], &request) == TUTTI_OK);
    RANKS_EXPECT(pthread_create(&thread, NULL, abort_later, comm) == 0);
    RANKS_EXPECT(block(comm, data, data, COUNT, 0, &gates[1]) == TUTTI_ABORTED);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_ABORTED);
    RANKS_EXPECT(ended(&gates[0], false) && ended(&gates[1], false));
    RANKS_EXPECT(pthread_join(thread, &failed) == 0 && failed == NULL);
    return 0;
}

static void an_abort_ends_the_wait_of_a_rank_alone(void **state)
{
    (void)state;
    assert_int_equal(run(1, RANKS_THREADS, 20000, abort_alone, NULL, NULL), 0);
}

/* ------------------------------------------------------------------------------------ the trace */

/* How often a dump of a communicator says that a call waits for its gate; -1: no dump. */
static int waits_in_dump(struct tutti_comm *comm)
{
    return dumped_count(comm, "\"state\": \"running\", \"waits_for_gate\": true");
}

/* A thread that finds the domain held leaves its call to the holder, which begins it a little
 * later. */
static bool dump_comes_to_show(struct tutti_comm *comm, int waits)
{
    for (int looks = 0; looks < 10000; looks++) {
        const int shown = waits_in_dump(comm);
        if (shown == waits || shown < 0) return shown == waits;
        ranks_nap_ms(1);
    }
    return false;
}

static int trace_it(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    int32_t data[2] = {0};
    struct gate gates[2];
    struct tutti_request *requests[2];
    for (int i = 0; i < 2; i++) {
        gate_init(&gates[i]);
        RANKS_EXPECT(start(comm, &data[i], &data[i], 1, 0, &gates[i], &requests[i]) == TUTTI_OK);
    }
    RANKS_EXPECT(dump_comes_to_show(comm, 2));
    gates[1].opens = true;
    RANKS_EXPECT(tutti_wait(&requests[1]) == TUTTI_OK && waits_in_dump(comm) == 1);
    gates[0].opens = true;
    RANKS_EXPECT(tutti_wait(&requests[0]) == TUTTI_OK && waits_in_dump(comm) == 0);
    return 0;
}

static void the_flight_recorder_shows_who_waits_for_a_gate(void **state)
{
    (void)state;
    assert_int_equal(run(2, RANKS_DEFAULT, 20000, trace_it, NULL, NULL), 0);
    assert_int_equal(run(1, RANKS_THREADS, 20000, trace_it, NULL, NULL), 0);
}

/* As a program that tests/tools/trace_test.sh starts: the gate of rank 1 never opens. */
static int be_a_rank(void)
{
    struct tutti_comm *comm;
    struct gate gate;
    int32_t data = 1;
    if (tutti_comm_create(NULL, &comm) != TUTTI_OK) {
        fprintf(stderr, "%s\n", tutti_error_message());
        return 99;
    }
    gate_init(&gate);
    const bool waits = tutti_comm_rank(comm) == 1;
    const enum tutti_status status = block(comm, &data, &data, 1, 0, waits ? &gate : NULL);
    return tutti_comm_free(comm) == TUTTI_OK ? (int)status : 99;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "scene") == 0) return be_a_rank();
    setenv("TUTTI_LOG", "warn", 1); /* which a process reads once: one test looks for a line */
    setenv("TUTTI_SECRET", "only the ranks of this test know it", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_deadline_counts_from_when_the_gate_opens),
        cmocka_unit_test(a_closed_gate_is_looked_at_now_and_then),
        cmocka_unit_test(other_calls_pass_one_that_waits),
        cmocka_unit_test(a_blocking_call_waits_and_moves_started_ones),
        cmocka_unit_test(a_prepared_call_waits_in_each_run),
        cmocka_unit_test(an_abort_ends_those_that_wait),
        cmocka_unit_test(a_death_ends_those_that_wait),
        cmocka_unit_test(a_deadline_after_the_opening_names_who_has_not_called),
        cmocka_unit_test(a_rank_whose_gate_is_closed_is_named_as_such),
        cmocka_unit_test(so_it_is_by_ranks_of_other_hosts),
        cmocka_unit_test(a_communicator_that_is_freed_waits_for_gates),
        cmocka_unit_test(but_no_longer_than_until_the_deadline),
        cmocka_unit_test(a_rank_alone_waits_for_its_gates),
        cmocka_unit_test(an_abort_ends_the_wait_of_a_rank_alone),
        cmocka_unit_test(the_flight_recorder_shows_who_waits_for_a_gate),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
