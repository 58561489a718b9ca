#include "engine/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "kernel/kernel.h"

enum {
    REFERENCE_COUNT_MAX = 8, /* messages by reference that one chunk is cut into at most */
    SHARED_BUDGETS = 16, /* times the spin budget for a place of a link: a shared one saves more */
    REMOTE_PIECES = 8    /* copied out by one system call */
};

void operation_init(struct operation *operation, uint32_t spin_budget)
{
    *operation = (struct operation){.fault_peer = -1, .spin_budget = spin_budget};
}

void operation_release(struct operation *operation)
{
    free(operation->lanes);
    free(operation->sends);
    free(operation->completed);
    free(operation->views);
    free(operation->sources);
    free(operation->places);
    free(operation->targets);
    free(operation->scratch);
    operation_init(operation, operation->spin_budget);
}

static bool grow(void **memory, uint32_t *capacity, uint32_t needed, size_t element_bytes)
{
    if (needed <= *capacity) return true;
    void *grown = realloc(*memory, needed * element_bytes);
    if (grown == NULL) return false;
    *memory = grown;
    *capacity = needed;
    return true;
}

static bool make_room(struct operation *operation, const struct program *program)
{
    uint32_t place_capacity = operation->send_capacity, view_capacity = operation->source_capacity,
             target_capacity = operation->send_capacity;
    if (!grow((void **)&operation->lanes, &operation->lane_capacity, program->lane_count,
              sizeof(struct run_lane)) ||
        !grow((void **)&operation->places, &place_capacity, program->tx_count, sizeof(void *)) ||
        !grow((void **)&operation->targets, &target_capacity, program->tx_count,
              sizeof(struct link_tx *)) ||
        !grow((void **)&operation->sends, &operation->send_capacity, program->tx_count,
              sizeof(struct run_send)) ||
        !grow((void **)&operation->completed, &operation->step_capacity, program->step_count,
              sizeof(bool)) ||
        !grow((void **)&operation->views, &view_capacity, program->source_count_max, sizeof(void *)) ||
        !grow((void **)&operation->sources, &operation->source_capacity, program->source_count_max,
              sizeof(void *)))
        return false;
    if (program->scratch_bytes > operation->scratch_capacity) {
        free(operation->scratch);
        operation->scratch_capacity = 0;
        operation->scratch = aligned_alloc(64, (program->scratch_bytes + 4095) / 4096 * 4096);
        if (operation->scratch == NULL) return false;
        operation->scratch_capacity = program->scratch_bytes;
    }
    return true;
}

enum tutti_status operation_make_room(struct operation *operation, const struct program *program)
{
    if (make_room(operation, program)) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "an operation: out of memory");
}

/* Says where messages are expected, where that is in one piece. */
static void expect_messages(struct operation *operation)
{
    const struct program *program = operation->program;
    for (uint32_t i = 0; i < program->expect_count; i++) {
        const struct program_expect *expect = &program->expects[i];
        struct link_rx *link = operation->rx[expect->rx];
        size_t run = expect->bytes;
        char *destination = buffer_at(&operation->buffers[PLAN_OUTPUT], expect->offset, &run);
        if (run < expect->bytes) continue;
        link->ops->advertise(link, destination, expect->bytes);
        operation->any_advertised = true;
    }
}

enum tutti_status operation_prepare(struct operation *operation, struct program *program,
                                    struct transport *transport, int slot,
                                    const struct buffer *input, const struct buffer *output)
{
    TRY(operation_make_room(operation, program));
    operation->program = program;
    operation->transport = transport;
    operation->slot = slot;
    operation->tx = program->tx[slot];
    operation->rx = program->rx[slot];
    /* Buffers without elements may be NULL; offsets of 0 and copies of nothing still need an address. */
    char *const nowhere = (char *)operation;
    operation->buffers[PLAN_INPUT] = *input;
    operation->buffers[PLAN_OUTPUT] = *output;
    operation->buffers[PLAN_SCRATCH] = (struct buffer){.base = operation->scratch};
    for (int b = 0; b < PLAN_BUFFER_COUNT; b++)
        if (operation->buffers[b].base == NULL) operation->buffers[b].base = nowhere;
    operation->lanes_left = 0;
    operation->sends_active = 0;
    operation->any_referenced = operation->any_advertised = false;
    operation->fault_peer = -1;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        operation->lanes[l] = (struct run_lane){.step = program->lanes[l].first_step};
        operation->lanes_left += program->lanes[l].first_step < program->lanes[l].end_step;
    }
    for (uint32_t t = 0; t < program->tx_count; t++)
        operation->sends[t].active = operation->sends[t].referenced = false;
    if (program->after_count > 0)
        memset(operation->completed, 0, program->step_count * sizeof(bool));
    return TUTTI_OK;
}

