/* old.c - a program of version 0.1, compiled with the header of 0.1, which two ranks run with the
 * library of today: all its structs have the sizes that they had then, and behind each struct lie
 * bytes that the library must not touch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti_0_1.h"

#define EXPECT(condition)                                                         \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "old.c:%d: not so: %s\n(%s)\n", __LINE__, #condition, \
                    tutti_error_message());                                       \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

/* A struct with a fence behind it, which an options struct that is read too far shows, and a result
 * that is written too far changes. */
#define FENCED(type)             \
    struct {                     \
        struct type is;          \
        unsigned char fence[64]; \
    }
#define FENCE(fenced) memset((fenced).fence, 0xA5, sizeof(fenced).fence)

static int is_whole(const unsigned char *fence)
{
    for (int i = 0; i < 64; i++)
        if (fence[i] != 0xA5) return 0;
    return 1;
}

static struct tutti_id shared_id;

static int store_set(void *context, const char *key, const void *value, size_t value_bytes)
{
    (void)context, (void)key;
    memcpy(&shared_id, value, value_bytes);
    return 0;
}

static int store_get(void *context, const char *key, void *value, size_t value_bytes,
                     uint64_t timeout_ns)
{
    (void)context, (void)key, (void)timeout_ns;
    memcpy(value, &shared_id, value_bytes);
    return 0;
}

/* Sums what bytes of 1 and 2 would be if they were numbers: something of the program's own. */
static void combine(const void *left, const void *right, void *result, size_t count,
                    enum tutti_dtype dtype, void *context)
{
    (void)context, (void)dtype;
    for (size_t i = 0; i < count; i++)
        ((int32_t *)result)[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
}

static void alone_through_a_store(void)
{
    FENCED(tutti_store) store;
    FENCED(tutti_comm_options) options = {TUTTI_COMM_OPTIONS_INIT, {0}};
    FENCE(store);
    FENCE(options);
    store.is = (struct tutti_store){sizeof store.is, store_set, store_get, NULL};
    options.is.store = &store.is;
    options.is.rank = 0;
    options.is.size = 1;
    struct tutti_comm *comm;
    EXPECT(tutti_comm_create(&options.is, &comm) == TUTTI_OK);
    EXPECT(tutti_comm_size(comm) == 1 && tutti_comm_free(comm) == TUTTI_OK);
}

static void collectives(struct tutti_comm *comm, int rank)
{
    FENCED(tutti_call_options) options = {TUTTI_CALL_OPTIONS_INIT, {0}};
    FENCED(tutti_op_options) op_options = {TUTTI_OP_OPTIONS_INIT, {0}};
    FENCE(options);
    FENCE(op_options);
    options.is.priority = 3;
    op_options.is.combine = combine;
    tutti_op op;
    EXPECT(tutti_op_create(&op_options.is, &op) == TUTTI_OK);
    int32_t sum = rank + 1;
    struct tutti_request *request;
    EXPECT(tutti_allreduce_with(&sum, &sum, 1, TUTTI_INT32, op, &options.is, comm) == TUTTI_OK);
    EXPECT(sum == 3);
    EXPECT(tutti_allreduce_start(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, &options.is, comm,
                                 &request) == TUTTI_OK);
    EXPECT(tutti_wait(&request) == TUTTI_OK && sum == 6);
    EXPECT(tutti_op_free(op) == TUTTI_OK);
}

static void messages(struct tutti_comm *comm, int rank)
{
    FENCED(tutti_message) message;
    FENCE(message);
    message.is = (struct tutti_message){.size_bytes = sizeof message.is};
    int32_t said[2] = {4, 5}, heard[3] = {0};
    if (rank == 0) {
        EXPECT(tutti_send(said, 2, TUTTI_INT32, 1, 7, comm) == TUTTI_OK);
        return;
    }
    EXPECT(tutti_recv(heard, 3, TUTTI_INT32, TUTTI_ANY_RANK, TUTTI_ANY_TAG, &message.is, comm) ==
           TUTTI_OK);
    EXPECT(message.is.source == 0 && message.is.tag == 7 && message.is.count == 2);
    EXPECT(message.is.size_bytes == sizeof message.is && is_whole(message.fence));
}

static void buckets(struct tutti_comm *comm, int rank)
{
    FENCED(tutti_buckets_options) options = {TUTTI_BUCKETS_OPTIONS_INIT, {0}};
    FENCED(tutti_buckets_result) result;
    FENCE(options);
    FENCE(result);
    options.is.norm_max = 100;
    float weights[2] = {(float)rank, (float)rank};
    const struct tutti_gradient gradient = {weights, 2, TUTTI_FLOAT32};
    struct tutti_buckets *made;
    EXPECT(tutti_buckets_create(&gradient, 1, &options.is, comm, &made) == TUTTI_OK);
    EXPECT(tutti_buckets_ready(made, 0) == TUTTI_OK);
    EXPECT(tutti_buckets_finish(made, &result.is) == TUTTI_OK);
    EXPECT(weights[1] == 0.5F && !result.is.scaled && is_whole(result.fence));
    EXPECT(tutti_buckets_free(made) == TUTTI_OK);
}

static void questions(struct tutti_comm *comm)
{
    FENCED(tutti_footprint) footprint;
    FENCED(tutti_failure) failure;
    FENCE(footprint);
    FENCE(failure);
    footprint.is.size_bytes = sizeof footprint.is;
    failure.is.size_bytes = sizeof failure.is;
    EXPECT(tutti_comm_footprint(comm, &footprint.is) == TUTTI_OK);
    EXPECT(footprint.is.private_bytes > 0 && is_whole(footprint.fence));
    EXPECT(tutti_comm_failure(comm, &failure.is) == TUTTI_OK);
    EXPECT(failure.is.status == TUTTI_OK && failure.is.culprit == -1 && is_whole(failure.fence));
    EXPECT(footprint.is.size_bytes == sizeof footprint.is);
    EXPECT(failure.is.size_bytes == sizeof failure.is);
}

int main(void)
{
    FENCED(tutti_comm_options) options = {TUTTI_COMM_OPTIONS_INIT, {0}};
    FENCE(options);
    options.is.timeout_ns = 100000000000u;
    alone_through_a_store();
    struct tutti_comm *comm, *same;
    EXPECT(tutti_comm_create(&options.is, &comm) == TUTTI_OK);
    const int rank = tutti_comm_rank(comm);
    EXPECT(tutti_comm_dup(comm, &options.is, &same) == TUTTI_OK);
    collectives(same, rank);
    messages(same, rank);
    buckets(same, rank);
    questions(same);
    EXPECT(tutti_comm_free(same) == TUTTI_OK);
    EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    printf("%d is done\n", rank);
    return 0;
}
