#include "engine/bind.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "engine/bind_paths.h"
#include "plan/placement.h"

static size_t place_offset(const struct binder *binder, enum plan_buffer buffer, uint32_t first)
{
    return buffer == PLAN_SCRATCH
               ? binder->scratch_offsets[first]
               : layout_chunk_offset(&binder->layout, buffer == PLAN_INPUT, first);
}

/* The bytes of the step's range. All its places have the same classes, so any one shows it; a step
 * between links alone takes the size from its destination. LAYOUT_UNKNOWN if the size of a block
 * is. */
static size_t range_bytes(const struct binder *binder, enum plan_buffer buffer, uint32_t first,
                          uint32_t count)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t more = layout_class_bytes(
            &binder->layout, plan_location_class(binder->plan, buffer, first + i));
        if (more == LAYOUT_UNKNOWN) return LAYOUT_UNKNOWN;
        bytes += more;
    }
    return bytes;
}

static bool step_bytes(const struct binder *binder, const struct plan_step *step, size_t *bytes)
{
    *bytes = 0;
    if (step->chunk_count == 0) return true;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &binder->plan->sources[step->first_source + i];
        if (source->is_link) continue;
        *bytes =
            range_bytes(binder, source->location.buffer, source->location.first, step->chunk_count);
        return true;
    }
    if (!step->has_destination) return false;
    *bytes =
        range_bytes(binder, step->destination.buffer, step->destination.first, step->chunk_count);
    return true;
}

/* The group of the transport that has the same members; or PROGRAM_NONE. */
static int find_group(const struct binder *binder, int plan_group)
{
    const struct plan_group *const wanted = &binder->plan->groups[plan_group];
    const int *const members = binder->plan->members + wanted->first_member;
    for (int g = 0; g < binder->options->group_count; g++) {
        const struct transport_group *const group = &binder->options->groups[g];
        if ((uint32_t)group->count == wanted->member_count &&
            memcmp(group->ranks, members, wanted->member_count * sizeof *members) == 0)
            return g;
    }
    return PROGRAM_NONE;
}

/* The encoding of a link from one rank to another; NULL: elements are as they are in memory. */
static const struct kernel_encoding *encoding_between(const struct binder *binder, int from, int to)
{
    const struct bind_options *options = binder->options;
    const bool is_encoded = options->places == NULL || rounding_on_link(options->places, from, to);
    return is_encoded ? options->encoding : NULL;
}

/* Whether all links from a member of a group to the others have the same encoding, or none. All
 * members find the same. */
static bool group_is_alike(const struct binder *binder, const struct plan_group *group, int from,
                           const struct kernel_encoding **encoding)
{
    const int *const members = binder->plan->members + group->first_member;
    bool has_first = false;
    *encoding = NULL;
    for (uint32_t i = 0; i < group->member_count; i++) {
        if (members[i] == from) continue;
        const struct kernel_encoding *const found = encoding_between(binder, from, members[i]);
        if (has_first && found != *encoding) return false;
        *encoding = found;
        has_first = true;
    }
    return true;
}

/* The bytes on a link of a piece of it that whole units fill. */
static size_t whole_units(const struct binder *binder, const struct kernel_encoding *encoding,
                          size_t piece)
{
    const struct kernel_encoding *const units = binder->options->encoding;
    if (units == NULL) return piece;
    const size_t unit_bytes = encoding != NULL ? units->unit_bytes : bind_unit_bytes(binder);
    return piece / unit_bytes * unit_bytes;
}

/* Whether messages of that many chunks fit into a multicast link of that encoding as a whole. */
static bool fits_multicast(const struct binder *binder, uint32_t chunk_count,
                           const struct kernel_encoding *encoding)
{
    const struct layout *layout = &binder->layout;
    const size_t *counts =
        layout->input_counts != NULL ? layout->input_counts : layout->output_counts;
    size_t count_max = layout->count;
    for (int r = 0; counts != NULL && r < layout->rank_count; r++)
        if (counts[r] > count_max) count_max = counts[r];
    const size_t part_bytes_max = (count_max / layout->parts + 1) * layout->element_bytes + 128;
    const size_t piece = bind_piece_bytes_max(binder->options);
    return chunk_count * bind_wire_bytes(binder, encoding, part_bytes_max) <=
           binder->options->piece_count_max * whole_units(binder, encoding, piece);
}