void operation_open(struct operation *operation, uint64_t signature)
{
    operation->transport->signatures[operation->slot] = signature;
    if (operation->program->expect_count > 0) expect_messages(operation);
}

/* ---------------------------------------------------------------------------------- posted messages */

static inline void copy_from(const struct buffer *buffer, size_t offset, char *place, size_t bytes)
{
    while (bytes > 0) {
        size_t run = bytes;
        const char *source = buffer_at(buffer, offset, &run);
        memcpy(place, source, run);
        place += run, offset += run, bytes -= run;
    }
}

/* Collects a step's links in operation->targets; whether all of them have room. */
static bool links_have_room(struct operation *operation, uint32_t first_tx, uint32_t tx_count)
{
    for (uint32_t i = 0; i < tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[first_tx + i]];
        if (!link->ops->has_room(link)) return false;
        operation->targets[i] = link;
    }
    return true;
}

/* Whether so many looks in vain were enough. */
static bool is_over(const struct operation *operation, uint32_t looks, uint32_t times)
{
    return operation->must_not_spin || looks >= times * operation->spin_budget;
}

/* A place for all links of a step together, or NULL. */
static void *reserve_shared_slot(struct operation *operation, uint32_t first_tx, uint32_t tx_count,
                                 size_t bytes)
{
    if (!links_have_room(operation, first_tx, tx_count)) return NULL;
    return operation->transport->ops->reserve_shared(operation->transport, operation->slot, bytes);
}

/* The message of a step goes on over each of its links by itself. */
static void send_part_ways(struct operation *operation, const struct run_send *first)
{
    for (uint32_t i = 0; i < first->tx_count; i++) {
        struct run_send *send = &operation->sends[operation->program->step_tx[first->first_tx + i]];
        send->shared = false;
        send->done = first->done;
    }
}

/* One piece of a message for all links of its step. Who waits for a place in vain may be the one that holds up those
 * who have them: then each link goes its own way. */
static bool send_share(struct operation *operation, struct run_send *send)
{
    const struct program *program = operation->program;
    size_t bytes = send->total - send->done;
    if (bytes > program->piece_bytes) bytes = program->piece_bytes;
    void *place = reserve_shared_slot(operation, send->first_tx, send->tx_count, bytes);
    if (place == NULL) {
        const bool over = is_over(operation, ++send->stalled, SHARED_BUDGETS);
        if (over) send_part_ways(operation, send);
        return over; /* then it is worth another look */
    }
    copy_from(&operation->buffers[send->buffer], send->offset + send->done, place, bytes);
    operation->transport->ops->send_shared(operation->transport, operation->slot,
                                           operation->targets, send->tx_count, bytes);
    send->stalled = 0;
    send->done += bytes;
    if (send->done < send->total) return true;
    for (uint32_t i = 0; i < send->tx_count; i++)
        operation->sends[program->step_tx[send->first_tx + i]].active = false;
    operation->sends_active -= send->tx_count;
    return true;
}

/* Hands over one piece of what is ready, if there is room; true when something moved. One at a time, so that
 * lanes and sends take turns and nobody's reader starves. */
