/* buffer.h - where the bytes of a buffer lie: in one piece, or in segments one after the other.
 *
 *     offsets    0 ............ 100 . 104 ........... 200
 *     segments   [ weights      ]     [ more weights  ]        anywhere in memory each
 *                               [ bias]
 *
 * So blocks at displacements and lists of tensors are the same thing to all files but this one, and
 * tensors are never copied into one buffer.
 */
#ifndef TUTTI_ENGINE_BUFFER_H
#define TUTTI_ENGINE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* No segment is empty; they are in order and without gaps. */
struct segment_of_buffer {
    size_t begin, end; /* offsets in the buffer */
    char *address;
};

struct buffer {
    char *base;                               /* of a buffer in one piece */
    const struct segment_of_buffer *segments; /* NULL: in one piece */
    size_t segment_count;
};

/* The segment of an offset; the buffer has segments, and the offset lies in one of them. */
static inline const struct segment_of_buffer *buffer_segment(const struct buffer *buffer,
                                                             size_t offset)
{
    size_t low = 0, high = buffer->segment_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (buffer->segments[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return &buffer->segments[low];
}

/* Address of the byte at an offset; *bytes (0 is allowed) is cut to what lies there in one
 * piece. */
static inline char *buffer_at(const struct buffer *buffer, size_t offset, size_t *bytes)
{
    if (__builtin_expect(buffer->segments == NULL, 1)) return buffer->base + offset;
    if (buffer->segment_count == 0) return buffer->base; /* then *bytes is 0 */
    const struct segment_of_buffer *segment = buffer_segment(buffer, offset);
    if (segment->end - offset < *bytes) *bytes = segment->end - offset;
    return segment->address + (offset - segment->begin);
}

#endif