/* The group of the transport whose multicast link takes a message to a group of the plan;
 * PROGRAM_NONE: the message goes to each member separately. The slots of such a link are free again
 * when its slowest reader has read them, and that reader may be waiting for another message first.
 * So only messages that fit into the slots as a whole go there, and only to members that get them in
 * the same encoding. All members decide this alike: by the sender, the range, the largest part, and
 * limits and groups that all of them know. */
static int multicast_group(const struct binder *binder, int plan_group, int from,
                           uint32_t chunk_count)
{
    const struct kernel_encoding *encoding;
    const int group = plan_group != PLAN_NO_GROUP ? find_group(binder, plan_group) : PROGRAM_NONE;
    return group != PROGRAM_NONE &&
                   group_is_alike(binder, &binder->plan->groups[plan_group], from, &encoding) &&
                   fits_multicast(binder, chunk_count, encoding)
               ? group
               : PROGRAM_NONE;
}

/* bytes: of the message in memory. */
static int find_link(const struct binder *binder, struct program_link *links, uint32_t *count,
                     const struct program_link *wanted, size_t bytes)
{
    uint32_t i = 0;
    while (i < *count && (links[i].peer != wanted->peer || links[i].group != wanted->group ||
                          links[i].channel != wanted->channel))
        i++;
    if (i == *count) links[(*count)++] = *wanted;
    const size_t on_link = bind_wire_bytes(binder, wanted->encoding, bytes);
    if (links[i].bytes_max < on_link) links[i].bytes_max = on_link;
    return (int)i;
}

/* Any member of a group of the transport but this rank. */
static int other_member(const struct binder *binder, int group)
{
    const int *const members = binder->options->groups[group].ranks;
    return members[members[0] == binder->plan->rank];
}

static void add_target(struct binder *binder, struct program_step *bound, int peer, int group,
                       int channel)
{
    struct program *program = binder->program;
    const int to = group != PROGRAM_NONE ? other_member(binder, group) : peer;
    const struct program_link link = {.peer = peer,
                                      .group = group,
                                      .channel = channel,
                                      .encoding = encoding_between(binder, binder->plan->rank, to)};
    program->step_tx[program->step_tx_count++] =
        find_link(binder, program->tx_links, &program->tx_count, &link, bound->bytes);
    bound->tx_count++;
}

/* Adds the members one by one, and each rank begins with the member behind it: if all began with
 * the first, the first would get everything at once, and the last one nothing for long. */
static void add_members(struct binder *binder, struct program_step *bound,
                        const struct plan_group *group, int channel)
{
    const int *const members = binder->plan->members + group->first_member;
    uint32_t own = 0;
    while (members[own] != binder->plan->rank) own++;
    for (uint32_t i = 1; i < group->member_count; i++)
        add_target(binder, bound, members[(own + i) % group->member_count], PROGRAM_NONE, channel);
}

static void bind_targets(struct binder *binder, const struct plan_step *step,
                         struct program_step *bound)
{
    const struct rank_plan *plan = binder->plan;
    struct program *program = binder->program;
    const int channel = step->target_channel,
              group = multicast_group(binder, step->target_group, plan->rank, step->chunk_count);
    bound->first_tx = program->step_tx_count;
    if (group != PROGRAM_NONE) {
        add_target(binder, bound, PROGRAM_NONE, group, channel);
    } else if (step->target_group != PLAN_NO_GROUP) {
        add_members(binder, bound, &plan->groups[step->target_group], channel);
    }
    for (uint32_t i = 0; i < step->target_count; i++)
        add_target(binder, bound, plan->targets[step->first_target + i], PROGRAM_NONE, channel);
}

