#include "names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"

enum tutti_status name_check(const char *function, const char *name, size_t index)
{
    const size_t length = name != NULL ? strnlen(name, NAME_BYTES_MAX + 1) : 0;
    bool is_good = length > 0 && length <= NAME_BYTES_MAX;
    for (size_t i = 0; is_good && i < length; i++)
        is_good = (unsigned char)name[i] >= 32 && name[i] != 127;
    if (is_good) return TUTTI_OK;
    return error_set(TUTTI_INVALID_OPTIONS,
                     "%s: tensor %zu must have a name of 1 to %d bytes, without control characters",
                     function, index, NAME_BYTES_MAX);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

enum tutti_status names_check_differ(const char *function, const char **names, size_t count)
{
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return error_set(TUTTI_INVALID_OPTIONS, "%s: two tensors have the name '%s'", function,
                             names[i]);
    return TUTTI_OK;
}

uint64_t name_hash(uint64_t hash, const char *name)
{
    for (; *name != '\0'; name++) hash = hash_take(hash, (unsigned char)*name);
    return hash_take(hash, 0);
}
