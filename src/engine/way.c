#include "engine/way.h"

#include <assert.h>

#include "engine/buffer.h"
#include "engine/send.h"

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

static bool links_reach(struct operation *operation, const struct program_step *step, int buffer,
                        size_t offset)
{
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (!goes_by_reference(operation, step, step_link(operation, step, i), buffer, offset))
            return false;
    return true;
}

/* -------------------------------------------------------------------------------- from where it lies */

/* The whole message of a step whose only source is memory. */
static struct send_from whole_source(const struct operation *operation,
                                     const struct program_step *step)
{
    const struct program_source *source = &operation->program->sources[step->first_source];
    return (struct send_from){
        .buffer = source->buffer, .offset = source->offset, .ready = step->bytes};
}

bool way_share(struct operation *operation, const struct program_step *step)
{
    if (!step->shares) return false;
    const struct send_from from = whole_source(operation, step);
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (step_send(operation, step, i)->active ||
            goes_by_reference(operation, step, step_link(operation, step, i), from.buffer,
                              from.offset))
            return false;
    send_open_shared(operation, step, &from);
    return true;
}

void way_send(struct operation *operation, const struct program_step *step, uint32_t t)
{
    const struct send_from from = whole_source(operation, step);
    send_open(operation, step, t, &from,
              goes_by_reference(operation, step, operation->tx[t], from.buffer, from.offset));
    send_push(operation, t);
}

void way_send_input(struct operation *operation, struct run_lane *lane,
                    const struct program_step *step)
{
    const struct send_from from = whole_source(operation, step);
    if (send_is_under_way(operation, step) ||
        !links_reach(operation, step, from.buffer, from.offset))
        return;
    for (uint32_t i = 0; i < step->tx_count; i++)
        way_send(operation, step, step_tx(operation, step, i));
    lane->is_sent = true;
}

/* ------------------------------------------------------------------------------------------ staged */

bool way_open_staged(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    if (lane->opened) return true;
    if (send_is_under_way(operation, step)) return false;
    const struct send_from from = {.buffer = step->destination_buffer,
                                   .offset = step->destination_offset,
                                   .done = lane->passed,
                                   .ready = lane->done};
    for (uint32_t i = 0; i < step->tx_count; i++)
        send_open(operation, step, step_tx(operation, step, i), &from,
                  goes_by_reference(operation, step, step_link(operation, step, i), from.buffer,
                                    from.offset));
    lane->opened = true;
    return true;
}

/* Whether a staged step's links have all that was stored so far: then they can be fed directly again. */
static bool catch_up(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const struct run_send *send = step_send(operation, step, i);
        if (!lane->opened || send->by_reference || send->done < send->ready) return false;
    }
    for (uint32_t i = 0; i < step->tx_count; i++) step_send(operation, step, i)->active = false;
    operation->sends_active -= step->tx_count;
    lane->is_staged = lane->opened = false;
    lane->stalled = 0;
    return true;
}

/* ------------------------------------------------------------------------------------- piece by piece */

/* Whether the message of one source can become the result and go on as it is. */
static bool can_forward(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, const struct piece *piece)
{
    return piece->traveller_place != NULL && step->forwards &&
           piece->traveller_bytes == piece->bytes && piece->bytes == piece->whole &&
           lane->filled == 0 && send_has_room(operation, step->first_tx, step->tx_count);
}

/* Places in the slots of all links of the step; false when one has no room. */
static bool reserve_places(struct operation *operation, const struct program_step *step,
                           size_t bytes)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        operation->places[i] = link->ops->reserve(link, bytes);
        if (operation->places[i] == NULL) return false;
    }
    return true;
}

/* Places in the links, or a shared slot for all of them; false when there is neither (yet). */
static bool take_places(struct operation *operation, struct run_lane *lane,
                        const struct program_step *step, struct piece *piece)
{
    if (step->shares && piece->bytes == piece->whole && lane->filled == 0) {
        piece->way = WAY_SHARED;
        piece->place = send_reserve_shared(operation, step->first_tx, step->tx_count, piece->whole);
        if (piece->place != NULL) return true;
        if (!send_waited_enough(operation, lane->stalled, SEND_SHARED_BUDGETS)) {
            lane->stalled++;
            return false;
        }
    }
    piece->way = WAY_RESERVED;
    if (!reserve_places(operation, step, piece->whole)) return false;
    piece->place = (char *)operation->places[0] + lane->filled;
    return true;
}

/* A step that can store its result does not wait for its links for long: they follow from memory ("staged"), or else ranks in a
 * ring, each with a full link before it and one behind it, would wait for each other. */
bool way_find(struct operation *operation, struct run_lane *lane, const struct program_step *step,
              struct piece *piece)
{
    const bool stores = step->destination_buffer != PROGRAM_NONE;
    if (!lane->is_staged || catch_up(operation, lane, step)) {
        const bool busy = lane->done == 0 && send_is_under_way(operation, step);
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
        if (!follows && (!stores || !send_waited_enough(operation, ++lane->stalled, 1)))
            return false;
        assert(lane->filled == 0); /* what was reserved stays so */
        lane->is_staged = true;
        lane->passed = lane->done;
    }
    way_open_staged(operation, lane, step);
    piece->way = WAY_MEMORY;
    return true;
}

/* ------------------------------------------------------------------------------------------ placed */

/* Earlier messages are out of the way, since an offer is for the next one. */
bool way_is_expected(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    lane->has_asked = true;
    if (send_is_under_way(operation, step)) return false;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        if (!link->ops->has_room(link)) return false;
        char *expected = link->ops->advertised_at(link, step->bytes);
        if (expected == NULL) return false;
        step_send(operation, step, i)->expected = expected;
    }
    return true;
}
