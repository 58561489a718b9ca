/* values.c - prints every number of the public headers that compiled programs contain: values of
 * enums and constants, offsets of fields, and sizes of the structs that do not say their own size.
 * Compiled once with the headers of today and once with those of 0.1, it must print the same: see
 * programs_test.sh.
 */
#ifdef FROZEN
#include "tutti_0_1.h"
#else
#include "tutti/train.h"
#include "tutti/tutti.h"
#endif

#include <stdio.h>

#define VALUE(of) printf("%s = %lld\n", #of, (long long)(of))
#define FIELD(type, field)                                                                   \
    printf("struct %s: %s at %zu, %zu bytes\n", #type, #field, offsetof(struct type, field), \
           sizeof(((struct type *)NULL)->field))

int main(void)
{
    VALUE(TUTTI_OK);
    VALUE(TUTTI_IN_PROGRESS);
    VALUE(TUTTI_INVALID_COMM);
    VALUE(TUTTI_INVALID_BUFFER);
    VALUE(TUTTI_INVALID_COUNT);
    VALUE(TUTTI_INVALID_DTYPE);
    VALUE(TUTTI_INVALID_OP);
    VALUE(TUTTI_INVALID_ROOT);
    VALUE(TUTTI_INVALID_RANK);
    VALUE(TUTTI_INVALID_OPTIONS);
    VALUE(TUTTI_INVALID_REQUEST);
    VALUE(TUTTI_INVALID_ALGORITHM);
    VALUE(TUTTI_TIMEOUT);
    VALUE(TUTTI_INIT_TIMEOUT);
    VALUE(TUTTI_PROC_FAILED);
    VALUE(TUTTI_MISMATCH);
    VALUE(TUTTI_DESYNC);
    VALUE(TUTTI_ABORTED);
    VALUE(TUTTI_AUTH_FAILED);
    VALUE(TUTTI_VERSION);
    VALUE(TUTTI_NO_MEMORY);
    VALUE(TUTTI_NO_SPACE);
    VALUE(TUTTI_NO_DESCRIPTORS);
    VALUE(TUTTI_SYSTEM);
    VALUE(TUTTI_UNSUPPORTED);
    VALUE(TUTTI_INTERNAL);
    VALUE(TUTTI_INVALID_TAG);
    VALUE(TUTTI_TRUNCATED);
    VALUE(TUTTI_UNEXPECTED_FULL);
    VALUE(TUTTI_MINORITY);
    VALUE(TUTTI_CORRUPT);
    VALUE(TUTTI_REVOKED);
    VALUE(sizeof(enum tutti_status));
    VALUE(TUTTI_FLOAT32);
    VALUE(TUTTI_FLOAT64);
    VALUE(TUTTI_BFLOAT16);
    VALUE(TUTTI_INT32);
    VALUE(TUTTI_INT64);
    VALUE(TUTTI_FLOAT16);
    VALUE(TUTTI_FLOAT8_E4M3);
    VALUE(TUTTI_FLOAT8_E5M2);
    VALUE(TUTTI_INT8);
    VALUE(TUTTI_INT16);
    VALUE(TUTTI_UINT8);
    VALUE(TUTTI_UINT16);
    VALUE(TUTTI_UINT32);
    VALUE(TUTTI_UINT64);
    VALUE(sizeof(enum tutti_dtype));
    VALUE((uintptr_t)TUTTI_SUM);
    VALUE((uintptr_t)TUTTI_PROD);
    VALUE((uintptr_t)TUTTI_MIN);
    VALUE((uintptr_t)TUTTI_MAX);
    VALUE((uintptr_t)TUTTI_AVG);
    VALUE((uintptr_t)TUTTI_LAND);
    VALUE((uintptr_t)TUTTI_LOR);
    VALUE((uintptr_t)TUTTI_LXOR);
    VALUE((uintptr_t)TUTTI_BAND);
    VALUE((uintptr_t)TUTTI_BOR);
    VALUE((uintptr_t)TUTTI_BXOR);
    FIELD(tutti_op_options, size_bytes);
    FIELD(tutti_op_options, name);
    FIELD(tutti_op_options, combine);
    FIELD(tutti_op_options, context);
    FIELD(tutti_op_options, commutative);
    FIELD(tutti_op_options, factor);
    VALUE(sizeof(struct tutti_id));
    FIELD(tutti_id, bytes);
    FIELD(tutti_store, size_bytes);
    FIELD(tutti_store, set);
    FIELD(tutti_store, get);
    FIELD(tutti_store, context);
    VALUE(TUTTI_INTEGRITY_DEFAULT);
    VALUE(TUTTI_INTEGRITY_OFF);
    VALUE(TUTTI_INTEGRITY_NETWORK);
    VALUE(TUTTI_INTEGRITY_ON);
    VALUE(sizeof(enum tutti_integrity));
    VALUE(TUTTI_ENCRYPTION_DEFAULT);
    VALUE(TUTTI_ENCRYPTION_OFF);
    VALUE(TUTTI_ENCRYPTION_ON);
    VALUE(sizeof(enum tutti_encryption));
    FIELD(tutti_comm_options, size_bytes);
    FIELD(tutti_comm_options, rank);
    FIELD(tutti_comm_options, size);
    FIELD(tutti_comm_options, id);
    FIELD(tutti_comm_options, store);
    FIELD(tutti_comm_options, timeout_ns);
    FIELD(tutti_comm_options, init_timeout_ns);
    FIELD(tutti_comm_options, deterministic);
    FIELD(tutti_comm_options, algorithms);
    FIELD(tutti_comm_options, integrity);
    FIELD(tutti_comm_options, encryption);
    VALUE(TUTTI_NO_COLOR);
    VALUE(sizeof(struct tutti_axis));
    FIELD(tutti_axis, name);
    FIELD(tutti_axis, size);
    FIELD(tutti_axis, options);
    FIELD(tutti_footprint, size_bytes);
    FIELD(tutti_footprint, private_bytes);
    FIELD(tutti_footprint, shared_bytes);
    FIELD(tutti_footprint, program_count);
    FIELD(tutti_footprint, link_count);
    FIELD(tutti_footprint, descriptor_count);
    FIELD(tutti_failure, size_bytes);
    FIELD(tutti_failure, status);
    FIELD(tutti_failure, culprit);
    FIELD(tutti_failure, reporter);
    FIELD(tutti_failure, pid);
    FIELD(tutti_failure, sequence);
    FIELD(tutti_failure, message);
    FIELD(tutti_call_options, size_bytes);
    FIELD(tutti_call_options, timeout_ns);
    FIELD(tutti_call_options, algorithm);
    FIELD(tutti_call_options, deterministic);
    FIELD(tutti_call_options, priority);
    VALUE(sizeof(struct tutti_tensor));
    FIELD(tutti_tensor, data);
    FIELD(tutti_tensor, count);
    VALUE(sizeof(struct tutti_list));
    FIELD(tutti_list, tensors);
    FIELD(tutti_list, tensor_count);
    VALUE(TUTTI_ANY_RANK);
    VALUE(TUTTI_ANY_TAG);
    FIELD(tutti_message, size_bytes);
    FIELD(tutti_message, source);
    FIELD(tutti_message, tag);
    FIELD(tutti_message, count);
    VALUE(sizeof(struct tutti_gradient));
    FIELD(tutti_gradient, data);
    FIELD(tutti_gradient, count);
    FIELD(tutti_gradient, dtype);
    VALUE(TUTTI_BUCKETS_START_CHOSEN);
    VALUE(TUTTI_BUCKETS_START_WHEN_FULL);
    VALUE(TUTTI_BUCKETS_START_AT_FINISH);
    VALUE(sizeof(enum tutti_buckets_start));
    FIELD(tutti_buckets_options, size_bytes);
    FIELD(tutti_buckets_options, bucket_bytes);
    FIELD(tutti_buckets_options, first_bucket_bytes);
    FIELD(tutti_buckets_options, norm_max);
    FIELD(tutti_buckets_options, find_unused);
    FIELD(tutti_buckets_options, priority);
    FIELD(tutti_buckets_options, start);
    VALUE(sizeof(struct tutti_buckets_result));
    FIELD(tutti_buckets_result, norm);
    FIELD(tutti_buckets_result, scaled);
    return 0;
}
