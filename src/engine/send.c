#include "engine/send.h"

#include <assert.h>

#include "engine/start.h"

bool send_has_room(struct operation *operation, uint32_t first_tx, uint32_t tx_count)
{
    for (uint32_t i = 0; i < tx_count; i++) {
        struct link_tx *link = operation->tx[operation->program->step_tx[first_tx + i]];
        if (!link->ops->has_room(link)) return false;
        operation->targets[i] = link;
    }
    return true;
}

bool send_is_under_way(const struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (step_send(operation, step, i)->active) return true;
    return false;
}

bool send_waited_enough(const struct operation *operation, uint32_t looks, uint32_t times)
{
    return operation->must_not_spin || looks >= times * operation->spin_budget;
}

void *send_reserve_shared(struct operation *operation, uint32_t first_tx, uint32_t tx_count,
                          size_t bytes)
{
    if (operation->shared_slot_is_taken || !send_has_room(operation, first_tx, tx_count))
        return NULL;
    return operation->transport->sharing->reserve_shared(
        operation->transport, operation->slot,
        program_tx_bytes(operation->program, (uint32_t)operation->program->step_tx[first_tx], bytes));
}

/* From now on, the message of a step goes over each of its links separately. */
static void part_paths(struct operation *operation, const struct run_send *first)
{
    for (uint32_t i = 0; i < first->tx_count; i++) {
        struct run_send *send = &operation->sends[operation->program->step_tx[first->first_tx + i]];
        send->shared = false;
        send->done = first->done;
    }
}

/* Copies the next bytes of a message to a place of its links. False: the copy has begun, and their
 * piece is in flight (computing.h). */
static bool copy_to_place(struct operation *operation, struct run_send *send, void *place,
                          const struct memory_kind *memory, size_t bytes)
{
    const struct program *program = operation->program;
    if (!program->moves_by_kernels &&
        (program->encoding == NULL ||
         (program->tx_links[send - operation->sends].encoding == NULL && !send->rounds))) {
        send_copy(&operation->buffers[send->buffer], send->offset + send->done, place, bytes);
        return true;
    }
    start_copy(operation, send, place, memory, bytes);
    return send->group == 0;
}

static bool is_in_flight(const struct operation *operation, const struct run_send *send)
{
    return operation->program->moves_by_kernels && send->computing > 0;
}

/* Sends a shared slot in which the next bytes of a message lie. */
static void send_filled(struct operation *operation, struct run_send *send, size_t bytes)
{
    const struct program *program = operation->program;
    operation->transport->sharing->send_shared(
        operation->transport, operation->slot, operation->targets, send->tx_count,
        program_tx_bytes(program, (uint32_t)program->step_tx[send->first_tx], bytes));
    send->done += bytes;
    if (send->done < send->total) return;
    for (uint32_t i = 0; i < send->tx_count; i++)
        operation->sends[program->step_tx[send->first_tx + i]].active = false;
    operation->sends_active -= send->tx_count;
}

/* The same for a piece in flight. */
static bool land_shared(struct operation *operation, struct run_send *send)
{
    if (!start_is_copied(operation, send)) return false;
    operation->shared_slot_is_taken = false;
    const bool has_room = send_has_room(operation, send->first_tx, send->tx_count);
    assert(has_room); /* it had, and nothing else was sent there */
    (void)has_room;
    const size_t bytes = send->computing;
    send->computing = 0;
    send_filled(operation, send, bytes);
    return true;
}

/* Sends one piece of a message on all links of its step. A rank that waits for a place in vain may
 * itself hold up the ranks that have the places: then each link goes its own way. */
static bool push_shared(struct operation *operation, struct run_send *send)
{
    const struct program *program = operation->program;
    if (is_in_flight(operation, send)) return land_shared(operation, send);
    size_t bytes = send->total - send->done;
    if (bytes > program->piece_bytes) bytes = program->piece_bytes;
    void *place = send_reserve_shared(operation, send->first_tx, send->tx_count, bytes);
    if (place == NULL) {
        const bool over =
            send_waited_enough(operation, ++send->stalled, program->paths->budgets.for_shared_slot);
        if (over) part_paths(operation, send);
        return over; /* then it is worth another look */
    }
    send->stalled = 0;
    if (copy_to_place(operation, send, place, operation->transport->shared_memory, bytes))
        send_filled(operation, send, bytes);
    else
        operation->shared_slot_is_taken = true;
    return true;
}

/* Sends a piece of a message through a place of its link, once the piece lies there. False: there
 * is no room, or the piece does not lie there yet. *bytes: the bytes that are ready; becomes the
 * number of bytes sent. */
static bool push_through_place(struct operation *operation, struct run_send *send,
                               struct link_tx *link, size_t *bytes)
{
    const struct program *program = operation->program;
    const uint32_t t = (uint32_t)(send - operation->sends);
    if (is_in_flight(operation, send)) {
        if (!start_is_copied(operation, send)) return false;
        *bytes = send->computing;
        send->computing = 0;
    } else {
        if (*bytes > program->piece_bytes) *bytes = program->piece_bytes;
        void *place = link->ops->reserve(link, program_tx_bytes(program, t, *bytes));
        if (place == NULL) return false;
        if (!copy_to_place(operation, send, place, link->memory, *bytes)) {
            *bytes = 0;
            return true;
        }
    }
    link->ops->commit(link, program_tx_bytes(program, t, *bytes));
    return true;
}

bool send_push(struct operation *operation, uint32_t t)
{
    struct run_send *send = &operation->sends[t];
    if (send->shared) return send->tx_count > 0 && push_shared(operation, send);
    struct link_tx *link = operation->tx[t];
    const struct buffer *buffer = &operation->buffers[send->buffer];
    size_t bytes = send->ready - send->done;
    if (bytes == 0 && send->total > 0) return false;
    const size_t piece = operation->program->piece_bytes;
    if (send->ready < send->total &&
        (bytes < piece ||
         (send->by_reference && bytes < send->total / operation->program->references_max)))
        return false;
    if (send->by_reference) {
        const char *source = buffer_at(buffer, send->offset + send->done, &bytes);
        if (!link->ops->post(link, source, bytes)) return false;
    } else if (!push_through_place(operation, send, link, &bytes)) {
        return false;
    }
    send->done += bytes;
    if (send->done == send->total) {
        send->active = false;
        operation->sends_active--;
    }
    return true;
}

void send_open(struct operation *operation, const struct program_step *step, uint32_t t,
               const struct send_from *from, bool by_reference)
{
    struct run_send *send = &operation->sends[t];
    send->buffer = from->buffer;
    send->offset = from->offset;
    send->done = from->done;
    send->ready = from->ready;
    send->total = step->bytes;
    send->active = true;
    send->shared = false;
    send->rounds = step_has(step, STEP_ROUNDS) && step_has(step, STEP_ONLY_SENDS);
    send->by_reference = by_reference;
    send->referenced |= by_reference;
    operation->any_referenced |= by_reference;
    operation->sends_active++;
}

void send_open_shared(struct operation *operation, const struct program_step *step,
                      const struct send_from *from)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        send_open(operation, step, step_tx(operation, step, i), from, false);
        struct run_send *send = step_send(operation, step, i);
        send->shared = true;
        send->stalled = 0;
        send->first_tx = step->first_tx;
        send->tx_count = i == 0 ? step->tx_count : 0;
    }
    send_push(operation, step_tx(operation, step, 0));
}
