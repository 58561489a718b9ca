/* format.h - how elements lie where a kernel reads or stores them: in which kind of memory, and in which encoding.
 *
 *     memory     a b c d e f g h i                 elements
 *     link       [ a b c d ][ e f g h ][ i ]       units of an encoding, each of the same number of bytes, the last one of a chunk as well
 *
 * On a link elements may lie *encoded*: in fewer bytes, say, or with a common scale for each unit. Buffers and scratch hold elements as they
 * are. A kernel reads and stores both, so nothing is encoded or decoded by itself.
 */
#ifndef TUTTI_KERNEL_FORMAT_H
#define TUTTI_KERNEL_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "memory/kind.h"

/* For one dtype. Encoding what was decoded gives the same bytes again, so that a message may be passed on as it is or anew. */
struct kernel_encoding {
    const char *name;
    uint64_t id;            /* what ranks must agree on, for signatures */
    unsigned unit_elements; /* 1 or more */
    unsigned unit_bytes;
};

/* Of so many elements, from the first of a unit on. */
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

/* Of a call. What is encoded begins with a unit, and ends with one unless the chunk ends there. */
struct kernel_formats {
    struct kernel_format destination;             /* a call with formats has no `also` */
    const struct kernel_format *sources, *others; /* of each */
};

#endif
