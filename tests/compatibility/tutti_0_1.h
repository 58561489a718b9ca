/* tutti_0_1.h - what tutti.h and train.h of version 0.1 declared, without their comments. It is
 * never changed: a program that was compiled with it must go on with every later library of the
 * same soname, and programs_test.sh compares the headers of today with it. Behind those it declares
 * the functions once more, so that the compiler compares their types.
 */
#ifndef TUTTI_0_1_H
#define TUTTI_0_1_H

#include <stddef.h>
#include <stdint.h>

#ifndef TUTTI_H
#define TUTTI_API __attribute__((visibility("default")))
#define TUTTI_MUST_USE __attribute__((warn_unused_result))

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS,
    TUTTI_INVALID_COMM,
    TUTTI_INVALID_BUFFER,
    TUTTI_INVALID_COUNT,
    TUTTI_INVALID_DTYPE,
    TUTTI_INVALID_OP,
    TUTTI_INVALID_ROOT,
    TUTTI_INVALID_RANK,
    TUTTI_INVALID_OPTIONS,
    TUTTI_INVALID_REQUEST,
    TUTTI_INVALID_ALGORITHM,
    TUTTI_TIMEOUT,
    TUTTI_INIT_TIMEOUT,
    TUTTI_PROC_FAILED,
    TUTTI_MISMATCH,
    TUTTI_DESYNC,
    TUTTI_ABORTED,
    TUTTI_AUTH_FAILED,
    TUTTI_VERSION,
    TUTTI_NO_MEMORY,
    TUTTI_NO_SPACE,
    TUTTI_NO_DESCRIPTORS,
    TUTTI_SYSTEM,
    TUTTI_UNSUPPORTED,
    TUTTI_INTERNAL,
    TUTTI_INVALID_TAG,
    TUTTI_TRUNCATED,
    TUTTI_UNEXPECTED_FULL,
    TUTTI_MINORITY,
    TUTTI_CORRUPT,
    TUTTI_REVOKED
};
enum tutti_dtype {
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_BFLOAT16,
    TUTTI_INT32,
    TUTTI_INT64,
    TUTTI_FLOAT16,
    TUTTI_FLOAT8_E4M3,
    TUTTI_FLOAT8_E5M2,
    TUTTI_INT8,
    TUTTI_INT16,
    TUTTI_UINT8,
    TUTTI_UINT16,
    TUTTI_UINT32,
    TUTTI_UINT64
};
typedef const struct tutti_operation *tutti_op;
#define TUTTI_SUM ((tutti_op)1)
#define TUTTI_PROD ((tutti_op)2)
#define TUTTI_MIN ((tutti_op)3)
#define TUTTI_MAX ((tutti_op)4)
#define TUTTI_AVG ((tutti_op)5)
#define TUTTI_LAND ((tutti_op)6)
#define TUTTI_LOR ((tutti_op)7)
#define TUTTI_LXOR ((tutti_op)8)
#define TUTTI_BAND ((tutti_op)9)
#define TUTTI_BOR ((tutti_op)10)
#define TUTTI_BXOR ((tutti_op)11)
typedef void tutti_combine(const void *left, const void *right, void *result, size_t count,
                           enum tutti_dtype dtype, void *context);
struct tutti_op_options {
    size_t size_bytes;
    const char *name;
    tutti_combine *combine;
    void *context;
    int commutative;
    double factor;
};
#define TUTTI_OP_OPTIONS_INIT                                     \
    {                                                             \
        sizeof(struct tutti_op_options), NULL, NULL, NULL, 0, 1.0 \
    }
struct tutti_comm;
struct tutti_request;
struct tutti_prepared;
struct tutti_mesh;
struct tutti_id {
    unsigned char bytes[128];
};
struct tutti_store {
    size_t size_bytes;
    int (*set)(void *context, const char *key, const void *value, size_t value_bytes);
    int (*get)(void *context, const char *key, void *value, size_t value_bytes, uint64_t timeout_ns);
    void *context;
};
enum tutti_integrity {
    TUTTI_INTEGRITY_DEFAULT,
    TUTTI_INTEGRITY_OFF,
    TUTTI_INTEGRITY_NETWORK,
    TUTTI_INTEGRITY_ON
};
enum tutti_encryption { TUTTI_ENCRYPTION_DEFAULT, TUTTI_ENCRYPTION_OFF, TUTTI_ENCRYPTION_ON };
struct tutti_comm_options {
    size_t size_bytes;
    int rank;
    int size;
    const struct tutti_id *id;
    const struct tutti_store *store;
    uint64_t timeout_ns;
    uint64_t init_timeout_ns;
    int deterministic;
    const char *algorithms;
    enum tutti_integrity integrity;
    enum tutti_encryption encryption;
};
#define TUTTI_COMM_OPTIONS_INIT                                               \
    {                                                                         \
        sizeof(struct tutti_comm_options), -1, -1, NULL, NULL, 0, 0, 0, NULL, \
            TUTTI_INTEGRITY_DEFAULT, TUTTI_ENCRYPTION_DEFAULT                 \
    }
