/* The error for a wrong argument gives its name, the rule, and the value that breaks the rule: a
 * reader of a log need not look anything up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tutti/train.h"
#include "tutti/tutti.h"

static struct tutti_comm *comm;
static float x[8];

/* One call, and what it is answered with; what differs from run to run, such as an address, is cut
 * off by "...". */
static void expect(enum tutti_status got, enum tutti_status expected, const char *message)
{
    const char *said = tutti_error_message();
    const size_t length = strlen(message);
    const int is_open = length > 3 && strcmp(message + length - 3, "...") == 0;
    assert_int_equal(got, expected);
    if (strncmp(said, message, is_open ? length - 3 : SIZE_MAX) != 0)
        fail_msg("\"%s\" should be \"%s\"", said, message);
}

static void of_collectives(void **state)
{
    (void)state;
    const enum tutti_dtype f = TUTTI_FLOAT32;
    expect(tutti_allreduce(x, x, 1, (enum tutti_dtype)77, TUTTI_SUM, comm), TUTTI_INVALID_DTYPE,
           "tutti_allreduce: dtype must be a value of enum tutti_dtype, 0 to 13, is 77");
    expect(tutti_allreduce(x, x, 1, f, (tutti_op)99, comm), TUTTI_INVALID_OP,
           "tutti_allreduce: op must be a constant such as TUTTI_SUM or come from tutti_op_create, "
           "is 0x63: not an operation");
    expect(tutti_allreduce(x, x, 1, f, TUTTI_BAND, comm), TUTTI_INVALID_OP,
           "tutti_allreduce: band is not for float32: integers are needed");
    expect(tutti_broadcast(x, x, 1, f, 1, comm), TUTTI_INVALID_ROOT,
           "tutti_broadcast: root must be a rank, 0 to 0, is 1");
    expect(tutti_broadcast(x, x, 1, f, -4, comm), TUTTI_INVALID_ROOT,
           "tutti_broadcast: root must be a rank, 0 to 0, is -4");
    expect(tutti_allgather(NULL, x, 2, f, comm), TUTTI_INVALID_BUFFER,
           "tutti_allgather: send must be the address of 8 bytes, is NULL");
    expect(tutti_allgather(x, NULL, 2, f, comm), TUTTI_INVALID_BUFFER,
           "tutti_allgather: recv must be the address of 8 bytes, is NULL");
    expect(tutti_allgather(x, x + 4, SIZE_MAX / 4, f, comm), TUTTI_INVALID_COUNT,
           "tutti_allgather: count must be at most 2305843009213693951 elements of 4 bytes with 1 "
           "ranks, is 4611686018427387903");
    expect(tutti_allreduce(x, x + 1, 2, f, TUTTI_SUM, comm), TUTTI_INVALID_BUFFER,
           "tutti_allreduce: send and recv must be apart or in place, but overlap: 8 bytes at ...");
}

static void of_forms(void **state)
{
    (void)state;
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "magic";
    expect(tutti_barrier_with(&options, comm), TUTTI_INVALID_ALGORITHM,
           "tutti_barrier: options.algorithm must be one of `tutti-plan list`, is \"magic\"");
    options.algorithm = NULL;
    options.priority = -101;
    expect(tutti_barrier_with(&options, comm), TUTTI_INVALID_OPTIONS,
           "options.priority must be -100 to 100, is -101");
    options.size_bytes = 3;
    expect(
        tutti_barrier_with(&options, comm), TUTTI_INVALID_OPTIONS,
        "options.size_bytes must be sizeof(struct tutti_call_options), 32 or more since Tutti 0.1, "
        "is 3");
    expect(tutti_barrier_start(NULL, comm, NULL), TUTTI_INVALID_REQUEST,
           "tutti_barrier_start: request must be the address of a pointer, is NULL");
    expect(tutti_barrier_prepare(NULL, comm, NULL), TUTTI_INVALID_REQUEST,
           "tutti_barrier_prepare: prepared must be the address of a pointer, is NULL");
}

