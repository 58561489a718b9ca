#include "engine/outgoing.h"

#include <assert.h>

#include "engine/buffer.h"
#include "engine/cut_unit.h"
#include "engine/send.h"

/* Whether receivers can read all segments of a range, and each segment is worth a message. Not on a
 * multicast link: its places are free again when its slowest reader is done, so there must be a
 * place for every message of a chunk. */
static bool segments_in_reach(const struct operation *operation, const struct buffer *buffer,
                              struct link_tx *link, size_t offset, size_t bytes)
{
    if (link->peer == LINK_TO_GROUP) return false;
    const struct segment_of_buffer *first = buffer_segment(buffer, offset),
                                   *last = buffer_segment(buffer, offset + bytes - 1);
    if (bytes / (size_t)(last - first + 1) < operation->program->segment_bytes_min) return false;
    for (const struct segment_of_buffer *s = first; s <= last; s++)
        if (link->ops->reach(link, s->address, s->end - s->begin) != REACH_READ) return false;
    return true;
}

/* Whether it takes less time that the receivers of a link copy memory out than that this rank copies
 * it in. */
static bool copy_pays(const struct link_tx *link, const void *address, size_t bytes)
{
    return link->huge_pages == NULL || huge_pages_ask(link->huge_pages, address, bytes);
}

/* The path by which a step's message goes by reference over its link i, if the list allows it and
 * the receivers reach the memory; PATH_KIND_COUNT: there is none. */
static enum path_kind reference(struct operation *operation, const struct program_step *step,
                                uint32_t i, int from, size_t offset)
{
    const struct program *program = operation->program;
    const struct path_list *paths = &program->lists[program->step_tx_paths[step->first_tx + i]];
    const bool may_read = path_has(paths, PATH_READ), may_copy = path_has(paths, PATH_COPY);
    if (!may_read && !may_copy) return PATH_KIND_COUNT;
    struct link_tx *link = step_link(operation, step, i);
    const struct buffer *buffer = &operation->buffers[from];
    const size_t bytes = step->bytes;
    size_t run = bytes;
    const char *source = buffer_at(buffer, offset, &run);
    enum link_reach reach = REACH_NONE;
    if (run == bytes)
        reach = link->ops->reach(link, source, bytes);
    else if (may_read && !cut_unit_may_be(program) &&
             segments_in_reach(operation, buffer, link, offset, bytes))
        reach = REACH_READ;
    if (may_read && reach == REACH_READ) return PATH_READ;
    if (may_copy && reach == REACH_COPY && copy_pays(link, source, bytes)) return PATH_COPY;
    passed_over(operation, may_read ? PATH_READ : PATH_COPY, PASSED_OUT_OF_REACH);
    return PATH_KIND_COUNT;
}

/* The same over all links of a step; PATH_KIND_COUNT: over one of them there is none. */
static enum path_kind reference_to_all(struct operation *operation, const struct program_step *step,
                                       int buffer, size_t offset)
{
    enum path_kind path = PATH_KIND_COUNT;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        path = reference(operation, step, i, buffer, offset);
        if (path == PATH_KIND_COUNT) return path;
    }
    return path;
}

/* --------------------------------------------------------------------------- from where it lies */

/* The whole message of a step whose only source is memory. */
static struct send_from whole_source(const struct operation *operation,
                                     const struct program_step *step)
{
    const struct program_source *source = &operation->program->sources[step->first_source];
    return (struct send_from){
        .buffer = source->buffer, .offset = source->offset, .ready = step->bytes};
}

bool outgoing_share(struct operation *operation, const struct program_step *step)
{
    const struct send_from from = whole_source(operation, step);
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (step_send(operation, step, i)->active ||
            reference(operation, step, i, from.buffer, from.offset) != PATH_KIND_COUNT)
            return false;
    taken(operation, step, PATH_SHARED_SLOT);
    send_open_shared(operation, step, &from);
    return true;
}

