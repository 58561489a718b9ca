#include "transport/card/card_remote.h"

#include <string.h>

#include "base/status.h"
#include "transport/card/card.h"
#include "transport/card/socket_wire.h"

static enum tutti_status card_remote_open(const struct remote_options *options,
                                          struct transport **transport)
{
    struct card_wire *wire;
    uint64_t key; /* under which the ranks of this communicator find each other's sockets */
    memcpy(&key, options->identity.bytes, sizeof key);
    const struct card_options card = {.rank = options->rank,
                                      .size = options->size,
                                      .seed = key + (uint64_t)options->rank,
                                      .hears = options->hears,
                                      .hears_context = options->context};
    *transport = NULL;
    TRY(card_socket_wire_open(key, options->rank, options->size, &wire));
    return card_create(&card, wire, transport);
}

const struct remote_kind card_remote_kind = {.open = card_remote_open, .close = card_close};
