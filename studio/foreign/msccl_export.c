/* msccl_export.c - from lanes to thread blocks.
 *
 *     pair      which incoming and which outgoing connection of a lane share a thread block, and so a channel
 *     unfold    every step into steps of MSCCL, the *atoms*, in the order of its lane
 *     number    thread blocks and the steps in them; atoms with several dependencies come after a nop for each but one
 *     print
 *
 * 1. A connection is a port of the wiring (plan/wiring.h): source, destination, and a channel that
 *    is chosen here.
 * 2. A thread block belongs to one lane, and its atoms keep the lane's order; two neighbours of a
 *    lane in different blocks have a dependency. So the blocks of a lane do just what the lane
 *    does.
 * 3. Connections that share a block share a channel, and then those that share with them: a
 *    *class*. Two connections of a class never have the same ends; two classes that have two such
 *    connections get different channels.
 * 4. Every unfolded step has scratch memory of its own.
 */
#include "studio/foreign/msccl_export.h"

#include <stdlib.h>
#include <string.h>

#include "plan/wiring.h"
#include "studio/foreign/msccl_algo.h"
#include "studio/foreign/msccl_depth.h"
#include "studio/foreign/refusal.h"
#include "studio/xml_text.h"

enum { ATOM_NONE = -1, CHANNELS_MAX = 32 };

static const struct msccl_profile profiles[] = {
    {.name = "msccl",
     .reduce_scatter = "reduce_scatter",
     .steps_max = 256,
     .chunks_max = 71,
     .channel_blocks_max = 32},
    {.name = "rccl",
     .reduce_scatter = "reducescatter",
     .steps_max = 64,
     .chunks_max = 71,
     .channel_blocks_max = 64,
     .says_range = true},
};

struct atom {
    enum msccl_type type;
    struct plan_location source, destination;
    uint32_t count;
    uint32_t in, out; /* ports, or WIRING_NONE */
    int block;        /* of its rank */
    int number;       /* in its block, nops counted */
    int next;         /* of its block, or ATOM_NONE */
    int before;       /* of its lane, or ATOM_NONE */
    uint32_t step;    /* of its rank: whose `after` it has, where is_first */
    bool is_first, is_awaited;
};

struct block {
    uint32_t in, out; /* ports, or WIRING_NONE */
    int first, last;  /* atoms */
    int step_count;
};

struct exporter {
    const struct plan *plan;
    const struct msccl_export_options *options;
    FILE *file;
    struct refusal refusal;

    struct wiring wiring;
    uint32_t *sharing_in;  /* of each port, at its source: the port that its block receives from */
    uint32_t *sharing_out; /* of each port, at its destination: ... sends to */
    uint32_t *class_of;    /* of each port: the first port of its class */
    uint32_t *next_in_class;
    int *channels; /* of each port that is first of its class */
    int channel_count;

    /* of the rank at hand */
    const struct rank_plan *rank_plan;
    struct atom *atoms;
    int atom_count, atom_room;
    int *last_atoms;             /* of each step */
    int *in_blocks, *out_blocks; /* of each port, or -1 */
    struct block *blocks;
    int block_count, block_room;
    int lane_block; /* of the lane at hand: the last one that was used, or -1 */
    int lane_atom;
    uint32_t lane;
    uint32_t scratch_count;

    int depth;
    struct {
        int rank, block, steps;
    } longest; /* thread block of all */
};