/* Announces a step's message on its link i, by reference if that is a path. */
static void open_send(struct operation *operation, const struct program_step *step, uint32_t i,
                      const struct send_from *from)
{
    const enum path_kind path = reference(operation, step, i, from->buffer, from->offset);
    taken(operation, step, path != PATH_KIND_COUNT ? path : (enum path_kind)step->place);
    send_open(operation, step, step_tx(operation, step, i), from, path != PATH_KIND_COUNT);
}

void outgoing_send(struct operation *operation, const struct program_step *step, uint32_t i)
{
    const struct send_from from = whole_source(operation, step);
    open_send(operation, step, i, &from);
    send_push(operation, step_tx(operation, step, i));
}

void outgoing_send_input(struct operation *operation, struct run_lane *lane,
                         const struct program_step *step)
{
    const struct send_from from = whole_source(operation, step);
    if (send_is_under_way(operation, step) ||
        reference_to_all(operation, step, from.buffer, from.offset) == PATH_KIND_COUNT)
        return;
    for (uint32_t i = 0; i < step->tx_count; i++) outgoing_send(operation, step, i);
    lane_go(lane, LANE_SENT);
}

/* --------------------------------------------------------------------------------------- staged */

bool outgoing_open_staged(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step)
{
    if (lane->state == LANE_OPENED) return true;
    if (send_is_under_way(operation, step)) return false;
    const struct send_from from = {.buffer = step->destination_buffer,
                                   .offset = step->destination_offset,
                                   .done = lane->passed,
                                   .ready = lane->done};
    for (uint32_t i = 0; i < step->tx_count; i++) open_send(operation, step, i, &from);
    lane_go(lane, LANE_OPENED);
    return true;
}

/* Whether the links of a staged step have all that was stored so far, so that they can be fed
 * directly again. */
static bool catch_up(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const struct run_send *send = step_send(operation, step, i);
        if (lane->state != LANE_OPENED || send->by_reference || send->done < send->ready)
            return false;
    }
    for (uint32_t i = 0; i < step->tx_count; i++) step_send(operation, step, i)->active = false;
    operation->sends_active -= step->tx_count;
    lane_go(lane, LANE_FEEDS);
    lane->stalled = 0;
    return true;
}

/* ------------------------------------------------------------------------------- piece by piece */

/* Whether the message of one source can become the result and go on as it is. */
static bool can_forward(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, const struct piece *piece)
{
    return piece->traveller_place != NULL && piece->traveller_bytes == piece->bytes &&
           piece->bytes == piece->whole && lane->filled == 0 &&
           send_has_room(operation, step->first_tx, step->tx_count);
}

/* Reserves places in the slots of all links of the step; false when one has no room. */
static bool reserve_places(struct operation *operation, const struct program_step *step,
                           size_t bytes)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const uint32_t t = step_tx(operation, step, i);
        struct link_tx *link = operation->tx[t];
        operation->places[i] =
            link->ops->reserve(link, program_tx_bytes(operation->program, t, bytes));
        if (operation->places[i] == NULL) return false;
    }
    return true;
}

/* Takes a shared slot for all links of the step; false when there is none (yet). */
static bool take_shared(struct operation *operation, const struct program_step *step,
                        struct piece *piece)
{
    piece->place = send_reserve_shared(operation, step->first_tx, step->tx_count, piece->whole);
    return piece->place != NULL;
}

/* Takes places in the slots of all links of the step. */
static bool take_places(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, struct piece *piece)
{
    if (!reserve_places(operation, step, piece->whole)) return false;
    piece->place = (char *)operation->places[0] +
                   program_tx_bytes(operation->program, step_tx(operation, step, 0), lane->filled);
    return true;
}

static bool found(struct operation *operation, struct run_lane *lane,
                  const struct program_step *step, struct piece *piece, enum path_kind path)
{
    taken(operation, step, path);
    piece->path = path;
    lane->stalled = 0;
    return true;
}

