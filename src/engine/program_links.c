#include "engine/program_links.h"

#include <stdlib.h>

#include "base/status.h"

static enum tutti_status open_tx(const struct program_link *link, struct transport *transport,
                                 int slot, struct link_tx **tx)
{
    if (link->group == PROGRAM_NONE)
        return transport->ops->open_tx(transport, slot, link->channel, link->peer, link->bytes_max,
                                       tx);
    return transport->sharing->open_multicast_tx(transport, slot, link->channel, link->group,
                                                 link->bytes_max, tx);
}

static enum tutti_status open_rx(const struct program_link *link, struct transport *transport,
                                 int slot, struct link_rx **rx)
{
    if (link->group == PROGRAM_NONE)
        return transport->ops->open_rx(transport, slot, link->channel, link->peer, rx);
    return transport->sharing->open_multicast_rx(transport, slot, link->channel, link->group,
                                                 link->peer, rx);
}

/* The capabilities that all links have on which a step sends. */
static unsigned sending_capabilities(const struct program *program, const struct program_step *step,
                                     struct link_tx *const *tx)
{
    unsigned capabilities = step->tx_count > 0 ? ~0u : 0;
    for (uint32_t i = 0; i < step->tx_count; i++)
        capabilities &= tx[program->step_tx[step->first_tx + i]]->capabilities;
    return capabilities;
}

/* Binding relies on the capabilities that links have according to the tables of paths. */
static bool can_all(const struct program *program, struct link_tx *const *tx,
                    struct link_rx *const *rx)
{
    for (uint32_t s = 0; s < program->step_count; s++) {
        const struct program_step *const step = &program->steps[s];
        const unsigned sending = sending_capabilities(program, step, tx);
        const int from = program->sources[step->first_source].rx;
        const unsigned receiving = from != PROGRAM_NONE ? rx[from]->capabilities : 0;
        const struct path_list *const paths = &program->lists[step->paths];
        if ((path_has(paths, PATH_SHARED_SLOT) || path_has(paths, PATH_FORWARD)) &&
            (sending & LINK_SHARES) == 0)
            return false;
        if ((step_has(step, STEP_PLACES) && (sending & LINK_ADVERTISES) == 0) ||
            (step_has(step, STEP_EXPECTS) && (receiving & LINK_ADVERTISES) == 0) ||
            (step_has(step, STEP_PLACES_DIRECTLY) && (receiving & LINK_PLACES_DIRECTLY) == 0))
            return false;
    }
    return true;
}

/* Whether the only path for a step to send is through places of its links, and the only path for it
 * to receive is a copy. */
static bool is_small(const struct program *program, const struct program_step *step)
{
    const unsigned copied = PATH_PLACES | path_bit(PATH_FORWARD) | path_bit(PATH_STAGE);
    for (uint32_t i = 0; i < step->tx_count; i++) {
        const struct path_list *const paths =
            &program->lists[program->step_tx_paths[step->first_tx + i]];
        for (unsigned w = 0; w < paths->count; w++)
            if ((path_bit(paths->paths[w]) & copied) == 0) return false;
    }
    return step->bytes <= program->piece_bytes &&
           !step_has(step, STEP_ONLY_SENDS | STEP_STREAMS | STEP_READS_FAR | STEP_EXPECTS |
                               STEP_PLACES | STEP_PLACES_DIRECTLY | STEP_ENCODES);
}

static enum tutti_status open_all(struct program *program, struct transport *transport, int slot,
                                  struct link_tx **tx, struct link_rx **rx)
{
    for (uint32_t i = 0; i < program->tx_count; i++)
        TRY(open_tx(&program->tx_links[i], transport, slot, &tx[i]));
    for (uint32_t i = 0; i < program->rx_count; i++)
        TRY(open_rx(&program->rx_links[i], transport, slot, &rx[i]));
    if (!can_all(program, tx, rx))
        return error_set(TUTTI_INTERNAL, "links cannot do what their table of paths says");
    for (uint32_t s = 0; s < program->step_count; s++)
        step_set(&program->steps[s], STEP_IS_SMALL, is_small(program, &program->steps[s]));
    return program->shares ? transport->sharing->open_shared_slots(transport, slot) : TUTTI_OK;
}

enum tutti_status program_open_links(struct program *program, struct transport *transport, int slot)
{
    if (program->tx[slot] != NULL) return TUTTI_OK;
    struct link_tx **tx = calloc(program->tx_count + 1, sizeof(struct link_tx *));
    struct link_rx **rx = calloc(program->rx_count + 1, sizeof(struct link_rx *));
    const enum tutti_status status =
        tx != NULL && rx != NULL ? open_all(program, transport, slot, tx, rx)
                                 : error_set(TUTTI_NO_MEMORY, "opening links: out of memory");
    if (status != TUTTI_OK) {
        free(tx);
        free(rx);
        return status;
    }
    program->tx[slot] = tx;
    program->rx[slot] = rx;
    return TUTTI_OK;
}
