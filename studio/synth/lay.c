#include "studio/synth/lay.h"

#include <stdlib.h>

#include "base/status.h"
#include "studio/synth/lay_rank.h"

/* ------------------------------------------------------------------------------------- segments */

/* Trees of one root in a forest, one after the other, in units of the layout. */
struct walk {
    const struct forest *forest;
    int64_t unit, left; /* chunks of a tree of weight 1; chunks of the present tree not taken yet */
    int tree;
};

static const struct forest_tree *present(const struct walk *walk)
{
    return walk->forest != NULL ? &walk->forest->trees[walk->tree] : NULL;
}

/* The next tree of that root, if the present one has been used up. */
static void walk_on(struct walk *walk, int root)
{
    if (walk->forest == NULL || walk->left > 0) return;
    do walk->tree++;
    while (walk->forest->trees[walk->tree].root != root);
    walk->left = walk->forest->trees[walk->tree].weight * walk->unit;
}

static void add_root(struct lay_out *layout, int root)
{
    const struct lay *lay = layout->lay;
    struct walk up = {.forest = lay->up, .tree = -1}, down = {.forest = lay->down, .tree = -1};
    if (lay->up != NULL) up.unit = layout->k / lay->up->k;
    if (lay->down != NULL) down.unit = layout->k / lay->down->k;
    for (int64_t first = 0; first < layout->k;) {
        walk_on(&up, root);
        walk_on(&down, root);
        int64_t count = layout->k - first;
        if (lay->up != NULL && up.left < count) count = up.left;
        if (lay->down != NULL && down.left < count) count = down.left;
        layout->segments[layout->segment_count++] = (struct lay_segment){
            .root = root, .first = first, .count = count, .up = present(&up), .down = present(&down)};
        up.left -= count;
        down.left -= count;
        first += count;
    }
}

static void add_roots(struct lay_out *layout)
{
    const struct forest *any = layout->lay->down != NULL ? layout->lay->down : layout->lay->up;
    for (int r = 0; r < layout->rank_count; r++)
        if (any->root == SYNTH_EVERY_RANK || any->root == r) add_root(layout, r);
}

/* ------------------------------------------------------------------------------------ all ranks */

static bool is_for_trees(const struct lay *lay)
{
    const bool up = lay->up != NULL, down = lay->down != NULL;
    switch (lay->collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_BROADCAST: return down && !up;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_REDUCE: return up && !down;
    case COLLECTIVE_ALLREDUCE: return up && down;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BARRIER:
    case COLLECTIVE_COUNT: break;
    }
    return false;
}

static enum tutti_status count_chunks(struct lay_out *layout)
{
    const struct lay *lay = layout->lay;
    const int64_t up = lay->up != NULL ? lay->up->k : 1, down = lay->down != NULL ? lay->down->k : 1;
    layout->k = up / synth_gcd(up, down) * down;
    const int64_t blocks = lay->collective == COLLECTIVE_ALLREDUCE ? layout->rank_count : 1;
    const int64_t parts = layout->k * blocks * lay->pieces;
    if (parts * layout->rank_count > INT64_C(1) << 30)
        return error_set(TUTTI_UNSUPPORTED, "%lld chunks in a block; fewer trees or pieces do",
                         (long long)parts);
    layout->parts = (uint32_t)parts;
    return TUTTI_OK;
}

static enum tutti_status make_segments(struct lay_out *layout)
{
    const struct lay *lay = layout->lay;
    const int trees = (lay->up != NULL ? lay->up->tree_count : 0) +
                      (lay->down != NULL ? lay->down->tree_count : 0);
    layout->segments = malloc((size_t)trees * sizeof *layout->segments);
    if (layout->segments == NULL) return error_set(TUTTI_NO_MEMORY, "a plan of %d trees", trees);
    add_roots(layout);
    return TUTTI_OK;
}

/* The rank whose step the entry is. */
static int rank_of(const struct lay_out *layout, const struct timetable_entry *entry)
{
    const bool is_childs = entry->is_up != entry->is_end;
    return is_childs ? entry->child : lay_tree(layout, entry)->parent[entry->child];
}

