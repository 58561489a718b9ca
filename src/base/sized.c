#include "base/sized.h"

#include <assert.h>

#include "base/status.h"
#include "tutti/exclude.h"
#include "tutti/server.h"
#include "tutti/sparse.h"
#include "tutti/train.h"
#include "tutti/train/adapt.h"
#include "tutti/train/checkpoint.h"
#include "tutti/train/compress.h"
#include "tutti/train/elastic.h"
#include "tutti/train/local.h"
#include "tutti/train/pipeline.h"
#include "tutti/train/shards.h"

/* A size above this is no version's but something that was never set. */
enum { BYTES_MAX = 4096 };

#define SIZED_ONE(type, bytes, last)                                                             \
    static_assert(offsetof(struct type, size_bytes) == 0, #type " begins with its size");        \
    static_assert(sizeof(struct type) >= (bytes), #type " has lost a field that it had in 0.1"); \
    static_assert(offsetof(struct type, last) + sizeof((struct type){0}.last) ==                 \
                      sizeof(struct type),                                                       \
                  #type " has padding at its end: a reserved field belongs there; or " #last     \
                        " is its last field no more");
SIZED_LIST(SIZED_ONE)
#undef SIZED_ONE

static enum tutti_status check_size(const char *what, const struct sized_type *type,
                                    size_t given_bytes)
{
    /* All of them end where a size_t could begin, so every version's size is a multiple of that. */
    if (given_bytes >= type->bytes_first && given_bytes <= BYTES_MAX &&
        given_bytes % _Alignof(size_t) == 0)
        return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s.size_bytes must be sizeof(struct %s), %zu or more since Tutti 0.1, is %zu",
                     what, type->name, type->bytes_first, given_bytes);
}

static size_t size_of(const void *given)
{
    size_t bytes;
    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

enum tutti_status sized_read_other(const char *what, const struct sized_type *type,
                                   const void *given, void *own)
{
    const size_t given_bytes = size_of(given);
    TRY(check_size(what, type, given_bytes));
    for (size_t i = type->bytes; i < given_bytes; i++)
        if (((const unsigned char *)given)[i] != 0)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "%s: byte %zu of struct %s is set, but this library, Tutti %s, has "
                             "only its first %zu bytes: leave that field 0, or use the library of "
                             "the program's version",
                             what, i, type->name, tutti_version_text(), type->bytes);
    const size_t common_bytes = given_bytes < type->bytes ? given_bytes : type->bytes;
    memset(own, 0, type->bytes);
    memcpy(own, given, common_bytes);
    memcpy(own, &type->bytes, sizeof type->bytes);
    return TUTTI_OK;
}

enum tutti_status sized_check_result(const char *what, const struct sized_type *type,
                                     const void *result)
{
    if (result == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "%s must be the address of a struct %s, is NULL",
                         what, type->name);
    return check_size(what, type, size_of(result));
}

void sized_write(const struct sized_type *type, void *result, size_t result_bytes, const void *own)
{
    const size_t common_bytes = result_bytes < type->bytes ? result_bytes : type->bytes;
    memcpy((char *)result + sizeof(size_t), (const char *)own + sizeof(size_t),
           common_bytes - sizeof(size_t));
    memset((char *)result + common_bytes, 0, result_bytes - common_bytes);
}
