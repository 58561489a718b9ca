/* transports.h - the paths from this rank to the others. */
#ifndef TUTTI_TEAM_TRANSPORTS_H
#define TUTTI_TEAM_TRANSPORTS_H

#include <stdbool.h>

#include "transport/open.h"

struct transports {
    struct transport_set set;
    bool over_tcp;   /* data goes over TCP also between ranks of this host */
    uint32_t fabric; /* fingerprint of the network card that this process would use; 0: none */
    bool uses_card;  /* all ranks would use the same kind, so they do */
    bool has_port;   /* has opened the process's */
    bool maps_heaps; /* ranks, all on this host, read and write each other's heaps where they lie */
    bool is_one_process;          /* all ranks are threads of this process */
    bool publishers_fence;        /* see health_publish */
    struct heap_window **windows; /* of each local number: the first one's of a process; else NULL */
};

#endif