static void bind_sources(struct binder *binder, const struct plan_step *step,
                         struct program_step *bound)
{
    struct program *program = binder->program;
    bound->first_source = program->source_count;
    bound->source_count = step->source_count;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &binder->plan->sources[step->first_source + i];
        struct program_source *to = &program->sources[program->source_count++];
        if (source->is_link) {
            const struct program_link link = {
                .peer = source->peer,
                .group = multicast_group(binder, source->group, source->peer, step->chunk_count),
                .channel = source->channel,
                .encoding = encoding_between(binder, source->peer, binder->plan->rank)};
            *to = (struct program_source){.rx = find_link(binder, program->rx_links,
                                                          &program->rx_count, &link, bound->bytes)};
        } else {
            *to = (struct program_source){
                PROGRAM_NONE, source->location.buffer,
                step->chunk_count == 0
                    ? 0
                    : place_offset(binder, source->location.buffer, source->location.first)};
        }
    }
    if (program->source_count_max < step->source_count)
        program->source_count_max = step->source_count;
}

static bool is_large(const struct bind_options *options, const struct program *program)
{
    return options->count * program->element_bytes >= program->paths->sizes.stream_bytes_min;
}

/* Large results are stored past the caches instead, which the operating system's kernel does not
 * do. */
static bool may_place_directly(const struct binder *binder, const struct program_step *bound)
{
    return bound->divisor == 0 && bound->factor == 0 && bind_may_come(binder, bound, PATH_DIRECT) &&
           !is_large(binder->options, binder->program);
}

/* Whether a link of a bound step is encoded. */
static bool has_encoded_link(const struct program *program, const struct program_step *bound)
{
    for (uint32_t i = 0; i < bound->source_count; i++) {
        const int rx = program->sources[bound->first_source + i].rx;
        if (rx != PROGRAM_NONE && program->rx_links[rx].encoding != NULL) return true;
    }
    for (uint32_t i = 0; i < bound->tx_count; i++)
        if (program->tx_links[program->step_tx[bound->first_tx + i]].encoding != NULL) return true;
    return false;
}

/* Whether a unit would lie in two chunks of a step's range: only the end of a block may end within
 * a unit. The range is that of its destination, or of any source in memory. */
static bool parts_units(const struct binder *binder, const struct plan_step *step)
{
    const struct plan_location *place = step->has_destination ? &step->destination : NULL;
    for (uint32_t i = 0; place == NULL && i < step->source_count; i++) {
        const struct plan_source *source = &binder->plan->sources[step->first_source + i];
        if (!source->is_link) place = &source->location;
    }
    bool is_within = false;
    for (uint32_t i = 0; place != NULL && i < step->chunk_count; i++) {
        const size_t bytes = range_bytes(binder, place->buffer, place->first + i, 1);
        if (is_within && bytes > 0) return true;
        is_within |= bytes % bind_unit_bytes(binder) != 0;
    }
    return false;
}

/* Marks a step that kernels with formats have to do. */
static enum tutti_status bind_encoding(struct binder *binder, const struct plan_step *step,
                                       struct program_step *bound)
{
    const struct bind_options *options = binder->options;
    if (options->encoding == NULL) return TUTTI_OK;
    rounding_rule *const rounds = options->rounding != NULL ? options->rounding : rounding_of_step;
    const uint32_t index = (uint32_t)(bound - binder->program->steps);
    step_set(bound, STEP_ROUNDS, rounds(binder->plan, index, options->places, options->in_place));
    step_set(bound, STEP_ENCODES,
             step_has(bound, STEP_ROUNDS) || has_encoded_link(binder->program, bound));
    if (options->places == NULL || !step_has(bound, STEP_ENCODES) || !parts_units(binder, step))
        return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED, "encoding %s: a unit of %u elements would lie in two chunks",
                     options->encoding->name, options->encoding->unit_elements);
}