#define TUTTI_NO_COLOR (-1)
struct tutti_axis {
    const char *name;
    int size;
    const struct tutti_comm_options *options;
};
struct tutti_footprint {
    size_t size_bytes;
    size_t private_bytes;
    size_t shared_bytes;
    size_t program_count;
    size_t link_count;
    size_t descriptor_count;
};
struct tutti_failure {
    size_t size_bytes;
    enum tutti_status status;
    int culprit;
    int reporter;
    int pid;
    uint64_t sequence;
    char message[256];
};
struct tutti_call_options {
    size_t size_bytes;
    uint64_t timeout_ns;
    const char *algorithm;
    int deterministic;
    int priority;
};
#define TUTTI_CALL_OPTIONS_INIT                          \
    {                                                    \
        sizeof(struct tutti_call_options), 0, NULL, 0, 0 \
    }
struct tutti_tensor {
    void *data;
    size_t count;
};
struct tutti_list {
    const struct tutti_tensor *tensors;
    size_t tensor_count;
};
#define TUTTI_ANY_RANK (-1)
#define TUTTI_ANY_TAG (-1)
struct tutti_message {
    size_t size_bytes;
    int source;
    int tag;
    size_t count;
};
struct tutti_buckets;
struct tutti_gradient {
    void *data;
    size_t count;
    enum tutti_dtype dtype;
};
enum tutti_buckets_start {
    TUTTI_BUCKETS_START_CHOSEN,
    TUTTI_BUCKETS_START_WHEN_FULL,
    TUTTI_BUCKETS_START_AT_FINISH
};
struct tutti_buckets_options {
    size_t size_bytes;
    size_t bucket_bytes;
    size_t first_bucket_bytes;
    double norm_max;
    int find_unused;
    int priority;
    enum tutti_buckets_start start;
};
#define TUTTI_BUCKETS_OPTIONS_INIT                                                        \
    {                                                                                     \
        sizeof(struct tutti_buckets_options), 0, 0, 0.0, 0, 0, TUTTI_BUCKETS_START_CHOSEN \
    }
struct tutti_buckets_result {
    double norm;
    int scaled;
};
#endif

TUTTI_API const char *tutti_status_name(enum tutti_status status);
TUTTI_API const char *tutti_status_text(enum tutti_status status);
TUTTI_API const char *tutti_error_message(void);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_op_create(const struct tutti_op_options *options,
                                                           tutti_op *op);
TUTTI_API enum tutti_status tutti_op_free(tutti_op op);
TUTTI_API size_t tutti_dtype_size(enum tutti_dtype dtype);
TUTTI_API const char *tutti_dtype_name(enum tutti_dtype dtype);
TUTTI_API const char *tutti_op_name(tutti_op op);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_id_create(struct tutti_id *id);
TUTTI_API const char *tutti_launcher(int *rank, int *size);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_create(const struct tutti_comm_options *options, struct tutti_comm **comm);
TUTTI_API enum tutti_status tutti_comm_free(struct tutti_comm *comm);
TUTTI_API enum tutti_status tutti_comm_abort(struct tutti_comm *comm, const char *reason);
TUTTI_API int tutti_comm_rank(const struct tutti_comm *comm);
TUTTI_API int tutti_comm_size(const struct tutti_comm *comm);
TUTTI_API int tutti_comm_overlaps(const struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_split(struct tutti_comm *comm, int color, int key,
                 const struct tutti_comm_options *options, struct tutti_comm **created);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_dup(struct tutti_comm *comm,
                                                          const struct tutti_comm_options *options,
                                                          struct tutti_comm **created);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_group(struct tutti_comm *comm, const int *ranks, int rank_count,
                 const struct tutti_comm_options *options, struct tutti_comm **created);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mesh_create(struct tutti_comm *comm,
                                                             const struct tutti_axis *axes,
                                                             int axis_count,
                                                             struct tutti_mesh **mesh);
TUTTI_API enum tutti_status tutti_mesh_free(struct tutti_mesh *mesh);
TUTTI_API struct tutti_comm *tutti_mesh_axis(const struct tutti_mesh *mesh, const char *name);
TUTTI_API enum tutti_status tutti_comm_footprint(const struct tutti_comm *comm,
                                                 struct tutti_footprint *footprint);
TUTTI_API enum tutti_status tutti_comm_failure(const struct tutti_comm *comm,
                                               struct tutti_failure *failure);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_trace_dump(struct tutti_comm *comm,
                                                            const char *folder);
TUTTI_API enum tutti_status tutti_comm_revoke(struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_comm_agree(struct tutti_comm *comm, uint64_t *word);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_comm_shrink(struct tutti_comm *comm, const struct tutti_comm_options *options,
                  struct tutti_comm **created);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_wait(struct tutti_request **request);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_test(struct tutti_request **request);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_cancel(struct tutti_request **request);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_notify(struct tutti_request *request, int event_fd);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_start(struct tutti_prepared *prepared,
                                                       struct tutti_request **request);
TUTTI_API enum tutti_status tutti_prepared_free(struct tutti_prepared *prepared);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_begin(void);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_group_end(void);
#define TUTTI_DECLARE(name, ...)                                                                   \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name(__VA_ARGS__, struct tutti_comm *comm); \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name##_with(                                \
        __VA_ARGS__, const struct tutti_call_options *options, struct tutti_comm *comm);           \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name##_start(                               \
        __VA_ARGS__, const struct tutti_call_options *options, struct tutti_comm *comm,            \
        struct tutti_request **request);                                                           \
    TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_##name##_prepare(                             \
        __VA_ARGS__, const struct tutti_call_options *options, struct tutti_comm *comm,            \
        struct tutti_prepared **prepared)
