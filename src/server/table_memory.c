#include "server/table_memory.h"

#include <stdlib.h>

enum { LINE = 64 };

void *table_memory_take(struct table_memory *memory, uint64_t bytes)
{
    struct table_budget *const budget = memory->budget;
    if (bytes > budget->max - budget->used || bytes > SIZE_MAX - LINE) return NULL;
    void *const taken = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
    if (taken == NULL) return NULL;
    budget->used += bytes;
    memory->used += bytes;
    return taken;
}

void table_memory_give(struct table_memory *memory, void *taken, uint64_t bytes)
{
    if (taken == NULL) return;
    free(taken);
    memory->budget->used -= bytes;
    memory->used -= bytes;
}
