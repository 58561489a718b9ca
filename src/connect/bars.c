#include "connect/bars.h"

#include <stdlib.h>
#include <string.h>

struct bars *bars_copy(const struct bars *bars)
{
    struct bars *const copy = calloc(1, sizeof *copy);
    if (copy != NULL && bars != NULL) *copy = *bars;
    return copy;
}

void bars_add(struct bars *bars, const struct bar *bar)
{
    for (int i = 0; i < bars->count; i++)
        if (bars->all[i].host == bar->host && bars->all[i].pid == bar->pid) return;
    if (bars->count == BARS_MAX)
        memmove(&bars->all[0], &bars->all[1], (size_t)--bars->count * sizeof *bars->all);
    bars->all[bars->count++] = *bar;
}

const struct bar *bars_find(const struct bars *bars, uint64_t host, int pid)
{
    for (int i = 0; bars != NULL && i < bars->count; i++) {
        const struct bar *const bar = &bars->all[i];
        if (bar->host == host && (bar->pid == pid || bar->pid == BAR_ANY_PID)) return bar;
    }
    return NULL;
}