static bool send_push(struct operation *operation, uint32_t t)
{
    struct run_send *send = &operation->sends[t];
    if (send->shared) return send->tx_count > 0 && send_share(operation, send);
    struct link_tx *link = operation->tx[t];
    const struct buffer *buffer = &operation->buffers[send->buffer];
    size_t bytes = send->ready - send->done;
    if (bytes == 0 && send->total > 0) return false;
    const size_t piece = operation->program->piece_bytes;
    if (send->ready < send->total &&
        (bytes < piece || (send->by_reference && bytes < send->total / REFERENCE_COUNT_MAX)))
        return false;
    if (send->by_reference) {
        const char *source = buffer_at(buffer, send->offset + send->done, &bytes);
        if (!link->ops->post(link, source, bytes)) return false;
    } else {
        if (bytes > piece) bytes = piece;
        void *place = link->ops->reserve(link, bytes);
        if (place == NULL) return false;
        copy_from(buffer, send->offset + send->done, place, bytes);
        link->ops->commit(link, bytes);
    }
    send->done += bytes;
    if (send->done == send->total) {
        send->active = false;
        operation->sends_active--;
    }
    return true;
}

/* Whether receivers can read all segments of a range, and these are worth a message each. Not on a multicast link:
 * its places are free again when its slowest reader is done, so there must be one for every message of a chunk. */
static bool segments_in_reach(const struct buffer *buffer, struct link_tx *link, size_t offset,
                              size_t bytes)
{
    if (link->peer == LINK_TO_GROUP) return false;
    const struct segment_of_buffer *first = buffer_segment(buffer, offset),
                                   *last = buffer_segment(buffer, offset + bytes - 1);
    if (bytes / (size_t)(last - first + 1) < REACH_READ_BYTES_MIN) return false;
    for (const struct segment_of_buffer *s = first; s <= last; s++)
        if (link->ops->reach(link, s->address, s->end - s->begin) != REACH_READ) return false;
    return true;
}

/* Whether a message goes by reference: where the receivers can read it, or are going to copy it anyway. */
static bool goes_by_reference(const struct operation *operation, const struct program_step *step,
                              struct link_tx *link, int from, size_t offset)
{
    const size_t bytes = step->bytes;
    if (bytes < REACH_READ_BYTES_MIN) return false;
    const struct buffer *buffer = &operation->buffers[from];
    size_t run = bytes;
    const char *source = buffer_at(buffer, offset, &run);
    if (run < bytes) return segments_in_reach(buffer, link, offset, bytes);
    const enum link_reach reach = link->ops->reach(link, source, bytes);
    return reach == REACH_READ || (reach == REACH_COPY && step->is_copied_out);
}

/* Announces a step's message, of which `done` bytes have been handed over and `ready` are there. */
static void send_open(struct operation *operation, const struct program_step *step, uint32_t t,
                      int buffer, size_t offset, size_t done, size_t ready)
{
    struct run_send *send = &operation->sends[t];
    struct link_tx *link = operation->tx[t];
    send->buffer = buffer;
    send->offset = offset;
    send->done = done;
    send->ready = ready;
    send->total = step->bytes;
    send->active = true;
    send->shared = false;
    send->by_reference = goes_by_reference(operation, step, link, buffer, offset);
    send->referenced |= send->by_reference;
    operation->any_referenced |= send->by_reference;
    operation->sends_active++;
}

/* ------------------------------------------------------------------------------------------- steps */

static bool afters_completed(const struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!operation->completed[operation->program->afters[step->first_after + i]]) return false;
    return true;
}

/* Announces a step's message to all its links at once, if it should go in shared slots and they are ready for it. */
static bool open_shared(struct operation *operation, const struct program_step *step)
{
    const struct program *program = operation->program;
    const struct program_source *from = &program->sources[step->first_source];
    if (!step->shares) return false;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const int t = program->step_tx[step->first_tx + i];
        if (operation->sends[t].active ||
            goes_by_reference(operation, step, operation->tx[t], from->buffer, from->offset))
            return false;
    }
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const int t = program->step_tx[step->first_tx + i];
        send_open(operation, step, (uint32_t)t, from->buffer, from->offset, 0, step->bytes);
        struct run_send *send = &operation->sends[t];
        send->shared = true;
        send->stalled = 0;
        send->first_tx = step->first_tx;
        send->tx_count = i == 0 ? step->tx_count : 0;
    }
    send_push(operation, (uint32_t)program->step_tx[step->first_tx]);
    return true;
}

