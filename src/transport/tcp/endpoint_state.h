/* endpoint_state.h - the state that the parts of an endpoint share: endpoint.c, rails.c, gone.c. */
#ifndef TUTTI_TRANSPORT_TCP_ENDPOINT_STATE_H
#define TUTTI_TRANSPORT_TCP_ENDPOINT_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rank_map.h"
#include "base/status.h"
#include "connect/port.h"
#include "transport/data_order.h"
#include "transport/remote_options.h"
#include "transport/tcp/gone.h"
#include "transport/tcp/rails.h"
#include "transport/tcp/tcp.h"

/* A peer as this endpoint knows it. The entry begins when something is first sent to the peer,
 * expected from it, or comes from it. */
struct endpoint_peer {
    struct remote_location is_at;
    bool is_forgotten; /* nothing waits for it; control.h says for how long it is still sought */
    uint64_t until_ns; /* of a forgotten peer: until when; 0: no longer */
    uint8_t wanted;    /* a bit for each connection that is still to be gone for */
    uint8_t awaited;   /* the same for connections that have not come; some come twice */
    uint8_t spared;    /* the same for connections that are missing and are not sought */
    uint64_t next_ns;  /* when to go for it again at the earliest */
    uint64_t asked_ns; /* when it was first asked to connect, though nothing is to be sent to it; 0: it was not */
    struct gone gone;
};

struct endpoint {
    struct transport base;
    struct control control;
    struct transport *tcp;
    struct data_order *order; /* the caller's; NULL: all data goes over these connections */
    struct port_client client;
    unsigned stream_count; /* of a pair of ranks, here */
    struct rails *rails;   /* NULL: all goes over one card */
    bool any_wanted, is_stopped;
    bool any_forgotten;       /* and still sought */
    bool is_drowsy;           /* about to sleep: a look sees everything */
    unsigned looks;           /* and passes without one */
    unsigned missing, passes; /* missing: all that are awaited */
    uint64_t looked_ns;       /* at the port */
    uint64_t needs_look_ns;   /* when to look next whether data waits for what is missing */
    uint64_t needed_ns;       /* since when it does; 0: it does not */
    uint64_t dead_ns;         /* when to look for dead connections next */
    enum tutti_status status; /* of the last progress */
    char why[ERROR_TEXT_MAX]; /* where that is not OK: the error message */
    void (*hears)(void *context, int peer, const void *message, size_t bytes);
    void (*names)(void *context, int rank, char *text, size_t size);
    void *context;
    void (*locates)(void *context, int rank, struct remote_location *location);
    struct rank_map peers; /* of struct endpoint_peer */
};

/* The entry of a peer; NULL: there was nothing to do with the peer yet. */
static inline struct endpoint_peer *endpoint_peer_of(const struct endpoint *endpoint, int peer)
{
    return rank_map_find(&endpoint->peers, peer);
}

#endif
