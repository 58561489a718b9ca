#include "compress_state.h"

#include <string.h>

#include "base/status.h"

enum tutti_status compress_allocate(struct compress_bucket *bucket, size_t bytes)
{
    return tutti_mem_alloc(bytes, &bucket->memory);
}

struct tutti_call_options compress_call_options(const struct tutti_compressor_options *options)
{
    struct tutti_call_options own = TUTTI_CALL_OPTIONS_INIT;
    own.priority = options->priority;
    own.encoding = "none";
    return own;
}

enum tutti_status compress_check_rest(const struct tutti_compressor *c, const char *function)
{
    if (c->next == 0 && memchr(c->is_ready, 1, c->tensor_count) == NULL) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "tutti_compressor_%s: in the middle of a step; finish it first", function);
}