static enum tutti_status bind_step(struct binder *binder, const struct plan_step *step,
                                   struct program_step *bound)
{
    const struct bind_options *options = binder->options;
    struct program *program = binder->program;
    if (!step_bytes(binder, step, &bound->bytes))
        return error_set(TUTTI_UNSUPPORTED,
                         "the plan has a step between links alone without a destination");
    if (bound->bytes == LAYOUT_UNKNOWN)
        return error_set(TUTTI_UNSUPPORTED,
                         "a block passes through this rank whose count it does not know");
    bind_sources(binder, step, bound);
    bind_targets(binder, step, bound);
    TRY(bind_encoding(binder, step, bound));
    bound->first_after = program->after_count;
    bound->after_count = step->after_count;
    for (uint32_t i = 0; i < step->after_count; i++)
        program->afters[program->after_count++] = binder->plan->afters[step->first_after + i];
    bound->destination_buffer = PROGRAM_NONE;
    if (step->has_destination) {
        bound->destination_buffer = (int)step->destination.buffer;
        if (step->chunk_count > 0)
            bound->destination_offset =
                place_offset(binder, step->destination.buffer, step->destination.first);
    }
    const bool from_memory = program->sources[bound->first_source].rx == PROGRAM_NONE;
    step_set(bound, STEP_ONLY_SENDS, plan_step_only_sends(binder->plan, step));
    if (!step->has_destination && !step_has(bound, STEP_ONLY_SENDS)) {
        step_set(bound, STEP_STAGES, true);
        bound->destination_buffer = PLAN_SCRATCH;
        bound->destination_offset = program->scratch_bytes;
        program->scratch_bytes += (bound->bytes + 63) / 64 * 64;
    }
    bound->divisor =
        step->final && options->op->kind == OP_AVG ? (unsigned)binder->plan->shape.rank_count : 0;
    bound->factor = step->final && options->op->kind == OP_SCALED_SUM ? options->op->factor : 0;
    /* In place, the lines have just been read: to store past the caches would first evict them. */
    step_set(bound, STEP_STREAMS,
             bound->destination_buffer == PLAN_OUTPUT && !options->in_place &&
                 is_large(options, program));
    step_set(bound, STEP_READS_FAR, from_memory && is_large(options, program));
    step_set(bound, STEP_PLACES_DIRECTLY,
             !from_memory && step->has_destination && may_place_directly(binder, bound));
    return TUTTI_OK;
}

/* The offset, in bytes, of a buffer in the memory that input and output share in place. */
static size_t begin_in_place(const struct binder *binder, enum plan_buffer buffer)
{
    const struct plan_shape *shape = &binder->plan->shape;
    const bool is_block = buffer == PLAN_INPUT ? collective_gathers(shape->collective)
                                               : collective_scatters(shape->collective);
    const uint32_t own = plan_begin_in_place(shape, binder->plan->rank, buffer);
    return is_block ? layout_chunk_offset(&binder->layout, buffer == PLAN_OUTPUT, own) : 0;
}

/* Whether a step copies input, sends it on, and leaves its source as it is: the destination lies
 * elsewhere or at the same place. Both lie in memory of one kind, since the paths of the step are
 * those for its destination. */
static bool does_send_input(const struct binder *binder, const struct program_step *step)
{
    const struct program_source *from = &binder->program->sources[step->first_source];
    if (step->tx_count == 0 || step->source_count != 1 || from->rx != PROGRAM_NONE ||
        from->buffer != PLAN_INPUT || step->destination_buffer != PLAN_OUTPUT ||
        step->divisor != 0 || step->factor != 0 || step_has(step, STEP_ROUNDS) ||
        binder->options->kinds[PLAN_INPUT] != binder->options->kinds[PLAN_OUTPUT])
        return false;
    return !binder->options->in_place ||
           begin_in_place(binder, PLAN_INPUT) + from->offset ==
               begin_in_place(binder, PLAN_OUTPUT) + step->destination_offset;
}

