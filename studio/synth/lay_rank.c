#include "studio/synth/lay_rank.h"

#include <stdlib.h>

#include "base/status.h"
#include "plan/build.h"
#include "studio/synth/late.h"

static const uint32_t NOTHING = UINT32_MAX;

struct writer {
    const struct lay_out *layout;
    struct plan_builder *builder;
    int rank;
    uint32_t *lanes[2]; /* for each peer: the lanes that receive from it, and that send to it */
    /* For each piece and segment: */
    uint32_t *received; /* the step after which the rank may pass it on */
    uint32_t *partial;  /* the first scratch chunk of the sum */
    int *missing;       /* messages that come up and have not been received */
};

const struct forest_tree *lay_tree(const struct lay_out *layout, const struct timetable_entry *entry)
{
    const struct lay_segment *segment = &layout->segments[entry->tree];
    return entry->is_up ? segment->up : segment->down;
}

/* The place of the segment's chunks of that piece in a buffer. The buffer has the blocks of all
 * ranks (of_all), as in a collective that reduces and scatters, or one block. In an allreduce the
 * roots divide that block. */
static uint32_t place(const struct lay_out *layout, const struct lay_segment *segment, int piece,
                      bool of_all)
{
    const int64_t k = layout->k;
    if (layout->lay->collective == COLLECTIVE_ALLREDUCE)
        return (uint32_t)(((int64_t)piece * layout->rank_count + segment->root) * k + segment->first);
    return (uint32_t)((of_all ? (int64_t)segment->root * layout->parts : 0) + piece * k +
                      segment->first);
}

static uint32_t in_place_of(const struct lay_out *layout, const struct lay_segment *segment,
                            int piece)
{
    return place(layout, segment, piece, layout->lay->collective == COLLECTIVE_REDUCE_SCATTER);
}

static uint32_t out_place_of(const struct lay_out *layout, const struct lay_segment *segment,
                             int piece)
{
    return place(layout, segment, piece, layout->lay->collective == COLLECTIVE_ALLGATHER);
}

static size_t index_of(const struct writer *writer, const struct timetable_entry *entry)
{
    return (size_t)entry->piece * (size_t)writer->layout->segment_count + (size_t)entry->tree;
}

static void after_received(const struct writer *writer, size_t index)
{
    if (writer->received[index] != NOTHING) plan_after(writer->builder, writer->received[index]);
}

/* The first step of a piece at its root takes the piece from the input. In an allreduce, that step
 * finds the piece in the output, where the sum of what came up is. */
static void send_down(const struct writer *writer, const struct timetable_entry *entry)
{
    struct plan_builder *b = writer->builder;
    const struct lay_segment *segment = &writer->layout->segments[entry->tree];
    const size_t index = index_of(writer, entry);
    const uint32_t out = out_place_of(writer->layout, segment, entry->piece);
    const bool is_first = writer->received[index] == NOTHING;
    plan_begin(b, (uint32_t)segment->count);
    if (is_first) {
        plan_read(b, PLAN_INPUT, in_place_of(writer->layout, segment, entry->piece));
        plan_write(b, PLAN_OUTPUT, out);
    } else {
        plan_read(b, PLAN_OUTPUT, out);
        after_received(writer, index);
    }
    plan_send(b, entry->child);
    const uint32_t step = plan_end(b);
    if (is_first) writer->received[index] = step;
}

static void receive_down(const struct writer *writer, const struct timetable_entry *entry)
{
    struct plan_builder *b = writer->builder;
    const struct lay_segment *segment = &writer->layout->segments[entry->tree];
    plan_begin(b, (uint32_t)segment->count);
    plan_receive(b, segment->down->parent[writer->rank]);
    plan_write(b, PLAN_OUTPUT, out_place_of(writer->layout, segment, entry->piece));
    writer->received[index_of(writer, entry)] = plan_end(b);
}

/* The place where contributions that have come up are summed: the place of the result if the rank
 * has it, else scratch memory. */
