/* sized.h - structs of the public headers that say their own size, so that a program may be
 * compiled with the header of another version than this library's.
 *
 *     size_bytes, fields of 0.1 │ fields that came later │
 *     ──────────────────────────┤                        │                an older program: fields that it lacks are 0
 *     ───────────────────────────────────────────────────┤                one of this version
 *     ───────────────────────────────────────────────────────── 0 0 0 ┤   a newer one: fields that this library lacks must be 0
 *
 * 1. Such a struct begins with size_t size_bytes, and fields are only ever added at its end.
 * 2. A new field means the old behaviour when it is 0.
 * 3. There is no padding at the end: a field that is added later would lie there, and older
 *    programs may have anything in it.
 * 4. sized_read reads a caller's struct once; the library works with the copy.
 * 5. The library writes a result as far as the caller's struct goes; fields that this library does
 *    not have are 0.
 *
 * Structs that do not say their size (an id, a tensor, an axis) never change: tests/compatibility/
 * holds them to that.
 */
#ifndef TUTTI_BASE_SIZED_H
#define TUTTI_BASE_SIZED_H

#include <string.h>

#include "tutti/tutti.h"

/* X(struct, its size in 0.1, its last field): when a struct grows, only the last field changes
 * here. */
#define SIZED_LIST(X)                              \
    X(tutti_op_options, 48, factor)                \
    X(tutti_store, 32, context)                    \
    X(tutti_comm_options, 72, encodings)           \
    X(tutti_grow_options, 40, comm_options)        \
    X(tutti_exclude_options, 32, comm_options)     \
    X(tutti_exclude_policy, 56, corrupt_count_max) \
    X(tutti_signs, 40, has_failed_device)          \
    X(tutti_footprint, 48, descriptor_count)       \
    X(tutti_failure, 288, message)                 \
    X(tutti_comm_counters, 24, bytes)              \
    X(tutti_trace_entry, 64, tag)                  \
    X(tutti_call_options, 32, encoding)            \
    X(tutti_message, 24, count)                    \
    X(tutti_buckets_options, 48, reserved)         \
    X(tutti_schedule_times, 32, weights)           \
    X(tutti_pipeline_options, 48, context)         \
    X(tutti_pipeline_counters, 80, buffer_bytes)   \
    X(tutti_shards_options, 64, loss_scale)        \
    X(tutti_shards_step_options, 32, reserved)     \
    X(tutti_shards_counters, 72, good_steps)       \
    X(tutti_compressor_options, 80, reserved)      \
    X(tutti_compressor_counters, 64, steps)        \
    X(tutti_adapt_options, 24, noise_smoothing)    \
    X(tutti_noise, 40, count)                      \
    X(tutti_adapt_settings, 104, encoding)         \
    X(tutti_adapt_sample, 56, large_squared)       \
    X(tutti_adapt_decision, 536, reason)           \
    X(tutti_local_options, 56, encoding)           \
    X(tutti_local_counters, 64, waited_ns)         \
    X(tutti_sparse_options, 24, deterministic)     \
    X(tutti_sparse_counters, 48, way)              \
    X(tutti_server_table, 152, context)            \
    X(tutti_server_options, 96, reserved)          \
    X(tutti_server_call_options, 24, encoding)     \
    X(tutti_server_change, 24, reserved)           \
    X(tutti_server_step, 32, member_count)         \
    X(tutti_server_counters, 72, changes)          \
    X(tutti_checkpoints_options, 24, timeout_ns)   \
    X(tutti_checkpoints_counters, 56, copy_bytes)  \
    X(tutti_elastic_options, 144, exclude_policy)  \
    X(tutti_elastic_step, 80, is_over)             \
    X(tutti_elastic_counters, 136, received_bytes)

#define SIZED_ONE(type, bytes, last) type##_bytes_first = (bytes),
enum { SIZED_LIST(SIZED_ONE) };
#undef SIZED_ONE

/* The name of a struct, its size in the first version, and its size now. */
struct sized_type {
    const char *name;
    size_t bytes_first, bytes;
};
#define SIZED_TYPE(type) \
    (&(const struct sized_type){#type, type##_bytes_first, sizeof(struct type)})

/* Copies the caller's struct into `own`, which is complete afterwards. On failure `own` must not be
 * used. INVALID_OPTIONS: its message begins with `what`, such as "tutti_op_create: options". */
#define SIZED_READ(what, type, given, own) \
    sized_read(what, SIZED_TYPE(type), 1 ? (given) : (const struct type *)NULL, own)
/* Whether a result can be written where the caller wants it; NULL is none. */
#define SIZED_CHECK_RESULT(what, type, result) \
    sized_check_result(what, SIZED_TYPE(type), 1 ? (result) : (const struct type *)NULL)
/* Writes a result, all but its size_bytes, into result_bytes bytes: the size_bytes that the
 * caller's struct had when it was checked. */
#define SIZED_WRITE(type, result, result_bytes, own)                                \
    sized_write(SIZED_TYPE(type), 1 ? (result) : (struct type *)NULL, result_bytes, \
                1 ? (own) : (const struct type *)NULL)

/* The functions behind these. */
enum tutti_status sized_read_other(const char *what, const struct sized_type *type,
                                   const void *given, void *own);
enum tutti_status sized_check_result(const char *what, const struct sized_type *type,
                                     const void *result);
void sized_write(const struct sized_type *type, void *result, size_t result_bytes, const void *own);

static inline enum tutti_status sized_read(const char *what, const struct sized_type *type,
                                           const void *given, void *own)
{
    size_t given_bytes;
    memcpy(&given_bytes, given, sizeof given_bytes);
    if (given_bytes != type->bytes) return sized_read_other(what, type, given, own);
    memcpy(own, given, type->bytes);
    return TUTTI_OK;
}

#endif
