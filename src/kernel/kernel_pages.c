#include "kernel/kernel_pages.h"

#include <stdatomic.h>

static _Atomic int chosen = PAGING_BY_PROCESSOR;

static enum kernel_paging of_this_processor(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_is("intel")) return PAGING_ALWAYS;
#endif
    return PAGING_NEVER;
}

/* Relaxed: the number is all there is to see, and everybody finds the same. */
bool kernel_streams_by_pages(void)
{
    int paging = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (paging == PAGING_BY_PROCESSOR) {
        paging = of_this_processor();
        atomic_store_explicit(&chosen, paging, memory_order_relaxed);
    }
    return paging == PAGING_ALWAYS;
}

void kernel_set_paging(enum kernel_paging paging)
{
    atomic_store_explicit(&chosen, paging, memory_order_relaxed);
}