const struct msccl_profile *msccl_profile_find(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0) return &profiles[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------- channels */

static bool same_ends(const struct exporter *exporter, uint32_t a, uint32_t b)
{
    return exporter->wiring.ports[a].receiver == exporter->wiring.ports[b].receiver &&
           wiring_source(&exporter->wiring, a) == wiring_source(&exporter->wiring, b);
}

static bool classes_meet(const struct exporter *exporter, uint32_t a, uint32_t b)
{
    for (uint32_t i = exporter->class_of[a]; i != WIRING_NONE; i = exporter->next_in_class[i])
        for (uint32_t k = exporter->class_of[b]; k != WIRING_NONE; k = exporter->next_in_class[k])
            if (same_ends(exporter, i, k)) return true;
    return false;
}

/* The two come to share a block, if they may. */
static void pair(struct exporter *exporter, uint32_t in, uint32_t out)
{
    if (exporter->sharing_out[in] != WIRING_NONE || exporter->sharing_in[out] != WIRING_NONE)
        return;
    const uint32_t a = exporter->class_of[in], b = exporter->class_of[out];
    if (a != b) {
        if (classes_meet(exporter, a, b)) return;
        uint32_t last = a;
        while (exporter->next_in_class[last] != WIRING_NONE) last = exporter->next_in_class[last];
        exporter->next_in_class[last] = b;
        for (uint32_t i = b; i != WIRING_NONE; i = exporter->next_in_class[i])
            exporter->class_of[i] = a;
    }
    exporter->sharing_out[in] = out;
    exporter->sharing_in[out] = in;
}

/* The connection that a step takes last, if it can do so while it sends, and the first one that it
 * sends to. */
static bool find_fused(const struct exporter *exporter, int rank, uint32_t step, uint32_t *in,
                       uint32_t *out)
{
    const struct wiring *w = &exporter->wiring;
    const struct rank_plan *rank_plan = exporter->plan->ranks[rank];
    const struct plan_step *of = &rank_plan->steps[step];
    const struct plan_source *sources = &rank_plan->sources[of->first_source];
    const uint32_t all = w->first_steps[rank] + step;
    if (w->first_receives[all] == w->first_receives[all + 1] ||
        w->first_sends[all] == w->first_sends[all + 1])
        return false;
    if (!sources[of->source_count - 1].is_link && !(of->source_count == 2 && sources[0].is_link))
        return false;
    *in = w->receives[w->first_receives[all + 1] - 1].port;
    *out = w->links[w->sends[w->first_sends[all]].link].first_port;
    return true;
}

static void pair_all(struct exporter *exporter)
{
    for (int rank = 0; rank < exporter->plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < exporter->plan->ranks[rank]->step_count; i++) {
            uint32_t in, out;
            if (find_fused(exporter, rank, i, &in, &out)) pair(exporter, in, out);
        }
}

/* Thread blocks of each rank and channel. */
struct census {
    int *counts;
};

static int *counted(const struct census *census, int rank, int channel)
{
    return &census->counts[rank * CHANNELS_MAX + channel];
}

/* The blocks of a class, once more or once less. A port has a block at its source, and one at its
 * destination unless that is the block of the port that it shares it with. */
static bool count_class(const struct exporter *exporter, const struct census *census,
                        uint32_t class, int channel, int more)
{
    const int most = exporter->options->profile->channel_blocks_max;
    bool fits = true;
    for (uint32_t i = class; i != WIRING_NONE; i = exporter->next_in_class[i]) {
        int *at_source = counted(census, wiring_source(&exporter->wiring, i), channel);
        int *at_destination = counted(census, exporter->wiring.ports[i].receiver, channel);
        *at_source += more;
        if (exporter->sharing_out[i] == WIRING_NONE) *at_destination += more;
        fits = fits && *at_source <= most && *at_destination <= most;
    }
    return fits;
}

/* Lanes that only work in memory have channel 0. */
static void count_local_lanes(const struct exporter *exporter, const struct census *census)
{
    const struct wiring *w = &exporter->wiring;
    for (uint32_t lane = 0; lane < w->lane_count; lane++) {
        const uint32_t first = w->lanes[lane].first_step, end = first + w->lanes[lane].step_count;
        if (first < end && w->first_sends[first] == w->first_sends[end] &&
            w->first_receives[first] == w->first_receives[end])
            (*counted(census, w->lanes[lane].rank, 0))++;
    }
}

/* The first channel in which neither another connection has the same ends nor a rank too many
 * blocks. */
static bool choose_channel(struct exporter *exporter, const struct census *census, uint32_t class)
{
    for (int channel = 0; channel < CHANNELS_MAX; channel++) {
        bool fits = count_class(exporter, census, class, channel, 1);
        for (uint32_t k = 0; k < class && fits; k++)
            fits = exporter->class_of[k] != k || exporter->channels[k] != channel ||
                   !classes_meet(exporter, class, k);
        if (fits) {
            exporter->channels[class] = channel;
            if (channel >= exporter->channel_count) exporter->channel_count = channel + 1;
            return true;
        }
        count_class(exporter, census, class, channel, -1);
    }
    return refuse(&exporter->refusal, "more than %d channels, for %d thread blocks a channel",
                  CHANNELS_MAX, exporter->options->profile->channel_blocks_max);
}

static bool choose_channels(struct exporter *exporter)
{
    struct census census = {
        calloc((size_t)exporter->plan->shape.rank_count * CHANNELS_MAX, sizeof(int))};
    bool chosen = census.counts != NULL || refuse_out_of_memory(&exporter->refusal);
    if (chosen) count_local_lanes(exporter, &census);
    for (uint32_t i = 0; chosen && i < exporter->wiring.port_count; i++)
        if (exporter->class_of[i] == i) chosen = choose_channel(exporter, &census, i);
    free(census.counts);
    if (exporter->channel_count == 0) exporter->channel_count = 1;
    return chosen;
}

static int channel_of(const struct exporter *exporter, uint32_t port)
{
    return exporter->channels[exporter->class_of[port]];
}

static bool set_up(struct exporter *exporter)
{
    const size_t count = (size_t)exporter->wiring.port_count + 1;
    exporter->sharing_in = malloc(count * sizeof(uint32_t));
    exporter->sharing_out = malloc(count * sizeof(uint32_t));
    exporter->class_of = malloc(count * sizeof(uint32_t));
    exporter->next_in_class = malloc(count * sizeof(uint32_t));
    exporter->channels = calloc(count, sizeof(int));
    exporter->in_blocks = malloc(count * sizeof(int));
    exporter->out_blocks = malloc(count * sizeof(int));
    if (!exporter->sharing_in || !exporter->sharing_out || !exporter->class_of ||
        !exporter->next_in_class || !exporter->channels || !exporter->in_blocks ||
        !exporter->out_blocks)
        return refuse_out_of_memory(&exporter->refusal);
    for (uint32_t i = 0; i < count; i++) {
        exporter->sharing_in[i] = exporter->sharing_out[i] = WIRING_NONE;
        exporter->class_of[i] = i;
        exporter->next_in_class[i] = WIRING_NONE;
        exporter->in_blocks[i] = exporter->out_blocks[i] = -1;
    }
    return true;
}

/* --------------------------------------------------------------------------------------- blocks */

static int add_block(struct exporter *exporter, uint32_t in, uint32_t out)
{
    if (exporter->block_count == exporter->block_room) {
        const int room = 2 * exporter->block_room + 32;
        struct block *grown = reallocarray(exporter->blocks, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            refuse_out_of_memory(&exporter->refusal);
            return 0;
        }
        exporter->blocks = grown;
        exporter->block_room = room;
    }
    exporter->blocks[exporter->block_count] =
        (struct block){.in = in, .out = out, .first = ATOM_NONE, .last = ATOM_NONE};
    if (in != WIRING_NONE) exporter->in_blocks[in] = exporter->block_count;
    if (out != WIRING_NONE) exporter->out_blocks[out] = exporter->block_count;
    return exporter->block_count++;
}

/* Any connection of the lane, for what only works in memory; local lanes have a block of their
 * own. */
static int block_for_local(struct exporter *exporter)
{
    if (exporter->lane_block >= 0) return exporter->lane_block;
    return add_block(exporter, WIRING_NONE, WIRING_NONE);
}

static int block_for(struct exporter *exporter, uint32_t in, uint32_t out)
{
    if (in != WIRING_NONE && exporter->in_blocks[in] >= 0) return exporter->in_blocks[in];
    if (out != WIRING_NONE && exporter->out_blocks[out] >= 0) return exporter->out_blocks[out];
    if (in == WIRING_NONE && out == WIRING_NONE) return block_for_local(exporter);
    if (in == WIRING_NONE) in = exporter->sharing_in[out];
    if (out == WIRING_NONE) out = exporter->sharing_out[in];
    /* A block in which the lane has only worked in memory so far becomes the block of its first
     * connection. */
    if (exporter->lane_block >= 0) {
        struct block *block = &exporter->blocks[exporter->lane_block];
        if (block->in == WIRING_NONE && block->out == WIRING_NONE) {
            block->in = in, block->out = out;
            if (in != WIRING_NONE) exporter->in_blocks[in] = exporter->lane_block;
            if (out != WIRING_NONE) exporter->out_blocks[out] = exporter->lane_block;
            return exporter->lane_block;
        }
    }
    return add_block(exporter, in, out);
}

/* ---------------------------------------------------------------------------------------- atoms */

static void add_atom(struct exporter *exporter, uint32_t step, struct atom atom)
{
    if (exporter->refusal.status != TUTTI_OK) return;
    if (exporter->atom_count == exporter->atom_room) {
        const int room = 2 * exporter->atom_room + 64;
        struct atom *grown = reallocarray(exporter->atoms, (size_t)room, sizeof *grown);
        if (grown == NULL) {
            refuse_out_of_memory(&exporter->refusal);
            return;
        }
        exporter->atoms = grown;
        exporter->atom_room = room;
    }
    const int index = exporter->atom_count;
    atom.count = exporter->rank_plan->steps[step].chunk_count;
    atom.block = block_for(exporter, atom.in, atom.out);
    if (exporter->refusal.status != TUTTI_OK) return;
    atom.step = step;
    atom.is_first = exporter->last_atoms[step] == ATOM_NONE;
    atom.before = exporter->lane_atom;
    atom.next = ATOM_NONE;
    struct block *block = &exporter->blocks[atom.block];
    if (block->last == ATOM_NONE)
        block->first = index;
    else
        exporter->atoms[block->last].next = index;
    block->last = index;
    exporter->atoms[index] = atom;
    exporter->atom_count++;
    exporter->last_atoms[step] = exporter->lane_atom = index;
    exporter->lane_block = atom.block;
}

static struct plan_location more_scratch(struct exporter *exporter, uint32_t count)
{
    const struct plan_location place = {PLAN_SCRATCH, exporter->scratch_count};
    if (count > MSCCL_CHUNKS_MAX - exporter->scratch_count)
        refuse(&exporter->refusal, "rank %d: more than %d scratch chunks",
               exporter->rank_plan->rank, MSCCL_CHUNKS_MAX);
    else
        exporter->scratch_count += count;
    return place;
}

static bool same_place(struct plan_location a, struct plan_location b)
{
    return a.buffer == b.buffer && a.first == b.first;
}

/* A step on its way into atoms. */
struct unfolding {
    uint32_t step;
    const struct plan_step *of;
    const uint32_t *receives;   /* ports, in the order of sources */
    struct plan_location sum;   /* the sum so far */
    struct plan_location spare; /* scratch of this step, once has_spare */
    bool has_sum, has_spare;
    uint32_t fused; /* the port that its last receiving atom sends to, or WIRING_NONE */
    bool sends_more;
};

static struct plan_location spare(struct exporter *exporter, struct unfolding *unfolding)
{
    if (!unfolding->has_spare)
        unfolding->spare = more_scratch(exporter, unfolding->of->chunk_count);
    unfolding->has_spare = true;
    return unfolding->spare;
}

static void local_atom(struct exporter *exporter, const struct unfolding *unfolding,
                       enum msccl_type type, struct plan_location source,
                       struct plan_location destination)
{
    add_atom(exporter, unfolding->step,
             (struct atom){.type = type,
                           .source = source,
                           .destination = destination,
                           .in = WIRING_NONE,
                           .out = WIRING_NONE});
}

static void add_received(struct exporter *exporter, struct unfolding *unfolding, uint32_t port,
                         bool is_last)
{
    const uint32_t out = is_last ? unfolding->fused : WIRING_NONE;
    const bool passes = unfolding->has_sum && out != WIRING_NONE &&
                        !unfolding->of->has_destination && !unfolding->sends_more;
    struct atom atom = {.source = unfolding->sum, .in = port, .out = out};
    if (!unfolding->has_sum)
        atom.type = out != WIRING_NONE ? MSCCL_RECV_SEND : MSCCL_RECV;
    else
        atom.type = passes               ? MSCCL_RECV_REDUCE_PASS
                    : out != WIRING_NONE ? MSCCL_RECV_REDUCE_SEND
                                         : MSCCL_RECV_REDUCE;
    if (!passes)
        atom.destination = is_last && unfolding->of->has_destination ? unfolding->of->destination
                                                                     : spare(exporter, unfolding);
    add_atom(exporter, unfolding->step, atom);
    unfolding->sum = atom.destination;
    unfolding->has_sum = true;
}

static void add_local(struct exporter *exporter, struct unfolding *unfolding,
                      struct plan_location place, bool is_last)
{
    const struct plan_step *of = unfolding->of;
    const bool stores = is_last && of->has_destination;
    if (!unfolding->has_sum) {
        unfolding->sum = place;
        unfolding->has_sum = true;
    } else if ((unfolding->has_spare && same_place(unfolding->sum, unfolding->spare)) ||
               (stores && same_place(unfolding->sum, of->destination))) {
        local_atom(exporter, unfolding, MSCCL_REDUCE, place, unfolding->sum);
    } else if (stores && same_place(place, of->destination)) {
        local_atom(exporter, unfolding, MSCCL_REDUCE, unfolding->sum, place);
        unfolding->sum = place;
    } else {
        /* In place the destination might be what is still to be added. */
        const struct plan_location to =
            stores && !exporter->options->in_place ? of->destination : spare(exporter, unfolding);
        local_atom(exporter, unfolding, MSCCL_COPY, unfolding->sum, to);
        local_atom(exporter, unfolding, MSCCL_REDUCE, place, to);
        unfolding->sum = to;
    }
}

static void unfold(struct exporter *exporter, uint32_t step)
{
    const struct wiring *w = &exporter->wiring;
    const struct rank_plan *rank_plan = exporter->rank_plan;
    const struct plan_step *of = &rank_plan->steps[step];
    const uint32_t all = w->first_steps[rank_plan->rank] + step;
    size_t receive = w->first_receives[all];
    const struct wiring_send *sends = &w->sends[w->first_sends[all]];
    const size_t send_count = w->first_sends[all + 1] - w->first_sends[all];
    struct unfolding unfolding = {.step = step, .of = of, .fused = WIRING_NONE};
    uint32_t in, out, order[2] = {0, 1};
    const struct plan_source *sources = &rank_plan->sources[of->first_source];
    if (find_fused(exporter, rank_plan->rank, step, &in, &out) && exporter->sharing_out[in] == out)
        unfolding.fused = out;
    unfolding.sends_more =
        send_count > 1 || (send_count == 1 && w->links[sends[0].link].port_count > 1);
    /* The operands of one reduction may change places: (memory, message) is what the format can
     * say. */
    if (of->source_count > 1 && sources[0].is_link && !sources[1].is_link)
        order[0] = 1, order[1] = 0;
    for (uint32_t i = 0; i < of->source_count; i++) {
        const struct plan_source *source = &sources[i < 2 && of->source_count > 1 ? order[i] : i];
        const bool is_last = i + 1 == of->source_count;
        if (source->is_link)
            add_received(exporter, &unfolding, w->receives[receive++].port, is_last);
        else
            add_local(exporter, &unfolding, source->location, is_last);
    }
    if (of->has_destination && !same_place(unfolding.sum, of->destination)) {
        local_atom(exporter, &unfolding, MSCCL_COPY, unfolding.sum, of->destination);
        unfolding.sum = of->destination;
    }
    for (size_t i = 0; i < send_count; i++) {
        const struct wiring_link *link = &w->links[sends[i].link];
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++)
            if (port != unfolding.fused)
                add_atom(exporter, step,
                         (struct atom){.type = MSCCL_SEND,
                                       .source = unfolding.sum,
                                       .in = WIRING_NONE,
                                       .out = port});
    }
}

