/* format.h - how elements lie where a kernel reads or stores them: in which kind of memory, and in
 * which encoding.
 *
 *     memory     a b c d e f g h i                 elements
 *     link       [ a b c d ][ e f g h ][ i ]       units of an encoding, each of the same number of bytes, the last one of a chunk as well
 *
 * On a link elements may lie *encoded*: in fewer bytes, say, or with a common scale for each unit.
 * The last unit of a chunk may hold fewer elements. Buffers and scratch hold elements as they are.
 * Kernels read and store both, so encoding and decoding are no steps of their own.
 */
#ifndef TUTTI_KERNEL_FORMAT_H
#define TUTTI_KERNEL_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "memory/kind.h"

/* Is for one dtype. Encoding what was decoded gives the same bytes again: so a rank may pass a
 * message on as it came, or encoded anew. */
struct kernel_encoding {
    const char *name;
    uint64_t id; /* unique; callers that encode put it into signatures: ranks must agree on it */
    unsigned unit_elements; /* 1 or more */
    unsigned unit_bytes;
};

/* The number of bytes that this many elements are when encoded; the first of them begins a unit. */
static inline size_t kernel_encoded_bytes(const struct kernel_encoding *encoding, size_t elements)
{
    const size_t units =
        elements / encoding->unit_elements + (elements % encoding->unit_elements != 0);
    return units * encoding->unit_bytes;
}

struct kernel_format {
    const struct kernel_encoding *encoding; /* NULL: elements as they are */
    const struct memory_kind *memory;       /* NULL: the host's */
};

/* The formats of a kernel call. Encoded elements begin with a unit, and end with a whole one unless
 * the chunk ends there. */
struct kernel_formats {
    struct kernel_format destination, also;
    const struct kernel_format *sources, *others; /* one for each */
    /* NULL: none. Otherwise every place, plain or encoded, gets the result as it is after it was
     * encoded and decoded: what a rank keeps is then what all others decode. */
    const struct kernel_encoding *through;
};

#endif