/* Sends the message from where the step stores it. */
static bool stage(struct operation *operation, struct run_lane *lane,
                  const struct program_step *step, struct piece *piece)
{
    assert(lane->filled == 0); /* reserved places stay reserved */
    lane_go(lane, LANE_STAGED);
    lane->passed = lane->done;
    taken(operation, step, PATH_STAGE);
    outgoing_open_staged(operation, lane, step);
    piece->path = PATH_STAGE;
    return true;
}

/* A step that can store its result does not wait for its links for long: they take it later from
 * memory ("staged"). Otherwise ranks in a ring, each with a full link before it and one behind it,
 * would wait for each other. */
bool outgoing_find(struct operation *operation, struct run_lane *lane,
                   const struct program_step *step, struct piece *piece)
{
    const struct program *program = operation->program;
    const struct path_budgets *budgets = &program->paths->budgets;
    const struct path_list *paths = &program->lists[step->paths];
    if (lane_is_staged(lane) && !catch_up(operation, lane, step)) {
        outgoing_open_staged(operation, lane, step);
        piece->path = PATH_STAGE;
        return true;
    }
    bool waits = lane->done == 0 && send_is_under_way(operation, step);
    if (waits) passed_over(operation, (enum path_kind)paths->paths[0], PASSED_BUSY);
    for (unsigned w = 0; w < paths->count; w++) {
        const enum path_kind path = (enum path_kind)paths->paths[w];
        switch (path) {
        case PATH_FORWARD:
            if (waits || !can_forward(operation, lane, step, piece)) break;
            piece->place = piece->traveller_place;
            return found(operation, lane, step, piece, path);
        case PATH_READ:
        case PATH_COPY: /* where the result is stored anyway */
            if (lane->done == 0 && step->destination_buffer != PROGRAM_NONE &&
                !step_has(step, STEP_STAGES) &&
                reference_to_all(operation, step, step->destination_buffer,
                                 step->destination_offset) != PATH_KIND_COUNT)
                return stage(operation, lane, step, piece);
            break;
        case PATH_SHARED_SLOT:
            if (waits || piece->bytes != piece->whole || lane->filled != 0) break;
            if (take_shared(operation, step, piece))
                return found(operation, lane, step, piece, path);
            passed_over(operation, path, PASSED_FULL);
            if (send_waited_enough(operation, lane->stalled, budgets->for_shared_slot)) break;
            lane->stalled++;
            waits = true;
            break;
        case PATH_INLINE:
        case PATH_SLOT:
        case PATH_GROUP_SLOT:
            if (!waits && take_places(operation, lane, step, piece))
                return found(operation, lane, step, piece, path);
            break;
        case PATH_STAGE:
            passed_over(operation, (enum path_kind)step->place, PASSED_FULL);
            if (send_waited_enough(operation, ++lane->stalled, budgets->for_slot))
                return stage(operation, lane, step, piece);
            break;
        case PATH_WRITE: /* asked before, see outgoing_ask_expected */
        case PATH_DIRECT:
        case PATH_KIND_COUNT: break;
        }
    }
    return false;
}

/* --------------------------------------------------------------------------------------- placed */

/* Earlier messages must have gone, since an offer is for the next one. */
bool outgoing_ask_expected(struct operation *operation, struct run_lane *lane,
                           const struct program_step *step)
{
    lane->has_asked = true;
    if (send_is_under_way(operation, step)) {
        passed_over(operation, PATH_WRITE, PASSED_BUSY);
        return false;
    }
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        char *expected =
            link->ops->has_room(link) ? link->ops->advertised_at(link, step->bytes) : NULL;
        if (expected == NULL) {
            passed_over(operation, PATH_WRITE, PASSED_NOT_ADVERTISED);
            return false;
        }
        step_send(operation, step, i)->expected = expected;
    }
    taken(operation, step, PATH_WRITE);
    return true;
}
