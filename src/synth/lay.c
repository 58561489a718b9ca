#include "synth/lay.h"

#include <stdlib.h>

#include "base/status.h"
#include "plan/build.h"

/* A range of a root's chunks that takes one tree up, and one tree down. */
struct segment {
    int root;
    int64_t first, count;
    const struct forest_tree *up, *down; /* or NULL */
    uint32_t lane;
};

struct layout {
    const struct lay *lay;
    int rank_count, root; /* 0 where there is none */
    int64_t k;            /* chunks of a root and piece */
    uint32_t parts, lane_count;
    struct segment *segments;
    int segment_count;
};

/* ---------------------------------------------------------------------------------------------------- segments */

/* Trees of one root in a forest, one after the other, in units of the layout. */
struct walk {
    const struct forest *forest;
    int64_t unit,
        left; /* chunks of a tree of weight 1; of the present tree's chunks, those not taken yet */
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

static void add_root(struct layout *layout, int root)
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
        layout->segments[layout->segment_count++] = (struct segment){
            .root = root, .first = first, .count = count, .up = present(&up), .down = present(&down)};
        up.left -= count;
        down.left -= count;
        first += count;
    }
}

static void add_roots(struct layout *layout)
{
    const struct forest *any = layout->lay->down != NULL ? layout->lay->down : layout->lay->up;
    for (int r = 0; r < layout->rank_count; r++)
        if (any->root == SYNTH_EVERY_RANK || any->root == r) add_root(layout, r);
}

/* Each lane gets about as much as the others; ranks come in turns, so that what is under way at a time starts everywhere. */
static void choose_lanes(struct layout *layout)
{
    int64_t load[PLAN_LANES_MAX] = {0};
    const int segments = layout->segment_count;
    layout->lane_count = (uint32_t)(segments < PLAN_LANES_MAX ? segments : PLAN_LANES_MAX);
    for (int s = 0; s < segments; s++) {
        uint32_t least = 0;
        for (uint32_t l = 1; l < layout->lane_count; l++)
            if (load[l] < load[least]) least = l;
        layout->segments[s].lane = least;
        load[least] += layout->segments[s].count;
    }
}

/* By their place among the segments of their root. */
static enum tutti_status take_turns(struct layout *layout)
{
    const int count = layout->segment_count;
    struct segment *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL) return error_set(TUTTI_NO_MEMORY, "a plan of %d trees", count);
    int done = 0;
    for (int turn = 0; done < count; turn++)
        for (int s = 0, place = 0; s < count; s++) {
            place =
                s > 0 && layout->segments[s].root == layout->segments[s - 1].root ? place + 1 : 0;
            if (place == turn) sorted[done++] = layout->segments[s];
        }
    free(layout->segments);
    layout->segments = sorted;
    return TUTTI_OK;
}

/* ------------------------------------------------------------------------------------------------- one rank */

struct writer {
    const struct layout *layout;
    struct plan_builder *builder;
    int rank;
};

/* Where the segment's chunks of that piece are in a buffer that has blocks of all ranks, of a reducing collective that scatters, or one block. */
static uint32_t place(const struct layout *layout, const struct segment *segment, int piece,
                      bool of_all)
{
    const int64_t k = layout->k;
    if (layout->lay->collective == COLLECTIVE_ALLREDUCE)
        return (uint32_t)(((int64_t)piece * layout->rank_count + segment->root) * k + segment->first);
    return (uint32_t)((of_all ? (int64_t)segment->root * layout->parts : 0) + piece * k +
                      segment->first);
}

static uint32_t in_place_of(const struct layout *layout, const struct segment *segment, int piece)
{
    return place(layout, segment, piece, layout->lay->collective == COLLECTIVE_REDUCE_SCATTER);
}

static uint32_t out_place_of(const struct layout *layout, const struct segment *segment, int piece)
{
    return place(layout, segment, piece, layout->lay->collective == COLLECTIVE_ALLGATHER);
}

static void receive_from_children(const struct writer *writer, const struct forest_tree *tree)
{
    for (int r = 0; r < writer->layout->rank_count; r++)
        if (tree->parent[r] == writer->rank) plan_receive(writer->builder, r);
}

static void send_to_children(const struct writer *writer, const struct forest_tree *tree)
{
    for (int i = 0; i < writer->layout->rank_count; i++)
        if (tree->parent[tree->order[i]] == writer->rank)
            plan_send(writer->builder, tree->order[i]);
}

static void write_root(const struct writer *writer, const struct segment *segment, int piece)
{
    struct plan_builder *b = writer->builder;
    plan_begin(b, (uint32_t)segment->count);
    plan_read(b, PLAN_INPUT, in_place_of(writer->layout, segment, piece));
    if (segment->up != NULL) receive_from_children(writer, segment->up);
    plan_write(b, PLAN_OUTPUT, out_place_of(writer->layout, segment, piece));
    if (segment->down != NULL) send_to_children(writer, segment->down);
    if (segment->up != NULL) plan_final(b);
    plan_end(b);
}

