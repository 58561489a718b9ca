#include "server/table_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { LINE = 64, MAPPED_BYTES_MIN = 64 << 10 };

/* Large pieces are pages of their own: in the heap, segments of the index that have been replaced
 * leave holes, which cost a process up to a tenth of its tables. */
static void *take(size_t bytes)
{
    if (bytes < MAPPED_BYTES_MIN) return aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    void *const pages =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void *table_memory_take(struct table_memory *memory, uint64_t bytes)
{
    struct table_budget *const budget = memory->budget;
    if (bytes > budget->max - budget->used || bytes > PTRDIFF_MAX) return NULL;
    void *const taken = take((size_t)bytes);
    if (taken == NULL) return NULL;
    budget->used += bytes;
    memory->used += bytes;
    return taken;
}

void table_memory_give(struct table_memory *memory, void *taken, uint64_t bytes)
{
    if (taken == NULL) return;
    if (bytes < MAPPED_BYTES_MIN)
        free(taken);
    else
        munmap(taken, (size_t)bytes);
    memory->budget->used -= bytes;
    memory->used -= bytes;
}