static enum run_result run_send_only(struct operation *operation, struct run_lane *lane,
                                     const struct program_step *step)
{
    const struct program *program = operation->program;
    const struct program_source *from = &program->sources[step->first_source];
    if (lane->target == 0 && open_shared(operation, step)) return RUN_DONE;
    for (; lane->target < step->tx_count; lane->target++) {
        const uint32_t t = (uint32_t)program->step_tx[step->first_tx + lane->target];
        if (operation->sends[t].active) return RUN_BLOCKED;
        if (step->bytes < REACH_READ_BYTES_MIN && step->bytes <= program->piece_bytes) {
            struct link_tx *link = operation->tx[t];
            void *place = link->ops->reserve(link, step->bytes);
            if (place != NULL) {
                copy_from(&operation->buffers[from->buffer], from->offset, place, step->bytes);
                link->ops->commit(link, step->bytes);
                continue;
            }
        }
        send_open(operation, step, t, from->buffer, from->offset, 0, step->bytes);
        send_push(operation, t);
    }
    return RUN_DONE;
}

static bool scales(const struct program_step *step)
{
    return step->divisor != 0 || step->factor != 0;
}

/* What arrives is stored as it is and goes nowhere else. */
static bool is_plain_receive(const struct program_step *step)
{
    return step->source_count == 1 && step->tx_count == 0 && !scales(step);
}

/* The next piece of a step. */
struct piece {
    size_t bytes, whole; /* of what is there, and of what is sent */
    void *place;         /* in which the result goes to the links, or NULL */
    enum run_way way;
    uint32_t traveller; /* WAY_IN_PLACE: the source whose message is forwarded */
    /* of the source that could be */
    void *traveller_place; /* or NULL: none */
    size_t traveller_bytes;
};

/* Collects the next piece of every source; piece->bytes is cut to what all of them have. */
static enum run_result look_at_sources(struct operation *operation, const struct run_lane *lane,
                                       const struct program_step *step, struct piece *piece)
{
    const struct program *program = operation->program;
    const size_t left = step->bytes - lane->done;
    size_t *const bytes = &piece->bytes;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct program_source *source = &program->sources[step->first_source + i];
        operation->views[i] = NULL;
        if (source->rx == PROGRAM_NONE) continue;
        struct link_rx *link = operation->rx[source->rx];
        struct link_view view;
        const enum link_state state = link->ops->peek(link, &view);
        if (state == LINK_EMPTY) return RUN_BLOCKED;
        /* Lengths are checked before anything is written. */
        if (state == LINK_FAULT || view.bytes > left || view.bytes % program->element_bytes != 0 ||
            (view.bytes == 0) != (left == 0)) {
            operation->fault_peer = link->peer;
            return RUN_FAULT;
        }
        if (view.data == NULL && !is_plain_receive(step)) {
            if (!link->ops->fetch(link)) return RUN_BLOCKED;
            link->ops->peek(link, &view);
        }
        operation->views[i] = view.data;
        if (view.place != NULL && piece->traveller_place == NULL) {
            piece->traveller = i;
            piece->traveller_place = view.place;
            piece->traveller_bytes = view.bytes;
        }
        if (view.data == NULL) *bytes = REMOTE_PIECES * program->piece_bytes;
        if (view.bytes < *bytes) *bytes = view.bytes;
    }
    return RUN_MOVED;
}

/* The piece of a step's result that is being sent: what of it has come yet lies in the slots. */
static size_t whole_piece(const struct program *program, const struct run_lane *lane,
                          const struct program_step *step)
{
    const size_t left = step->bytes - (lane->done - lane->filled);
    return left < program->piece_bytes ? left : program->piece_bytes;
}

/* Places in the slots of all links of the step; false when one has no room. */
static bool reserve_places(struct operation *operation, const struct program_step *step,
                           size_t bytes)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[step->first_tx + i]];
        operation->places[i] = link->ops->reserve(link, bytes);
        if (operation->places[i] == NULL) return false;
    }
    return true;
}

/* Whether an earlier message still waits for room in one of the step's links. */
static bool links_are_busy(const struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (operation->sends[operation->program->step_tx[step->first_tx + i]].active) return true;
    return false;
}

