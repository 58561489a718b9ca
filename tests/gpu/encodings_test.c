/* Calls in memory of devices whose links are encoded: the bits are those of the same call in memory
 * of the host, with every encoding, wherever each rank keeps its buffers, in streams and without; and
 * lists whose tensors may cut units are refused by name.
 *
 *     [TUTTI_CUDA_DRIVER=libcuda.so.1] tests_gpu_encodings_test
 *
 * ctest: timeout=900
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/gpu/cuda_standin.h"
#include "tests/gpu/device_driver.h"
#include "tests/kit/sanitized.h"
#include "tests/worlds/ranks.h"
#include "tutti/encode.h"
#include "tutti/tutti.h"

enum { COUNT_MAX = 20000, SIZE_MAX_OF_TEST = 3, BLOCKS = SIZE_MAX_OF_TEST };

/* The memory of a rank, for blocks of COUNT_MAX elements. */
struct room {
    float *send, *expected, *got; /* the host's */
    float *pinned;
    void *device_send, *device_recv, *stream;
};

static float value_of(int rank, size_t i)
{
    return (float)((i * 2654435761u + (size_t)rank * 40503u) % 100003) / 100003.0f - 0.5f;
}

static bool open_room(struct room *room)
{
    const size_t bytes = BLOCKS * COUNT_MAX * sizeof(float);
    const char *reason;
    if (!device_driver_open(&reason)) {
        fprintf(stderr, "%s\n", reason);
        return false;
    }
    device_driver_use(0);
    room->send = malloc(bytes);
    room->expected = malloc(bytes);
    room->got = malloc(bytes);
    room->pinned = device_driver_pinned(bytes);
    room->device_send = device_driver_allocate(bytes);
    room->device_recv = device_driver_allocate(bytes);
    room->stream = device_driver_stream();
    return room->send != NULL && room->expected != NULL && room->got != NULL;
}

static void close_room(struct room *room)
{
    device_driver_free_stream(room->stream);
    device_driver_free(room->device_recv);
    device_driver_free(room->device_send);
    device_driver_free_pinned(room->pinned);
    free(room->got);
    free(room->expected);
    free(room->send);
}

/* ---------------------------------------------------------------------------------------- a call */

/* The same on all ranks. */
struct experiment {
    enum {
        ALLREDUCE,
        AVERAGE,
        ALLGATHER,
        BROADCAST,
        REDUCE_SCATTER,
        ALLTOALL,
        ALLGATHERV,
        ALLTOALLV,
        CALL_COUNT
    } call;
    const char *encoding, *algorithm;
    enum tutti_dtype dtype;
    size_t count, offset; /* elements; where buffers begin, in elements */
    bool in_place, some_on_host, in_stream;
};

static size_t size_of(const struct experiment *x)
{
    return x->dtype == TUTTI_FLOAT32 ? 4 : 2;
}

/* Counts of a v form: of the blocks that a rank gives to each rank in an alltoallv, and gets; or of the block that each rank
 * gives. */
static void fill_counts(const struct experiment *x, int rank, int size, size_t *counts)
{
    for (int r = 0; r < size; r++)
        counts[r] = x->count / (1 + (size_t)(x->call == ALLTOALLV ? rank + r : r) % 3);
}

static size_t sum_of_counts(const struct experiment *x, int rank, int size)
{
    size_t counts[SIZE_MAX_OF_TEST], sum = 0;
    fill_counts(x, rank, size, counts);
    for (int r = 0; r < size; r++) sum += counts[r];
    return sum;
}

static size_t elements_sent(const struct experiment *x, int rank, int size)
{
    size_t counts[SIZE_MAX_OF_TEST];
    fill_counts(x, rank, size, counts);
    if (x->call == ALLGATHERV) return counts[rank];
    if (x->call == ALLTOALLV) return sum_of_counts(x, rank, size);
    return x->count * (x->call == REDUCE_SCATTER || x->call == ALLTOALL ? (size_t)size : 1);
}

static size_t elements_received(const struct experiment *x, int rank, int size)
{
    if (x->call == ALLGATHERV || x->call == ALLTOALLV) return sum_of_counts(x, rank, size);
    return x->count * (x->call == ALLGATHER || x->call == ALLTOALL ? (size_t)size : 1);
}

