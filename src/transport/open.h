/* open.h - opens the transports that lead to the ranks of a communicator, and combines them into
 * one.
 *
 *     ranks of this host ── host ─────────────────────────┐
 *                                                         ├── all: opens links, and moves everything
 *     ranks of other hosts ┬ links: cards, say ───────────┤
 *                          └ tcp: links, if no others ────┘
 *                             └── control: knows those ranks, and tells them messages
 *
 * Only this module knows which transports there are; its callers know the contracts (transport.h,
 * control.h). Threads: one at a time.
 */
#ifndef TUTTI_TRANSPORT_OPEN_H
#define TUTTI_TRANSPORT_OPEN_H

#include "transport/control.h"
#include "transport/host.h"
#include "transport/remote_options.h"
#include "transport/transport.h"

/* Zeroed before it is opened, and valid from then on. */
struct transport_set {
    struct transport *all; /* leads to every rank: the host's, that to other hosts, or a router */
    /* Of ranks of other hosts, or of all; `all` moves it. NULL: the ranks share memory. */
    struct control *control;
    /* Leads to the ranks of this host under their numbers, and has their board. NULL: the
     * communicator has one rank. */
    struct transport *host;
    /* The rest is this module's own. */
    struct transport *links;  /* that carry data between hosts beside TCP; or NULL */
    struct transport *tcp;    /* connections, and links over them; NULL: there is no network */
    struct transport *router; /* NULL: one of them is enough */
    struct data_order *order; /* between links and control; NULL: TCP carries both */
    const struct remote_kind *kind; /* of links */
    bool is_over_host;              /* the router leads to ranks of this host by `host` */
};

/* Sets the fingerprint of the network card with remote memory access that this process would use:
 * it is the same on ranks whose cards can reach each other; 0: there is no card. Failures: as
 * ofi/choice.h says. */
enum tutti_status transports_find_card(uint32_t *fingerprint);

/* Makes the memory that the ranks of a host share; one of them calls this. The caller owns the
 * descriptor. */
enum tutti_status transports_create_segment(int size, size_t board_bytes, int *fd);
/* Gives the ranks of this host their board, on which they can tell why they do not come, and waits
 * for nobody. Failures leave `set` as it was: NO_MEMORY, AUTH_FAILED. */
enum tutti_status transports_open_host(struct transport_set *set,
                                       const struct host_options *options);
/* The board: shared memory for the caller's own use, zeroed at first, as long as the options
 * say. */
void *transports_board(const struct transport_set *set);
/* Blocks until all ranks of the host have come here, or until the deadline; from then on
 * transports_host_facts is valid. Failures: NO_MEMORY, INIT_TIMEOUT, PROC_FAILED, and whatever
 * patience.look returns. peers: one per rank of the host. */
enum tutti_status transports_meet_host(struct transport_set *set, const struct host_peer *peers,
                                       const struct host_patience *patience);
/* The same, and the last thing that a rank does before it opens links: if one fails before, all do.
 * *maps_heaps: ranks of other processes read and write this one's heap where it lies. */
enum tutti_status transports_begin_host(struct transport_set *set,
                                        const struct host_patience *patience, bool *maps_heaps);
void transports_host_facts(const struct transport_set *set, struct host_facts *facts);
/* Whether the process of a rank that is not visible from here has ended. host: a set's. Any
 * thread. */
bool transports_process_has_ended(const struct transport *host, int number);
/* Called after transports_meet_host. numbers: for each rank its number among the ranks of this
 * host, or -1 if it is on another host; the array stays the caller's, and must last until the set
 * is closed. NULL: the remote transport leads to ranks of this host, too. host_size_max: the number
 * of ranks of the largest host. It makes the limits of links the same on all ranks, also on a rank
 * that is alone on its host. Failures leave `set` as it was. */
enum tutti_status transports_open_remote(struct transport_set *set,
                                         const struct remote_options *options, const int *numbers,
                                         int host_size_max);
void transports_add_footprint(const struct transport_set *set, struct transport_footprint *sum);
/* is_inherited: this process got the set by fork(). A child only has descriptors of its parent's
 * connections, and to close these properly would disturb the parent. */
void transports_close(struct transport_set *set, bool is_inherited);

/* The table of paths over what was opened to other hosts; NULL: nothing was. */
const struct path_table *transports_paths_between(const struct transport_set *set);
/* The tables of paths to ranks of this host and to ranks of other hosts, as they ship: for callers
 * that need costs before anything is open. */
void transports_paths(const struct path_table **within, const struct path_table **between);

/* Links to ranks that share no memory with this one, beside control over TCP. */
struct remote_kind {
    enum tutti_status (*open)(const struct remote_options *options, struct data_order *order,
                              struct transport **transport);
    void (*close)(struct transport *transport); /* NULL is allowed */
};
/* For tests of another kind: it takes the place of TCP's links and of cards in communicators that
 * are created from now on. NULL: as before. Must not be called while there are communicators. */
void transports_replace_remote(const struct remote_kind *kind);

#endif
