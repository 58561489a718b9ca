#include "studio/synth/grow.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "studio/synth/late.h"

/* A tree that does not reach all ranks yet; of one root there may be several, which began as
 * one. */
struct sapling {
    int count; /* ranks that it reaches: the first ranks of order */
    int64_t weight;
    int *parent, *order, *depth; /* -2: not reached */
};

enum edge_state { EDGE_FRESH, EDGE_NARROW, EDGE_BARRED };

struct grower {
    struct residual *residual;
    struct forest *forest;
    int ranks, root;
    bool surely;             /* with a flow for every edge */
    struct sapling *waiting; /* of this root */
    int waiting_count, waiting_room;
    uint8_t *state; /* of each edge, for the tree that grows: ranks squared */
    int *best;      /* of each rank that is not reached: from where, or -1 */
};

static void sapling_free(struct sapling *sapling)
{
    free(sapling->parent); /* this memory has all three arrays */
    sapling->parent = NULL;
}

static enum tutti_status sapling_make(int ranks, struct sapling *sapling)
{
    sapling->parent = malloc(3 * (size_t)ranks * sizeof *sapling->parent);
    if (sapling->parent == NULL) return error_set(TUTTI_NO_MEMORY, "a tree of %d ranks", ranks);
    sapling->order = sapling->parent + ranks;
    sapling->depth = sapling->order + ranks;
    return TUTTI_OK;
}

/* It is the grower's from now on, or gone. */
static enum tutti_status wait(struct grower *grower, struct sapling *sapling)
{
    if (grower->waiting_count == grower->waiting_room) {
        const int room = grower->waiting_room > 0 ? 2 * grower->waiting_room : 8;
        struct sapling *larger = realloc(grower->waiting, (size_t)room * sizeof *larger);
        if (larger == NULL) {
            sapling_free(sapling);
            return error_set(TUTTI_NO_MEMORY, "%d trees", room);
        }
        grower->waiting = larger;
        grower->waiting_room = room;
    }
    grower->waiting[grower->waiting_count++] = *sapling;
    return TUTTI_OK;
}

static void forget_waiting(struct grower *grower)
{
    while (grower->waiting_count > 0) sapling_free(&grower->waiting[--grower->waiting_count]);
}

static bool is_within(const struct sapling *sapling, const struct residual_cut *cut)
{
    for (int i = 0; i < sapling->count; i++)
        if (!cut->has[sapling->order[i]]) return false;
    return true;
}

/* ------------------------------------------------------------------------------------ what fits */

