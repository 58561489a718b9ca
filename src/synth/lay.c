#include "synth/lay.h"

#include <stdlib.h>

#include "base/status.h"
#include "plan/build.h"
#include "synth/timetable.h"

/* A range of a root's chunks that takes one tree up, and one tree down. */
struct segment {
    int root;
    int64_t first, count;
    const struct forest_tree *up, *down; /* or NULL */
    int lane;                            /* of each direction */
};

/* Who does what when, sorted by rank and lane. */
struct way {
    struct timetable_entry *sorted;
    size_t *begins; /* of each rank and lane, and the end */
};

struct layout {
    const struct lay *lay;
    int rank_count, root; /* 0 where there is none */
    int64_t k;            /* chunks of a root and piece */
    uint32_t parts;
    int lane_count; /* of each direction */
    struct segment *segments;
    int segment_count;
    struct way up, down;
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

/* In turns: what is under way at a time starts at different ranks. */
static void choose_lanes(struct layout *layout)
{
    const struct lay *lay = layout->lay;
    layout->lane_count = PLAN_CHANNELS_MAX / (lay->up != NULL && lay->down != NULL ? 2 : 1);
    for (int s = 0; s < layout->segment_count; s++)
        layout->segments[s].lane = s % layout->lane_count;
}

/* ------------------------------------------------------------------------------------------------- one rank */

struct writer {
    const struct layout *layout;
    struct plan_builder *builder;
    int rank;
    uint32_t *ups; /* the step that goes up, of each piece and segment */
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

static void write_up(const struct writer *writer, const struct segment *segment, int piece)
{
    struct plan_builder *b = writer->builder;
    plan_begin(b, (uint32_t)segment->count);
    plan_read(b, PLAN_INPUT, in_place_of(writer->layout, segment, piece));
    receive_from_children(writer, segment->up);
    if (segment->root == writer->rank) {
        plan_write(b, PLAN_OUTPUT, out_place_of(writer->layout, segment, piece));
        plan_final(b);
    } else {
        plan_send(b, segment->up->parent[writer->rank]);
    }
    writer->ups[(size_t)piece * (size_t)writer->layout->segment_count +
                (size_t)(segment - writer->layout->segments)] = plan_end(b);
}

/* The root of an allreduce has its result from the lane that goes up. */
static void write_down(const struct writer *writer, const struct segment *segment, int piece)
{
    struct plan_builder *b = writer->builder;
    const uint32_t out = out_place_of(writer->layout, segment, piece);
    plan_begin(b, (uint32_t)segment->count);
    if (segment->root != writer->rank) {
        plan_receive(b, segment->down->parent[writer->rank]);
        plan_write(b, PLAN_OUTPUT, out);
    } else if (segment->up != NULL) {
        plan_read(b, PLAN_OUTPUT, out);
        plan_after(b, writer->ups[(size_t)piece * (size_t)writer->layout->segment_count +
                                  (size_t)(segment - writer->layout->segments)]);
    } else {
        plan_read(b, PLAN_INPUT, in_place_of(writer->layout, segment, piece));
        plan_write(b, PLAN_OUTPUT, out);
    }
    send_to_children(writer, segment->down);
    plan_end(b);
}

/* The rank's entries of one way, lane after lane: those that go up happen the other way around, which is in order as well. */
static void write_way(const struct writer *writer, const struct way *way, bool is_up)
{
    const struct layout *layout = writer->layout;
    const int first_channel = is_up || layout->lay->up == NULL ? 0 : layout->lane_count;
    for (int lane = 0; lane < layout->lane_count; lane++) {
        const size_t slot = (size_t)writer->rank * (size_t)layout->lane_count + (size_t)lane;
        const size_t begin = way->begins[slot], end = way->begins[slot + 1];
        if (begin == end) continue;
        plan_lane(writer->builder);
        plan_channel(writer->builder, first_channel + lane);
        for (size_t i = begin; i < end; i++) {
            const struct timetable_entry *entry = &way->sorted[is_up ? begin + end - 1 - i : i];
            const struct segment *segment = &layout->segments[entry->tree];
            if (is_up)
                write_up(writer, segment, layout->lay->pieces - 1 - entry->piece);
            else
                write_down(writer, segment, entry->piece);
        }
    }
}

static void write_rank(const struct writer *writer)
{
    const struct layout *layout = writer->layout;
    plan_parts(writer->builder, layout->parts);
    if (layout->lay->up != NULL) write_way(writer, &layout->up, true);
    if (layout->lay->down != NULL) write_way(writer, &layout->down, false);
}

static enum tutti_status make_rank(const struct layout *layout, int rank, struct rank_plan **made)
{
    const char *message = "out of memory while a plan was made";
    struct writer writer = {.layout = layout, .rank = rank};
    writer.builder =
        plan_builder_create(layout->lay->collective, layout->rank_count, layout->root, rank);
    writer.ups =
        calloc((size_t)layout->lay->pieces * (size_t)layout->segment_count, sizeof *writer.ups);
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (writer.builder != NULL && writer.ups != NULL) {
        write_rank(&writer);
        status = plan_builder_finish(writer.builder, made, &message);
    }
    if (writer.builder != NULL) plan_builder_free(writer.builder);
    free(writer.ups);
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
    choose_lanes(layout);
    return TUTTI_OK;
}

static size_t slot_of(const struct layout *layout, const struct timetable_entry *entry)
{
    return (size_t)entry->rank * (size_t)layout->lane_count +
           (size_t)layout->segments[entry->tree].lane;
}

/* By counting, so that those of a slot stay in order. */
static enum tutti_status sort(const struct layout *layout, const struct timetable_entry *entries,
                              struct way *way)
{
    const size_t slots = (size_t)layout->rank_count * (size_t)layout->lane_count;
    const size_t count =
        (size_t)layout->segment_count * (size_t)layout->rank_count * (size_t)layout->lay->pieces;
    way->sorted = malloc(count * sizeof *way->sorted);
    way->begins = calloc(slots + 2, sizeof *way->begins);
    if (way->sorted == NULL || way->begins == NULL)
        return error_set(TUTTI_NO_MEMORY, "a plan of %zu steps", count);
    for (size_t i = 0; i < count; i++) way->begins[slot_of(layout, &entries[i]) + 2]++;
    for (size_t s = 0; s < slots; s++) way->begins[s + 2] += way->begins[s + 1];
    for (size_t i = 0; i < count; i++)
        way->sorted[way->begins[slot_of(layout, &entries[i]) + 1]++] = entries[i];
    return TUTTI_OK;
}

static enum tutti_status make_way(const struct layout *layout, bool is_up, struct way *way)
{
    const struct forest *forest = is_up ? layout->lay->up : layout->lay->down;
    struct timetable_entry *entries;
    if (forest == NULL) return TUTTI_OK;
    struct timetable_tree *trees = malloc((size_t)layout->segment_count * sizeof *trees);
    if (trees == NULL)
        return error_set(TUTTI_NO_MEMORY, "a plan of %d trees", layout->segment_count);
    for (int s = 0; s < layout->segment_count; s++) {
        const struct segment *segment = &layout->segments[s];
        trees[s] = (struct timetable_tree){is_up ? segment->up : segment->down, segment->lane,
                                           (double)segment->count};
    }
    enum tutti_status status =
        timetable_make(forest, trees, layout->segment_count, layout->lay->pieces, &entries);
    free(trees);
    TRY(status);
    status = sort(layout, entries, way);
    free(entries);
    return status;
}

static void way_release(struct way *way)
{
    free(way->sorted);
    free(way->begins);
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
    if (status == TUTTI_OK) status = make_way(&layout, true, &layout.up);
    if (status == TUTTI_OK) status = make_way(&layout, false, &layout.down);
    if (status == TUTTI_OK) status = make_ranks(&layout, plan);
    way_release(&layout.up);
    way_release(&layout.down);
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
