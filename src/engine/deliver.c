#include "engine/deliver.h"

#include <assert.h>
#include <string.h>

#include "engine/send.h"

/* Sends reserved places when they are full. */
static void send_reserved(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step, const struct piece *piece)
{
    const bool is_full = lane->filled + piece->bytes == piece->whole;
    for (uint32_t i = 1; i < step->tx_count; i++)
        memcpy((char *)operation->places[i] + lane->filled, piece->place, piece->bytes);
    for (uint32_t i = 0; is_full && i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        link->ops->commit(link, piece->whole);
    }
    lane->filled = is_full ? 0 : lane->filled + piece->bytes;
}

static void send_staged(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, size_t bytes)
{
    for (uint32_t i = 0; lane->state == LANE_OPENED && i < step->tx_count; i++) {
        step_send(operation, step, i)->ready += bytes;
        send_push(operation, step_tx(operation, step, i));
    }
}

static void forward(struct operation *operation, const struct program_step *step,
                    const struct piece *piece)
{
    const struct program_source *source =
        &operation->program->sources[step->first_source + piece->traveller];
    struct link_rx *link = operation->rx[source->rx];
    link->ops->forward(link, operation->targets, step->tx_count);
}

void deliver_to_links(struct operation *operation, struct run_lane *lane,
                      const struct program_step *step, const struct piece *piece)
{
    switch (piece->path) {
    case PATH_SHARED_SLOT:
        operation->transport->sharing->send_shared(
            operation->transport, operation->slot, operation->targets, step->tx_count,
            program_tx_bytes(operation->program, step_tx(operation, step, 0), piece->bytes));
        break;
    case PATH_FORWARD: forward(operation, step, piece); break;
    case PATH_STAGE: send_staged(operation, lane, step, piece->bytes); break;
    default: send_reserved(operation, lane, step, piece); break;
    }
}

/* Like send_reserved, for a piece that kernels have stored in all places. The places are those in
 * which it was computed: nothing else was reserved on these links. */
static void send_computed(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step, const struct piece *piece)
{
    const bool is_full = lane->filled + piece->bytes == piece->whole;
    for (uint32_t i = 0; is_full && i < step->tx_count; i++) {
        const uint32_t t = step_tx(operation, step, i);
        struct link_tx *link = operation->tx[t];
        link->ops->commit(link, program_tx_bytes(operation->program, t, piece->whole));
    }
    lane->filled = is_full ? 0 : lane->filled + piece->bytes;
}

/* Like deliver_to_links, but other lanes have used operation->targets and places since the piece
 * got its path. */
static void send_late(struct operation *operation, struct run_lane *lane,
                      const struct program_step *step, const struct piece *piece)
{
    if (path_is_place(piece->path)) {
        send_computed(operation, lane, step, piece);
        return;
    }
    if (piece->path != PATH_STAGE) {
        const bool has_room = send_has_room(operation, step->first_tx, step->tx_count);
        assert(has_room); /* it had, and only this lane sends there */
        (void)has_room;
    }
    if (piece->path == PATH_SHARED_SLOT) operation->shared_slot_is_taken = false;
    deliver_to_links(operation, lane, step, piece);
}

/* Like deliver_back, for links that may be encoded. */
static void give_back_computed(struct operation *operation, const struct program_step *step,
                               const struct piece *piece, bool forwarded)
{
    const struct program *program = operation->program;
    const struct program_source *sources = &program->sources[step->first_source];
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx == PROGRAM_NONE || (forwarded && i == piece->traveller)) continue;
        struct link_rx *link = operation->rx[sources[i].rx];
        link->ops->consume(link, program_rx_bytes(program, (uint32_t)sources[i].rx, piece->bytes));
    }
}

void deliver_computed(struct operation *operation, struct run_lane *lane,
                      const struct program_step *step, const struct piece *piece)
{
    const bool sends = deliver_sends(lane, step);
    if (lane->state == LANE_PLACES && lane->done + piece->bytes == step->bytes)
        deliver_placed(operation, step);
    if (sends) send_late(operation, lane, step, piece);
    give_back_computed(operation, step, piece, sends && piece->path == PATH_FORWARD);
}

void deliver_placed(struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        link->ops->written(link, step->bytes);
    }
}
