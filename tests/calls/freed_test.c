/* A communicator may be freed before its requests are waited for, and calls on a pointer that is no
 * communicator are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/worlds/ranks.h"

enum { COUNT = 100000 };

/* The harness's communicator stays; each test frees copies of it. */
static struct tutti_comm *copy(struct tutti_comm *comm)
{
    struct tutti_comm *created;
    return tutti_comm_dup(comm, NULL, &created) == TUTTI_OK ? created : NULL;
}

static bool all_are(const int32_t *data, int32_t value)
{
    for (int i = 0; i < COUNT; i++)
        if (data[i] != value) return false;
    return true;
}

static void fill(int32_t *data, int32_t value)
{
    for (int i = 0; i < COUNT; i++) data[i] = value;
}

/* ------------------------------------------------------------------------------------- requests */

static int wait_after_free(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t data[COUNT], other[COUNT];
    struct tutti_comm *freed = copy(comm);
    struct tutti_request *first, *second, *message;
    RANKS_EXPECT(freed != NULL);
    fill(data, 1);
    fill(other, rank);
    RANKS_EXPECT(tutti_allreduce_start(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL, freed,
                                       &first) == TUTTI_OK);
    RANKS_EXPECT(tutti_broadcast_start(other, other, COUNT, TUTTI_INT32, size - 1, NULL, freed,
                                       &second) == TUTTI_OK);
    const int32_t token = 10 + rank;
    int32_t received = -1;
    RANKS_EXPECT(tutti_send(&token, 1, TUTTI_INT32, (rank + 1) % size, 3, freed) == TUTTI_OK);
    RANKS_EXPECT(tutti_recv_start(&received, 1, TUTTI_INT32, (rank + size - 1) % size, 3, NULL,
                                  NULL, freed, &message) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(freed) == TUTTI_OK);
    RANKS_EXPECT(all_are(data, size));
    RANKS_EXPECT(all_are(other, size - 1));
    RANKS_EXPECT(received == 10 + (rank + size - 1) % size);
    RANKS_EXPECT(tutti_test(&second) == TUTTI_OK && second == NULL);
    RANKS_EXPECT(tutti_wait(&first) == TUTTI_OK && first == NULL);
    RANKS_EXPECT(tutti_cancel(&message) == TUTTI_IN_PROGRESS);
    RANKS_EXPECT(tutti_wait(&message) == TUTTI_OK && message == NULL);
    return 0;
}

/* What failed is still told. */
static int wait_after_abort(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                            void *context)
{
    (void)seed, (void)context, (void)size;
    static _Thread_local int32_t data[COUNT];
    struct tutti_comm *freed = copy(comm);
    struct tutti_request *request = NULL;
    RANKS_EXPECT(freed != NULL);
    if (rank == 0) {
        RANKS_EXPECT(tutti_allreduce_start(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL, freed,
                                           &request) == TUTTI_OK);
        RANKS_EXPECT(tutti_comm_abort(freed, "enough") == TUTTI_OK);
    }
    RANKS_EXPECT(tutti_comm_free(freed) == TUTTI_OK);
    if (rank != 0) return 0;
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_ABORTED && request == NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "enough") != NULL);
    return 0;
}

static int group_end_after_free(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                                void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t data[COUNT], other[COUNT];
    struct tutti_comm *freed = copy(comm);
    RANKS_EXPECT(freed != NULL);
    fill(data, 1);
    fill(other, 2);
    RANKS_EXPECT(tutti_group_begin() == TUTTI_OK);
    RANKS_EXPECT(tutti_allreduce(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, freed) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(freed) == TUTTI_OK);
    /* The group spans two communicators now. */
    RANKS_EXPECT(tutti_allreduce(other, other, COUNT, TUTTI_INT32, TUTTI_SUM, comm) == TUTTI_OK);
    RANKS_EXPECT(tutti_group_end() == TUTTI_OK);
    RANKS_EXPECT(all_are(data, size));
    RANKS_EXPECT(all_are(other, 2 * size));
    return 0;
}

static int prepared_after_free(struct tutti_comm *comm, int rank, int size, uint64_t seed,
                               void *context)
{
    (void)seed, (void)context;
    static _Thread_local int32_t data[COUNT];
    struct tutti_comm *freed = copy(comm);
    struct tutti_prepared *runs, *waits;
    struct tutti_request *request, *other;
    RANKS_EXPECT(freed != NULL);
    fill(data, 1);
    RANKS_EXPECT(tutti_allreduce_prepare(data, data, COUNT, TUTTI_INT32, TUTTI_SUM, NULL, freed,
                                         &runs) == TUTTI_OK);
    RANKS_EXPECT(tutti_barrier_prepare(NULL, freed, &waits) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(runs, &request) == TUTTI_OK);
    RANKS_EXPECT(tutti_comm_free(freed) == TUTTI_OK);
    RANKS_EXPECT(all_are(data, size));
    RANKS_EXPECT(tutti_prepared_free(runs) == TUTTI_INVALID_REQUEST);
    RANKS_EXPECT(tutti_wait(&request) == TUTTI_OK);
    RANKS_EXPECT(tutti_start(runs, &request) == TUTTI_INVALID_COMM && request == NULL);
    RANKS_EXPECT(tutti_start(waits, &other) == TUTTI_INVALID_COMM && other == NULL);
    RANKS_EXPECT(strstr(tutti_error_message(), "freed") != NULL);
    RANKS_EXPECT(tutti_prepared_free(runs) == TUTTI_OK);
    RANKS_EXPECT(tutti_prepared_free(waits) == TUTTI_OK);
    return 0;
}

