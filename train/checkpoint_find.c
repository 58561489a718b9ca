#include "checkpoint_find.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/status.h"
#include "checkpoint_head.h"
#include "checkpoint_rest.h"

struct stored {
    const struct piece *piece;
    size_t shard;
};

struct finds {
    struct found *found;
    size_t count, room;
};

static enum tutti_status no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "out of memory");
}

static int compare_stored(const void *a, const void *b)
{
    const struct stored *const left = a, *const right = b;
    const int pieces = piece_compare(left->piece, right->piece);
    if (pieces != 0) return pieces;
    return left->shard < right->shard ? -1 : left->shard > right->shard;
}

static int compare_found(const void *a, const void *b)
{
    const struct found *const left = a, *const right = b;
    if (left->shard != right->shard) return left->shard < right->shard ? -1 : 1;
    if (left->from->offset != right->from->offset)
        return left->from->offset < right->from->offset ? -1 : 1;
    return box_compare(&left->box, &right->box);
}

static struct stored *sort(const struct table *tables, size_t shard_count, size_t *count)
{
    size_t all = 0, at = 0;
    for (size_t s = 0; s < shard_count; s++) all += tables[s].count;
    struct stored *const stored = calloc(all + 1, sizeof *stored);
    if (stored == NULL) return NULL;
    for (size_t s = 0; s < shard_count; s++)
        for (size_t i = 0; i < tables[s].count; i++)
            stored[at++] = (struct stored){&tables[s].pieces[i], s};
    qsort(stored, all, sizeof *stored, compare_stored);
    *count = all;
    return stored;
}

/* The first one of the same name, or the place where it would be. */
static size_t first_namesake(const struct stored *stored, size_t count, const struct piece *wanted)
{
    struct piece before = {.name = wanted->name}; /* with no dimensions: in front of all */
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (piece_compare(stored[middle].piece, &before) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static enum tutti_status add(struct finds *finds, const struct found *found)
{
    if (finds->count == finds->room) {
        const size_t room = 2 * finds->room + 64;
        struct found *const grown = realloc(finds->found, room * sizeof *grown);
        if (grown == NULL) return no_memory();
        finds->found = grown;
        finds->room = room;
    }
    finds->found[finds->count++] = *found;
    return TUTTI_OK;
}

static enum tutti_status check_alike(const struct piece *there, const struct piece *wanted)
{
    char one[160], two[160];
    if (piece_is_alike(there, wanted)) return TUTTI_OK;
    piece_describe(there, one, sizeof one);
    piece_describe(wanted, two, sizeof two);
    return error_set(TUTTI_MISMATCH, "tensor '%s' is %s there, and %s here", wanted->name, one, two);
}

/* Pieces of one tensor, of which another one is wanted. */
struct search {
    const struct stored *namesakes;
    size_t count;
    const struct piece *wanted;
    char *data;
    uint64_t blocks_left; /* of files, which are read in blocks */
};

/* In which elements of a box lie that are in the piece. */
static uint64_t blocks_of(const struct piece *piece, const struct box *box)
{
    const int dimension = box_run_dimension(&piece->box, box);
    const size_t element = dtype_size(piece->dtype);
    uint64_t run;
    const uint64_t runs = box_runs(box, dimension, &run);
    const uint64_t begin = box_run_place(&piece->box, box, dimension, 0);
    const uint64_t end = box_run_place(&piece->box, box, dimension, runs - 1) + run;
    return (piece->offset + end * element - 1) / HEAD_BLOCK_BYTES -
           (piece->offset + begin * element) / HEAD_BLOCK_BYTES + 1;
}

static size_t count_namesakes(const struct stored *stored, size_t count, const struct piece *wanted)
{
    size_t found = 0;
    while (found < count && piece_is_namesake(stored[found].piece, wanted)) found++;
    return found;
}

static void limit_blocks(struct search *search)
{
    search->blocks_left = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct piece *const piece = search->namesakes[i].piece;
        search->blocks_left += FIND_READS_A_BLOCK * blocks_of(piece, &piece->box);
    }
}

static enum tutti_status add_found(struct search *search, const struct found *found,
                                   struct finds *finds)
{
    const uint64_t blocks = blocks_of(found->from, &found->box);
    if (blocks > search->blocks_left)
        return error_set(
            TUTTI_UNSUPPORTED,
            "tensor '%s' is in %zu pieces, so many of which cross each other that each "
            "block of them would be read more than %d times",
            search->wanted->name, search->count, FIND_READS_A_BLOCK);
    search->blocks_left -= blocks;
    return add(finds, found);
}

/* As much as there is of it. */
static enum tutti_status take(struct search *search, struct rest *rest, struct finds *finds)
{
    for (size_t i = 0; i < search->count && rest->count > 0; i++) {
        const struct stored *const stored = &search->namesakes[i];
        struct found found = {stored->piece, stored->shard, search->wanted, search->data, {0}};
        bool taken;
        TRY(check_alike(stored->piece, search->wanted));
        rest_come(rest);
        do {
            TRY(rest_take(rest, &stored->piece->box, &found.box, &taken));
            if (taken) TRY(add_found(search, &found, finds));
        } while (taken);
    }
    return TUTTI_OK;
}

/* All of it. */
static enum tutti_status take_whole(struct search *search, struct rest *rest, struct finds *finds)
{
    const struct piece *const wanted = search->wanted;
    TRY(rest_init(rest, wanted->name, &wanted->box, search->count));
    TRY(take(search, rest, finds));
    if (rest->count == 0) return TUTTI_OK;
    char missing[160];
    table_describe_box(&rest->boxes[0], missing, sizeof missing);
    return error_set(TUTTI_MISMATCH, "the elements %s of tensor '%s' are not there", missing,
                     wanted->name);
}

static enum tutti_status find(const struct stored *stored, size_t count, const struct piece *wanted,
                              char *data, struct finds *finds)
{
    const size_t first = first_namesake(stored, count, wanted);
    struct search search = {stored + first, count_namesakes(stored + first, count - first, wanted),
                            wanted, data, 0};
    struct rest rest;
    if (search.count == 0)
        return error_set(TUTTI_MISMATCH, "there is no tensor '%s'", wanted->name);
    limit_blocks(&search);
    const enum tutti_status status = take_whole(&search, &rest, finds);
    rest_release(&rest);
    return status;
}

enum tutti_status find_parts(const struct table *tables, size_t shard_count,
                             const struct parts *parts, struct found **found, size_t *count)
{
    struct finds finds = {NULL, 0, 0};
    size_t stored_count = 0;
    struct stored *const stored = sort(tables, shard_count, &stored_count);
    enum tutti_status status = stored != NULL ? TUTTI_OK : no_memory();
    for (size_t i = 0; i < parts->count && status == TUTTI_OK; i++)
        status = find(stored, stored_count, &parts->pieces[i], parts->data[i], &finds);
    free(stored);
    if (status == TUTTI_OK && finds.count > 0)
        qsort(finds.found, finds.count, sizeof *finds.found, compare_found);
    if (status != TUTTI_OK) free(finds.found);
    *found = status == TUTTI_OK ? finds.found : NULL;
    *count = status == TUTTI_OK ? finds.count : 0;
    return status;
}
