/* argument.c - checks of single arguments. */
#include "api/check.h"
#include "base/dtype.h"
#include "base/status.h"

enum tutti_status api_check_dtype(const char *call, enum tutti_dtype dtype)
{
    if (dtype_is_valid(dtype)) return TUTTI_OK;
    return error_set(TUTTI_INVALID_DTYPE,
                     "tutti_%s: dtype must be a value of enum tutti_dtype, 0 to %d, is %d", call,
                     DTYPE_COUNT - 1, (int)dtype);
}

enum tutti_status api_check_buffer(const char *call, const char *name, const void *buffer,
                                   size_t bytes)
{
    if (bytes == 0 || buffer != NULL) return TUTTI_OK;
    return error_set(TUTTI_INVALID_BUFFER, "tutti_%s: %s must be the address of %zu bytes, is NULL",
                     call, name, bytes);
}