static enum tutti_status late(void)
{
    return error_set(TUTTI_TIMEOUT, "the time is over before there are trees");
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many trees may take that edge as far as the known cuts say. Cuts that the whole tree is in
 * are wide enough for it. */
static int64_t known_room(const struct grower *grower, const struct sapling *sapling, int from,
                          int to)
{
    const struct residual *residual = grower->residual;
    int64_t amount = least(*residual_room(residual, from, to), sapling->weight);
    for (int i = 0; i < residual->cut_count && amount > 0; i++) {
        const struct residual_cut *cut = &residual->cuts[i];
        if (cut->has[from] && !cut->has[to] && !cut->holds_tree) amount = least(amount, cut->slack);
    }
    return amount > 0 ? amount : 0;
}

/* Nodes behind the ranks: one before all other roots, and one for each tree that waits. */
static enum tutti_status build(struct grower *grower, int from)
{
    struct residual *residual = grower->residual;
    const int roots = residual->node_count;
    TRY(max_flow_init(&residual->flow, roots + 1 + grower->waiting_count));
    for (int a = 0; a < grower->ranks; a++)
        for (int b = 0; b < grower->ranks; b++)
            if (*residual_room(residual, a, b) > 0)
                TRY(max_flow_add(&residual->flow, a, b, *residual_room(residual, a, b)));
    for (int r = 0; r < grower->ranks; r++)
        if (residual->needs[r] > 0)
            TRY(max_flow_add(&residual->flow, roots, r, residual->needs[r]));
    for (int w = 0; w < grower->waiting_count; w++) {
        const struct sapling *waiting = &grower->waiting[w];
        TRY(max_flow_add(&residual->flow, roots, roots + 1 + w, waiting->weight));
        for (int i = 0; i < waiting->count; i++)
            TRY(max_flow_add(&residual->flow, roots + 1 + w, waiting->order[i],
                             MAX_FLOW_UNBOUNDED / 4));
    }
    return max_flow_add(&residual->flow, from, roots, MAX_FLOW_UNBOUNDED / 4);
}

static int64_t waiting_weight(const struct grower *grower)
{
    int64_t weight = 0;
    for (int w = 0; w < grower->waiting_count; w++) weight += grower->waiting[w].weight;
    return weight;
}

/* As all cuts say. */
static enum tutti_status sure_room(struct grower *grower, int from, int to, int64_t *amount)
{
    struct residual *residual = grower->residual;
    const int64_t others = residual->needs_total + waiting_weight(grower);
    if (synth_is_late(residual->deadline_ns)) return late();
    TRY(build(grower, from));
    *amount = max_flow_run(&residual->flow, from, to, others + *amount) - others;
    if (*amount < 0) return error_set(TUTTI_INTERNAL, "trees take more than there is");
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- growing */

/* Wide edges come first, because they are not needed elsewhere. Of edges of about equal width, the
 * edge with which the tree is flatter comes first. */
static int64_t worth(const struct grower *grower, const struct sapling *sapling, int from, int to)
{
    const int64_t room = *residual_room(grower->residual, from, to);
    const int64_t width = room >= 2 * sapling->weight ? 64 - __builtin_clzll((uint64_t)room) : 0;
    return (width << 32) - sapling->depth[from];
}

static uint8_t *state_of(const struct grower *grower, int from, int to)
{
    return &grower->state[(size_t)from * (size_t)grower->ranks + (size_t)to];
}

static bool is_fresh(const struct grower *grower, const struct sapling *sapling, int from, int to)
{
    return *state_of(grower, from, to) == EDGE_FRESH &&
           *residual_room(grower->residual, from, to) >= sapling->weight;
}

static void consider(struct grower *grower, const struct sapling *sapling, int from, int to)
{
    const int best = grower->best[to];
    if (!is_fresh(grower, sapling, from, to)) return;
    if (best < 0 || worth(grower, sapling, from, to) > worth(grower, sapling, best, to))
        grower->best[to] = from;
}

static void consider_all(struct grower *grower, const struct sapling *sapling, int to)
{
    grower->best[to] = -1;
    for (int i = 0; i < sapling->count; i++) consider(grower, sapling, sapling->order[i], to);
}

/* An edge that the whole tree may take, or else as much of it as possible: *amount is 0 where there
 * is none. */
static enum tutti_status choose(struct grower *grower, const struct sapling *sapling, int *from,
                                int *to, int64_t *amount)
{
    for (;;) {
        int chosen = -1;
        for (int r = 0; r < grower->ranks; r++)
            if (sapling->depth[r] < 0 && grower->best[r] >= 0 &&
                (chosen < 0 || worth(grower, sapling, grower->best[r], r) >
                                   worth(grower, sapling, grower->best[chosen], chosen)))
                chosen = r;
        if (chosen < 0) break;
        *from = grower->best[chosen];
        *to = chosen;
        *amount = known_room(grower, sapling, *from, *to);
        if (grower->surely && *amount > 0) TRY(sure_room(grower, *from, *to, amount));
        if (*amount == sapling->weight) return TUTTI_OK;
        *state_of(grower, *from, *to) = *amount > 0 ? EDGE_NARROW : EDGE_BARRED;
        consider_all(grower, sapling, chosen);
    }
    int64_t most = 0;
    for (int i = 0; i < sapling->count; i++) {
        if (synth_is_late(grower->residual->deadline_ns)) return late();
        for (int r = 0; r < grower->ranks; r++) {
            const int a = sapling->order[i];
            if (sapling->depth[r] >= 0 || *state_of(grower, a, r) == EDGE_BARRED) continue;
            int64_t room = known_room(grower, sapling, a, r);
            if (room <= most) continue;
            if (grower->surely) TRY(sure_room(grower, a, r, &room));
            if (room <= most) continue;
            most = room;
            *from = a;
            *to = r;
        }
    }
    *amount = most;
    return TUTTI_OK;
}

/* The rest of it, which goes by another path, waits. */
static enum tutti_status divide(struct grower *grower, struct sapling *sapling, int64_t amount)
{
    struct sapling rest;
    TRY(sapling_make(grower->ranks, &rest));
    memcpy(rest.parent, sapling->parent, 3 * (size_t)grower->ranks * sizeof *rest.parent);
    rest.count = sapling->count;
    rest.weight = sapling->weight - amount;
    sapling->weight = amount;
    for (int i = 0; i < grower->residual->cut_count; i++)
        if (grower->residual->cuts[i].holds_tree) grower->residual->cuts[i].slack -= rest.weight;
    return wait(grower, &rest);
}

static void extend(struct grower *grower, struct sapling *sapling, int from, int to)
{
    struct residual *residual = grower->residual;
    *residual_room(residual, from, to) -= sapling->weight;
    for (int i = 0; i < residual->cut_count; i++) {
        struct residual_cut *cut = &residual->cuts[i];
        if (cut->has[from] && !cut->has[to]) cut->slack -= sapling->weight;
        if (!cut->has[to]) cut->holds_tree = false;
    }
    sapling->parent[to] = from;
    sapling->depth[to] = sapling->depth[from] + 1;
    sapling->order[sapling->count++] = to;
    for (int r = 0; r < grower->ranks; r++)
        if (sapling->depth[r] < 0) consider(grower, sapling, to, r);
}

static void begin(struct grower *grower, const struct sapling *sapling)
{
    const size_t ranks = (size_t)grower->ranks;
    memset(grower->state, EDGE_FRESH, ranks * ranks);
    for (int i = 0; i < grower->residual->cut_count; i++) {
        struct residual_cut *cut = &grower->residual->cuts[i];
        cut->holds_tree = is_within(sapling, cut);
        if (cut->holds_tree) cut->slack += sapling->weight;
    }
    for (int r = 0; r < grower->ranks; r++)
        if (sapling->depth[r] < 0) consider_all(grower, sapling, r);
}

/* *grown: it reaches all ranks. */
static enum tutti_status grow(struct grower *grower, struct sapling *sapling, bool *grown)
{
    *grown = false;
    begin(grower, sapling);
    while (sapling->count < grower->ranks) {
        int from = -1, to = -1;
        int64_t amount = 0;
        if (synth_is_late(grower->residual->deadline_ns)) return late();
        TRY(choose(grower, sapling, &from, &to, &amount));
        if (amount == 0) return TUTTI_OK;
        if (amount < sapling->weight) TRY(divide(grower, sapling, amount));
        extend(grower, sapling, from, to);
    }
    *grown = true;
    return TUTTI_OK;
}

static enum tutti_status keep(struct forest *forest, struct sapling *sapling, int root)
{
    if (forest->tree_count == forest->tree_room) {
        const int room = forest->tree_room > 0 ? 2 * forest->tree_room : 64;
        struct forest_tree *larger = realloc(forest->trees, (size_t)room * sizeof *larger);
        if (larger == NULL) return error_set(TUTTI_NO_MEMORY, "%d trees", room);
        forest->trees = larger;
        forest->tree_room = room;
    }
    forest->trees[forest->tree_count++] =
        (struct forest_tree){root, sapling->weight, sapling->parent, sapling->order};
    sapling->parent = NULL; /* the forest's now */
    return TUTTI_OK;
}

static enum tutti_status seed(struct grower *grower)
{
    struct residual *residual = grower->residual;
    struct sapling sapling = {.count = 1, .weight = residual->needs[grower->root]};
    TRY(sapling_make(grower->ranks, &sapling));
    for (int r = 0; r < grower->ranks; r++) sapling.parent[r] = sapling.depth[r] = -2;
    sapling.parent[grower->root] = -1;
    sapling.depth[grower->root] = 0;
    sapling.order[0] = grower->root;
    residual->needs_total -= sapling.weight;
    residual->needs[grower->root] =
        0; /* a waiting sapling is subtracted from slacks by itself: nothing changes */
    return wait(grower, &sapling);
}

/* All trees of the root; *grown: none got stuck. */
static enum tutti_status grow_root(struct grower *grower, bool *grown)
{
    *grown = true;
    TRY(seed(grower));
    while (*grown && grower->waiting_count > 0) {
        struct sapling sapling = grower->waiting[--grower->waiting_count];
        enum tutti_status status = grow(grower, &sapling, grown);
        if (status == TUTTI_OK && *grown) status = keep(grower->forest, &sapling, grower->root);
        sapling_free(&sapling);
        TRY(status);
    }
    forget_waiting(grower);
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------ root after root */

static void drop_trees(struct forest *forest, int count)
{
    while (forest->tree_count > count) free(forest->trees[--forest->tree_count].parent);
}

/* So many roots from the first on; *fits: they are done, and the promise still holds. */
static enum tutti_status try_roots(struct grower *grower, int first, int count, bool *fits)
{
    bool grown = true;
    for (int i = 0; i < count && grown; i++) {
        grower->root = first + i;
        if (grower->residual->needs[first + i] > 0) TRY(grow_root(grower, &grown));
    }
    TRY(residual_ask(grower->residual, fits));
    if (grower->surely && !(grown && *fits)) return error_set(TUTTI_INTERNAL, "a tree did not fit");
    *fits = *fits && grown;
    return TUTTI_OK;
}

static enum tutti_status grow_all(struct grower *grower, struct residual_mark *mark)
{
    enum { FAILURES_MAX = 2 };
    struct residual *residual = grower->residual;
    int batch = 1, failures = 0;
    for (int root = 0; root < grower->ranks;) {
        const int count = batch < grower->ranks - root ? batch : grower->ranks - root;
        const int trees = grower->forest->tree_count;
        bool fits;
        residual_mark_set(residual, mark);
        grower->surely = failures >= FAILURES_MAX;
        TRY(try_roots(grower, root, count, &fits));
        if (fits) {
            root += count;
            if (failures > 0)
                failures--;
            else
                batch *= 2;
            residual_count_all(residual);
            continue;
        }
        drop_trees(grower->forest, trees);
        residual_mark_return(residual, mark);
        if (batch > 1)
            batch /= 2;
        else
            failures = FAILURES_MAX;
    }
    return TUTTI_OK;
}

enum tutti_status grow_trees(struct residual *residual, struct forest *forest)
{
    const size_t ranks = (size_t)residual->rank_count;
    struct grower grower = {.residual = residual, .forest = forest, .ranks = residual->rank_count};
    struct residual_mark mark = {NULL, NULL};
    grower.state = malloc(ranks * ranks * sizeof *grower.state);
    grower.best = malloc(ranks * sizeof *grower.best);
    enum tutti_status status = grower.state != NULL && grower.best != NULL
                                   ? residual_mark_init(residual, &mark)
                                   : error_set(TUTTI_NO_MEMORY, "trees of %zu ranks", ranks);
    if (status == TUTTI_OK) status = grow_all(&grower, &mark);
    residual_mark_release(&mark);
    forget_waiting(&grower);
    free(grower.waiting);
    free(grower.state);
    free(grower.best);
    return status;
}
