/* router.h - one transport made of several: each rank is reached by the first of them that leads there.
 *
 *              ┌ ways[0], local: numbers of its own, links show names ─── ranks of this host
 *   router ────┤ ...
 *              └ ways[n - 1], tcp: ranks as they are ──────────────────── all others
 *
 * Links are those of the ways, opened where their peer is: they show ranks, and nothing above knows whose they are. So a message costs
 * what it costs there; the router itself works only where links are opened, and where somebody waits.
 * Groups are those of the ways, with their members' ranks. Shared slots are those of the one way that has them: what a step sends goes in
 * them where all of its links lead to ranks of that way.
 *
 * Invariants
 *   1. All ways have one set of signatures, the last one's, from before the first link is opened; links read it from their transport when
 *      they are opened.
 *   2. A sleeping rank is woken by what comes on any way. Where one of them has no descriptor, sleeps are short.
 *   3. At most one way has shared slots.
 *
 * What it does not do: links to ranks of several ways at once; closing what it is made of.
 *
 * Whoever creates it keeps the ways, uses them for what only they can do, and closes them: the router is freed first, and the last way is
 * closed last. Threads: as for the ways; wake and wake_all from any.
 */
#ifndef TUTTI_TRANSPORT_ROUTER_ROUTER_H
#define TUTTI_TRANSPORT_ROUTER_ROUTER_H

#include <stddef.h>

#include "transport/transport.h"

enum { ROUTER_WAYS_MAX = PATH_TABLES_MAX };

struct router_way {
    struct transport *transport; /* its links show ranks (host_options.names) */
    /* Of each rank, its number there; -1: it does not lead to that rank. Both ends of a pair of ranks name the same way for each other. Stays
     * the caller's until the router is freed. NULL: it leads to all, under their ranks. Before a way with a group there is none that leads to
     * some of the group's ranks. */
    const int *numbers;
};

struct router_options {
    int rank, size;
    struct router_way
        ways[ROUTER_WAYS_MAX]; /* the first that leads to a rank is taken; all together lead to all */
    int way_count;
    /* The least that links of other ranks' ways can take, because limits are the same on all ranks, also on one whose ways can take more. 0: as
     * here. */
    size_t piece_bytes_max;
    unsigned piece_count_max;
};

/* Before any way has opened a link. Failures: INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status router_create(const struct router_options *options, struct transport **transport);
/* NULL is allowed. Links that were opened through it are not used any more. */
void router_free(struct transport *transport);

#endif