/* ------------------------------------------------------------------------ dependencies, numbers */

/* Finds the atoms in other blocks for which this atom waits: *count of them, each once. `found` has
 * room for all. */
static void find_dependencies(const struct exporter *exporter, const struct atom *atom, int *found,
                              int *count)
{
    const struct plan_step *step = &exporter->rank_plan->steps[atom->step];
    *count = 0;
    if (atom->before != ATOM_NONE && exporter->atoms[atom->before].block != atom->block)
        found[(*count)++] = atom->before;
    for (uint32_t i = 0; atom->is_first && i < step->after_count; i++) {
        const int other = exporter->last_atoms[exporter->rank_plan->afters[step->first_after + i]];
        bool known = exporter->atoms[other].block == atom->block;
        for (int k = 0; k < *count && !known; k++) known = found[k] == other;
        if (!known) found[(*count)++] = other;
    }
}

static int *room_for_dependencies(struct exporter *exporter)
{
    int *found = calloc((size_t)exporter->rank_plan->after_count + 2, sizeof *found);
    if (found == NULL) refuse_out_of_memory(&exporter->refusal);
    return found;
}

static bool number_atoms(struct exporter *exporter)
{
    const struct msccl_profile *profile = exporter->options->profile;
    const int rank = exporter->rank_plan->rank;
    int *found = room_for_dependencies(exporter), count;
    if (found == NULL) return false;
    for (int i = 0; i < exporter->block_count; i++) {
        struct block *block = &exporter->blocks[i];
        for (int k = block->first; k != ATOM_NONE; k = exporter->atoms[k].next) {
            struct atom *atom = &exporter->atoms[k];
            find_dependencies(exporter, atom, found, &count);
            for (int d = 0; d < count; d++) exporter->atoms[found[d]].is_awaited = true;
            if (count > 1) block->step_count += count - 1;
            atom->number = block->step_count++;
            if (atom->count > (uint32_t)profile->chunks_max)
                refuse(&exporter->refusal, "rank %d: a step on %u chunks, and %s takes at most %d",
                       rank, atom->count, profile->name, profile->chunks_max);
        }
        if (block->step_count > exporter->longest.steps) {
            exporter->longest.rank = rank;
            exporter->longest.block = i;
            exporter->longest.steps = block->step_count;
        }
    }
    free(found);
    return exporter->refusal.status == TUTTI_OK;
}

