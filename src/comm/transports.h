/* transports.h - the ways from this rank to the others. */
#ifndef TUTTI_COMM_TRANSPORTS_H
#define TUTTI_COMM_TRANSPORTS_H

#include <stdbool.h>

#include "transport/transport.h"

struct transports {
    struct transport *local; /* of the ranks of this host: the board, who is near whom; NULL for one */
    struct transport *router;     /* to ranks of this host and of others; NULL */
    struct transport *data;       /* one of these, or over TCP; NULL for one */
    struct comm_network *network; /* NULL: nothing goes over TCP */
    bool over_tcp;                /* all of it, also to ranks of this host */
    bool has_port;                /* has opened the process's */
    bool maps_heaps; /* ranks, all on this host, read and write each other's heaps where they lie */
    bool publishers_fence;        /* see comm_publish */
    struct heap_window **windows; /* of each local number: the first one's of a process; else NULL */
};

#endif
