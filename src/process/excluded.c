#include "process/excluded.h"

#include <stdatomic.h>

static atomic_bool is_excluded;

void excluded_note(void)
{
    atomic_store_explicit(&is_excluded, true, memory_order_relaxed);
}

bool excluded_is_noted(void)
{
    return atomic_load_explicit(&is_excluded, memory_order_relaxed);
}
