#include "synth/timetable.h"

#include <stdlib.h>

#include "base/status.h"

/* The way of one piece over one edge. */
struct hop {
    double when; /* by which edges prefer it, or at which it arrives: the least comes first */
    int tree, child, piece;
};

struct heap {
    struct hop *of;
    size_t count, room;
};

/* Children of a tree's rank are children[first[rank]] up to first[rank + 1]. */
struct family {
    int *first, *children;
    double *urgency; /* of each rank: of the edge to it */
};

struct table {
    const struct forest *forest;
    const struct timetable_tree *trees;
    struct family *families;
    int tree_count, ranks, pieces;
    double now;
    struct heap *waiting; /* of each edge */
    bool *is_busy, *is_dirty;
    size_t *dirty, dirty_count; /* edges that may take something, each at most once */
    struct heap under_way;
    struct timetable_entry *entries;
    size_t entry_count;
};

static size_t edge_of(const struct table *table, int from, int to)
{
    return (size_t)from * (size_t)table->ranks + (size_t)to;
}

static size_t edge_to(const struct table *table, const struct hop *hop)
{
    return edge_of(table, table->trees[hop->tree].tree->parent[hop->child], hop->child);
}

/* So long an edge is busy with it. */
static double length_of(const struct table *table, int tree, int child)
{
    const int parent = table->trees[tree].tree->parent[child];
    return table->trees[tree].weight / (double)table->forest->room[edge_of(table, parent, child)];
}

/* --------------------------------------------------------------------------------------------------------- heaps */

static bool is_before(const struct hop *a, const struct hop *b)
{
    if (a->when != b->when) return a->when < b->when;
    if (a->piece != b->piece) return a->piece < b->piece;
    return a->tree != b->tree ? a->tree < b->tree : a->child < b->child;
}

static enum tutti_status push(struct heap *heap, struct hop hop)
{
    if (heap->count == heap->room) {
        const size_t room = heap->room > 0 ? 2 * heap->room : 16;
        struct hop *larger = realloc(heap->of, room * sizeof *larger);
        if (larger == NULL) return error_set(TUTTI_NO_MEMORY, "%zu messages", room);
        heap->of = larger;
        heap->room = room;
    }
    size_t at = heap->count++;
    for (; at > 0 && is_before(&hop, &heap->of[(at - 1) / 2]); at = (at - 1) / 2)
        heap->of[at] = heap->of[(at - 1) / 2];
    heap->of[at] = hop;
    return TUTTI_OK;
}

static struct hop pop(struct heap *heap)
{
    const struct hop first = heap->of[0], last = heap->of[--heap->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && is_before(&heap->of[child + 1], &heap->of[child])) child++;
        if (!is_before(&heap->of[child], &last)) break;
        heap->of[at] = heap->of[child];
    }
    heap->of[at] = last;
    return first;
}

/* -------------------------------------------------------------------------------------------------------- passing on */

static enum tutti_status offer(struct table *table, int tree, int child, int piece)
{
    const struct hop hop = {piece + table->families[tree].urgency[child], tree, child, piece};
    const size_t edge = edge_to(table, &hop);
    if (!table->is_dirty[edge]) table->dirty[table->dirty_count++] = edge;
    table->is_dirty[edge] = true;
    return push(&table->waiting[edge], hop);
}

static void note(struct table *table, const struct hop *hop, bool is_end)
{
    table->entries[table->entry_count++] =
        (struct timetable_entry){hop->child, hop->tree, hop->piece, is_end};
}

/* A root has all pieces from the beginning; each is offered when the one before it has gone. */
static enum tutti_status begin(struct table *table, size_t edge)
{
    const struct hop hop = pop(&table->waiting[edge]);
    const struct forest_tree *tree = table->trees[hop.tree].tree;
    const double end = table->now + length_of(table, hop.tree, hop.child);
    note(table, &hop, false);
    table->is_busy[edge] = true;
    if (tree->parent[hop.child] == tree->root && hop.piece + 1 < table->pieces)
        TRY(offer(table, hop.tree, hop.child, hop.piece + 1));
    return push(&table->under_way, (struct hop){end, hop.tree, hop.child, hop.piece});
}

static enum tutti_status begin_all(struct table *table)
{
    while (table->dirty_count > 0) {
        const size_t edge = table->dirty[--table->dirty_count];
        table->is_dirty[edge] = false;
        if (!table->is_busy[edge] && table->waiting[edge].count > 0) TRY(begin(table, edge));
    }
    return TUTTI_OK;
}

static enum tutti_status end(struct table *table, const struct hop *hop)
{
    const struct family *family = &table->families[hop->tree];
    const size_t edge = edge_to(table, hop);
    note(table, hop, true);
    table->is_busy[edge] = false;
    if (!table->is_dirty[edge]) table->dirty[table->dirty_count++] = edge;
    table->is_dirty[edge] = true;
    for (int i = family->first[hop->child]; i < family->first[hop->child + 1]; i++)
        TRY(offer(table, hop->tree, family->children[i], hop->piece));
    return TUTTI_OK;
}

