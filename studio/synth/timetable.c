#include "studio/synth/timetable.h"

#include <stdlib.h>

#include "base/status.h"
#include "studio/synth/late.h"

/* The path of one piece over one edge. */
struct hop {
    double when; /* by which edges prefer it, or at which it arrives: the least comes first */
    int tree, child, piece;
    bool is_up;
    bool has_arrived; /* it is about to be passed on */
};

struct heap {
    struct hop *of;
    size_t count, room;
};

/* One way of one tree. Children of a rank are children[first[rank]] up to first[rank + 1]. */
struct family {
    const struct forest_tree *tree; /* NULL: there is none */
    int *first, *children;
    double *rest; /* of each rank: how long it takes from the beginning of the hop between it and its parent */
};

struct table {
    const struct timetable *of;
    struct family *families[2]; /* of each tree: down, and up */
    int ranks;
    double slack; /* of a message: for so many times as long as it takes, nobody counts on it */
    double now;
    int *missing; /* of each tree, piece and rank: children whose messages have not come up */
    struct heap *waiting; /* of each edge */
    bool *is_busy, *is_dirty;
    size_t *dirty, dirty_count; /* edges that may take something, each at most once */
    struct heap under_way;
    struct timetable_entry *entries;
    size_t entry_count;
};

static enum tutti_status late(void)
{
    return error_set(TUTTI_TIMEOUT, "the time is over before the trees have a timetable");
}

static const struct family *family_of(const struct table *table, const struct hop *hop)
{
    return &table->families[hop->is_up][hop->tree];
}

static size_t edge_of(const struct table *table, const struct hop *hop)
{
    const int parent = family_of(table, hop)->tree->parent[hop->child];
    const int from = hop->is_up ? hop->child : parent, to = hop->is_up ? parent : hop->child;
    return (size_t)from * (size_t)table->ranks + (size_t)to;
}

static double ratio_of(const struct forest *forest)
{
    return forest != NULL ? (double)forest->attained.top / (double)forest->attained.bottom : 0;
}

/* So long an edge is busy with it, in units of the time that the ratios promise for a piece. The
 * forest that goes up counts rooms by parent and child as well. */
static double length_of(const struct table *table, int tree, int child, bool is_up)
{
    const int parent = table->families[is_up][tree].tree->parent[child];
    const struct forest *forest = is_up ? table->of->up : table->of->down;
    const double trees = table->of->trees[tree].part * (double)forest->k;
    const double room = (double)forest->room[(size_t)parent * (size_t)table->ranks + (size_t)child];
    return trees / room * ratio_of(forest) / (ratio_of(table->of->up) + ratio_of(table->of->down));
}

static int *missing_of(const struct table *table, int tree, int piece, int rank)
{
    return &table->missing[((size_t)tree * (size_t)table->of->pieces + (size_t)piece) *
                               (size_t)table->ranks +
                           (size_t)rank];
}

/* ---------------------------------------------------------------------------------------- heaps */

