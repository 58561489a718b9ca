/* What a rank may ask of its own calls: how many of each kind, how many bytes, and the last ones
 * one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "tests/worlds/ranks.h"

enum { RANKS = 2, COUNT = 96, TURNS = 600 };

static struct tutti_comm_counters counters_of(const struct tutti_comm *comm, const char *operation)
{
    struct tutti_comm_counters counters = {.size_bytes = sizeof counters};
    if (tutti_comm_count(comm, operation, &counters) != TUTTI_OK) counters.calls = UINT64_MAX;
    return counters;
}

static int count_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    float values[RANKS * COUNT] = {0}, others[RANKS * COUNT];
    const size_t counts[RANKS] = {COUNT, 3};
    struct tutti_request *request;
    const int other = 1 - rank;
    RANKS_EXPECT(size == RANKS);
    RANKS_EXPECT(counters_of(comm, "allreduce").calls == 0);
    RANKS_EXPECT(tutti_allreduce(values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce_start(values, values, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm,
                                       &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_allgatherv(values, others, counts, NULL, TUTTI_FLOAT32, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_reduce_scatterv(values, others, counts, TUTTI_FLOAT32, TUTTI_SUM, comm) ==
                 TUTTI_OK);
    RANKS_EXPECT(counters_of(comm, "allreduce").calls == 2);
    RANKS_EXPECT(counters_of(comm, "allreduce").bytes == 4 * (COUNT + 1));
    RANKS_EXPECT(counters_of(comm, "allgather").bytes == 4 * (COUNT + 3));
    RANKS_EXPECT(counters_of(comm, "reduce_scatter").bytes == 4 * (COUNT + 3));
    /* The root has the counts of all blocks, another rank that of its own. */
    const bool is_root = rank == 0;
    RANKS_EXPECT(tutti_gatherv(values, counts[rank], others, is_root ? counts : NULL, NULL,
                               TUTTI_FLOAT32, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_scatterv(values, is_root ? counts : NULL, NULL, others, counts[rank],
                                TUTTI_FLOAT32, 0, comm) == TUTTI_OK);
    RANKS_EXPECT(counters_of(comm, "gather").bytes == (is_root ? 4 * (COUNT + 3) : 4 * 3));
    RANKS_EXPECT(counters_of(comm, "scatter").bytes == (is_root ? 4 * (COUNT + 3) : 4 * 3));
    RANKS_EXPECT(counters_of(comm, "broadcast").calls == 0);
    RANKS_EXPECT(tutti_send_start(values, COUNT, TUTTI_FLOAT32, other, 7, NULL, comm, &request) ==
                 TUTTI_OK);
    RANKS_EXPECT(tutti_recv(others, COUNT, TUTTI_FLOAT32, other, 7, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(counters_of(comm, "send").bytes == 4 * COUNT);
    RANKS_EXPECT(counters_of(comm, "recv").calls == 1);
    RANKS_EXPECT(counters_of(comm, "sends").calls == UINT64_MAX);
    RANKS_EXPECT(counters_of(NULL, "send").calls == UINT64_MAX);
    RANKS_EXPECT(counters_of(comm, NULL).calls == UINT64_MAX);
    struct tutti_comm_counters unsized = {.size_bytes = 0};
    RANKS_EXPECT(tutti_comm_count(comm, "send", &unsized) == TUTTI_INVALID_OPTIONS);
    return 0;
}

static void calls_and_bytes_are_counted_by_operation(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(RANKS, NULL, count_all, NULL), 0);
}

static int read_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context, (void)size;
    struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
    double values[COUNT] = {0};
    const uint64_t before_ns = clock_now_ns();
    RANKS_EXPECT(tutti_trace_read(comm, TUTTI_TRACE_COLLECTIVES, 0, &entry) == TUTTI_OK);
    RANKS_EXPECT(entry.operation == NULL);
    for (int i = 0; i < TURNS; i++)
        RANKS_EXPECT(tutti_allreduce(values, values, COUNT, TUTTI_FLOAT64, TUTTI_SUM, comm) ==
                     TUTTI_OK);
    RANKS_EXPECT(tutti_broadcast(values, values, 2, TUTTI_FLOAT64, 1, comm) == TUTTI_OK);

    /* The oldest ones are gone; what is there comes in order. */
    uint64_t number = 0, found = 0;
    for (;; number = entry.number + 1, found++) {
        RANKS_EXPECT(tutti_trace_read(comm, TUTTI_TRACE_COLLECTIVES, number, &entry) == TUTTI_OK);
        if (entry.operation == NULL) break;
        RANKS_EXPECT(entry.number == TURNS + 2 - 512 + found);
        RANKS_EXPECT(entry.begin_ns >= before_ns && entry.end_ns >= entry.begin_ns);
        RANKS_EXPECT(entry.end_ns <= clock_now_ns());
        if (entry.number <= TURNS)
            RANKS_EXPECT(strcmp(entry.operation, "allreduce") == 0 && entry.bytes == 8 * COUNT);
        else
            RANKS_EXPECT(strcmp(entry.operation, "broadcast") == 0 && entry.peer == 1);
    }
    RANKS_EXPECT(found == 512);

    if (rank == 0) RANKS_EXPECT(tutti_send(values, 3, TUTTI_FLOAT64, 1, 9, comm) == TUTTI_OK);
    if (rank == 1) RANKS_EXPECT(tutti_recv(values, 3, TUTTI_FLOAT64, 0, 9, NULL, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_trace_read(comm, TUTTI_TRACE_MESSAGES, 1, &entry) == TUTTI_OK);
    RANKS_EXPECT(strcmp(entry.operation, rank == 0 ? "send" : "recv") == 0);
    RANKS_EXPECT(entry.bytes == 24 && entry.peer == 1 - rank && entry.tag == 9);
    RANKS_EXPECT(entry.algorithm == NULL && entry.number == 1);

    RANKS_EXPECT(tutti_trace_read(comm, (enum tutti_trace_of)2, 1, &entry) == TUTTI_INVALID_OPTIONS);
    RANKS_EXPECT(tutti_trace_read(NULL, TUTTI_TRACE_MESSAGES, 1, &entry) == TUTTI_INVALID_COMM);
    entry.size_bytes = 0;
    RANKS_EXPECT(tutti_trace_read(comm, TUTTI_TRACE_MESSAGES, 1, &entry) == TUTTI_INVALID_OPTIONS);
    return 0;
}

static void the_last_calls_can_be_read(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(RANKS, NULL, read_all, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_and_bytes_are_counted_by_operation),
        cmocka_unit_test(the_last_calls_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