static int block_channel(const struct exporter *exporter, const struct block *block)
{
    if (block->in != WIRING_NONE) return channel_of(exporter, block->in);
    return block->out != WIRING_NONE ? channel_of(exporter, block->out) : 0;
}

static bool check_channels(struct exporter *exporter)
{
    const struct msccl_profile *profile = exporter->options->profile;
    for (int channel = 0; channel < exporter->channel_count; channel++) {
        int count = 0;
        for (int i = 0; i < exporter->block_count; i++)
            count += block_channel(exporter, &exporter->blocks[i]) == channel;
        if (count > profile->channel_blocks_max)
            return refuse(&exporter->refusal,
                          "rank %d: %d thread blocks use channel %d, and %s takes at most %d",
                          exporter->rank_plan->rank, count, channel, profile->name,
                          profile->channel_blocks_max);
    }
    return true;
}

/* ------------------------------------------------------------------------------------- printing */

static void print_place(FILE *file, const char *side, const struct plan_location *place,
                        bool is_used)
{
    static const char letters[PLAN_BUFFER_COUNT] = {'i', 'o', 's'};
    if (is_used)
        fprintf(file, " %sbuf=\"%c\" %soff=\"%u\"", side, letters[place->buffer], side,
                place->first);
    else
        fprintf(file, " %sbuf=\"i\" %soff=\"-1\"", side, side);
}

