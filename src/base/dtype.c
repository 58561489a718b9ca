#include "base/dtype.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[DTYPE_COUNT] = {
#define X(enumerator, name, bytes) [enumerator] = {name, bytes},
    DTYPE_LIST(X)
#undef X
};
static const char *const ops[OP_COUNT] = {
#define X(enumerator, name) [enumerator] = name,
    OP_LIST(X)
#undef X
};

bool dtype_is_valid(enum tutti_dtype dtype)
{
    return (unsigned)dtype < DTYPE_COUNT;
}

bool op_is_valid(enum tutti_op op)
{
    return (unsigned)op < OP_COUNT;
}

size_t tutti_dtype_size(enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) ? dtypes[dtype].bytes : 0;
}

const char *tutti_dtype_name(enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) ? dtypes[dtype].name : "unknown";
}

const char *tutti_op_name(enum tutti_op op)
{
    return op_is_valid(op) ? ops[op] : "unknown";
}
