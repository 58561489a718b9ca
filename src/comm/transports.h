/* transports.h - the ways from this rank to the others. */
#ifndef TUTTI_COMM_TRANSPORTS_H
#define TUTTI_COMM_TRANSPORTS_H

#include <stdbool.h>

#include "transport/open.h"

struct transports {
    struct transport_set set;
    struct comm_network
        *network;    /* what is known of ranks that control messages reach; NULL: there are none */
    bool over_tcp;   /* data goes over TCP also between ranks of this host */
    bool has_port;   /* has opened the process's */
    bool maps_heaps; /* ranks, all on this host, read and write each other's heaps where they lie */
    bool publishers_fence;        /* see comm_publish */
    struct heap_window **windows; /* of each local number: the first one's of a process; else NULL */
};

#endif
