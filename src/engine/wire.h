/* wire.h - how many bytes of a link so many bytes of memory are. Steps, lanes and pieces count bytes of memory, always of whole elements;
 * where an encoding makes others of them, only what links are asked for, and show, is counted in theirs.
 */
#ifndef TUTTI_ENGINE_WIRE_H
#define TUTTI_ENGINE_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/format.h"

/* On a link, of so many bytes of memory from the first of a unit on. */
static inline size_t wire_bytes(const struct kernel_encoding *encoding, size_t element_bytes,
                                size_t bytes)
{
    if (__builtin_expect(encoding == NULL, 1)) return bytes;
    return kernel_encoded_bytes(encoding, bytes / element_bytes);
}

/* In memory, of so many bytes of a link, which end with a unit or with what is `left` of the chunk. False: they do not. */
static inline bool wire_to_memory(const struct kernel_encoding *encoding, size_t element_bytes,
                                  size_t on_link, size_t left, size_t *bytes)
{
    if (on_link > kernel_encoded_bytes(encoding, left / element_bytes)) return false;
    *bytes = on_link / encoding->unit_bytes * encoding->unit_elements * element_bytes;
    if (*bytes > left) *bytes = left;
    return on_link % encoding->unit_bytes == 0;
}

#endif
