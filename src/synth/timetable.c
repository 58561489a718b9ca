#include "synth/timetable.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/status.h"
#include "plan/plan.h"

struct arrival {
    double time;
    struct timetable_entry entry;
};

/* What has come to a rank, or starts there, and is not passed on yet. */
struct queue {
    struct timetable_entry *of;
    int count, room;
};

struct table {
    const struct forest *forest;
    const struct timetable_tree *trees;
    int tree_count, ranks, pieces;
    int window; /* pieces under way in a lane at most */
    int under_way[PLAN_LANES_MAX];
    int *reached; /* of each tree and piece: ranks that have it */
    double now;
    double *free_at;         /* of each edge */
    bool *is_taken;          /* of each edge and lane */
    struct queue *queues;    /* of each rank */
    int *dirty, dirty_count; /* ranks that may have something to pass on, each at most once */
    bool *is_dirty;
    struct arrival *heap;
    size_t heap_count, heap_room;
    struct timetable_entry *entries;
    size_t entry_count;
};

static size_t edge_of(const struct table *table, int from, int to)
{
    return (size_t)from * (size_t)table->ranks + (size_t)to;
}

static bool *taken(struct table *table, int from, int to, int lane)
{
    return &table->is_taken[edge_of(table, from, to) * PLAN_LANES_MAX + (size_t)lane];
}

/* ------------------------------------------------------------------------------------------------------ arrivals */

static enum tutti_status push(struct table *table, struct arrival arrival)
{
    if (table->heap_count == table->heap_room) {
        const size_t room = table->heap_room > 0 ? 2 * table->heap_room : 256;
        struct arrival *larger = realloc(table->heap, room * sizeof *larger);
        if (larger == NULL) return error_set(TUTTI_NO_MEMORY, "%zu messages under way", room);
        table->heap = larger;
        table->heap_room = room;
    }
    size_t at = table->heap_count++;
    for (; at > 0 && table->heap[(at - 1) / 2].time > arrival.time; at = (at - 1) / 2)
        table->heap[at] = table->heap[(at - 1) / 2];
    table->heap[at] = arrival;
    return TUTTI_OK;
}

static struct arrival pop(struct table *table)
{
    const struct arrival first = table->heap[0], last = table->heap[--table->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < table->heap_count; at = child) {
        if (child + 1 < table->heap_count && table->heap[child + 1].time < table->heap[child].time)
            child++;
        if (table->heap[child].time >= last.time) break;
        table->heap[at] = table->heap[child];
    }
    table->heap[at] = last;
    return first;
}

static void mark(struct table *table, int rank)
{
    if (table->is_dirty[rank]) return;
    table->is_dirty[rank] = true;
    table->dirty[table->dirty_count++] = rank;
}

