/* argument.c - what is said of single arguments that are refused. */
#include "api/check.h"
#include "base/dtype.h"
#include "base/status.h"

__attribute__((cold)) enum tutti_status api_refuse_dtype(const char *call, enum tutti_dtype dtype)
{
    return error_set(TUTTI_INVALID_DTYPE,
                     "tutti_%s: dtype must be a value of enum tutti_dtype, 0 to %d, is %d", call,
                     DTYPE_COUNT - 1, (int)dtype);
}

__attribute__((cold)) enum tutti_status api_refuse_buffer(const char *call, const char *name,
                                                          size_t bytes)
{
    return error_set(TUTTI_INVALID_BUFFER, "tutti_%s: %s must be the address of %zu bytes, is NULL",
                     call, name, bytes);
}
