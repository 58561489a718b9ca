/* wire.h - converts between bytes of memory and bytes on a link, which differ if elements are
 * encoded (kernel/format.h).
 *
 * Steps, lanes and pieces count bytes of memory, always of whole elements. Only requests to links,
 * and the views that links show, are counted in bytes on the link.
 */
#ifndef TUTTI_ENGINE_WIRE_H
#define TUTTI_ENGINE_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernel/format.h"

/* The bytes on a link for so many bytes of memory, the first of which begins a unit. encoding: NULL
 * for elements as they are. */
static inline size_t wire_bytes(const struct kernel_encoding *encoding, size_t element_bytes,
                                size_t bytes)
{
    if (__builtin_expect(encoding == NULL, 1)) return bytes;
    return kernel_encoded_bytes(encoding, bytes / element_bytes);
}

/* The bytes of memory for so many bytes on a link, with an encoding. `left`: bytes of memory that
 * are left of the chunk. False: on_link is not a whole number of units, or is more than is left. */
static inline bool wire_to_memory(const struct kernel_encoding *encoding, size_t element_bytes,
                                  size_t on_link, size_t left, size_t *bytes)
{
    if (on_link > kernel_encoded_bytes(encoding, left / element_bytes)) return false;
    *bytes = on_link / encoding->unit_bytes * encoding->unit_elements * element_bytes;
    if (*bytes > left) *bytes = left;
    return on_link % encoding->unit_bytes == 0;
}

#endif
