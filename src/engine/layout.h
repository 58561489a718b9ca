/* layout.h - where the chunks of a buffer lie: the uniform layout, equal blocks cut into nearly equal parts.
 *
 * Cuts fall on cache lines where a part has several of them, so that no two ranks write one line and vectors
 * stay aligned. A pure function of count, parts and element size: the same on every rank.
 */
#ifndef TUTTI_ENGINE_LAYOUT_H
#define TUTTI_ENGINE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct layout {
    size_t count; /* elements in a block */
    size_t element_bytes;
    uint32_t parts;
};

/* First element of a part; `part` may be `parts`: the end. */
static inline size_t layout_part_begin(const struct layout *layout, uint32_t part)
{
    const size_t line = 64 / layout->element_bytes;
    const size_t begin = (size_t)((unsigned __int128)layout->count * part / layout->parts);
    if (part == layout->parts || layout->count / layout->parts < line * 4) return begin;
    return begin / line * line;
}

/* Byte offset of a chunk in a buffer of blocks. */
static inline size_t layout_chunk_offset(const struct layout *layout, uint32_t chunk)
{
    const size_t block = chunk / layout->parts;
    return (block * layout->count + layout_part_begin(layout, chunk % layout->parts)) *
           layout->element_bytes;
}

/* Bytes of a chunk of that class: classes of one part have one size. */
static inline size_t layout_class_bytes(const struct layout *layout, uint32_t class)
{
    const uint32_t part = class % layout->parts;
    return (layout_part_begin(layout, part + 1) - layout_part_begin(layout, part)) *
           layout->element_bytes;
}

#endif
