/* open.h - opens the transports that lead to the ranks of a communicator, and makes one of them.
 *
 *     ranks of this host ── host ──┐
 *                                  ├── all: what links are opened on
 *     ranks of other hosts ─ remote ┘
 *
 * This is the only place that knows which transports there are; callers know the contract (transport.h, peers.h).
 * Threads: one at a time.
 */
#ifndef TUTTI_TRANSPORT_OPEN_H
#define TUTTI_TRANSPORT_OPEN_H

#include "transport/host.h"
#include "transport/remote.h"
#include "transport/transport.h"

/* Zeroed before it is opened, and valid from then on. */
struct transport_set {
    struct transport *all; /* leads to every rank; one of the others */
    struct transport *
        host; /* leads to the ranks of this host under their numbers, and has their board; NULL: the communicator has one rank */
    struct transport *remote; /* leads to ranks of other hosts, or to all; NULL: host leads to all */
    struct transport *router;              /* NULL: not both are needed */
    const struct remote_kind *remote_kind; /* of `remote` */
};

/* Fingerprint of the network card with remote memory access that this process would use, the same for ranks that can use each other's; 0:
 * none. *is_of_one_host: it leads to ranks of this host alone. Failures: as ofi/choice.h says. */
enum tutti_status transports_find_card(uint32_t *fingerprint, bool *is_of_one_host);

/* The memory that the ranks of a host share, made by one of them: its descriptor, the caller's. */
enum tutti_status transports_create_segment(int size, size_t board_bytes, int *fd);
/* Blocks until all ranks of the host have come, or the deadline. Failures leave `set` as it was: NO_MEMORY, INIT_TIMEOUT, AUTH_FAILED,
 * and whatever options.look says. */
enum tutti_status transports_open_host(struct transport_set *set,
                                       const struct host_options *options);
void transports_host_facts(const struct transport_set *set, struct host_facts *facts);
/* After the host's. numbers: of each rank of this host among those, -1 elsewhere; stays the caller's until the set is closed. NULL: the
 * remote transport leads to ranks of this host, too. host_size_max: ranks of the largest host; what links can take is then the same on
 * all ranks, also where they are alone. */
enum tutti_status transports_open_remote(struct transport_set *set,
                                         const struct remote_options *options, const int *numbers,
                                         int host_size_max);
void transports_add_footprint(const struct transport_set *set, struct transport_footprint *sum);
/* is_inherited: by fork(). Of a parent's connections a child has descriptors only, and closing them properly would disturb the parent. */
void transports_close(struct transport_set *set, bool is_inherited);

/* The tables of paths to ranks of a host, and of other hosts, as they ship: for those who know costs before anything is open. */
void transports_paths(const struct path_table **within, const struct path_table **between);

/* A way to ranks that share no memory with this one: connections, cards. */
struct remote_kind {
    enum tutti_status (*open)(const struct remote_options *options, struct transport **transport);
    void (*close)(struct transport *transport); /* NULL is allowed */
};
/* For tests of another kind: it takes TCP's and cards' place in communicators that are created from now on. NULL: as before. Not while there are
 * communicators. */
void transports_replace_remote(const struct remote_kind *kind);

#endif