/* placement.h decides, among results for which the tables of paths find it worthwhile. */
static void bind_placement(struct binder *binder, uint32_t s)
{
    struct program *program = binder->program;
    struct program_step *step = &program->steps[s];
    const bool may_come = bind_may_come(binder, step, PATH_WRITE);
    if (!step_has(step, STEP_PLACES) && !may_come) return;
    const enum placement placement = placement_of_step(binder->plan, s, binder->options->in_place);
    if (placement != PLACEMENT_PLACES) step_set(step, STEP_PLACES, false);
    if (step_has(step, STEP_PLACES) && !binder->options->in_place &&
        is_large(binder->options, program))
        step_set(step, STEP_STREAMS, true);
    if (placement != PLACEMENT_ADVERTISES || !may_come) return;
    step_set(step, STEP_EXPECTS, true);
    program->expects[program->expect_count++] = (struct program_expect){
        program->sources[step->first_source].rx, step->destination_offset, step->bytes};
}

/* Makes room for everything: a target that is a group counts as all its members. */
static bool allocate(struct program *program, const struct rank_plan *plan)
{
    size_t tx_places = plan->target_count;
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].target_group != PLAN_NO_GROUP)
            tx_places += plan->groups[plan->steps[i].target_group].member_count;
    program->steps = calloc(plan->step_count + 1, sizeof *program->steps);
    program->lanes = calloc(plan->lane_count + 1, sizeof *program->lanes);
    program->sources = calloc(plan->source_count + 1, sizeof *program->sources);
    program->afters = calloc(plan->after_count + 1, sizeof *program->afters);
    program->step_tx = calloc(tx_places + 1, sizeof *program->step_tx);
    program->step_tx_paths = calloc(tx_places + 1, sizeof *program->step_tx_paths);
    program->tx_links = calloc(tx_places + 1, sizeof *program->tx_links);
    program->rx_links = calloc(plan->source_count + 1, sizeof *program->rx_links);
    program->expects = calloc(plan->source_count + 1, sizeof *program->expects);
    return program->steps && program->lanes && program->sources && program->afters &&
           program->step_tx && program->step_tx_paths && program->tx_links && program->rx_links &&
           program->expects;
}

/* Whether this rank has a link whose elements are as they are in memory. */
static bool has_plain_link(const struct program *program)
{
    for (uint32_t i = 0; i < program->tx_count; i++)
        if (program->tx_links[i].encoding == NULL) return true;
    for (uint32_t i = 0; i < program->rx_count; i++)
        if (program->rx_links[i].encoding == NULL) return true;
    return false;
}

/* The bytes of the least number of whole units of `unit_bytes`, at least one, of which `count` pieces
 * cover `bytes`; 0: nothing is encoded. */
static size_t least_units(const struct binder *binder, size_t bytes, size_t unit_bytes,
                          unsigned count)
{
    if (binder->options->encoding == NULL) return 0;
    const size_t units = bytes / unit_bytes + (bytes % unit_bytes != 0);
    return (units / count + (units % count != 0 || units == 0)) * unit_bytes;
}

/* The bytes of a piece on a link, chosen so that the largest chunk that has to fit into the link as
 * a whole does (multicast_group). encoding: of the links on which pieces are longest. unit_bytes: of
 * a unit there. */
static size_t choose_piece(const struct binder *binder, const struct kernel_encoding *encoding,
                           size_t unit_bytes)
{
    const struct program *program = binder->program;
    size_t largest = 0;
    for (uint32_t i = 0; i < program->step_count; i++)
        if (program->steps[i].bytes > largest) largest = program->steps[i].bytes;
    const size_t on_link = bind_wire_bytes(binder, encoding, largest);
    const unsigned count = binder->options->piece_count_max;
    size_t piece = path_piece_bytes(&program->paths->sizes, on_link, count);
    const size_t least = least_units(binder, on_link, unit_bytes, count);
    if (piece < least) piece = least;
    const size_t most = bind_piece_bytes_max(binder->options);
    return piece > most ? most : piece;
}

