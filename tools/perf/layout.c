#include "layout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------- blocks */

static bool init_blocks(struct perf_layout *layout, const struct perf_operation *operation,
                        const struct perf_shape *shape, enum side side)
{
    const size_t blocks = layout->block_count;
    layout->counts = calloc(blocks, sizeof *layout->counts);
    layout->displs = calloc(blocks, sizeof *layout->displs);
    if (!layout->counts || !layout->displs) return false;
    for (size_t block = 0; block < blocks; block++)
        layout->counts[block] = operation_count_of(operation, shape, side, block);
    return true;
}

/* Gaps are elements that nobody may touch. */
static size_t gap_before(enum displs displs, size_t block)
{
    if (displs == DISPLS_GAPS) return 1 + block % 3;
    return displs == DISPLS_REVERSED ? 1 : 0;
}

static void place_blocks(struct perf_layout *layout, const struct perf_operation *operation,
                         const struct perf_shape *shape, enum side side)
{
    const bool packed = operation->blocks == BLOCKS_EQUAL || layout->block_count == 1 ||
                        (operation->blocks == BLOCKS_OF_RANKS_PACKED && side == SEND);
    const enum displs displs = packed ? DISPLS_PACKED : shape->displs;
    for (size_t i = 0; i < layout->block_count; i++) {
        const size_t block = displs == DISPLS_REVERSED ? layout->block_count - 1 - i : i;
        layout->displs[block] = layout->span + gap_before(displs, block);
        layout->span = layout->displs[block] + layout->counts[block];
    }
}

static bool extents_of_blocks(struct perf_layout *layout)
{
    layout->extent_count = layout->block_count;
    layout->extents = calloc(layout->extent_count, sizeof *layout->extents);
    if (!layout->extents) return false;
    for (size_t i = 0; i < layout->extent_count; i++)
        layout->extents[i] = (struct extent){layout->displs[i], layout->counts[i]};
    return true;
}

/* -------------------------------------------------------------------------------------- tensors */

static uint64_t scattered(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 1) * UINT64_C(0xc2b2ae3d27d4eb4f) ^ (b + 1) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29) * UINT64_C(0xd6e8feb86659fd93);
    return h ^ h >> 32;
}

