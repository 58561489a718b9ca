#include "engine/deliver.h"

#include <string.h>

#include "engine/send.h"

/* What is reserved goes when it is full. */
static void send_reserved(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step, const struct piece *piece)
{
    const bool is_full = lane->filled + piece->bytes == piece->whole;
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        if (i > 0) memcpy((char *)operation->places[i] + lane->filled, piece->place, piece->bytes);
        if (is_full) link->ops->commit(link, piece->whole);
    }
    lane->filled = is_full ? 0 : lane->filled + piece->bytes;
}

static void send_staged(struct operation *operation, const struct run_lane *lane,
                        const struct program_step *step, size_t bytes)
{
    for (uint32_t i = 0; lane->opened && i < step->tx_count; i++) {
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
    switch (piece->way) {
    case PATH_SHARED_SLOT:
        operation->transport->ops->send_shared(operation->transport, operation->slot,
                                               operation->targets, step->tx_count, piece->bytes);
        break;
    case PATH_FORWARD: forward(operation, step, piece); break;
    case PATH_STAGE: send_staged(operation, lane, step, piece->bytes); break;
    default: send_reserved(operation, lane, step, piece); break;
    }
}

void deliver_placed(struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->tx_count; i++) {
        struct link_tx *link = step_link(operation, step, i);
        link->ops->written(link, step->bytes);
    }
}
