/* router.h - one transport made of several: messages to a rank take the first of them that leads
 * there.
 *
 *              ┌ routes[0], local: numbers of its own, links show names ─── ranks of this host
 *   router ────┤ ...
 *              └ routes[n - 1], tcp: ranks as they are ──────────────────── all others
 *
 * Links are those of the route that leads to their peer. They show ranks, so callers do not know
 * which route a link belongs to, and a message costs what it costs there. The router itself works
 * only when links are opened, and when a thread waits. Groups are those of the routes, with their
 * members' ranks. Shared slots are those of the one route that has them: a step sends in them if all
 * of its links lead to ranks of that route.
 *
 * Invariants
 *   1. All routes share one set of signatures, that of the last route, from before the first link
 *      is opened; a link reads it from its transport when it is opened.
 *   2. A sleeping rank is woken by bytes that come on any route. If one of the routes has no
 *      descriptor, sleeps are short.
 *   3. At most one route has shared slots.
 *
 * It routes links, and nothing else: control (transport/control.h) knows ranks and tells them
 * messages. The router neither has links to ranks of several routes at once, nor closes the
 * transports that it is made of.
 *
 * The creator of a router keeps the routes, uses them for what only they can do, and closes them:
 * it frees the router first. When it has closed the last route, it calls the others no more but to
 * close them.
 *
 * Threads: as for the routes; wake and wake_all from any thread.
 */
#ifndef TUTTI_TRANSPORT_ROUTER_ROUTER_H
#define TUTTI_TRANSPORT_ROUTER_ROUTER_H

#include <stddef.h>

#include "transport/transport.h"

enum { ROUTER_ROUTES_MAX = PATH_TABLES_MAX };

struct router_route {
    struct transport *transport; /* its links show ranks (host_options.names) */
    /* For each rank its number in that transport; -1: the transport does not lead to that rank. The
     * two ranks of a pair must name the same route for each other. Stays the caller's, and must last
     * until the router is freed. NULL: the transport leads to all ranks, under their own numbers.
     * No route before a route with a group may lead to some of the group's ranks. */
    const int *numbers;
};

struct router_options {
    int rank, size;
    struct router_route routes[ROUTER_ROUTES_MAX]; /* by preference; together they lead to all */
    int route_count;
    /* A transport that leads nowhere, but moves and sleeps with the routes: the one whose
     * connections carry control beside them. NULL: none. */
    struct transport *beside;
    /* The least that links of any rank's routes can take, because limits are the same on all ranks,
     * also on a rank whose routes can take more. 0: the limits of the routes given here. */
    size_t piece_bytes_max;
    unsigned piece_count_max;
};

/* Must be called before any route has opened a link. Failures: INVALID_OPTIONS, NO_MEMORY. */
enum tutti_status router_create(const struct router_options *options, struct transport **transport);
/* NULL is allowed. Links that were opened through it must not be used any more. */
void router_free(struct transport *transport);

#endif
