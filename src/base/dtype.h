/* dtype.h - the one list of dtypes. */
#ifndef TUTTI_BASE_DTYPE_H
#define TUTTI_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "tutti/tutti.h"

enum dtype_kind { DTYPE_FLOAT, DTYPE_SIGNED, DTYPE_UNSIGNED };

/* X(enumerator, name, bytes, kind); a kernel's functions for it end in the name. */
#define DTYPE_LIST(X)                                 \
    X(TUTTI_FLOAT32, float32, 4, DTYPE_FLOAT)         \
    X(TUTTI_FLOAT64, float64, 8, DTYPE_FLOAT)         \
    X(TUTTI_BFLOAT16, bfloat16, 2, DTYPE_FLOAT)       \
    X(TUTTI_INT32, int32, 4, DTYPE_SIGNED)            \
    X(TUTTI_INT64, int64, 8, DTYPE_SIGNED)            \
    X(TUTTI_FLOAT16, float16, 2, DTYPE_FLOAT)         \
    X(TUTTI_FLOAT8_E4M3, float8_e4m3, 1, DTYPE_FLOAT) \
    X(TUTTI_FLOAT8_E5M2, float8_e5m2, 1, DTYPE_FLOAT) \
    X(TUTTI_INT8, int8, 1, DTYPE_SIGNED)              \
    X(TUTTI_INT16, int16, 2, DTYPE_SIGNED)            \
    X(TUTTI_UINT8, uint8, 1, DTYPE_UNSIGNED)          \
    X(TUTTI_UINT16, uint16, 2, DTYPE_UNSIGNED)        \
    X(TUTTI_UINT32, uint32, 4, DTYPE_UNSIGNED)        \
    X(TUTTI_UINT64, uint64, 8, DTYPE_UNSIGNED)

enum {
#define X(enumerator, name, bytes, kind) DTYPE_INDEX_##enumerator,
    DTYPE_LIST(X)
#undef X
        DTYPE_COUNT
};

static inline bool dtype_is_valid(enum tutti_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT;
}

/* tutti_dtype_size of a valid dtype, for the path of a call. */
static inline size_t dtype_size(enum tutti_dtype dtype)
{
#define X(enumerator, name, bytes, kind) [enumerator] = bytes,
    static const unsigned char sizes[DTYPE_COUNT] = {DTYPE_LIST(X)};
#undef X
    return sizes[dtype];
}

enum dtype_kind dtype_kind(enum tutti_dtype dtype);
/* DTYPE_COUNT when there is none of that name. */
enum tutti_dtype dtype_from_name(const char *name);

#endif