static struct plan_location sum_of(const struct writer *writer, const struct timetable_entry *entry)
{
    const struct lay_out *layout = writer->layout;
    const struct lay_segment *segment = &layout->segments[entry->tree];
    const uint32_t in = in_place_of(layout, segment, entry->piece);
    uint32_t *partial = &writer->partial[index_of(writer, entry)];
    if (segment->root == writer->rank || layout->lay->collective == COLLECTIVE_ALLREDUCE)
        return (struct plan_location){PLAN_OUTPUT, out_place_of(layout, segment, entry->piece)};
    for (uint32_t i = 0; *partial == NOTHING && i < (uint32_t)segment->count; i++) {
        const uint32_t scratch = plan_scratch(writer->builder, in + i);
        if (i == (uint32_t)segment->count - 1) *partial = scratch - i;
    }
    return (struct plan_location){PLAN_SCRATCH, *partial};
}

/* The rank's own part, or the sum of it and what has come. */
static void read_sum(const struct writer *writer, const struct timetable_entry *entry)
{
    const struct lay_segment *segment = &writer->layout->segments[entry->tree];
    const size_t index = index_of(writer, entry);
    const struct plan_location sum =
        writer->received[index] != NOTHING
            ? sum_of(writer, entry)
            : (struct plan_location){PLAN_INPUT, in_place_of(writer->layout, segment, entry->piece)};
    plan_read(writer->builder, sum.buffer, sum.first);
    after_received(writer, index);
}

static void receive_up(const struct writer *writer, const struct timetable_entry *entry)
{
    struct plan_builder *b = writer->builder;
    const struct lay_segment *segment = &writer->layout->segments[entry->tree];
    const size_t index = index_of(writer, entry);
    const struct plan_location sum = sum_of(writer, entry);
    plan_begin(b, (uint32_t)segment->count);
    read_sum(writer, entry);
    plan_receive(b, entry->child);
    plan_write(b, sum.buffer, sum.first);
    if (--writer->missing[index] == 0 && segment->root == writer->rank) plan_final(b);
    writer->received[index] = plan_end(b);
}

static void send_up(const struct writer *writer, const struct timetable_entry *entry)
{
    struct plan_builder *b = writer->builder;
    const struct lay_segment *segment = &writer->layout->segments[entry->tree];
    plan_begin(b, (uint32_t)segment->count);
    read_sum(writer, entry);
    plan_send(b, segment->up->parent[writer->rank]);
    plan_end(b);
}

/* ---------------------------------------------------------------------------------------- lanes */

static bool sends(const struct timetable_entry *entry)
{
    return !entry->is_end;
}

static int peer_of(const struct writer *writer, const struct timetable_entry *entry)
{
    return entry->child == writer->rank ? lay_tree(writer->layout, entry)->parent[writer->rank]
                                        : entry->child;
}

static uint32_t *lane_of(const struct writer *writer, const struct timetable_entry *entry)
{
    return &writer->lanes[sends(entry)][peer_of(writer, entry)];
}

/* Each side gets lanes in proportion to its peers, and these get them in turns. */
static void share_lanes(const struct writer *writer, const int counts[2])
{
    const int peers = counts[0] + counts[1];
    int lanes[2] = {counts[0], counts[1]};
    if (peers > LAY_LANES_MAX) {
        lanes[0] = (counts[0] * LAY_LANES_MAX + peers / 2) / peers;
        if (lanes[0] == 0 && counts[0] > 0) lanes[0] = 1;
        if (lanes[0] == LAY_LANES_MAX && counts[1] > 0) lanes[0]--;
        lanes[1] = LAY_LANES_MAX - lanes[0];
    }
    for (int side = 0; side < 2; side++) {
        uint32_t first = 0;
        for (int i = 0; i < lanes[side]; i++) {
            const uint32_t lane = plan_lane(writer->builder);
            if (i == 0) first = lane;
        }
        for (int peer = 0, next = 0; peer < writer->layout->rank_count; peer++)
            if (writer->lanes[side][peer] != NOTHING)
                writer->lanes[side][peer] = first + (uint32_t)(next++ % lanes[side]);
    }
}