static void write_others(const struct writer *writer, const struct segment *segment, int piece)
{
    struct plan_builder *b = writer->builder;
    if (segment->up != NULL) {
        plan_begin(b, (uint32_t)segment->count);
        plan_read(b, PLAN_INPUT, in_place_of(writer->layout, segment, piece));
        receive_from_children(writer, segment->up);
        plan_send(b, segment->up->parent[writer->rank]);
        plan_end(b);
    }
    if (segment->down != NULL) {
        plan_begin(b, (uint32_t)segment->count);
        plan_receive(b, segment->down->parent[writer->rank]);
        plan_write(b, PLAN_OUTPUT, out_place_of(writer->layout, segment, piece));
        send_to_children(writer, segment->down);
        plan_end(b);
    }
}

static void write_rank(const struct writer *writer)
{
    const struct layout *layout = writer->layout;
    plan_parts(writer->builder, layout->parts);
    for (uint32_t lane = 0; lane < layout->lane_count; lane++) {
        plan_lane(writer->builder);
        plan_channel(writer->builder, (int)lane);
        for (int piece = 0; piece < layout->lay->pieces; piece++)
            for (int s = 0; s < layout->segment_count; s++) {
                const struct segment *segment = &layout->segments[s];
                if (segment->lane != lane) continue;
                if (segment->root == writer->rank)
                    write_root(writer, segment, piece);
                else
                    write_others(writer, segment, piece);
            }
    }
}

static enum tutti_status make_rank(const struct layout *layout, int rank, struct rank_plan **made)
{
    const char *message = "out of memory while a plan was made";
    struct writer writer = {.layout = layout, .rank = rank};
    writer.builder =
        plan_builder_create(layout->lay->collective, layout->rank_count, layout->root, rank);
    if (writer.builder == NULL) return error_set(TUTTI_NO_MEMORY, "%s", message);
    write_rank(&writer);
    const enum tutti_status status = plan_builder_finish(writer.builder, made, &message);
    plan_builder_free(writer.builder);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "rank %d: %s", rank, message);
}

/* -------------------------------------------------------------------------------------------------- all ranks */

static bool is_for_trees(const struct lay *lay)
{
    const bool up = lay->up != NULL, down = lay->down != NULL;
    switch (lay->collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_BROADCAST: return down && !up;
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_REDUCE: return up && !down;
    case COLLECTIVE_ALLREDUCE: return up && down;
    default: return false;
    }
}

static enum tutti_status count_chunks(struct layout *layout)
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

static enum tutti_status make_segments(struct layout *layout)
{
    const struct lay *lay = layout->lay;
    const int trees = (lay->up != NULL ? lay->up->tree_count : 0) +
                      (lay->down != NULL ? lay->down->tree_count : 0);
    layout->segments = malloc((size_t)trees * sizeof *layout->segments);
    if (layout->segments == NULL) return error_set(TUTTI_NO_MEMORY, "a plan of %d trees", trees);
    add_roots(layout);
    TRY(take_turns(layout));
    choose_lanes(layout);
    return TUTTI_OK;
}

static enum tutti_status make_ranks(const struct layout *layout, struct plan **plan)
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
        status = make_rank(layout, r, &made->ranks[r]);
    if (status != TUTTI_OK) {
        plan_free(made);
        made = NULL;
    }
    *plan = made;
    return status;
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
    struct layout layout = {.lay = lay,
                            .rank_count = any->rank_count,
                            .root = any->root == SYNTH_EVERY_RANK ? 0 : any->root};
    TRY(count_chunks(&layout));
    enum tutti_status status = make_segments(&layout);
    if (status == TUTTI_OK) status = make_ranks(&layout, plan);
    free(layout.segments);
    return status;
}

/* ------------------------------------------------------------------------------------------------ turned around */

enum tutti_status synth_graph_turn(const struct synth_graph *graph, struct synth_graph *turned)
{
    TRY(synth_graph_copy(graph, turned));
    for (int i = 0; i < turned->edge_count; i++) {
        struct synth_edge *edge = &turned->edges[i];
        const int from = edge->from;
        edge->from = edge->to;
        edge->to = from;
    }
    return TUTTI_OK;
}

bool synth_graph_is_even(const struct synth_graph *graph)
{
    for (int i = 0; i < graph->edge_count; i++) {
        const struct synth_edge *edge = &graph->edges[i];
        const struct synth_edge *back = synth_graph_find(graph, edge->to, edge->from);
        if (back == NULL || back->capacity != edge->capacity) return false;
    }
    return true;
}