TUTTI_DECLARE(allreduce, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              tutti_op op);
TUTTI_DECLARE(reduce, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              tutti_op op, int root);
TUTTI_DECLARE(broadcast, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              int root);
TUTTI_DECLARE(gather, const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root);
TUTTI_DECLARE(scatter, const void *send, void *recv, size_t count, enum tutti_dtype dtype, int root);
TUTTI_DECLARE(allgather, const void *send, void *recv, size_t count, enum tutti_dtype dtype);
TUTTI_DECLARE(reduce_scatter, const void *send, void *recv, size_t count, enum tutti_dtype dtype,
              tutti_op op);
TUTTI_DECLARE(alltoall, const void *send, void *recv, size_t count, enum tutti_dtype dtype);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_barrier(struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_with(const struct tutti_call_options *options, struct tutti_comm *comm);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_start(const struct tutti_call_options *options, struct tutti_comm *comm,
                    struct tutti_request **request);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_barrier_prepare(const struct tutti_call_options *options, struct tutti_comm *comm,
                      struct tutti_prepared **prepared);
TUTTI_DECLARE(gatherv, const void *send, size_t send_count, void *recv, const size_t *recv_counts,
              const size_t *recv_displs, enum tutti_dtype dtype, int root);
TUTTI_DECLARE(scatterv, const void *send, const size_t *send_counts, const size_t *send_displs,
              void *recv, size_t recv_count, enum tutti_dtype dtype, int root);
TUTTI_DECLARE(allgatherv, const void *send, void *recv, const size_t *recv_counts,
              const size_t *recv_displs, enum tutti_dtype dtype);
TUTTI_DECLARE(reduce_scatterv, const void *send, void *recv, const size_t *recv_counts,
              enum tutti_dtype dtype, tutti_op op);
TUTTI_DECLARE(alltoallv, const void *send, const size_t *send_counts, const size_t *send_displs,
              void *recv, const size_t *recv_counts, const size_t *recv_displs,
              enum tutti_dtype dtype);
TUTTI_DECLARE(allreduce_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, tutti_op op);
TUTTI_DECLARE(reduce_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, tutti_op op, int root);
TUTTI_DECLARE(broadcast_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, int root);
TUTTI_DECLARE(gather_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, int root);
TUTTI_DECLARE(scatter_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, int root);
TUTTI_DECLARE(allgather_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype);
TUTTI_DECLARE(reduce_scatter_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype, tutti_op op);
TUTTI_DECLARE(alltoall_list, const struct tutti_list *send, const struct tutti_list *recv,
              enum tutti_dtype dtype);
TUTTI_DECLARE(send, const void *send, size_t count, enum tutti_dtype dtype, int peer, int tag);
TUTTI_DECLARE(recv, void *recv, size_t count, enum tutti_dtype dtype, int peer, int tag,
              struct tutti_message *message);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_mem_alloc(size_t size_bytes, void **memory);
TUTTI_API enum tutti_status tutti_mem_free(void *memory);
TUTTI_API TUTTI_MUST_USE enum tutti_status
tutti_buckets_create(const struct tutti_gradient *gradients, size_t count,
                     const struct tutti_buckets_options *options, struct tutti_comm *comm,
                     struct tutti_buckets **created);
TUTTI_API enum tutti_status tutti_buckets_free(struct tutti_buckets *buckets);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_ready(struct tutti_buckets *buckets,
                                                               size_t index);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_hold(struct tutti_buckets *buckets,
                                                              int is_held);
TUTTI_API TUTTI_MUST_USE enum tutti_status tutti_buckets_finish(struct tutti_buckets *buckets,
                                                                struct tutti_buckets_result *result);
TUTTI_API int tutti_buckets_is_used(const struct tutti_buckets *buckets, size_t index);
TUTTI_API int tutti_buckets_count(const struct tutti_buckets *buckets);
TUTTI_API int tutti_buckets_find(const struct tutti_buckets *buckets, size_t index);

#endif