/* A staged step's messages: announced as soon as the earlier ones are out of the way. */
static bool open_staged(struct operation *operation, struct run_lane *lane,
                        const struct program_step *step)
{
    if (lane->opened) return true;
    if (links_are_busy(operation, step)) return false;
    for (uint32_t i = 0; i < step->tx_count; i++)
        send_open(operation, step, (uint32_t)operation->program->step_tx[step->first_tx + i],
                  step->destination_buffer, step->destination_offset, lane->passed, lane->done);
    lane->opened = true;
    return true;
}

static bool links_reach(struct operation *operation, const struct program_step *step, int buffer,
                        size_t offset)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[step->first_tx + i]];
        if (!goes_by_reference(operation, step, link, buffer, offset)) return false;
    }
    return true;
}

/* Announces input that is copied here as well, as a whole and before it is copied, where the receivers can get at it. */
static void send_input(struct operation *operation, struct run_lane *lane,
                       const struct program_step *step)
{
    const struct program *program = operation->program;
    const struct program_source *from = &program->sources[step->first_source];
    if (links_are_busy(operation, step) || !links_reach(operation, step, from->buffer, from->offset))
        return;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const uint32_t t = (uint32_t)program->step_tx[step->first_tx + i];
        send_open(operation, step, t, from->buffer, from->offset, 0, step->bytes);
        send_push(operation, t);
    }
    lane->is_sent = true;
}

/* Whether a staged step's links have all that was stored so far: then they can be fed directly again. */
static bool catch_up(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const struct run_send *send =
            &operation->sends[operation->program->step_tx[step->first_tx + i]];
        if (!lane->opened || send->by_reference || send->done < send->ready) return false;
    }
    for (uint32_t i = 0; i < step->tx_count; i++)
        operation->sends[operation->program->step_tx[step->first_tx + i]].active = false;
    operation->sends_active -= step->tx_count;
    lane->is_staged = lane->opened = false;
    lane->stalled = 0;
    return true;
}

/* Whether the message of one source can become the result and go on as it is. */
static bool can_forward(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, const struct piece *piece)
{
    return piece->traveller_place != NULL && step->forwards &&
           piece->traveller_bytes == piece->bytes && piece->bytes == piece->whole &&
           lane->filled == 0 && links_have_room(operation, step->first_tx, step->tx_count);
}

/* Places in the links, or a shared slot for all of them; false when there is neither (yet). */
static bool take_places(struct operation *operation, struct run_lane *lane,
                        const struct program_step *step, struct piece *piece)
{
    if (step->shares && piece->bytes == piece->whole && lane->filled == 0) {
        piece->way = WAY_SHARED;
        piece->place = reserve_shared_slot(operation, step->first_tx, step->tx_count, piece->whole);
        if (piece->place != NULL) return true;
        if (!is_over(operation, lane->stalled, SHARED_BUDGETS)) {
            lane->stalled++;
            return false;
        }
    }
    piece->way = WAY_RESERVED;
    if (!reserve_places(operation, step, piece->whole)) return false;
    piece->place = (char *)operation->places[0] + lane->filled;
    return true;
}

/* A way for a piece to the step's links; false when there is none. A step that can store its result does not wait for
 * its links for long: they follow from memory ("staged"), or else ranks in a ring, each with a full link before it
 * and one behind it, would wait for each other. */
static bool find_way(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step, struct piece *piece)
{
    const bool stores = step->destination_buffer != PROGRAM_NONE;
    if (!lane->is_staged || catch_up(operation, lane, step)) {
        const bool busy = lane->done == 0 && links_are_busy(operation, step);
        if (!busy && can_forward(operation, lane, step, piece)) {
            piece->way = WAY_IN_PLACE;
            piece->place = piece->traveller_place;
            lane->stalled = 0;
            return true;
        }
        const bool follows =
            lane->done == 0 && stores && !step->stages && step->bytes >= REACH_READ_BYTES_MIN &&
            links_reach(operation, step, step->destination_buffer, step->destination_offset);
        if (!busy && !follows && take_places(operation, lane, step, piece)) {
            lane->stalled = 0;
            return true;
        }
        if (!follows && (!stores || !is_over(operation, ++lane->stalled, 1))) return false;
        assert(lane->filled == 0); /* what was reserved stays so */
        lane->is_staged = true;
        lane->passed = lane->done;
    }
    open_staged(operation, lane, step);
    piece->way = WAY_MEMORY;
    return true;
}