static void of_blocks(void **state)
{
    (void)state;
    const enum tutti_dtype f = TUTTI_FLOAT32;
    const size_t two = 2, huge = SIZE_MAX / 4, place = 0;
    expect(tutti_allgatherv(x, x + 4, NULL, NULL, f, comm), TUTTI_INVALID_COUNT,
           "tutti_allgatherv: recv_counts must be 1 counts, one for each rank, is NULL");
    expect(tutti_reduce_scatterv(x, x + 4, NULL, f, TUTTI_SUM, comm), TUTTI_INVALID_COUNT,
           "tutti_reduce_scatterv: recv_counts must be 1 counts, one for each rank, is NULL");
    expect(tutti_alltoallv(x, NULL, NULL, x + 4, &two, NULL, f, comm), TUTTI_INVALID_COUNT,
           "tutti_alltoallv: send_counts must be 1 counts, one for each rank, is NULL");
    expect(tutti_alltoallv(x, &two, NULL, x + 4, &huge, &place, f, comm), TUTTI_INVALID_COUNT,
           "tutti_alltoallv: recv must end within 2305843009213693951 elements, but block 0 has "
           "4611686018427387903 at 0");
    expect(tutti_allgatherv(x, x + 4, &huge, NULL, f, comm), TUTTI_INVALID_COUNT,
           "tutti_allgatherv: send must have at most 2305843009213693951 elements, has "
           "4611686018427387903");
    expect(tutti_scatterv(x, &two, NULL, x + 4, 3, f, 0, comm), TUTTI_INVALID_COUNT,
           "tutti_scatterv: recv_count of the root must be what send_counts has for it, 2, is 3");
    expect(tutti_gatherv(x, 3, x + 4, &two, NULL, f, 0, comm), TUTTI_INVALID_COUNT,
           "tutti_gatherv: send_count of the root must be what recv_counts has for it, 2, is 3");
    expect(tutti_gatherv(NULL, 2, x + 4, &two, NULL, f, 0, comm), TUTTI_INVALID_BUFFER,
           "tutti_gatherv: send must be the address of 8 bytes, is NULL");
    expect(tutti_gatherv(x, 2, x + 1, &two, NULL, f, 0, comm), TUTTI_INVALID_BUFFER,
           "tutti_gatherv: send and recv must be apart or in place, but overlap");
}

static void of_lists(void **state)
{
    (void)state;
    const struct tutti_tensor none = {NULL, 3}, many = {x, SIZE_MAX / 4}, good = {x, 2};
    const struct tutti_list nowhere = {&none, 1}, huge = {&many, 1}, list = {&good, 1},
                            empty = {NULL, 0};
    const enum tutti_dtype f = TUTTI_FLOAT32;
    expect(tutti_allreduce_list(NULL, &list, f, TUTTI_SUM, comm), TUTTI_INVALID_BUFFER,
           "tutti_allreduce_list: send must be a list of tensors, is NULL");
    expect(tutti_allreduce_list(&list, &nowhere, f, TUTTI_SUM, comm), TUTTI_INVALID_BUFFER,
           "tutti_allreduce_list: tensor 0 of recv must be the address of 3 elements, is NULL");
    expect(tutti_allreduce_list(&huge, &list, f, TUTTI_SUM, comm), TUTTI_INVALID_COUNT,
           "tutti_allreduce_list: send must have at most 2305843009213693951 elements, has more: "
           "4611686018427387903 in tensor 0");
    expect(
        tutti_allreduce_list(&list, &empty, f, TUTTI_SUM, comm), TUTTI_INVALID_COUNT,
        "tutti_allreduce_list: send and recv must be 1 and 1 equal blocks, have 2 and 0 elements");
}

