/* held.h - the memory that an allocation takes: for footprints. */
#ifndef TUTTI_BASE_HELD_H
#define TUTTI_BASE_HELD_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that malloc holds for it, including what malloc adds; 0 for NULL. */
static inline size_t held(const void *memory)
{
    return malloc_usable_size((void *)(uintptr_t)memory);
}

#endif
