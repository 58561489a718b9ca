/* router.h - one transport made of two: ranks of this host through the near one, all others through the far one.
 *
 *              ┌ near (local): numbers of its own, links show names ─── ranks of this host
 *   router ────┤
 *              └ far (tcp): ranks as they are ───────────────────────── all others
 *
 * Links are those of the two, opened where their peer is: they show ranks, and nothing above knows whose they are. So a
 * message costs what it costs there; the router itself works only where links are opened, and where somebody waits.
 * Groups are near's, with their members' ranks: one message to the ranks of a host. Shared slots are near's, too: what a
 * step sends goes in them where all of its links lead to ranks of this host.
 *
 * Invariants
 *   1. near and far have one set of signatures, far's, from before the first link is opened.
 *   2. Who sleeps is woken by both. Where one of them has no descriptor, a sleep is a short one.
 *   3. Groups and links that share are near's alone.
 *
 * What it does not do: links to ranks of several hosts at once; closing what it is made of.
 *
 * Whoever creates it keeps near and far, uses them for what only they can do, and closes them: the router is freed first, and far
 * is closed last. Threads: as for near and far; wake and wake_all from any.
 */
#ifndef TUTTI_TRANSPORT_ROUTER_ROUTER_H
#define TUTTI_TRANSPORT_ROUTER_ROUTER_H

#include <stddef.h>

#include "transport/transport.h"

struct router_options {
    int rank, size;
    struct transport *far; /* of the same rank and size */
    /* NULL: this rank is alone on its host. Its links show ranks (host_options.names). */
    struct transport *near;
    const int *near_numbers; /* of each rank in near, -1 elsewhere; stays the caller's until the router is freed */
    /* Of the links of the near transports of all hosts, the least: what links can take is the same on all ranks, also
     * where they are alone. 0: as near's here. */
    size_t piece_bytes_max;
    unsigned piece_count_max;
};

/* Before near and far have opened a link. Failures: INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status router_create(const struct router_options *options, struct transport **transport);
/* NULL is allowed. Links that were opened through it are not used any more. */
void router_free(struct transport *transport);

#endif