static enum tutti_status make_call(const struct experiment *x, const void *send, void *recv,
                                   const struct tutti_call_options *options, struct tutti_comm *comm)
{
    const size_t n = x->count;
    size_t counts[SIZE_MAX_OF_TEST];
    fill_counts(x, tutti_comm_rank(comm), tutti_comm_size(comm), counts);
    switch (x->call) {
    case ALLREDUCE: return tutti_allreduce_with(send, recv, n, x->dtype, TUTTI_SUM, options, comm);
    case AVERAGE: return tutti_allreduce_with(send, recv, n, x->dtype, TUTTI_AVG, options, comm);
    case ALLGATHER: return tutti_allgather_with(send, recv, n, x->dtype, options, comm);
    case BROADCAST: return tutti_broadcast_with(send, recv, n, x->dtype, 0, options, comm);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter_with(send, recv, n, x->dtype, TUTTI_SUM, options, comm);
    case ALLGATHERV:
        return tutti_allgatherv_with(send, recv, counts, NULL, x->dtype, options, comm);
    case ALLTOALLV:
        return tutti_alltoallv_with(send, counts, NULL, recv, counts, NULL, x->dtype, options, comm);
    default: return tutti_alltoall_with(send, recv, n, x->dtype, options, comm);
    }
}