/* What arrives at about the same time is known before anybody chooses. */
static enum tutti_status let_happen(struct table *table)
{
    const double about = 1e-9;
    for (int t = 0; t < table->tree_count; t++) {
        const struct family *family = &table->families[t];
        const int root = table->trees[t].tree->root;
        for (int i = family->first[root]; i < family->first[root + 1]; i++)
            TRY(offer(table, t, family->children[i], 0));
    }
    TRY(begin_all(table));
    while (table->under_way.count > 0) {
        const double first = table->under_way.of[0].when;
        while (table->under_way.count > 0 && table->under_way.of[0].when <= first + about) {
            const struct hop hop = pop(&table->under_way);
            table->now = hop.when;
            TRY(end(table, &hop));
        }
        TRY(begin_all(table));
    }
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------------------- all together */

/* The longest way from the rank on, in time that edges are busy. */
static void fill_urgency(struct table *table, int t)
{
    struct family *family = &table->families[t];
    const int *order = table->trees[t].tree->order;
    for (int i = table->ranks - 1; i > 0; i--) {
        const int rank = order[i];
        double longest = 0;
        for (int c = family->first[rank]; c < family->first[rank + 1]; c++)
            if (-family->urgency[family->children[c]] > longest)
                longest = -family->urgency[family->children[c]];
        family->urgency[rank] = -(longest + length_of(table, t, rank));
    }
}

static enum tutti_status family_init(struct table *table, int t)
{
    const struct forest_tree *tree = table->trees[t].tree;
    const size_t ranks = (size_t)table->ranks;
    struct family *family = &table->families[t];
    family->first = calloc(ranks + 2, sizeof *family->first);
    family->children = malloc(ranks * sizeof *family->children);
    family->urgency = calloc(ranks, sizeof *family->urgency);
    if (family->first == NULL || family->children == NULL || family->urgency == NULL)
        return error_set(TUTTI_NO_MEMORY, "a timetable of %d trees", table->tree_count);
    for (int i = 1; i < table->ranks; i++) family->first[tree->parent[tree->order[i]] + 2]++;
    for (int r = 0; r < table->ranks; r++) family->first[r + 2] += family->first[r + 1];
    for (int i = 1; i < table->ranks; i++)
        family->children[family->first[tree->parent[tree->order[i]] + 1]++] = tree->order[i];
    fill_urgency(table, t);
    return TUTTI_OK;
}

static enum tutti_status init(struct table *table, size_t entry_count)
{
    const size_t edges = (size_t)table->ranks * (size_t)table->ranks;
    table->waiting = calloc(edges, sizeof *table->waiting);
    table->is_busy = calloc(edges, sizeof *table->is_busy);
    table->is_dirty = calloc(edges, sizeof *table->is_dirty);
    table->dirty = malloc(edges * sizeof *table->dirty);
    table->families = calloc((size_t)table->tree_count, sizeof *table->families);
    table->entries = malloc(entry_count * sizeof *table->entries);
    if (table->waiting == NULL || table->is_busy == NULL || table->is_dirty == NULL ||
        table->dirty == NULL || table->families == NULL || table->entries == NULL)
        return error_set(TUTTI_NO_MEMORY, "a timetable of %zu steps", entry_count);
    for (int t = 0; t < table->tree_count; t++) TRY(family_init(table, t));
    return TUTTI_OK;
}

/* All but the entries. */
static void release(struct table *table)
{
    const size_t edges = (size_t)table->ranks * (size_t)table->ranks;
    for (size_t e = 0; e < edges && table->waiting != NULL; e++) free(table->waiting[e].of);
    for (int t = 0; t < table->tree_count && table->families != NULL; t++) {
        free(table->families[t].first);
        free(table->families[t].children);
        free(table->families[t].urgency);
    }
    free(table->families);
    free(table->waiting);
    free(table->is_busy);
    free(table->is_dirty);
    free(table->dirty);
    free(table->under_way.of);
}

enum tutti_status timetable_make(const struct forest *forest, const struct timetable_tree *trees,
                                 int tree_count, int pieces, struct timetable_entry **entries,
                                 size_t *entry_count)
{
    enum { ENTRIES_MAX = 1 << 26 };
    struct table table = {.forest = forest,
                          .trees = trees,
                          .tree_count = tree_count,
                          .ranks = forest->rank_count,
                          .pieces = pieces};
    const size_t count = 2 * (size_t)tree_count * (size_t)(table.ranks - 1) * (size_t)pieces;
    *entries = NULL;
    if (count > ENTRIES_MAX)
        return error_set(TUTTI_UNSUPPORTED, "%zu steps; fewer trees or pieces do", count);
    enum tutti_status status = init(&table, count);
    if (status == TUTTI_OK) status = let_happen(&table);
    release(&table);
    if (status != TUTTI_OK) {
        free(table.entries);
        return status;
    }
    *entries = table.entries;
    *entry_count = count;
    return TUTTI_OK;
}
