/* local_world.h - the transports of ranks that share a segment, all in this process; and a small
 * net of them, whose segment the test sees. For tests with one thread. */
#ifndef TUTTI_TESTS_WORLDS_LOCAL_WORLD_H
#define TUTTI_TESTS_WORLDS_LOCAL_WORLD_H

#include "transport/local/local.h"
#include "transport/local/segment.h"

enum { LOCAL_WORLD_RANKS_MAX = 64 };

/* Ranks wait for each other when they open, so each does it in a thread of its own. They take each
 * other for `peer`; names and checks: as in host_options. Returns a descriptor of the segment, the
 * caller's. */
int local_world_open(int size, struct host_peer peer, const int *names, bool checks,
                     size_t board_bytes, struct transport **transports);

enum {
    LOCAL_NET_RANKS_MAX = 3,
    LOCAL_NET_SLOT = 2,
    LOCAL_NET_CHANNEL = 1,
    LOCAL_NET_SIGNATURE = 4242
};
enum { LOCAL_NET_BOARD_BYTES = 1000 };

struct local_net {
    struct transport *ranks[LOCAL_NET_RANKS_MAX];
    struct segment *segment; /* the test's own way in */
    int size;
};

struct local_net local_net_open(int size, struct host_peer peer, const int *names, bool checks);
void local_net_close(struct local_net *net);
/* peer: a rank, or LINK_TO_GROUP. */
struct link_tx *local_net_tx(struct local_net *net, int rank, int peer);
/* multicast: what the peer sends to all. */
struct link_rx *local_net_rx(struct local_net *net, int rank, int peer, bool multicast);

#endif