static void print_dependency(struct exporter *exporter, const int *atom)
{
    if (atom == NULL)
        fprintf(exporter->file, " depid=\"-1\" deps=\"-1\"");
    else
        fprintf(exporter->file, " depid=\"%d\" deps=\"%d\"", exporter->atoms[*atom].block,
                exporter->atoms[*atom].number);
}

static void print_atom(struct exporter *exporter, const struct atom *atom, int *found)
{
    FILE *file = exporter->file;
    const struct msccl_traits *traits = &msccl_types[atom->type];
    int count;
    find_dependencies(exporter, atom, found, &count);
    for (int i = 0; i + 1 < count; i++) {
        fprintf(file,
                "      <step s=\"%d\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"i\" "
                "dstoff=\"-1\" cnt=\"0\"",
                atom->number - count + 1 + i);
        print_dependency(exporter, &found[i]);
        fputs(" hasdep=\"0\"/>\n", file);
    }
    fprintf(file, "      <step s=\"%d\" type=\"%s\"", atom->number, traits->name);
    print_place(file, "src", &atom->source, traits->reads);
    print_place(file, "dst", &atom->destination, traits->stores);
    fprintf(file, " cnt=\"%u\"", atom->count);
    print_dependency(exporter, count > 0 ? &found[count - 1] : NULL);
    fprintf(file, " hasdep=\"%d\"/>\n", atom->is_awaited);
}