static void requests_outlive_their_communicator(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, wait_after_free, NULL), 0);
    assert_int_equal(ranks_run(1, NULL, wait_after_free, NULL), 0);
    assert_int_equal(ranks_run(2, NULL, wait_after_abort, NULL), 0);
}

static void groups_outlive_their_communicators(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, group_end_after_free, NULL), 0);
}

static void prepared_operations_outlive_their_communicator(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, prepared_after_free, NULL), 0);
}

/* ------------------------------------------------------------------------------ no communicator */

static bool is_refused(enum tutti_status status)
{
    return status == TUTTI_INVALID_COMM && strstr(tutti_error_message(), "not a communicator");
}

static int expect_refused(struct tutti_comm *comm, int rank)
{
    struct tutti_comm_counters counters = {.size_bytes = sizeof counters};
    struct tutti_trace_entry entry = {.size_bytes = sizeof entry};
    float data[8] = {0};
    uint64_t word = 1;
    struct tutti_comm *made = comm;
    struct tutti_mesh *mesh;
    struct tutti_request *request;
    struct tutti_prepared *prepared;
    const struct tutti_axis axis = {"a", 2, NULL};
    struct tutti_footprint footprint = {.size_bytes = sizeof footprint};
    struct tutti_failure failure = {.size_bytes = sizeof failure};
    RANKS_EXPECT(is_refused(tutti_barrier(comm)));
    RANKS_EXPECT(is_refused(tutti_allreduce(data, data, 1, TUTTI_FLOAT32, TUTTI_SUM, comm)));
    RANKS_EXPECT(is_refused(
        tutti_allreduce_start(data, data, 1, TUTTI_FLOAT32, TUTTI_SUM, NULL, comm, &request)));
    RANKS_EXPECT(is_refused(tutti_barrier_prepare(NULL, comm, &prepared)));
    RANKS_EXPECT(is_refused(tutti_send(data, 1, TUTTI_FLOAT32, 0, 0, comm)));
    RANKS_EXPECT(is_refused(tutti_recv(data, 1, TUTTI_FLOAT32, 0, 0, NULL, comm)));
    RANKS_EXPECT(is_refused(tutti_comm_split(comm, 0, 0, NULL, &made)) && made == NULL);
    RANKS_EXPECT(is_refused(tutti_comm_dup(comm, NULL, &made)));
    RANKS_EXPECT(is_refused(tutti_comm_group(comm, &rank, 1, NULL, &made)));
    RANKS_EXPECT(is_refused(tutti_comm_shrink(comm, NULL, &made)));
    RANKS_EXPECT(is_refused(tutti_comm_agree(comm, &word)));
    RANKS_EXPECT(is_refused(tutti_mesh_create(comm, &axis, 1, &mesh)));
    RANKS_EXPECT(is_refused(tutti_comm_abort(comm, "")));
    RANKS_EXPECT(is_refused(tutti_comm_revoke(comm)));
    RANKS_EXPECT(is_refused(tutti_comm_footprint(comm, &footprint)));
    RANKS_EXPECT(is_refused(tutti_comm_failure(comm, &failure)));
    RANKS_EXPECT(is_refused(tutti_trace_dump(comm, "/nonexistent")));
    RANKS_EXPECT(is_refused(tutti_comm_count(comm, "send", &counters)));
    RANKS_EXPECT(is_refused(tutti_trace_read(comm, TUTTI_TRACE_MESSAGES, 1, &entry)));
    RANKS_EXPECT(tutti_comm_rank(comm) == -1);
    RANKS_EXPECT(tutti_comm_size(comm) == -1);
    RANKS_EXPECT(tutti_comm_overlaps(comm) == -1);
    RANKS_EXPECT(is_refused(tutti_comm_free(comm)));
    return 0;
}

static int refuse_all(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    (void)size, (void)seed, (void)context;
    struct tutti_comm *freed = copy(comm);
    RANKS_EXPECT(freed != NULL && tutti_comm_free(freed) == TUTTI_OK);
    int wrong = expect_refused(freed, rank);
    char on_stack[4096];
    memset(on_stack, 0, sizeof on_stack);
    wrong += expect_refused((struct tutti_comm *)(void *)on_stack, rank);
    void *on_heap = calloc(1, 1 << 20);
    RANKS_EXPECT(on_heap != NULL);
    wrong += expect_refused(on_heap, rank);
    free(on_heap);
    wrong += expect_refused((struct tutti_comm *)((char *)comm + 64), rank);
    wrong += expect_refused((struct tutti_comm *)(uintptr_t)1, rank);
    wrong += expect_refused((struct tutti_comm *)(uintptr_t)0xdeadbeefdeadbeefu, rank);
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    return wrong;
}

static void what_is_no_communicator_is_refused(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(2, NULL, refuse_all, NULL), 0);
    assert_int_equal(ranks_run(1, NULL, refuse_all, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_outlive_their_communicator),
        cmocka_unit_test(groups_outlive_their_communicators),
        cmocka_unit_test(prepared_operations_outlive_their_communicator),
        cmocka_unit_test(what_is_no_communicator_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