static int compare_sizes(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static size_t tensors_wanted(const struct perf_shape *shape, enum side side)
{
    enum { MIXED_MAX = 17 };
    if (shape->tensors != TENSORS_MIXED) return (size_t)shape->tensors;
    return 1 + scattered((uint64_t)shape->rank, (uint64_t)side + 100) % MIXED_MAX;
}

/* The places where tensors end. Some end anywhere, one of them after the first element. In place,
 * they also end where blocks do. */
static size_t *cut(const struct perf_layout *layout, const struct perf_shape *shape, enum side side,
                   size_t element_count, size_t *cut_count)
{
    const size_t anywhere = tensors_wanted(shape, side) - 1;
    const size_t edges = shape->in_place ? layout->block_count : 1;
    size_t *const cuts = calloc(anywhere + edges, sizeof *cuts);
    if (!cuts) return NULL;
    for (size_t i = 0; i < anywhere; i++)
        cuts[i] = i || !element_count
                      ? scattered((uint64_t)shape->rank * 2 + side, i) % (element_count + 1)
                      : 1;
    size_t end = 0;
    for (size_t block = 0; block < layout->block_count; block++) {
        end += layout->counts[block];
        if (shape->in_place) cuts[anywhere + block] = end;
    }
    if (!shape->in_place) cuts[anywhere] = end;
    qsort(cuts, anywhere + edges, sizeof *cuts, compare_sizes);
    *cut_count = anywhere + edges;
    return cuts;
}

static bool extents_of_tensors(struct perf_layout *layout, const struct perf_shape *shape,
                               enum side side)
{
    size_t element_count = 0;
    for (size_t block = 0; block < layout->block_count; block++)
        element_count += layout->counts[block];
    size_t *const cuts = cut(layout, shape, side, element_count, &layout->extent_count);
    if (cuts) layout->extents = calloc(layout->extent_count, sizeof *layout->extents);
    for (size_t i = 0, first = 0; layout->extents && i < layout->extent_count; first = cuts[i++]) {
        layout->extents[i] = (struct extent){layout->span + i % 4, cuts[i] - first};
        layout->span = layout->extents[i].offset + layout->extents[i].count;
    }
    free(cuts);
    return layout->extents != NULL;
}

/* --------------------------------------------------------------------------------------- pieces */

static struct source source_of(const struct perf_operation *operation,
                               const struct perf_shape *shape, enum side side, size_t block)
{
    if (side == SEND) return (struct source){shape->rank, block};
    return operation->source(shape, block);
}

static void add_piece(struct perf_layout *layout, const struct perf_operation *operation,
                      const struct perf_shape *shape, enum side side, struct layout_piece piece)
{
    const struct source source = source_of(operation, shape, side, piece.block);
    piece.rank = source.rank;
    piece.first += operation_first_of(operation, shape, source.block);
    layout->pieces[layout->piece_count++] = piece;
}

/* Walks along blocks and extents at once. */
static bool init_pieces(struct perf_layout *layout, const struct perf_operation *operation,
                        const struct perf_shape *shape, enum side side)
{
    layout->pieces = calloc(layout->block_count + layout->extent_count, sizeof *layout->pieces);
    if (!layout->pieces) return false;
    size_t block = 0, in_block = 0;
    for (size_t e = 0; e < layout->extent_count; e++) {
        const struct extent *const extent = &layout->extents[e];
        for (size_t done = 0; done < extent->count;) {
            while (in_block == layout->counts[block]) block++, in_block = 0;
            const size_t left = extent->count - done, room = layout->counts[block] - in_block;
            const size_t now = left < room ? left : room;
            add_piece(layout, operation, shape, side,
                      (struct layout_piece){.offset = extent->offset + done,
                                            .count = now,
                                            .block = block,
                                            .first = in_block});
            done += now;
            in_block += now;
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------- layouts */

bool layout_init(struct perf_layout *layout, const struct perf_operation *operation,
                 const struct perf_shape *shape, enum side side)
{
    *layout = (struct perf_layout){.block_count = operation->block_count[side](shape)};
    if (!layout->block_count) return true;
    if (!init_blocks(layout, operation, shape, side)) return false;
    if (shape->tensors != TENSORS_NONE) {
        if (!extents_of_tensors(layout, shape, side)) return false;
    } else {
        place_blocks(layout, operation, shape, side);
        if (!extents_of_blocks(layout)) return false;
    }
    return init_pieces(layout, operation, shape, side);
}

/* The other's tensors that lie in the block, or the block itself: both are its pieces. */
static bool extents_of_block(struct perf_layout *layout, const struct perf_layout *other,
                             size_t block)
{
    layout->extents = calloc(other->piece_count + 1, sizeof *layout->extents);
    if (!layout->extents) return false;
    for (size_t i = 0; i < other->piece_count; i++)
        if (other->pieces[i].block == block)
            layout->extents[layout->extent_count++] =
                (struct extent){other->pieces[i].offset, other->pieces[i].count};
    return true;
}

static bool extents_of_other(struct perf_layout *layout, const struct perf_layout *other)
{
    layout->extents = calloc(other->extent_count, sizeof *layout->extents);
    if (!layout->extents) return false;
    memcpy(layout->extents, other->extents, other->extent_count * sizeof *layout->extents);
    memcpy(layout->displs, other->displs, other->block_count * sizeof *layout->displs);
    layout->extent_count = other->extent_count;
    return true;
}

bool layout_init_within(struct perf_layout *layout, const struct perf_operation *operation,
                        const struct perf_shape *shape, enum side side,
                        const struct perf_layout *other)
{
    *layout = (struct perf_layout){.block_count = operation->block_count[side](shape)};
    if (!init_blocks(layout, operation, shape, side)) return false;
    layout->span = other->span;
    if (layout->block_count == other->block_count) {
        if (!extents_of_other(layout, other)) return false;
    } else {
        layout->start = other->displs[shape->rank];
        if (!extents_of_block(layout, other, (size_t)shape->rank)) return false;
    }
    return init_pieces(layout, operation, shape, side);
}

void layout_release(struct perf_layout *layout)
{
    free(layout->counts);
    free(layout->displs);
    free(layout->extents);
    free(layout->pieces);
    *layout = (struct perf_layout){0};
}