static void fill(const struct experiment *x, int rank, int size, void *to)
{
    const size_t count = elements_sent(x, rank, size);
    for (size_t i = 0; i < count; i++) {
        const float value = value_of(rank, i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (x->dtype == TUTTI_FLOAT32)
            ((uint32_t *)to)[i] = bits;
        else
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    }
}

static bool runs(const struct experiment *x, struct room *room, int rank, int size,
                 struct tutti_comm *comm)
{
    const size_t sent = elements_sent(x, rank, size) * size_of(x),
                 received = elements_received(x, rank, size) * size_of(x),
                 begin = x->offset * size_of(x);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.encoding = x->encoding;
    options.algorithm = x->algorithm;
    fill(x, rank, size, room->send);
    if (make_call(x, room->send, room->expected, &options, comm) != TUTTI_OK) return false;

    const bool on_host = x->some_on_host && rank % 2 == 1;
    char *const send = on_host ? (char *)room->send : (char *)room->device_send + begin;
    char *const recv = x->in_place ? send
                       : on_host   ? (char *)room->got
                                   : (char *)room->device_recv + begin;
    if (!on_host) device_driver_put(send, room->send, sent);
    if (x->in_stream && !on_host) {
        options.stream = room->stream;
        options.on_stream = 1;
    }
    enum tutti_status status;
    struct tutti_request *request = NULL;
    if (x->in_stream && on_host) { /* calls in streams meet started calls */
        status = tutti_allreduce_start(send, recv, x->count, x->dtype, TUTTI_SUM, &options, comm,
                                       &request);
        if (status == TUTTI_OK) status = tutti_wait(&request);
    } else {
        status = make_call(x, send, recv, &options, comm);
    }
    if (status != TUTTI_OK) {
        fprintf(stderr, "%s: %s\n", x->encoding, tutti_error_message());
        return false;
    }
    if (x->in_stream && !on_host) device_driver_finish(room->stream);
    if (!on_host) device_driver_get(room->got, recv, received);
    if (memcmp(on_host ? (const void *)recv : room->got, room->expected, received) == 0)
        return true;
    fprintf(stderr, "rank %d: call %d of %zu elements in %s differs from the host's\n", rank,
            (int)x->call, x->count, x->encoding);
    return false;
}

/* ----------------------------------------------------------------------------------------- tests */

struct spoken {
    char wish[64];
    bool has_units, takes_halves;
};

static struct spoken spoken_of(int encoding)
{
    struct spoken spoken;
    size_t bytes;
    snprintf(spoken.wish, sizeof spoken.wish, "%s/everywhere/required",
             tutti_encoding_name((enum tutti_encoding)encoding));
    spoken.has_units = encoding >= TUTTI_ENCODING_INT8;
    spoken.takes_halves =
        tutti_encoded_size((enum tutti_encoding)encoding, TUTTI_BFLOAT16, 1, &bytes) == TUTTI_OK;
    return spoken;
}

static int sums_and_moves(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    static const size_t counts[] = {1, 300, 12800, COUNT_MAX - 7};
    struct room room;
    (void)seed, (void)context;
    RANKS_EXPECT(open_room(&room));
    for (int e = TUTTI_ENCODING_FLOAT16; e <= TUTTI_ENCODING_MXFP4; e++)
        for (int call = 0; call < CALL_COUNT; call++) {
            const struct spoken spoken = spoken_of(e);
            const int turn = e * 7 + call * 3;
            struct experiment x = {.call = call,
                                   .encoding = spoken.wish,
                                   .dtype = TUTTI_FLOAT32,
                                   .count = counts[(e + call) % 4],
                                   .offset = (size_t)(turn % 5),
                                   .some_on_host = turn % 3 == 1};
            const bool is_allreduce = call == ALLREDUCE || call == AVERAGE;
            if (call == ALLTOALLV && spoken.has_units) continue; /* refused */
            if (is_allreduce) x.algorithm = "twoshot";
            RANKS_EXPECT(runs(&x, &room, rank, size, comm));
            if (is_allreduce) {
                x.in_place = true;
                x.count = counts[3];
                if (!spoken.has_units) x.algorithm = "ring";
                RANKS_EXPECT(runs(&x, &room, rank, size, comm));
            }
            if (call == ALLREDUCE) {
                x.in_place = false;
                x.in_stream = true;
                x.count = 5000;
                RANKS_EXPECT(runs(&x, &room, rank, size, comm));
            }
            if (!spoken.takes_halves) continue;
            x.in_stream = x.in_place = false;
            x.dtype = TUTTI_BFLOAT16;
            x.count = counts[call % 3];
            RANKS_EXPECT(runs(&x, &room, rank, size, comm));
        }
    RANKS_EXPECT(tutti_barrier(comm) == TUTTI_OK);
    close_room(&room);
    return 0;
}

static void have_queues(const char *queues, const char *connections)
{
    setenv("TUTTI_STANDIN_QUEUES", queues, 1);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", connections, 1);
}

static void run(enum ranks_kind kind, int size, const char *hosts, ranks_function *body)
{
    const struct tutti_comm_options patient = {
        .size_bytes = sizeof patient, .rank = -1, .size = -1, .timeout_ns = 300000000000u};
    const struct ranks_options options = {
        .kind = kind, .deadline_ms = 600000, .comm_options = &patient};
    if (hosts != NULL) setenv("TUTTI_TEST_HOSTS", hosts, 1);
    const int failed = ranks_run(size, &options, body, NULL);
    unsetenv("TUTTI_TEST_HOSTS");
    assert_int_equal(failed, 0);
}

/* Before threads: a child of a process that has used a driver cannot use it. */
static void processes_have_the_bits_of_the_host(void **state)
{
    (void)state;
    if (IS_THREAD_SANITIZED) skip(); /* a child of fork() can start no threads there */
    have_queues("1", "1");
    run(RANKS_PROCESSES, 2, NULL, sums_and_moves);
    run(RANKS_PROCESSES, 3, "2", sums_and_moves);
}

static void threads_have_the_bits_of_the_host(void **state)
{
    (void)state;
    have_queues("64", "32");
    run(RANKS_THREADS, SIZE_MAX_OF_TEST, NULL, sums_and_moves);
}

/* A list of tensors in memory of a device goes in encodings of single elements alone. */
static int lists(struct tutti_comm *comm, int rank, int size, uint64_t seed, void *context)
{
    enum { FIRST = 100, COUNT = 300 };
    struct room room;
    (void)seed, (void)context;
    RANKS_EXPECT(open_room(&room));
    for (size_t i = 0; i < COUNT; i++) room.send[i] = value_of(rank, i);
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.encoding = "bfloat16/everywhere/required";
    options.algorithm = "twoshot";
    RANKS_EXPECT(tutti_allreduce_with(room.send, room.expected, COUNT, TUTTI_FLOAT32, TUTTI_SUM,
                                      &options, comm) == TUTTI_OK);
    float *const first = room.device_send, *const second = (float *)room.device_recv + 3;
    const struct tutti_tensor tensors[] = {{first, FIRST}, {second, COUNT - FIRST}};
    const struct tutti_list list = {.tensors = tensors, .tensor_count = 2};
    device_driver_put(first, room.send, FIRST * sizeof(float));
    device_driver_put(second, room.send + FIRST, (COUNT - FIRST) * sizeof(float));
    RANKS_EXPECT(tutti_allreduce_list_with(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                           comm) == TUTTI_OK);
    device_driver_get(room.got, first, FIRST * sizeof(float));
    device_driver_get(room.got + FIRST, second, (COUNT - FIRST) * sizeof(float));
    RANKS_EXPECT(memcmp(room.got, room.expected, COUNT * sizeof(float)) == 0);
    options.encoding = "int8/everywhere/required";
    RANKS_EXPECT(tutti_allreduce_list_with(&list, &list, TUTTI_FLOAT32, TUTTI_SUM, &options,
                                           comm) == TUTTI_UNSUPPORTED);
    RANKS_EXPECT(strstr(tutti_error_message(), "may end within one of its units") != NULL);
    (void)size;
    close_room(&room);
    return 0;
}

static void lists_go_in_encodings_of_single_elements(void **state)
{
    (void)state;
    have_queues("64", "32");
    run(RANKS_THREADS, 2, NULL, lists);
}

int main(void)
{
    setenv("TUTTI_CUDA_DRIVER", cuda_standin_file(), 0);
    setenv("TUTTI_STANDIN_WAIT", "1", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_have_the_bits_of_the_host),
        cmocka_unit_test(threads_have_the_bits_of_the_host),
        cmocka_unit_test(lists_go_in_encodings_of_single_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