static void of_messages(void **state)
{
    (void)state;
    const enum tutti_dtype f = TUTTI_FLOAT32;
    struct tutti_message message = {.size_bytes = 1};
    struct tutti_call_options options = TUTTI_CALL_OPTIONS_INIT;
    options.algorithm = "ring";
    expect(tutti_send(x, 1, f, 0, -5, comm), TUTTI_INVALID_TAG,
           "tutti_send: tag must be 0 or more, is -5");
    expect(tutti_recv(x, 1, f, 0, -5, NULL, comm), TUTTI_INVALID_TAG,
           "tutti_recv: tag must be 0 or more, or TUTTI_ANY_TAG, is -5");
    expect(tutti_send(x, 1, f, 1, 0, comm), TUTTI_INVALID_RANK,
           "tutti_send: peer must be a rank, 0 to 0, is 1");
    expect(tutti_recv(x, 1, f, -2, 0, NULL, comm), TUTTI_INVALID_RANK,
           "tutti_recv: peer must be a rank, 0 to 0, or TUTTI_ANY_RANK, is -2");
    expect(tutti_send(x, 1, (enum tutti_dtype) - 1, 0, 0, comm), TUTTI_INVALID_DTYPE,
           "tutti_send: dtype must be a value of enum tutti_dtype, 0 to 13, is -1");
    expect(tutti_recv(x, SIZE_MAX / 2, f, 0, 0, NULL, comm), TUTTI_INVALID_COUNT,
           "tutti_recv: count must be at most 2305843009213693951 elements of 4 bytes, is "
           "9223372036854775807");
    expect(tutti_recv(NULL, 1, f, 0, 0, NULL, comm), TUTTI_INVALID_BUFFER,
           "tutti_recv: recv must be the address of 4 bytes, is NULL");
    expect(tutti_recv(x, 1, f, 0, 0, &message, comm), TUTTI_INVALID_OPTIONS,
           "tutti_recv: message.size_bytes must be sizeof(struct tutti_message), 24 or more since "
           "Tutti 0.1, is 1");
    expect(tutti_send_with(x, 1, f, 0, 0, &options, comm), TUTTI_INVALID_ALGORITHM,
           "tutti_send: options.algorithm must be NULL, because messages have no algorithms, is "
           "\"ring\"");
    expect(tutti_send_start(x, 1, f, 0, 0, NULL, comm, NULL), TUTTI_INVALID_REQUEST,
           "tutti_send_start: request must be the address of a pointer, is NULL");
}

static int store_nothing(void *context, const char *key, const void *value, size_t value_bytes)
{
    (void)context, (void)key, (void)value, (void)value_bytes;
    return 0;
}

static void of_communicators(void **state)
{
    (void)state;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_comm *none;
    const struct tutti_id id = {{0}};
    const struct tutti_store store = {sizeof store, store_nothing, NULL, NULL};
    options.integrity = (enum tutti_integrity)9;
    expect(tutti_comm_dup(comm, &options, &none), TUTTI_INVALID_OPTIONS,
           "options.integrity must be a value of enum tutti_integrity, 0 to 3, is 9");
    options.integrity = TUTTI_INTEGRITY_DEFAULT;
    options.encryption = (enum tutti_encryption)9;
    expect(tutti_comm_dup(comm, &options, &none), TUTTI_INVALID_OPTIONS,
           "options.encryption must be a value of enum tutti_encryption, 0 to 2, is 9");
    options.encryption = TUTTI_ENCRYPTION_DEFAULT;
    options.store = &store;
    expect(tutti_comm_create(&options, &none), TUTTI_INVALID_OPTIONS,
           "store.get must be a function, is NULL");
    options.id = &id;
    const struct tutti_store good = {
        sizeof store, store_nothing,
        (int (*)(void *, const char *, void *, size_t, uint64_t))(uintptr_t)store_nothing, NULL};
    options.store = &good;
    expect(tutti_comm_create(&options, &none), TUTTI_INVALID_OPTIONS,
           "one of options.id and options.store must be NULL, both are set");
    const struct tutti_axis axis = {"dp", 0, NULL}, nameless = {"", 1, NULL};
    struct tutti_mesh *mesh;
    expect(tutti_mesh_create(comm, &axis, 1, &mesh), TUTTI_INVALID_OPTIONS,
           "tutti_mesh_create: the size of axis \"dp\" must be 1 or more, is 0");
    expect(tutti_mesh_create(comm, &nameless, 1, &mesh), TUTTI_INVALID_OPTIONS,
           "tutti_mesh_create: axis 0 must have a name, has none");
    expect(tutti_mesh_create(comm, &axis, 0, &mesh), TUTTI_INVALID_OPTIONS,
           "tutti_mesh_create: there must be 1 axis or more, are 0");
    expect(tutti_comm_group(comm, &(int){0}, 2, NULL, &none), TUTTI_INVALID_RANK,
           "tutti_comm_group: rank_count must be 1 to 1, is 2");
    expect(tutti_comm_group(comm, NULL, 1, NULL, &none), TUTTI_INVALID_RANK,
           "tutti_comm_group: ranks must be a list of 1 ranks, is NULL");
    expect(tutti_comm_group(comm, &(int){7}, 1, NULL, &none), TUTTI_INVALID_RANK,
           "tutti_comm_group: ranks[0] must be a rank, 0 to 0, is 7");
    expect(tutti_comm_split(comm, -3, 0, NULL, &none), TUTTI_INVALID_OPTIONS,
           "tutti_comm_split: color must be 0 or more, or TUTTI_NO_COLOR, is -3");
    expect(tutti_comm_failure(comm, NULL), TUTTI_INVALID_OPTIONS,
           "tutti_comm_failure: failure must be the address of a struct tutti_failure, is NULL");
    expect(tutti_comm_create(NULL, NULL), TUTTI_INVALID_COMM,
           "tutti_comm_create: comm must be the address of a pointer, is NULL");
}