static void print_rank(struct exporter *exporter, int *found)
{
    FILE *file = exporter->file;
    const struct plan_shape *shape = &exporter->plan->shape;
    const int rank = exporter->rank_plan->rank;
    fprintf(file, "  <gpu id=\"%d\" i_chunks=\"%u\" o_chunks=\"%u\" s_chunks=\"%u\">\n", rank,
            plan_chunk_count(shape, rank, PLAN_INPUT), plan_chunk_count(shape, rank, PLAN_OUTPUT),
            exporter->scratch_count);
    for (int i = 0; i < exporter->block_count; i++) {
        const struct block *block = &exporter->blocks[i];
        const int send =
            block->out != WIRING_NONE ? exporter->wiring.ports[block->out].receiver : -1;
        const int receive =
            block->in != WIRING_NONE ? wiring_source(&exporter->wiring, block->in) : -1;
        fprintf(file, "    <tb id=\"%d\" send=\"%d\" recv=\"%d\" chan=\"%d\">\n", i, send, receive,
                block_channel(exporter, block));
        for (int k = block->first; k != ATOM_NONE; k = exporter->atoms[k].next)
            print_atom(exporter, &exporter->atoms[k], found);
        fprintf(file, "    </tb>\n");
    }
    fprintf(file, "  </gpu>\n");
}

