#include "tests/virtual_card/card_remote.h"

#include <string.h>

#include "base/status.h"
#include "tests/virtual_card/socket_wire.h"
#include "transport/card/card.h"

enum tutti_status virtual_card_open(const struct card_options *options,
                                    const struct virtual_card_options *card, struct card_wire *wire,
                                    struct transport **transport)
{
    struct card_device *device;
    *transport = NULL;
    TRY(virtual_card_create(card, wire, &device));
    return card_create(options, device, transport);
}

static enum tutti_status card_remote_open(const struct remote_options *options,
                                          struct data_order *order, struct transport **transport)
{
    struct card_wire *wire;
    uint64_t key; /* under which the ranks of this communicator find each other's sockets */
    memcpy(&key, options->identity.bytes, sizeof key);
    const struct virtual_card_options device = {
        .rank = options->rank, .size = options->size, .seed = key + (uint64_t)options->rank};
    const struct card_options card = {.rank = options->rank, .size = options->size};
    (void)order; /* nobody greets */
    *transport = NULL;
    TRY(card_socket_wire_open(key, options->rank, options->size, &wire));
    return virtual_card_open(&card, &device, wire, transport);
}

const struct remote_kind card_remote_kind = {.open = card_remote_open, .close = card_close};
