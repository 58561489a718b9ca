/* remote_options.h - the options of what leads to ranks which share no memory with this one: of
 * links (transport.h), and of control (control.h). */
#ifndef TUTTI_TRANSPORT_REMOTE_OPTIONS_H
#define TUTTI_TRANSPORT_REMOTE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "bootstrap/key.h"
#include "os/tcp_socket.h"
#include "tutti/tutti.h"

struct remote_location {
    struct net_address port;
    bool is_remote; /* on another host */
};

struct remote_options {
    int rank, size;
    struct rendezvous_key identity; /* the same on all ranks, and nowhere else */
    bool is_encrypted;
    bool checks;    /* what this rank sends has checksums, and its peers compare them */
    bool uses_card; /* data goes over a network card with remote memory access: all ranks have one */
    bool only_tells; /* control messages are all that this rank sends; it needs no card for that */
    /* Says where the port of a rank's process is, and whether the rank is on another host. Called
     * when links or control are opened, or first have something to do with that rank. */
    void (*locates)(void *context, int rank, struct remote_location *location);
    /* A control message has come, which is valid during the call. The function may call tell and
     * forget (control.h), and nothing else of control or links. NULL: control messages are dropped. */
    void (*hears)(void *context, int peer, const void *message, size_t bytes);
    /* Writes the name of a rank for the log. */
    void (*names)(void *context, int rank, char *text, size_t size);
    void *context;
};

#endif