static void of_operations_memory_and_buckets(void **state)
{
    (void)state;
    struct tutti_op_options options = TUTTI_OP_OPTIONS_INIT;
    tutti_op op;
    options.factor = 0;
    expect(tutti_op_create(&options, &op), TUTTI_INVALID_OPTIONS,
           "tutti_op_create: options.factor must be finite and not 0, is 0");
    options.factor = 1;
    options.name = "a name that nobody can remember, or would write down";
    expect(tutti_op_create(&options, &op), TUTTI_INVALID_OPTIONS,
           "tutti_op_create: options.name must have at most 31 characters, has 52");
    expect(tutti_op_create(NULL, &op), TUTTI_INVALID_OPTIONS,
           "tutti_op_create: options must be a struct tutti_op_options, is NULL");
    expect(tutti_op_create(&options, NULL), TUTTI_INVALID_OP,
           "tutti_op_create: op must be the address of an operation, is NULL");
    expect(tutti_mem_alloc(1, NULL), TUTTI_INVALID_BUFFER,
           "tutti_mem_alloc: memory must be the address of a pointer, is NULL");
    struct tutti_buckets_options buckets_options = TUTTI_BUCKETS_OPTIONS_INIT;
    struct tutti_buckets *buckets;
    const struct tutti_gradient gradient = {x, 1, TUTTI_FLOAT32}, whole = {x, 1, TUTTI_INT32};
    buckets_options.norm_max = -1;
    expect(tutti_buckets_create(&gradient, 1, &buckets_options, comm, &buckets),
           TUTTI_INVALID_OPTIONS, "tutti_buckets_create: options.norm_max must be 0 or more, is -1");
    buckets_options.norm_max = 0;
    buckets_options.start = (enum tutti_buckets_start)3;
    expect(
        tutti_buckets_create(&gradient, 1, &buckets_options, comm, &buckets), TUTTI_INVALID_OPTIONS,
        "tutti_buckets_create: options.start must be a value of enum tutti_buckets_start, 0 to 2, "
        "is 3");
    expect(tutti_buckets_create(&whole, 1, NULL, comm, &buckets), TUTTI_INVALID_DTYPE,
           "tutti_buckets_create: gradient 0 must be of floats, is of int32 (dtype 3)");
}

static int make(void **state)
{
    (void)state;
    struct tutti_id id;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.size = 1;
    options.id = &id;
    return tutti_id_create(&id) != TUTTI_OK || tutti_comm_create(&options, &comm) != TUTTI_OK;
}

static int end(void **state)
{
    (void)state;
    return tutti_comm_free(comm) != TUTTI_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_collectives),
        cmocka_unit_test(of_forms),
        cmocka_unit_test(of_blocks),
        cmocka_unit_test(of_lists),
        cmocka_unit_test(of_messages),
        cmocka_unit_test(of_communicators),
        cmocka_unit_test(of_operations_memory_and_buckets),
    };
    return cmocka_run_group_tests(tests, make, end);
}
