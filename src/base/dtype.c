#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    enum dtype_kind kind;
} dtypes[DTYPE_COUNT] = {
#define X(enumerator, name, bytes, kind) [enumerator] = {#name, bytes, kind},
    DTYPE_LIST(X)
#undef X
};

enum dtype_kind dtype_kind(enum tutti_dtype dtype)
{
    return dtypes[dtype].kind;
}

enum tutti_dtype dtype_from_name(const char *name)
{
    unsigned i = 0;
    while (i < DTYPE_COUNT && strcmp(dtypes[i].name, name) != 0) i++;
    return (enum tutti_dtype)i;
}

size_t tutti_dtype_size(enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) ? dtypes[dtype].bytes : 0;
}

const char *tutti_dtype_name(enum tutti_dtype dtype)
{
    return dtype_is_valid(dtype) ? dtypes[dtype].name : "unknown";
}
