/* grow.h - memory that an operation keeps from run to run, and that only grows. */
#ifndef TUTTI_ENGINE_GROW_H
#define TUTTI_ENGINE_GROW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for `needed` elements and keeps the present ones. False when out of memory: then
 * nothing has changed. */
static inline bool grow(void **memory, uint32_t *capacity, uint32_t needed, size_t element_bytes)
{
    if (needed <= *capacity) return true;
    void *grown = realloc(*memory, needed * element_bytes);
    if (grown == NULL) return false;
    *memory = grown;
    *capacity = needed;
    return true;
}

#endif
