/* network.h - what network.c (connections) and far.c (ranks of other hosts) have in common. */
#ifndef TUTTI_COMM_NETWORK_H
#define TUTTI_COMM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "process/network.h"

/* Of a rank of another host. */
struct far_rank {
    bool is_dead, is_invited;
    int probe_fd;       /* a connection to its door that shows whether anybody listens; -1 */
    unsigned refusals;  /* in a row */
    uint64_t lost_ns;   /* since when its connections are lost; 0: they are not */
    uint64_t probed_ns; /* when last */
    uint64_t asked_ns;  /* the same of questions */
    int known_slot;     /* it said how far it was with this call */
    uint64_t known_begun;
};

struct comm_network {
    struct network_client client;
    struct tutti_comm *comm;
    struct transport *tcp;
    struct net_address *addresses; /* of the ranks' doors */
    uint8_t *wanted;      /* of each rank, a bit for each connection that nobody has gone for yet */
    uint64_t *visited_ns; /* of each rank, when last */
    bool any_wanted, is_stopped, has_told_failure;
    unsigned missing, passes; /* connections that were wanted and have not come */
    struct far_rank *far;     /* one a rank; NULL where there is one host */
};

/* far.c: what the transport heard; may only tell. */
void far_hear(void *context, int peer, const void *note, size_t bytes);
/* Tells those who are connected why the communicator failed; once. */
void far_tell_failure(struct comm_network *network);
/* The same that this rank leaves. */
void far_tell_leaving(struct comm_network *network);
void far_free(struct comm_network *network);

#endif