/* --------------------------------------------------------------------------------------- placing */

/* Whether the result goes to the memory of all receivers: asked once, when all sources are there. Earlier messages are
 * out of the way, since an offer is for the next one. */
static bool is_expected(struct operation *operation, struct run_lane *lane,
                        const struct program_step *step)
{
    const struct program *program = operation->program;
    lane->has_asked = true;
    if (links_are_busy(operation, step)) return false;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const int t = program->step_tx[step->first_tx + i];
        struct link_tx *link = operation->tx[t];
        if (!link->ops->has_room(link)) return false;
        char *expected = link->ops->advertised_at(link, step->bytes);
        if (expected == NULL) return false;
        operation->sends[t].expected = expected;
    }
    return true;
}

/* The kernel of a reducing step; *call says where the result goes. */
static void reduce(const struct operation *operation, const struct program_step *step,
                   struct kernel_call *call, size_t bytes, bool streams)
{
    const struct program *program = operation->program;
    call->sources = operation->sources;
    call->source_count = step->source_count;
    call->divisor = step->divisor;
    call->factor = step->factor;
    call->count = bytes / program->element_bytes;
    call->operation = program->op;
    call->dtype = program->dtype;
    (streams ? program->kernels.reduce_stream : program->kernels.reduce)(call);
}

/* Computes a run of the result, `done` bytes into the step, for this rank and all receivers. */
static void compute_placed(struct operation *operation, const struct program_step *step,
                           char *destination, size_t done, size_t bytes)
{
    void **const places = operation->places;
    for (uint32_t i = 0; i < step->tx_count; i++)
        places[i] =
            operation->sends[operation->program->step_tx[step->first_tx + i]].expected + done;
    const unsigned first = destination == NULL;
    struct kernel_call call = {.destination = destination != NULL ? destination : places[0],
                               .others = places + first,
                               .other_count = step->tx_count - first};
    reduce(operation, step, &call, bytes, step->streams);
}

static void announce_placed(struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[step->first_tx + i]];
        link->ops->written(link, step->bytes);
    }
}

/* At the other end: whether the whole message lies where it was expected; then that is all of the step. */
static bool take_placed(struct operation *operation, const struct program_step *step)
{
    struct link_rx *link = operation->rx[operation->program->sources[step->first_source].rx];
    struct link_view view;
    size_t run = step->bytes;
    if (link->ops->peek(link, &view) != LINK_READY || view.bytes != step->bytes ||
        view.data != buffer_at(&operation->buffers[PLAN_OUTPUT], step->destination_offset, &run) ||
        run < step->bytes)
        return false;
    link->ops->consume(link, step->bytes);
    return true;
}

/* -------------------------------------------------------------------------------------- landing */

/* What has not come of the step's message may come where it belongs, if that is in one piece. */
static void let_land(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    struct link_rx *link = operation->rx[operation->program->sources[step->first_source].rx];
    const size_t left = step->bytes - lane->done;
    size_t run = left;
    lane->has_said = true;
    char *destination = buffer_at(&operation->buffers[step->destination_buffer],
                                  step->destination_offset + lane->done, &run);
    if (run == left) link->ops->place_directly(link, destination, left);
}

/* -------------------------------------------------------------------------------------- computing */

/* Past the caches only what nobody here or at the other end of a link reads soon. */
static void compute(struct operation *operation, const struct run_lane *lane,
                    const struct program_step *step, char *destination, char *place, size_t bytes)
{
    const bool streams = step->streams && !lane->is_staged;
    if (step->source_count == 1 && !scales(step)) {
        const void *source = operation->sources[0];
        if (place != NULL && place != source)
            (step->reads_far ? kernel_copy_far : kernel_copy)(place, source, bytes);
        if (destination == NULL || destination == source) return; /* in place */
        if (place != NULL) source = place;
        if (streams)
            kernel_copy_stream(destination, source, bytes);
        else
            kernel_copy(destination, source, bytes);
        return;
    }
    struct kernel_call call = {.destination = destination != NULL ? destination : place,
                               .also = destination != NULL ? place : NULL};
    reduce(operation, step, &call, bytes, streams && destination != NULL);
}