static bool is_before(const struct hop *a, const struct hop *b)
{
    if (a->when != b->when) return a->when < b->when;
    if (a->piece != b->piece) return a->piece < b->piece;
    if (a->tree != b->tree) return a->tree < b->tree;
    return a->child != b->child ? a->child < b->child : a->is_up < b->is_up;
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

/* ----------------------------------------------------------------------------------- passing on */

static void mark(struct table *table, size_t edge)
{
    if (!table->is_dirty[edge]) table->dirty[table->dirty_count++] = edge;
    table->is_dirty[edge] = true;
}

static enum tutti_status offer(struct table *table, struct hop hop)
{
    const size_t edge = edge_of(table, &hop);
    hop.when = hop.piece - family_of(table, &hop)->rest[hop.child];
    mark(table, edge);
    return push(&table->waiting[edge], hop);
}

static void note(struct table *table, const struct hop *hop, bool is_end)
{
    table->entries[table->entry_count++] =
        (struct timetable_entry){hop->child, hop->tree, hop->piece, hop->is_up, is_end};
}

/* Whether a hop depends on no other hop. All its pieces are there from the beginning, and each
 * piece is offered when the piece before it has gone. */
static bool is_given(const struct table *table, const struct hop *hop)
{
    const struct family *family = family_of(table, hop);
    if (hop->is_up) return family->first[hop->child] == family->first[hop->child + 1];
    return table->of->up == NULL && family->tree->parent[hop->child] == family->tree->root;
}

static enum tutti_status begin(struct table *table, size_t edge)
{
    struct hop hop = pop(&table->waiting[edge]);
    note(table, &hop, false);
    table->is_busy[edge] = true;
    if (is_given(table, &hop) && hop.piece + 1 < table->of->pieces) {
        struct hop next = hop;
        next.piece++;
        TRY(offer(table, next));
    }
    hop.when = table->now + length_of(table, hop.tree, hop.child, hop.is_up);
    return push(&table->under_way, hop);
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

static enum tutti_status offer_down(struct table *table, int tree, int piece, int rank)
{
    const struct family *family = &table->families[false][tree];
    if (family->tree == NULL) return TUTTI_OK;
    for (int i = family->first[rank]; i < family->first[rank + 1]; i++)
        TRY(offer(table, (struct hop){.tree = tree, .child = family->children[i], .piece = piece}));
    return TUTTI_OK;
}

static enum tutti_status arrive_up(struct table *table, const struct hop *hop)
{
    const struct forest_tree *tree = family_of(table, hop)->tree;
    const int rank = tree->parent[hop->child];
    if (--*missing_of(table, hop->tree, hop->piece, rank) > 0) return TUTTI_OK;
    if (rank == tree->root) return offer_down(table, hop->tree, hop->piece, rank);
    return offer(
        table, (struct hop){.tree = hop->tree, .child = rank, .piece = hop->piece, .is_up = true});
}

static enum tutti_status pass_on(struct table *table, const struct hop *hop)
{
    return hop->is_up ? arrive_up(table, hop) : offer_down(table, hop->tree, hop->piece, hop->child);
}

/* Nobody counts on it at once: see the header. */
static enum tutti_status arrive(struct table *table, struct hop hop)
{
    const size_t edge = edge_of(table, &hop);
    note(table, &hop, true);
    table->is_busy[edge] = false;
    mark(table, edge);
    hop.has_arrived = true;
    hop.when = table->now + table->slack * length_of(table, hop.tree, hop.child, hop.is_up);
    return push(&table->under_way, hop);
}

static enum tutti_status offer_given(struct table *table)
{
    for (int t = 0; t < table->of->tree_count; t++) {
        const struct family *up = &table->families[true][t];
        if (up->tree == NULL) TRY(offer_down(table, t, 0, table->of->trees[t].down->root));
        for (int r = 0; up->tree != NULL && r < table->ranks; r++)
            if (up->first[r] == up->first[r + 1])
                TRY(offer(table, (struct hop){.tree = t, .child = r, .is_up = true}));
    }
    return TUTTI_OK;
}

/* Hops that arrive at about the same time are all known before any edge chooses its next hop. */
static enum tutti_status let_happen(struct table *table)
{
    const double about = 1e-9;
    TRY(offer_given(table));
    TRY(begin_all(table));
    while (table->under_way.count > 0) {
        if (synth_is_late(table->of->deadline_ns)) return late();
        const double first = table->under_way.of[0].when;
        while (table->under_way.count > 0 && table->under_way.of[0].when <= first + about) {
            const struct hop hop = pop(&table->under_way);
            table->now = hop.when;
            TRY(hop.has_arrived ? pass_on(table, &hop) : arrive(table, hop));
        }
        TRY(begin_all(table));
    }
    return TUTTI_OK;
}

/* --------------------------------------------------------------------------------- all together */

static void fill_rest_down(struct table *table, int t)
{
    struct family *family = &table->families[false][t];
    for (int i = table->ranks - 1; i >= 0; i--) {
        const int rank = family->tree->order[i];
        double longest = 0;
        for (int c = family->first[rank]; c < family->first[rank + 1]; c++)
            if (family->rest[family->children[c]] > longest)
                longest = family->rest[family->children[c]];
        family->rest[rank] = longest + (i > 0 ? length_of(table, t, rank, false) : 0);
    }
}

/* Pieces that go up come down afterwards. */
static void fill_rest_up(struct table *table, int t)
{
    struct family *family = &table->families[true][t];
    const struct family *down = &table->families[false][t];
    const struct forest_tree *tree = family->tree;
    family->rest[tree->root] = down->tree != NULL ? down->rest[tree->root] : 0;
    for (int i = 1; i < table->ranks; i++) {
        const int rank = tree->order[i];
        family->rest[rank] = family->rest[tree->parent[rank]] + length_of(table, t, rank, true);
    }
}

static enum tutti_status family_init(struct table *table, const struct forest_tree *tree,
                                     struct family *family)
{
    const size_t ranks = (size_t)table->ranks;
    family->tree = tree;
    if (tree == NULL) return TUTTI_OK;
    family->first = calloc(ranks + 2, sizeof *family->first);
    family->children = malloc(ranks * sizeof *family->children);
    family->rest = calloc(ranks, sizeof *family->rest);
    if (family->first == NULL || family->children == NULL || family->rest == NULL)
        return error_set(TUTTI_NO_MEMORY, "a timetable of %d trees", table->of->tree_count);
    for (int i = 1; i < table->ranks; i++) family->first[tree->parent[tree->order[i]] + 2]++;
    for (int r = 0; r < table->ranks; r++) family->first[r + 2] += family->first[r + 1];
    for (int i = 1; i < table->ranks; i++)
        family->children[family->first[tree->parent[tree->order[i]] + 1]++] = tree->order[i];
    return TUTTI_OK;
}

static void fill_missing(struct table *table, int t)
{
    const struct family *up = &table->families[true][t];
    for (int p = 0; p < table->of->pieces; p++)
        for (int r = 0; r < table->ranks; r++)
            *missing_of(table, t, p, r) = up->first[r + 1] - up->first[r];
}

static enum tutti_status tree_init(struct table *table, int t)
{
    const struct timetable_tree *tree = &table->of->trees[t];
    TRY(family_init(table, tree->down, &table->families[false][t]));
    TRY(family_init(table, tree->up, &table->families[true][t]));
    if (tree->down != NULL) fill_rest_down(table, t);
    if (tree->up == NULL) return TUTTI_OK;
    fill_rest_up(table, t);
    fill_missing(table, t);
    return TUTTI_OK;
}

static enum tutti_status init(struct table *table, size_t entry_count)
{
    const size_t edges = (size_t)table->ranks * (size_t)table->ranks;
    const size_t trees = (size_t)table->of->tree_count;
    const size_t pieces = table->of->up != NULL ? (size_t)table->of->pieces : 0;
    table->waiting = calloc(edges, sizeof *table->waiting);
    table->is_busy = calloc(edges, sizeof *table->is_busy);
    table->is_dirty = calloc(edges, sizeof *table->is_dirty);
    table->dirty = malloc(edges * sizeof *table->dirty);
    table->families[false] = calloc(trees, sizeof *table->families[false]);
    table->families[true] = calloc(trees, sizeof *table->families[true]);
    table->missing = calloc(trees * pieces * (size_t)table->ranks + 1, sizeof *table->missing);
    table->entries = malloc(entry_count * sizeof *table->entries);
    if (table->waiting == NULL || table->is_busy == NULL || table->is_dirty == NULL ||
        table->dirty == NULL || table->families[false] == NULL || table->families[true] == NULL ||
        table->missing == NULL || table->entries == NULL)
        return error_set(TUTTI_NO_MEMORY, "a timetable of %zu steps", entry_count);
    for (int t = 0; t < table->of->tree_count; t++) {
        if (synth_is_late(table->of->deadline_ns)) return late();
        TRY(tree_init(table, t));
    }
    return TUTTI_OK;
}

static void families_release(struct family *families, int count)
{
    for (int i = 0; i < count && families != NULL; i++) {
        free(families[i].first);
        free(families[i].children);
        free(families[i].rest);
    }
    free(families);
}

/* All but the entries. */
static void release(struct table *table)
{
    const size_t edges = (size_t)table->ranks * (size_t)table->ranks;
    for (size_t e = 0; e < edges && table->waiting != NULL; e++) free(table->waiting[e].of);
    families_release(table->families[false], table->of->tree_count);
    families_release(table->families[true], table->of->tree_count);
    free(table->missing);
    free(table->waiting);
    free(table->is_busy);
    free(table->is_dirty);
    free(table->dirty);
    free(table->under_way.of);
}

/* ---------------------------------------------------------------------------------------- slack */

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* How long it takes if every message starts as soon as it can in that order: *free_at of each edge,
 * *ready of each tree, piece and rank are zero. */
static double replay(const struct table *table, double *free_at, double *ready)
{
    enum { ENTRIES_A_LOOK = 1 << 14 };
    double last = 0;
    for (size_t i = 0; i < table->entry_count; i++) {
        if (i % ENTRIES_A_LOOK == 0 && synth_is_late(table->of->deadline_ns))
            break; /* time_it says so */
        const struct timetable_entry *entry = &table->entries[i];
        const struct hop hop = {.tree = entry->tree, .child = entry->child, .is_up = entry->is_up};
        const int parent = family_of(table, &hop)->tree->parent[entry->child];
        double *of =
            &ready[((size_t)entry->tree * (size_t)table->of->pieces + (size_t)entry->piece) *
                   (size_t)table->ranks];
        double *from = &of[entry->is_up ? entry->child : parent];
        double *to = &of[entry->is_up ? parent : entry->child];
        if (entry->is_end) continue;
        double *edge = &free_at[edge_of(table, &hop)];
        *edge = larger(*edge, *from) + length_of(table, entry->tree, entry->child, entry->is_up);
        *to = larger(*to, *edge);
        last = larger(last, *edge);
    }
    return last;
}

static enum tutti_status time_it(const struct table *table, double *time)
{
    const size_t ranks = (size_t)table->ranks;
    const size_t pieces = (size_t)table->of->tree_count * (size_t)table->of->pieces;
    double *free_at = calloc(ranks * ranks, sizeof *free_at);
    double *ready = calloc(pieces * ranks, sizeof *ready);
    const bool has_memory = free_at != NULL && ready != NULL;
    if (has_memory) *time = replay(table, free_at, ready);
    free(free_at);
    free(ready);
    if (!has_memory) return error_set(TUTTI_NO_MEMORY, "the time of %zu pieces", pieces);
    return synth_is_late(table->of->deadline_ns) ? late() : TUTTI_OK;
}

/* The entries are the caller's, or NULL. */
static enum tutti_status fill(struct table *table, size_t count, double *time)
{
    TRY(init(table, count));
    TRY(let_happen(table));
    return time_it(table, time);
}

static enum tutti_status make(const struct timetable *timetable, double slack, size_t count,
                              struct timetable_entry **entries, double *time)
{
    const struct forest *any = timetable->down != NULL ? timetable->down : timetable->up;
    struct table table = {.of = timetable, .ranks = any->rank_count, .slack = slack};
    const enum tutti_status status = fill(&table, count, time);
    release(&table);
    if (status != TUTTI_OK) {
        free(table.entries);
        table.entries = NULL;
    }
    *entries = table.entries;
    return status;
}

/* The most slack that costs next to nothing, of some. */
static enum tutti_status make_slack(const struct timetable *timetable, size_t count,
                                    struct timetable_entry **entries)
{
    static const double slacks[] = {32, 8, 2, 0.5};
    const double cost_max = 1.005;
    double least;
    TRY(make(timetable, 0, count, entries, &least));
    for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
        struct timetable_entry *others;
        double time;
        const enum tutti_status status = make(timetable, slacks[i], count, &others, &time);
        const bool is_chosen = status != TUTTI_OK || time <= cost_max * least;
        free(is_chosen ? *entries : others);
        if (is_chosen) *entries = others;
        if (is_chosen) return status;
    }
    return TUTTI_OK;
}

enum tutti_status timetable_make(const struct timetable *timetable,
                                 struct timetable_entry **entries, size_t *entry_count)
{
    enum { ENTRIES_MAX = 1 << 26 };
    const struct forest *any = timetable->down != NULL ? timetable->down : timetable->up;
    const size_t paths = (timetable->down != NULL) + (timetable->up != NULL);
    const size_t count = 2 * paths * (size_t)timetable->tree_count * (size_t)(any->rank_count - 1) *
                         (size_t)timetable->pieces;
    *entries = NULL;
    if (count > ENTRIES_MAX)
        return error_set(TUTTI_UNSUPPORTED, "%zu steps; fewer trees or pieces do", count);
    *entry_count = count;
    return make_slack(timetable, count, entries);
}