/* Sets the size of a piece in memory: whole units. */
static enum tutti_status bind_piece(struct binder *binder)
{
    struct program *program = binder->program;
    const struct kernel_encoding *units = binder->options->encoding,
                                 *encoding = has_plain_link(program) ? NULL : units;
    const size_t unit_bytes = units == NULL      ? 1
                              : encoding == NULL ? bind_unit_bytes(binder)
                                                 : units->unit_bytes;
    program->piece_bytes = choose_piece(binder, encoding, unit_bytes);
    program->executor_bytes =
        program->paths->sizes.executor_bytes / (size_t)binder->plan->shape.rank_count;
    if (units == NULL) return TUTTI_OK;
    if (encoding == NULL && units->unit_bytes > bind_unit_bytes(binder))
        return error_set(TUTTI_UNSUPPORTED, "encoding %s: a unit is longer than its elements",
                         units->name);
    const size_t count = program->piece_bytes / unit_bytes;
    program->piece_bytes = count * bind_unit_bytes(binder);
    if (count > 0) return TUTTI_OK;
    return error_set(TUTTI_UNSUPPORTED, "encoding %s: a unit of %zu bytes does not fit into a piece",
                     units->name, unit_bytes);
}

static_assert((int)PLAN_CHANNELS_MAX <= (int)TRANSPORT_CHANNEL_COUNT,
              "links have every channel that a plan can name");

static enum tutti_status bind_all(struct binder *binder)
{
    const struct rank_plan *plan = binder->plan;
    struct program *program = binder->program;
    for (uint32_t i = 0; i < plan->scratch_count; i++) {
        const size_t bytes = layout_class_bytes(&binder->layout, plan->scratch_like[i]);
        if (bytes == LAYOUT_UNKNOWN)
            return error_set(TUTTI_UNSUPPORTED,
                             "scratch for a block whose count is not known here");
        binder->scratch_offsets[i + 1] = binder->scratch_offsets[i] + bytes;
    }
    program->scratch_bytes = (binder->scratch_offsets[plan->scratch_count] + 63) / 64 * 64;
    plan_flow_init(&binder->flow, binder->plan);
    for (uint32_t l = 0; l < plan->lane_count; l++)
        program->lanes[l] = (struct program_lane){
            plan->lanes[l].first_step, plan->lanes[l].first_step + plan->lanes[l].step_count};
    for (uint32_t i = 0; i < plan->step_count; i++)
        TRY(bind_step(binder, &plan->steps[i], &program->steps[i]));
    TRY(bind_piece(binder));
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct program_step *step = &program->steps[i];
        step_set(step, STEP_SENDS_INPUT, does_send_input(binder, step));
        /* Room for this message beside an earlier one that has not been read yet. */
        if (step_has(step, STEP_STAGES) &&
            step->bytes <= binder->options->piece_count_max / 2 * program->piece_bytes) {
            step_set(step, STEP_STAGES, false);
            step->destination_buffer = PROGRAM_NONE;
        }
        TRY(bind_paths(binder, &plan->steps[i], step));
    }
    for (uint32_t i = 0; i < plan->step_count; i++) bind_placement(binder, i);
    return TUTTI_OK;
}

/* Sets where the blocks begin; false when out of memory. */
static bool lay_out(struct binder *binder)
{
    const struct bind_options *options = binder->options;
    const struct plan_shape *shape = &binder->plan->shape;
    struct layout *layout = &binder->layout;
    const size_t ranks = (size_t)shape->rank_count;
    *layout = (struct layout){.count = options->count,
                              .element_bytes = dtype_size(options->dtype),
                              .parts = shape->parts,
                              .unit_elements = options->encoding != NULL && options->places != NULL
                                                   ? options->encoding->unit_elements
                                                   : 0,
                              .collective = shape->collective,
                              .rank = binder->plan->rank,
                              .rank_count = shape->rank_count,
                              .input_counts = options->input_counts,
                              .output_counts = options->output_counts};
    if (options->input_counts == NULL && options->output_counts == NULL) return true;
    binder->begins = calloc(2 * (ranks + 1), sizeof *binder->begins);
    if (binder->begins == NULL) return false;
    size_t *const input = binder->begins, *const output = binder->begins + ranks + 1;
    for (size_t r = 0; r < ranks; r++) {
        if (options->input_counts != NULL) input[r + 1] = input[r] + options->input_counts[r];
        if (options->output_counts != NULL) output[r + 1] = output[r] + options->output_counts[r];
    }
    layout->input_begins = input;
    layout->output_begins = output;
    return true;
}