/* Computes a piece, run by run where a buffer of the step lies in several. */
static void compute_runs(struct operation *operation, const struct run_lane *lane,
                         const struct program_step *step, bool stores, char *place, size_t bytes)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    size_t done = 0;
    do {
        size_t run = bytes - done;
        char *destination = NULL;
        if (stores)
            destination = buffer_at(&operation->buffers[step->destination_buffer],
                                    step->destination_offset + lane->done + done, &run);
        for (uint32_t i = 0; i < step->source_count; i++)
            operation->sources[i] = sources[i].rx != PROGRAM_NONE
                                        ? (const char *)operation->views[i] + done
                                        : buffer_at(&operation->buffers[sources[i].buffer],
                                                    sources[i].offset + lane->done + done, &run);
        if (lane->placing)
            compute_placed(operation, step, destination, lane->done + done, run);
        else
            compute(operation, lane, step, destination, place != NULL ? place + done : NULL, run);
        done += run;
    } while (done < bytes);
}

/* What lies elsewhere is copied to where it belongs, or to where the first run of that ends. */
static bool take_run(struct operation *operation, const struct run_lane *lane,
                     const struct program_step *step, size_t *bytes)
{
    struct link_rx *link = operation->rx[operation->program->sources[step->first_source].rx];
    char *destination = buffer_at(&operation->buffers[step->destination_buffer],
                                  step->destination_offset + lane->done, bytes);
    return link->ops->take(link, destination, *bytes);
}

/* What is reserved goes when it is full. */
static void send_reserved(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step, const struct piece *piece)
{
    const bool is_full = lane->filled + piece->bytes == piece->whole;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[step->first_tx + i]];
        if (i > 0) memcpy((char *)operation->places[i] + lane->filled, piece->place, piece->bytes);
        if (is_full) link->ops->commit(link, piece->whole);
    }
    lane->filled = is_full ? 0 : lane->filled + piece->bytes;
}

static void send_staged(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, size_t bytes)
{
    for (uint32_t i = 0; lane->opened && i < step->tx_count; i++) {
        const int t = operation->program->step_tx[step->first_tx + i];
        operation->sends[t].ready += bytes;
        send_push(operation, (uint32_t)t);
    }
}

/* What is done with a piece, or a part of it, after it was computed: sent on, and given back to those it came from. */
static void pass_on(struct operation *operation, struct run_lane *lane,
                    const struct program_step *step, const struct piece *piece)
{
    const struct program_source *sources = &operation->program->sources[step->first_source];
    const bool sends = step->tx_count > 0 && !lane->placing && !lane->is_sent;
    if (lane->placing && lane->done + piece->bytes == step->bytes) announce_placed(operation, step);
    if (sends) {
        switch (piece->way) {
        case WAY_RESERVED: send_reserved(operation, lane, step, piece); break;
        case WAY_SHARED:
            operation->transport->ops->send_shared(operation->transport, operation->slot,
                                                   operation->targets, step->tx_count, piece->bytes);
            break;
        case WAY_IN_PLACE: {
            struct link_rx *link = operation->rx[sources[piece->traveller].rx];
            link->ops->forward(link, operation->targets, step->tx_count);
            break;
        }
        case WAY_MEMORY: send_staged(operation, lane, step, piece->bytes); break;
        }
    }
    const bool handed_on = sends && piece->way == WAY_IN_PLACE;
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx == PROGRAM_NONE || (handed_on && i == piece->traveller)) continue;
        struct link_rx *link = operation->rx[sources[i].rx];
        link->ops->consume(link, piece->bytes);
    }
}