static void print_head(struct exporter *exporter)
{
    FILE *file = exporter->file;
    const struct msccl_profile *profile = exporter->options->profile;
    const struct plan_shape *shape = &exporter->plan->shape;
    const uint32_t blocks = shape->collective == COLLECTIVE_ALLREDUCE ||
                                    shape->collective == COLLECTIVE_REDUCE ||
                                    shape->collective == COLLECTIVE_BROADCAST
                                ? 1
                                : (uint32_t)shape->rank_count;
    fputs("<algo name=\"", file);
    xml_print_text(exporter->options->name, file);
    fprintf(file, ", depth %s%d", exporter->depth == 0 ? "above " : "",
            exporter->depth == 0 ? MSCCL_DEPTH_MAX : exporter->depth);
    fprintf(file,
            "\" proto=\"Simple\" nchannels=\"%d\" nchunksperloop=\"%u\" ngpus=\"%d\" coll=\"%s\" "
            "inplace=\"%d\"",
            exporter->channel_count, blocks * shape->parts, shape->rank_count,
            shape->collective == COLLECTIVE_REDUCE_SCATTER ? profile->reduce_scatter
                                                           : collective_name(shape->collective),
            exporter->options->in_place);
    if (profile->says_range)
        fprintf(file, " outofplace=\"%d\" minBytes=\"0\" maxBytes=\"1099511627776\"",
                !exporter->options->in_place);
    if (collective_is_rooted(shape->collective)) fprintf(file, " root=\"%d\"", shape->root);
    fprintf(file, ">\n");
}

/* ------------------------------------------------------------------------------------------ all */

static bool export_rank(struct exporter *exporter, int rank)
{
    const struct rank_plan *rank_plan = exporter->plan->ranks[rank];
    exporter->rank_plan = rank_plan;
    exporter->atom_count = exporter->block_count = 0;
    exporter->scratch_count = rank_plan->scratch_count;
    exporter->last_atoms = malloc(((size_t)rank_plan->step_count + 1) * sizeof(int));
    if (exporter->last_atoms == NULL) return refuse_out_of_memory(&exporter->refusal);
    for (uint32_t i = 0; i < rank_plan->step_count; i++) exporter->last_atoms[i] = ATOM_NONE;
    for (uint32_t lane = 0; lane < rank_plan->lane_count; lane++) {
        const struct plan_lane *of = &rank_plan->lanes[lane];
        exporter->lane_block = -1;
        exporter->lane_atom = ATOM_NONE;
        for (uint32_t i = 0; i < of->step_count; i++) unfold(exporter, of->first_step + i);
    }
    bool written = false;
    if (exporter->refusal.status == TUTTI_OK && number_atoms(exporter) && check_channels(exporter)) {
        int *found = room_for_dependencies(exporter);
        written = found != NULL;
        if (written) print_rank(exporter, found);
        free(found);
    }
    free(exporter->last_atoms);
    exporter->last_atoms = NULL;
    for (uint32_t i = 0; i < exporter->wiring.port_count;
         i++) /* a port has its two ends on two ranks */
        exporter->in_blocks[i] = exporter->out_blocks[i] = -1;
    return written;
}