/* Sorts by counting, so that the entries of a rank stay in order. */
static enum tutti_status sort(const struct timetable_entry *entries, size_t count,
                              struct lay_out *layout)
{
    const size_t ranks = (size_t)layout->rank_count;
    layout->entries = malloc(count * sizeof *layout->entries);
    layout->begins = calloc(ranks + 2, sizeof *layout->begins);
    if (layout->entries == NULL || layout->begins == NULL)
        return error_set(TUTTI_NO_MEMORY, "a plan of %zu steps", count);
    for (size_t i = 0; i < count; i++) layout->begins[rank_of(layout, &entries[i]) + 2]++;
    for (size_t r = 0; r < ranks; r++) layout->begins[r + 2] += layout->begins[r + 1];
    for (size_t i = 0; i < count; i++)
        layout->entries[layout->begins[rank_of(layout, &entries[i]) + 1]++] = entries[i];
    return TUTTI_OK;
}

static enum tutti_status make_entries(struct lay_out *layout)
{
    struct timetable_entry *entries;
    size_t count;
    struct timetable_tree *trees = malloc((size_t)layout->segment_count * sizeof *trees);
    if (trees == NULL)
        return error_set(TUTTI_NO_MEMORY, "a plan of %d trees", layout->segment_count);
    for (int s = 0; s < layout->segment_count; s++) {
        const struct lay_segment *segment = &layout->segments[s];
        trees[s] = (struct timetable_tree){segment->up, segment->down,
                                           (double)segment->count / (double)layout->k};
    }
    const struct timetable timetable = {.up = layout->lay->up,
                                        .down = layout->lay->down,
                                        .trees = trees,
                                        .tree_count = layout->segment_count,
                                        .pieces = layout->lay->pieces,
                                        .deadline_ns = layout->lay->deadline_ns};
    enum tutti_status status = timetable_make(&timetable, &entries, &count);
    free(trees);
    TRY(status);
    status = sort(entries, count, layout);
    free(entries);
    return status;
}

static enum tutti_status make_ranks(const struct lay_out *layout, struct plan **plan)
{
    struct plan *made = calloc(1, sizeof *made);
    if (made != NULL) made->ranks = calloc((size_t)layout->rank_count, sizeof *made->ranks);
    if (made == NULL || made->ranks == NULL) {
        free(made);
        return error_set(TUTTI_NO_MEMORY, "a plan of %d ranks", layout->rank_count);
    }
    made->shape = (struct plan_shape){.collective = layout->lay->collective,
                                      .rank_count = layout->rank_count,
                                      .root = layout->root,
                                      .parts = layout->parts};
    enum tutti_status status = TUTTI_OK;
    for (int r = 0; r < layout->rank_count && status == TUTTI_OK; r++)
        status = lay_rank(layout, r, &made->ranks[r]);
    if (status != TUTTI_OK) {
        plan_free(made);
        made = NULL;
    }
    *plan = made;
    return status;
}

static enum tutti_status make_all(struct lay_out *layout, struct plan **plan)
{
    TRY(make_segments(layout));
    TRY(make_entries(layout));
    return make_ranks(layout, plan);
}

enum tutti_status lay_plan(const struct lay *lay, struct plan **plan)
{
    *plan = NULL;
    if (!is_for_trees(lay))
        return error_set(TUTTI_UNSUPPORTED, "%s does not go over trees",
                         collective_name(lay->collective));
    if (lay->pieces < 1 || lay->pieces > LAY_PIECES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%d pieces; 1 to %d", lay->pieces, LAY_PIECES_MAX);
    const struct forest *any = lay->down != NULL ? lay->down : lay->up;
    struct lay_out layout = {.lay = lay,
                             .rank_count = any->rank_count,
                             .root = any->root == SYNTH_EVERY_RANK ? 0 : any->root};
    TRY(count_chunks(&layout));
    const enum tutti_status status = make_all(&layout, plan);
    free(layout.entries);
    free(layout.begins);
    free(layout.segments);
    return status;
}