/* One piece of a step. */
static enum run_result run_step(struct operation *operation, struct run_lane *lane,
                                const struct program_step *step)
{
    const struct program *program = operation->program;
    if (lane->done == 0 && step->after_count > 0 && !afters_completed(operation, step))
        return RUN_BLOCKED;
    if (step->send_only) return run_send_only(operation, lane, step);
    if (step->expects && lane->done == 0 && take_placed(operation, step)) return RUN_DONE;

    if (lane->is_staged && lane->done == step->bytes) /* all is stored, not all announced */
        return open_staged(operation, lane, step) ? RUN_DONE : RUN_BLOCKED;
    struct piece piece = {.whole = whole_piece(program, lane, step)};
    piece.bytes = piece.whole - lane->filled;
    const enum run_result look = look_at_sources(operation, lane, step, &piece);
    if (look == RUN_BLOCKED && step->places_directly && !lane->has_said)
        let_land(operation, lane, step);
    if (look != RUN_MOVED) return look;
    if (step->places && !lane->has_asked) lane->placing = is_expected(operation, lane, step);
    if (step->sends_input && lane->done == 0 && !lane->is_staged) send_input(operation, lane, step);
    if (step->tx_count > 0 && !lane->placing && !lane->is_sent &&
        !find_way(operation, lane, step, &piece))
        return RUN_BLOCKED;

    const bool stores =
        step->destination_buffer != PROGRAM_NONE && (!step->stages || lane->is_staged);
    const bool lies_elsewhere =
        program->sources[step->first_source].rx != PROGRAM_NONE && operation->views[0] == NULL;
    if (lies_elsewhere) { /* then it is a plain receive */
        if (!take_run(operation, lane, step, &piece.bytes)) return RUN_BLOCKED;
    } else {
        compute_runs(operation, lane, step, stores, piece.place, piece.bytes);
    }
    pass_on(operation, lane, step, &piece);
    lane->done += piece.bytes;
    return lane->done == step->bytes && (!lane->is_staged || lane->opened) ? RUN_DONE : RUN_MOVED;
}

static enum run_result run_lane(struct operation *operation, struct run_lane *lane,
                                uint32_t end_step)
{
    const struct program *program = operation->program;
    enum run_result result = RUN_BLOCKED;
    while (lane->step < end_step) {
        const enum run_result step_result = run_step(operation, lane, &program->steps[lane->step]);
        if (step_result == RUN_FAULT) return RUN_FAULT;
        if (step_result != RUN_DONE) return result == RUN_MOVED ? RUN_MOVED : step_result;
        if (program->after_count > 0) operation->completed[lane->step] = true;
        *lane = (struct run_lane){.step = lane->step + 1};
        result = RUN_MOVED;
        if (lane->step == end_step) operation->lanes_left--;
    }
    return result;
}

static bool references_consumed(struct operation *operation)
{
    for (uint32_t t = 0; t < operation->program->tx_count; t++)
        if (operation->sends[t].referenced && !operation->tx[t]->ops->consumed(operation->tx[t]))
            return false;
    return true;
}

enum run_result operation_run(struct operation *operation)
{
    const struct program *program = operation->program;
    if (operation->fault_peer >= 0) return RUN_FAULT;
    enum run_result result = RUN_BLOCKED;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        struct run_lane *lane = &operation->lanes[l];
        if (lane->step == program->lanes[l].end_step) continue;
        const enum run_result lane_result = run_lane(operation, lane, program->lanes[l].end_step);
        if (lane_result == RUN_FAULT) return RUN_FAULT;
        if (lane_result == RUN_MOVED) result = RUN_MOVED;
    }
    for (uint32_t t = 0; operation->sends_active > 0 && t < program->tx_count; t++)
        if (operation->sends[t].active && send_push(operation, t)) result = RUN_MOVED;
    if (operation->lanes_left > 0 || operation->sends_active > 0) return result;
    if (operation->any_referenced && !references_consumed(operation)) return result;
    return RUN_DONE;
}

int operation_waits_for(const struct operation *operation)
{
    const struct program *program = operation->program;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const struct run_lane *lane = &operation->lanes[l];
        if (lane->step == program->lanes[l].end_step) continue;
        const struct program_step *step = &program->steps[lane->step];
        for (uint32_t i = 0; i < step->source_count; i++) {
            const int rx = program->sources[step->first_source + i].rx;
            struct link_view view;
            if (rx != PROGRAM_NONE &&
                operation->rx[rx]->ops->peek(operation->rx[rx], &view) != LINK_READY)
                return operation->rx[rx]->peer;
        }
    }
    for (uint32_t t = 0; t < program->tx_count; t++)
        if ((operation->sends[t].active || operation->sends[t].referenced) &&
            !operation->tx[t]->ops->consumed(operation->tx[t]) && operation->tx[t]->peer >= 0)
            return operation->tx[t]->peer;
    return -1;
}