/* The longest one, since steps are in proportion to pieces: so many of these fit. */
static bool check_steps(struct exporter *exporter)
{
    enum { PIECES_USUAL = 16 }; /* of tutti-synth */
    const struct msccl_profile *profile = exporter->options->profile;
    const int steps = exporter->longest.steps, most = profile->steps_max;
    const int pieces = PIECES_USUAL * most / (steps > 0 ? steps : 1);
    char cure[100] = "";
    if (steps <= most) return true;
    if (exporter->options->may_have_fewer_pieces && pieces > 0)
        snprintf(cure, sizeof cure,
                 "; it fits with %d %% of its pieces (tutti-synth --pieces: %d in the place of %d)",
                 100 * most / steps, pieces, PIECES_USUAL);
    return refuse(&exporter->refusal,
                  "rank %d: thread block %d has %d steps, and %s takes at most %d%s",
                  exporter->longest.rank, exporter->longest.block, steps, profile->name, most, cure);
}

static bool export_all(struct exporter *exporter)
{
    struct verify_report report;
    const enum verify_verdict verdict =
        wiring_init(&exporter->wiring, exporter->plan, NULL, &report);
    if (verdict == VERIFY_NO_MEMORY) return refuse_out_of_memory(&exporter->refusal);
    if (verdict != VERIFY_PROVEN) return refuse(&exporter->refusal, "%s", report.message);
    if (!set_up(exporter)) return false;
    pair_all(exporter);
    if (!choose_channels(exporter)) return false;
    if (msccl_depth(exporter->plan, &exporter->wiring, &exporter->depth) != TUTTI_OK)
        return refuse_out_of_memory(&exporter->refusal);
    print_head(exporter);
    for (int rank = 0; rank < exporter->plan->shape.rank_count; rank++)
        if (!export_rank(exporter, rank)) return false;
    fputs("</algo>\n", exporter->file);
    return check_steps(exporter);
}

static void tear_down(struct exporter *exporter)
{
    wiring_release(&exporter->wiring);
    free(exporter->sharing_in);
    free(exporter->sharing_out);
    free(exporter->class_of);
    free(exporter->next_in_class);
    free(exporter->channels);
    free(exporter->in_blocks);
    free(exporter->out_blocks);
    free(exporter->atoms);
    free(exporter->blocks);
}

enum tutti_status msccl_export(const struct plan *plan, const struct msccl_export_options *options,
                               FILE *file, char *message, size_t message_bytes)
{
    struct exporter exporter = {
        .plan = plan, .options = options, .refusal = {message, message_bytes, TUTTI_OK}};
    char *text = NULL;
    size_t text_bytes = 0;
    if (plan->shape.collective == COLLECTIVE_BARRIER) {
        refuse(&exporter.refusal,
               "barrier: its messages carry no chunks, and MSCCL has no such messages");
        return exporter.refusal.status;
    }
    exporter.file = open_memstream(&text, &text_bytes); /* refused plans leave the file as it was */
    if (exporter.file == NULL) {
        refuse_out_of_memory(&exporter.refusal);
        return exporter.refusal.status;
    }
    export_all(&exporter);
    tear_down(&exporter);
    if (fclose(exporter.file) != 0) refuse_out_of_memory(&exporter.refusal);
    if (exporter.refusal.status == TUTTI_OK) fwrite(text, 1, text_bytes, file);
    if (options->depth != NULL) *options->depth = exporter.depth;
    free(text);
    return exporter.refusal.status;
}