/* Each peer has a lane for messages that come from it and a lane for messages that go to it. If
 * these are too many, some peers share a lane. */
static void choose_lanes(const struct writer *writer)
{
    const struct lay_out *layout = writer->layout;
    int counts[2] = {0, 0};
    for (int peer = 0; peer < layout->rank_count; peer++)
        writer->lanes[0][peer] = writer->lanes[1][peer] = NOTHING;
    for (size_t i = layout->begins[writer->rank]; i < layout->begins[writer->rank + 1]; i++) {
        uint32_t *lane = lane_of(writer, &layout->entries[i]);
        if (*lane == NOTHING) counts[sends(&layout->entries[i])]++;
        *lane = 0;
    }
    share_lanes(writer, counts);
}

static void count_missing(const struct writer *writer)
{
    const struct lay_out *layout = writer->layout;
    for (size_t i = layout->begins[writer->rank]; i < layout->begins[writer->rank + 1]; i++) {
        const struct timetable_entry *entry = &layout->entries[i];
        if (entry->is_up && entry->is_end) writer->missing[index_of(writer, entry)]++;
    }
}

static void write_step(const struct writer *writer, const struct timetable_entry *entry)
{
    plan_lane_again(writer->builder, *lane_of(writer, entry));
    if (sends(entry))
        entry->is_up ? send_up(writer, entry) : send_down(writer, entry);
    else
        entry->is_up ? receive_up(writer, entry) : receive_down(writer, entry);
}

/* False: the time is over. */
static bool write_rank(const struct writer *writer)
{
    enum { STEPS_A_LOOK = 1 << 12 };
    const struct lay_out *layout = writer->layout;
    plan_parts(writer->builder, layout->parts);
    choose_lanes(writer);
    count_missing(writer);
    for (size_t i = layout->begins[writer->rank]; i < layout->begins[writer->rank + 1]; i++) {
        if (i % STEPS_A_LOOK == 0 && synth_is_late(layout->lay->deadline_ns)) return false;
        write_step(writer, &layout->entries[i]);
    }
    return !synth_is_late(layout->lay->deadline_ns);
}

static bool writer_init(struct writer *writer)
{
    const struct lay_out *layout = writer->layout;
    const size_t count = (size_t)layout->lay->pieces * (size_t)layout->segment_count;
    const size_t ranks = (size_t)layout->rank_count;
    writer->builder = plan_builder_create(layout->lay->collective, layout->rank_count, layout->root,
                                          writer->rank);
    writer->lanes[0] = malloc(ranks * sizeof *writer->lanes[0]);
    writer->lanes[1] = malloc(ranks * sizeof *writer->lanes[1]);
    writer->received = malloc(count * sizeof *writer->received);
    writer->partial = malloc(count * sizeof *writer->partial);
    writer->missing = calloc(count, sizeof *writer->missing);
    if (writer->builder == NULL || writer->lanes[0] == NULL || writer->lanes[1] == NULL ||
        writer->received == NULL || writer->partial == NULL || writer->missing == NULL)
        return false;
    for (size_t i = 0; i < count; i++) writer->received[i] = writer->partial[i] = NOTHING;
    return true;
}

static void writer_release(struct writer *writer)
{
    if (writer->builder != NULL) plan_builder_free(writer->builder);
    free(writer->lanes[0]);
    free(writer->lanes[1]);
    free(writer->received);
    free(writer->partial);
    free(writer->missing);
}

enum tutti_status lay_rank(const struct lay_out *layout, int rank, struct rank_plan **made)
{
    const char *message = "out of memory while a plan was made";
    struct writer writer = {.layout = layout, .rank = rank};
    enum tutti_status status = TUTTI_NO_MEMORY;
    if (writer_init(&writer)) {
        if (write_rank(&writer)) {
            status = plan_builder_finish(writer.builder, made, &message);
        } else {
            status = TUTTI_TIMEOUT;
            message = "the time is over before the plan is laid out";
        }
    }
    writer_release(&writer);
    return status == TUTTI_OK ? TUTTI_OK : error_set(status, "rank %d: %s", rank, message);
}
