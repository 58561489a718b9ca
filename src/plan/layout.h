/* layout.h - where the chunks of a buffer lie: blocks, of one count or of counts of their own, each
 * cut into nearly equal parts.
 *
 * Cuts fall on cache lines where a part has several of them, so that no two ranks write one line
 * and vectors stay aligned; and on units, where an encoding has units of several elements. A pure function of counts, parts and element size: the same on every
 * rank that knows them.
 *
 * Offsets are those of a buffer whose blocks lie one after the other; buffer.h says where its bytes
 * really are.
 */
#ifndef TUTTI_PLAN_LAYOUT_H
#define TUTTI_PLAN_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"

/* The count of a block that lies neither in this rank's input nor in its output, and that it was
 * not told. */
#define LAYOUT_UNKNOWN SIZE_MAX

struct layout {
    size_t count; /* elements in a block */
    size_t element_bytes;
    uint32_t parts;
    unsigned unit_elements; /* that a block is cut into multiples of; 0: any */
    /* Blocks of different counts: */
    enum collective collective;
    int rank, rank_count;
    /* One a block of this rank's input and output; NULL where it has one block, of `count`. Both
     * NULL: every block has `count`. */
    const size_t *input_counts, *output_counts;
    const size_t *input_begins, *output_begins; /* their sums; where the counts are not NULL */
};

/* Elements of the block that a class belongs to (class / parts). */
static inline size_t layout_block_count(const struct layout *layout, size_t block)
{
    if (layout->input_counts == NULL && layout->output_counts == NULL) return layout->count;
    const size_t rank = (size_t)layout->rank, ranks = (size_t)layout->rank_count;
    if (layout->collective == COLLECTIVE_ALLTOALL) {
        if (block / ranks == rank) return layout->input_counts[block % ranks];
        return block % ranks == rank ? layout->output_counts[block / ranks] : LAYOUT_UNKNOWN;
    }
    const size_t *counts =
        layout->input_counts != NULL ? layout->input_counts : layout->output_counts;
    return counts[block];
}

/* First element of a part of a block of that count; `part` may be `parts`: the end. */
static inline size_t layout_part_begin(const struct layout *layout, size_t count, uint32_t part)
{
    const size_t line = 64 / layout->element_bytes, unit = layout->unit_elements;
    const size_t begin = (size_t)((unsigned __int128)count * part / layout->parts);
    if (part == layout->parts) return begin;
    const size_t cut = count / layout->parts < line * 4 ? begin : begin / line * line;
    return unit > line ? begin / unit * unit : unit > 1 ? cut / unit * unit : cut;
}

/* Byte offset of a chunk in the input or the output. */
static inline size_t layout_chunk_offset(const struct layout *layout, bool is_input, uint32_t chunk)
{
    const size_t block = chunk / layout->parts;
    const size_t *counts = is_input ? layout->input_counts : layout->output_counts;
    size_t begin = block * layout->count, count = layout->count;
    if (counts != NULL) {
        begin = (is_input ? layout->input_begins : layout->output_begins)[block];
        count = counts[block];
    }
    return (begin + layout_part_begin(layout, count, chunk % layout->parts)) * layout->element_bytes;
}

/* Bytes of a chunk of that class: classes of one part have one size. LAYOUT_UNKNOWN where its
 * block's is. */
static inline size_t layout_class_bytes(const struct layout *layout, uint32_t class)
{
    const uint32_t part = class % layout->parts;
    const size_t count = layout_block_count(layout, class / layout->parts);
    if (count == LAYOUT_UNKNOWN) return LAYOUT_UNKNOWN;
    return (layout_part_begin(layout, count, part + 1) - layout_part_begin(layout, count, part)) *
           layout->element_bytes;
}

#endif
