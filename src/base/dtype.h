/* dtype.h - the one list of dtypes and the one list of operations. */
#ifndef TUTTI_BASE_DTYPE_H
#define TUTTI_BASE_DTYPE_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* X(enumerator, name, bytes) */
#define DTYPE_LIST(X)                \
    X(TUTTI_FLOAT32, "float32", 4)   \
    X(TUTTI_FLOAT64, "float64", 8)   \
    X(TUTTI_BFLOAT16, "bfloat16", 2) \
    X(TUTTI_INT32, "int32", 4)       \
    X(TUTTI_INT64, "int64", 8)

/* X(enumerator, name) */
#define OP_LIST(X)        \
    X(TUTTI_SUM, "sum")   \
    X(TUTTI_PROD, "prod") \
    X(TUTTI_MIN, "min")   \
    X(TUTTI_MAX, "max")   \
    X(TUTTI_AVG, "avg")

enum {
#define X(enumerator, name, bytes) DTYPE_INDEX_##enumerator,
    DTYPE_LIST(X)
#undef X
        DTYPE_COUNT
};
enum {
#define X(enumerator, name) OP_INDEX_##enumerator,
    OP_LIST(X)
#undef X
        OP_COUNT
};

bool dtype_is_valid(enum tutti_dtype dtype);
bool op_is_valid(enum tutti_op op);

#endif
