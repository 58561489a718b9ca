/* future.c - a program of a later version: each of its structs has one more field, which this
 * library does not have. Its calls work as long as those fields are 0; a field that is set is
 * refused, with the version that lacks it. Two ranks run it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/train.h"
#include "tutti/tutti.h"

#define EXPECT(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "future.c:%d: not so: %s\n(%s)\n", __LINE__, #condition, \
                    tutti_error_message());                                          \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

#define GROWN(type)          \
    struct {                 \
        struct type is;      \
        uint64_t added;      \
        unsigned char fence; \
    }
#define BYTES(grown) (sizeof(grown).is + sizeof(grown).added)

/* The message gives the library's version, and how much of the struct the library has. */
static void expect_told(enum tutti_status status, size_t known_bytes)
{
    char version[32], bytes[32];
    snprintf(version, sizeof version, "Tutti %d.%d.%d", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR,
             TUTTI_VERSION_PATCH);
    snprintf(bytes, sizeof bytes, "first %zu bytes", known_bytes);
    EXPECT(status == TUTTI_INVALID_OPTIONS);
    EXPECT(strstr(tutti_error_message(), version) != NULL);
    EXPECT(strstr(tutti_error_message(), bytes) != NULL);
}

static int store_nothing(void *context, const char *key, const void *value, size_t value_bytes)
{
    (void)context, (void)key, (void)value, (void)value_bytes;
    return 0;
}

static int find_nothing(void *context, const char *key, void *value, size_t value_bytes,
                        uint64_t timeout_ns)
{
    (void)context, (void)key, (void)value, (void)value_bytes, (void)timeout_ns;
    return 1;
}

static struct tutti_comm *create(void)
{
    GROWN(tutti_comm_options) options = {TUTTI_COMM_OPTIONS_INIT, 0, 0};
    GROWN(tutti_store) store = {{0}, 0, 0};
    struct tutti_comm *comm;
    options.is.size_bytes = BYTES(options);
    store.is = (struct tutti_store){BYTES(store), store_nothing, find_nothing, NULL};
    options.added = 1;
    expect_told(tutti_comm_create(&options.is, &comm), sizeof options.is);
    printf("told: %s\n", tutti_error_message());
    options.added = 0;
    options.is.store = &store.is;
    options.is.rank = 0;
    options.is.size = 1;
    EXPECT(tutti_comm_create(&options.is, &comm) == TUTTI_OK);
    EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    store.added = 1;
    expect_told(tutti_comm_create(&options.is, &comm), sizeof store.is);
    options.is = (struct tutti_comm_options)TUTTI_COMM_OPTIONS_INIT;
    options.is.size_bytes = BYTES(options);
    EXPECT(tutti_comm_create(&options.is, &comm) == TUTTI_OK);
    options.added = 1;
    struct tutti_comm *derived;
    expect_told(tutti_comm_dup(comm, &options.is, &derived), sizeof options.is);
    expect_told(tutti_comm_split(comm, 0, 0, &options.is, &derived), sizeof options.is);
    expect_told(tutti_comm_group(comm, &(int){0}, 1, &options.is, &derived), sizeof options.is);
    expect_told(tutti_comm_shrink(comm, &options.is, &derived), sizeof options.is);
    const struct tutti_axis axis = {"all", 2, &options.is};
    struct tutti_mesh *mesh;
    expect_told(tutti_mesh_create(comm, &axis, 1, &mesh), sizeof options.is);
    options.added = 0;
    EXPECT(tutti_comm_dup(comm, &options.is, &derived) == TUTTI_OK);
    EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    return derived;
}

static void collectives(struct tutti_comm *comm)
{
    GROWN(tutti_call_options) options = {TUTTI_CALL_OPTIONS_INIT, 0, 0};
    GROWN(tutti_op_options) op_options = {TUTTI_OP_OPTIONS_INIT, 0, 0};
    options.is.size_bytes = BYTES(options);
    op_options.is.size_bytes = BYTES(op_options);
    tutti_op op;
    EXPECT(tutti_op_create(&op_options.is, &op) == TUTTI_OK);
    float sum = 1;
    EXPECT(tutti_allreduce_with(&sum, &sum, 1, TUTTI_FLOAT32, op, &options.is, comm) == TUTTI_OK);
    EXPECT(sum == 2 && tutti_op_free(op) == TUTTI_OK);
    struct tutti_request *request;
    options.added = op_options.added = UINT64_C(1) << 63;
    expect_told(tutti_op_create(&op_options.is, &op), sizeof op_options.is);
    expect_told(tutti_barrier_with(&options.is, comm), sizeof options.is);
    expect_told(tutti_barrier_start(&options.is, comm, &request), sizeof options.is);
    expect_told(tutti_send_with(&sum, 1, TUTTI_FLOAT32, 0, 0, &options.is, comm), sizeof options.is);
}

/* A result's field that the library does not have is 0, and nothing behind it is touched. */
static void results(struct tutti_comm *comm, int rank)
{
    GROWN(tutti_message) message;
    GROWN(tutti_footprint) footprint;
    GROWN(tutti_failure) failure;
    memset(&message, 0x5A, sizeof message);
    memset(&footprint, 0x5A, sizeof footprint);
    memset(&failure, 0x5A, sizeof failure);
    message.is.size_bytes = BYTES(message);
    footprint.is.size_bytes = BYTES(footprint);
    failure.is.size_bytes = BYTES(failure);
    int32_t word = 5;
    struct tutti_request *request;
    EXPECT(tutti_send_start(&word, 1, TUTTI_INT32, 1 - rank, 9, NULL, comm, &request) == TUTTI_OK);
    EXPECT(tutti_recv(&word, 1, TUTTI_INT32, TUTTI_ANY_RANK, 9, &message.is, comm) == TUTTI_OK);
    EXPECT(tutti_wait(&request) == TUTTI_OK);
    EXPECT(message.is.source == 1 - rank && message.is.tag == 9 && message.is.count == 1);
    EXPECT(message.added == 0 && message.fence == 0x5A);
    EXPECT(message.is.size_bytes == BYTES(message));
    EXPECT(tutti_comm_footprint(comm, &footprint.is) == TUTTI_OK);
    EXPECT(footprint.added == 0 && footprint.fence == 0x5A);
    EXPECT(footprint.is.size_bytes == BYTES(footprint));
    EXPECT(tutti_comm_failure(comm, &failure.is) == TUTTI_OK);
    EXPECT(failure.is.status == TUTTI_OK && failure.added == 0 && failure.fence == 0x5A);
    EXPECT(failure.is.size_bytes == BYTES(failure));
}

static void buckets(struct tutti_comm *comm)
{
    GROWN(tutti_buckets_options) options = {TUTTI_BUCKETS_OPTIONS_INIT, 0, 0};
    options.is.size_bytes = BYTES(options);
    float weight = 1;
    const struct tutti_gradient gradient = {&weight, 1, TUTTI_FLOAT32};
    struct tutti_buckets *made;
    EXPECT(tutti_buckets_create(&gradient, 1, &options.is, comm, &made) == TUTTI_OK);
    EXPECT(tutti_buckets_free(made) == TUTTI_OK);
    options.added = 1;
    expect_told(tutti_buckets_create(&gradient, 1, &options.is, comm, &made), sizeof options.is);
}

int main(void)
{
    struct tutti_comm *comm = create();
    const int rank = tutti_comm_rank(comm);
    collectives(comm);
    results(comm, rank);
    buckets(comm);
    EXPECT(tutti_comm_free(comm) == TUTTI_OK);
    printf("%d is done\n", rank);
    return 0;
}