/* Behind what is of no later piece. */
static enum tutti_status wait(struct table *table, struct timetable_entry entry)
{
    struct queue *queue = &table->queues[entry.rank];
    if (queue->count == queue->room) {
        const int room = queue->room > 0 ? 2 * queue->room : 16;
        struct timetable_entry *larger = realloc(queue->of, (size_t)room * sizeof *larger);
        if (larger == NULL) return error_set(TUTTI_NO_MEMORY, "%d messages that wait", room);
        queue->of = larger;
        queue->room = room;
    }
    int at = queue->count++;
    for (; at > 0 && queue->of[at - 1].piece > entry.piece; at--) queue->of[at] = queue->of[at - 1];
    queue->of[at] = entry;
    mark(table, entry.rank);
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------------------------- passing on */

static bool has_room(struct table *table, const struct timetable_entry *entry)
{
    const struct timetable_tree *tree = &table->trees[entry->tree];
    if (tree->tree->root == entry->rank && table->under_way[tree->lane] == table->window)
        return false;
    for (int r = 0; r < table->ranks; r++)
        if (tree->tree->parent[r] == entry->rank && *taken(table, entry->rank, r, tree->lane))
            return false;
    return true;
}

/* When a piece is everywhere, a root may begin another one in its lane. */
static void count(struct table *table, const struct timetable_entry *entry)
{
    const struct timetable_tree *tree = &table->trees[entry->tree];
    int *reached =
        &table->reached[(size_t)entry->tree * (size_t)table->pieces + (size_t)entry->piece];
    if (tree->tree->root == entry->rank) table->under_way[tree->lane]++;
    if (++*reached < table->ranks) return;
    table->under_way[tree->lane]--;
    for (int t = 0; t < table->tree_count; t++)
        if (table->trees[t].lane == tree->lane) mark(table, table->trees[t].tree->root);
}

static enum tutti_status pass_on(struct table *table, struct timetable_entry entry)
{
    const struct timetable_tree *tree = &table->trees[entry.tree];
    const int parent = tree->tree->parent[entry.rank];
    table->entries[table->entry_count++] = entry;
    count(table, &entry);
    for (int r = 0; r < table->ranks; r++) {
        if (tree->tree->parent[r] != entry.rank) continue;
        const size_t edge = edge_of(table, entry.rank, r);
        *taken(table, entry.rank, r, tree->lane) = true;
        if (table->free_at[edge] < table->now) table->free_at[edge] = table->now;
        table->free_at[edge] += tree->weight / (double)table->forest->room[edge];
        TRY(push(table, (struct arrival){table->free_at[edge],
                                         {.rank = r, .tree = entry.tree, .piece = entry.piece}}));
    }
    if (parent >= 0) {
        *taken(table, parent, entry.rank, tree->lane) = false;
        mark(table, parent);
    } else if (entry.piece + 1 < table->pieces) {
        entry.piece++;
        return wait(table, entry);
    }
    return TUTTI_OK;
}

static enum tutti_status pass_on_all(struct table *table)
{
    while (table->dirty_count > 0) {
        const int rank = table->dirty[--table->dirty_count];
        struct queue *queue = &table->queues[rank];
        table->is_dirty[rank] = false;
        for (int i = 0; i < queue->count; i++) {
            const struct timetable_entry entry = queue->of[i];
            if (!has_room(table, &entry)) continue;
            queue->count--;
            for (int k = i; k < queue->count; k++) queue->of[k] = queue->of[k + 1];
            i = -1; /* the root's next piece may stand anywhere */
            TRY(pass_on(table, entry));
        }
    }
    return TUTTI_OK;
}

static enum tutti_status let_happen(struct table *table)
{
    for (int t = 0; t < table->tree_count; t++)
        TRY(wait(table, (struct timetable_entry){.rank = table->trees[t].tree->root, .tree = t}));
    TRY(pass_on_all(table));
    while (table->heap_count > 0) {
        const struct arrival arrival = pop(table);
        table->now = arrival.time;
        TRY(wait(table, arrival.entry));
        TRY(pass_on_all(table));
    }
    return TUTTI_OK;
}

static size_t step_count(const struct table *table)
{
    return (size_t)table->tree_count * (size_t)table->ranks * (size_t)table->pieces;
}

static enum tutti_status init(struct table *table)
{
    const size_t ranks = (size_t)table->ranks, edges = ranks * ranks;
    const size_t entries = step_count(table), begun = entries / ranks;
    table->free_at = calloc(edges, sizeof *table->free_at);
    table->is_taken = calloc(edges * PLAN_LANES_MAX, sizeof *table->is_taken);
    table->queues = calloc(ranks, sizeof *table->queues);
    table->dirty = calloc(ranks, sizeof *table->dirty);
    table->is_dirty = calloc(ranks, sizeof *table->is_dirty);
    table->reached = calloc(begun, sizeof *table->reached);
    table->entries = malloc(entries * sizeof *table->entries);
    if (table->free_at != NULL && table->is_taken != NULL && table->queues != NULL &&
        table->dirty != NULL && table->is_dirty != NULL && table->reached != NULL &&
        table->entries != NULL)
        return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "a timetable of %zu steps", entries);
}

/* All but the entries. */
static void release(struct table *table)
{
    for (int r = 0; r < table->ranks && table->queues != NULL; r++) free(table->queues[r].of);
    free(table->queues);
    free(table->free_at);
    free(table->is_taken);
    free(table->dirty);
    free(table->is_dirty);
    free(table->reached);
    free(table->heap);
}

/* With many pieces under way in a lane, they can fill its links in a circle, in which each waits for the next one. With one they cannot. */
enum tutti_status timetable_make(const struct forest *forest, const struct timetable_tree *trees,
                                 int tree_count, int pieces, struct timetable_entry **entries)
{
    enum { WINDOW_MAX = 1 << 10, STEPS_MAX = 1 << 26 };
    *entries = NULL;
    for (int window = WINDOW_MAX; window > 0; window /= 2) {
        struct table table = {.forest = forest,
                              .trees = trees,
                              .tree_count = tree_count,
                              .ranks = forest->rank_count,
                              .pieces = pieces,
                              .window = window};
        const size_t steps = step_count(&table);
        if (steps > STEPS_MAX)
            return error_set(TUTTI_UNSUPPORTED, "%zu steps; fewer trees or pieces do", steps);
        enum tutti_status status = init(&table);
        if (status == TUTTI_OK) status = let_happen(&table);
        release(&table);
        if (status == TUTTI_OK && table.entry_count == steps) {
            *entries = table.entries;
            return TUTTI_OK;
        }
        free(table.entries);
        TRY(status);
    }
    return error_set(TUTTI_INTERNAL, "one piece of a lane got stuck");
}