static enum tutti_status bind_formats(struct binder *binder)
{
    const struct bind_options *options = binder->options;
    struct program *program = binder->program;
    program->kernels = options->kernels != NULL
                           ? *options->kernels
                           : kernel_get(options->level, options->dtype, options->op->kind);
    program->has_executor = options->has_executor;
    program->encoding = options->encoding;
    program->has_formats = options->kernels != NULL;
    memcpy(program->kinds, options->kinds, sizeof program->kinds);
    program->moves_by_kernels = program->has_executor || program->has_formats;
    program->has_computing = program->moves_by_kernels || program->encoding != NULL;
    program->format_kernels =
        options->encoding_kernels != NULL ? *options->encoding_kernels : program->kernels;
    if (program->has_formats || program->encoding == NULL) return TUTTI_OK;
    if (options->encoding_kernels == NULL)
        return error_set(TUTTI_UNSUPPORTED, "encoding %s: no kernels know it",
                         program->encoding->name);
    for (int b = 0; b < PLAN_BUFFER_COUNT; b++)
        if (program->kinds[b] != NULL)
            return error_set(TUTTI_UNSUPPORTED,
                             "encoding %s: buffers that are not in memory of the host",
                             program->encoding->name);
    return TUTTI_OK;
}

void bind_to_transport(struct bind_options *options, struct transport *transport)
{
    transport->ops->limits(transport, &options->piece_bytes_max, &options->piece_count_max);
    options->paths = &transport->paths;
    options->groups = transport->groups;
    options->group_count = transport->group_count;
}

enum tutti_status bind_program(const struct rank_plan *plan, const struct bind_options *options,
                               struct program **program)
{
    struct binder binder = {.plan = plan, .options = options};
    *program = NULL;
    binder.program = calloc(1, sizeof *binder.program);
    binder.scratch_offsets = calloc(plan->scratch_count + 1, sizeof *binder.scratch_offsets);
    enum tutti_status status;
    if (binder.program == NULL || binder.scratch_offsets == NULL || !lay_out(&binder) ||
        !allocate(binder.program, plan)) {
        status = error_set(TUTTI_NO_MEMORY, "binding a plan: out of memory");
        goto free_offsets;
    }
    binder.program->element_bytes = dtype_size(options->dtype);
    binder.program->op = options->op;
    binder.program->algorithm = options->algorithm;
    binder.program->dtype = options->dtype;
    binder.program->paths = options->paths->tables[0];
    binder.program->references_max = UINT_MAX;
    binder.program->step_count = plan->step_count;
    binder.program->lane_count = plan->lane_count;
    status = bind_formats(&binder);
    if (status == TUTTI_OK) status = bind_all(&binder);
free_offsets:
    free(binder.scratch_offsets);
    free(binder.begins);
    if (status == TUTTI_OK)
        *program = binder.program;
    else
        program_free(binder.program);
    return status;
}

void program_free(struct program *program)
{
    if (program == NULL) return;
    for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++) {
        free(program->tx[slot]);
        free(program->rx[slot]);
    }
    free(program->steps);
    free(program->lanes);
    free(program->sources);
    free(program->afters);
    free(program->step_tx);
    free(program->step_tx_paths);
    free(program->lists);
    free(program->tx_links);
    free(program->rx_links);
    free(program->expects);
    free(program);
}
