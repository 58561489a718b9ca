#include "transport/router/router.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"

/* The longest sleep if there is something that does not end it. */
enum { SHORT_SLEEP_NS = 200000 };

struct router_group {
    struct transport *route;
    int number; /* there */
};

struct router {
    struct transport base;
    struct router_route routes[ROUTER_ROUTES_MAX];
    int route_count;
    struct transport *moved[ROUTER_ROUTES_MAX + 1]; /* of the routes, and the one beside them */
    int moved_count;
    struct transport *sharing; /* the route that has shared slots; or NULL */
    struct router_group groups[TRANSPORT_GROUPS_MAX];
    int *group_ranks; /* of all groups, one after the other */
    uint8_t *routes_by_rank;
    size_t piece_bytes_max;
    unsigned piece_count_max;
};

static struct router *router_of(struct transport *transport)
{
    return (struct router *)transport;
}

static const struct router *const_router_of(const struct transport *transport)
{
    return (const struct router *)transport;
}

/* -------------------------------------------------------------------------------------- opening */

static void router_limits(struct transport *transport, size_t *piece_bytes_max,
                          unsigned *piece_count_max)
{
    *piece_bytes_max = router_of(transport)->piece_bytes_max;
    *piece_count_max = router_of(transport)->piece_count_max;
}

/* A rank's number on a route, or -1. */
static int number_on(const struct router_route *route, int rank)
{
    return route->numbers == NULL ? rank : route->numbers[rank];
}

/* The transport that leads to a peer, and the peer's number in it. */
static struct transport *route_to(const struct router *router, int *peer)
{
    assert(*peer >= 0 && *peer < router->base.size && *peer != router->base.rank);
    const struct router_route *route = router->routes;
    while (number_on(route, *peer) < 0) route++;
    *peer = number_on(route, *peer);
    return route->transport;
}

static enum tutti_status router_open_tx(struct transport *transport, int slot, int channel,
                                        int peer, size_t bytes, struct link_tx **link)
{
    struct transport *const route = route_to(router_of(transport), &peer);
    return route->ops->open_tx(route, slot, channel, peer, bytes, link);
}

static enum tutti_status router_open_rx(struct transport *transport, int slot, int channel,
                                        int peer, struct link_rx **link)
{
    struct transport *const route = route_to(router_of(transport), &peer);
    return route->ops->open_rx(route, slot, channel, peer, link);
}

static enum tutti_status router_open_multicast_tx(struct transport *transport, int slot, int channel,
                                                  int group, size_t bytes, struct link_tx **link)
{
    const struct router_group *const there = &router_of(transport)->groups[group];
    return there->route->sharing->open_multicast_tx(there->route, slot, channel, there->number,
                                                    bytes, link);
}

static enum tutti_status router_open_multicast_rx(struct transport *transport, int slot, int channel,
                                                  int group, int peer, struct link_rx **link)
{
    const struct router_group *const there = &router_of(transport)->groups[group];
    struct transport *const route = route_to(router_of(transport), &peer);
    assert(route == there->route);
    return route->sharing->open_multicast_rx(route, slot, channel, there->number, peer, link);
}

/* If no route has shared slots, no link has LINK_SHARES, and these are never called. */
static struct transport *sharing_of(struct transport *transport)
{
    struct transport *const sharing = router_of(transport)->sharing;
    assert(sharing != NULL);
    return sharing;
}

static enum tutti_status router_open_shared_slots(struct transport *transport, int slot)
{
    struct transport *const sharing = sharing_of(transport);
    return sharing->sharing->open_shared_slots(sharing, slot);
}

static void *router_reserve_shared(struct transport *transport, int slot, size_t bytes)
{
    struct transport *const sharing = sharing_of(transport);
    return sharing->sharing->reserve_shared(sharing, slot, bytes);
}

static void router_send_shared(struct transport *transport, int slot, struct link_tx *const *links,
                               unsigned count, size_t bytes)
{
    struct transport *const sharing = sharing_of(transport);
    sharing->sharing->send_shared(sharing, slot, links, count, bytes);
}

/* -------------------------------------------------------------------------------------- waiting */

/* Iterates over the transports of the routes, and over all that move with them. */
#define FOR_EACH_ROUTE(router, route)                                                  \
    for (int route##_at = 0; route##_at < (router)->route_count &&                     \
                             ((route) = (router)->routes[route##_at].transport, true); \
         route##_at++)
#define FOR_EACH_MOVED(router, route)                                                         \
    for (int route##_at = 0;                                                                  \
         route##_at < (router)->moved_count && ((route) = (router)->moved[route##_at], true); \
         route##_at++)

static bool router_progress(struct transport *transport)
{
    struct transport *route;
    bool moved = false;
    FOR_EACH_MOVED(router_of(transport), route) moved |= route->ops->progress(route);
    return moved;
}

static void router_flush(struct transport *transport)
{
    struct transport *route;
    FOR_EACH_MOVED(router_of(transport), route) route->ops->flush(route);
}

static bool router_is_awaited(const struct transport *transport)
{
    struct transport *route;
    FOR_EACH_MOVED(const_router_of(transport), route)
    if (route->ops->is_awaited(route)) return true;
    return false;
}

static bool router_is_settled(const struct transport *transport, int peer)
{
    const struct transport *const route = route_to(const_router_of(transport), &peer);
    return route->ops->is_settled(route, peer);
}

static bool router_stop(struct transport *transport)
{
    struct transport *route;
    bool is_untouched = true;
    FOR_EACH_MOVED(router_of(transport), route) is_untouched &= route->ops->stop(route);
    return is_untouched;
}

static void router_sleep_begin(struct transport *transport)
{
    struct transport *route;
    FOR_EACH_MOVED(router_of(transport), route) route->ops->sleep_begin(route);
}

static void router_sleep_cancel(struct transport *transport)
{
    struct transport *route;
    FOR_EACH_MOVED(router_of(transport), route) route->ops->sleep_cancel(route);
}

static void router_sleep(struct transport *transport, uint64_t timeout_ns)
{
    const struct router *router = router_of(transport);
    struct transport *route = router->moved[0];
    if (router->moved_count == 1) {
        route->ops->sleep(route, timeout_ns);
        return;
    }
    struct pollfd entries[ROUTER_ROUTES_MAX + 1];
    nfds_t count = 0;
    FOR_EACH_MOVED(router, route)
    {
        const int descriptor = route->ops->descriptor(route);
        entries[count++] = (struct pollfd){.fd = descriptor, .events = POLLIN};
        if (descriptor < 0 && timeout_ns > SHORT_SLEEP_NS) timeout_ns = SHORT_SLEEP_NS;
    }
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(entries, count, &timeout, NULL); /* passes over negative descriptors */
    router_sleep_cancel(transport);
}

/* There is one sleeper, so one of the routes is enough: the last, which needs no name to ring
 * by. */
static void router_wake(struct transport *transport)
{
    const struct router *router = router_of(transport);
    struct transport *const last = router->moved[router->moved_count - 1];
    last->ops->wake(last);
}

static void router_wake_all(struct transport *transport)
{
    struct transport *route;
    FOR_EACH_MOVED(router_of(transport), route) route->ops->wake_all(route);
}

/* ----------------------------------------------------------------------- what is known of ranks */

/* The last route is asked first, as it leads to most hosts. Routes give the ranks that links
 * show. */
static int router_corrupt_rank(const struct transport *transport)
{
    const struct router *router = const_router_of(transport);
    int rank = -1;
    for (int w = router->moved_count - 1; w >= 0 && rank < 0; w--)
        rank = router->moved[w]->ops->corrupt_rank(router->moved[w]);
    return rank;
}

static enum tutti_status router_shortage(const struct transport *transport, uint64_t now_ns,
                                         int *peer)
{
    const struct router *router = const_router_of(transport);
    for (int w = router->moved_count - 1; w >= 0; w--)
        TRY(router->moved[w]->ops->shortage(router->moved[w], now_ns, peer));
    return TUTTI_OK;
}

static void router_add_footprint(const struct transport *transport, struct transport_footprint *sum)
{
    const struct router *router = const_router_of(transport);
    struct transport *route;
    sum->private_bytes += sizeof *router + (size_t)transport->size;
    for (int g = 0; g < transport->group_count; g++)
        sum->private_bytes += (size_t)transport->groups[g].count * sizeof *router->group_ranks;
    FOR_EACH_MOVED(router, route) route->ops->add_footprint(route, sum);
}

static const struct sharing_ops sharing = {.open_multicast_tx = router_open_multicast_tx,
                                           .open_multicast_rx = router_open_multicast_rx,
                                           .open_shared_slots = router_open_shared_slots,
                                           .reserve_shared = router_reserve_shared,
                                           .send_shared = router_send_shared};

static const struct transport_ops ops = {.limits = router_limits,
                                         .open_tx = router_open_tx,
                                         .open_rx = router_open_rx,
                                         .progress = router_progress,
                                         .flush = router_flush,
                                         .is_awaited = router_is_awaited,
                                         .is_settled = router_is_settled,
                                         .stop = router_stop,
                                         .sleep_begin = router_sleep_begin,
                                         .sleep_cancel = router_sleep_cancel,
                                         .sleep = router_sleep,
                                         .wake = router_wake,
                                         .descriptor = transport_no_descriptor,
                                         .wake_all = router_wake_all,
                                         .corrupt_rank = router_corrupt_rank,
                                         .shortage = router_shortage,
                                         .add_footprint = router_add_footprint};

/* ------------------------------------------------------------------------------------- creating */

/* Each number belongs to one rank, and the transport's own number to this rank. */
static enum tutti_status check_numbers(const struct router_options *options,
                                       const struct router_route *route, bool *is_given)
{
    const struct transport *const transport = route->transport;
    for (int r = 0; r < options->size; r++) {
        const int number = number_on(route, r);
        if (number < -1 || number >= transport->size ||
            (number == transport->rank) != (r == options->rank) || (number >= 0 && is_given[number]))
            return error_set(TUTTI_INVALID_OPTIONS, "a router: rank %d cannot be number %d of %d",
                             r, number, transport->size);
        if (number >= 0) is_given[number] = true;
    }
    return TUTTI_OK;
}

static enum tutti_status check_route(const struct router_options *options,
                                     const struct router_route *route)
{
    const struct transport *const transport = route->transport;
    if (transport == NULL) return error_set(TUTTI_INVALID_OPTIONS, "a router: a route is missing");
    if (route->numbers == NULL && transport->size != options->size)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: %d ranks on a route to all %d",
                         transport->size, options->size);
    bool *const is_given = calloc((size_t)transport->size, sizeof *is_given);
    if (is_given == NULL) return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    const enum tutti_status status = check_numbers(options, route, is_given);
    free(is_given);
    return status;
}

static bool has_shared_slots(const struct transport *transport)
{
    return transport->sharing->open_shared_slots != transport_no_shared_slots;
}

static enum tutti_status check_options(const struct router_options *options)
{
    int sharing_count = 0, group_count = 0;
    if (options->route_count < 1 || options->route_count > ROUTER_ROUTES_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: %d routes; it can have 1 to %d",
                         options->route_count, ROUTER_ROUTES_MAX);
    for (int w = 0; w < options->route_count; w++) {
        TRY(check_route(options, &options->routes[w]));
        sharing_count += has_shared_slots(options->routes[w].transport);
        group_count += options->routes[w].transport->group_count;
    }
    if (sharing_count > 1)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: %d routes have shared slots",
                         sharing_count);
    if (group_count > TRANSPORT_GROUPS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: %d groups; there can be %d", group_count,
                         TRANSPORT_GROUPS_MAX);
    for (int r = 0; r < options->size; r++) {
        bool is_reached = r == options->rank;
        for (int w = 0; w < options->route_count; w++)
            is_reached |= number_on(&options->routes[w], r) >= 0;
        if (!is_reached)
            return error_set(TUTTI_INVALID_OPTIONS, "a router: no route to rank %d", r);
    }
    return TUTTI_OK;
}

static void lower_limits(struct router *router, size_t piece_bytes_max, unsigned piece_count_max)
{
    if (piece_bytes_max < router->piece_bytes_max) router->piece_bytes_max = piece_bytes_max;
    if (piece_count_max < router->piece_count_max) router->piece_count_max = piece_count_max;
}

static void find_limits(struct router *router, const struct router_options *options)
{
    struct transport *route;
    router->piece_bytes_max = options->piece_bytes_max > 0 ? options->piece_bytes_max : SIZE_MAX;
    router->piece_count_max = options->piece_count_max > 0 ? options->piece_count_max : UINT32_MAX;
    FOR_EACH_ROUTE(router, route)
    {
        size_t piece_bytes_max;
        unsigned piece_count_max;
        route->ops->limits(route, &piece_bytes_max, &piece_count_max);
        lower_limits(router, piece_bytes_max, piece_count_max);
    }
}

static bool is_member(const struct transport_group *group, int number)
{
    for (int i = 0; i < group->count; i++)
        if (group->ranks[i] == number) return true;
    return false;
}

/* Writes the ranks of a route's group behind each other, and returns how many they are. */
static int find_members(const struct router *router, const struct router_route *route,
                        const struct transport_group *group, int *ranks)
{
    int found = 0;
    for (int r = 0; r < router->base.size && found < group->count; r++)
        if (is_member(group, number_on(route, r))) ranks[found++] = r;
    return found;
}

/* All members of a route's group must name the same group, so none of them may be reached by
 * another route. */
static enum tutti_status check_group(const struct router *router, const struct router_route *route,
                                     const struct transport_group *group, const int *ranks,
                                     int count)
{
    if (count < group->count)
        return error_set(TUTTI_INVALID_OPTIONS,
                         "a router: %d of %d members of a group are not ranks",
                         group->count - count, group->count);
    for (int i = 0; i < count; i++) {
        int peer = ranks[i];
        if (peer != router->base.rank && route_to(router, &peer) != route->transport)
            return error_set(TUTTI_INVALID_OPTIONS,
                             "a router: rank %d of a group is reached by another route", ranks[i]);
    }
    return TUTTI_OK;
}

/* Makes the groups of the routes, by ranks. */
static enum tutti_status name_groups(struct router *router)
{
    struct transport *route;
    size_t count = 0;
    FOR_EACH_ROUTE(router, route)
    for (int g = 0; g < route->group_count; g++) count += (size_t)route->groups[g].count;
    if (count == 0) return TUTTI_OK;
    int *next = router->group_ranks = calloc(count, sizeof *next);
    if (next == NULL) return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    for (int w = 0; w < router->route_count; w++) {
        route = router->routes[w].transport;
        for (int g = 0; g < route->group_count; g++) {
            const int found = find_members(router, &router->routes[w], &route->groups[g], next);
            TRY(check_group(router, &router->routes[w], &route->groups[g], next, found));
            router->groups[router->base.group_count] = (struct router_group){route, g};
            router->base.groups[router->base.group_count++] = (struct transport_group){next, found};
            next += found;
        }
    }
    return TUTTI_OK;
}

/* Sets the first table of each route, and the route that leads to each rank. */
static enum tutti_status find_paths(struct router *router)
{
    const size_t size = (size_t)router->base.size;
    router->routes_by_rank = calloc(size, 1);
    if (router->routes_by_rank == NULL)
        return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    for (int w = 0; w < router->route_count; w++)
        router->base.paths.tables[w] = router->routes[w].transport->paths.tables[0];
    for (int r = 0; r < router->base.size; r++)
        while (r != router->base.rank && number_on(&router->routes[router->routes_by_rank[r]], r) < 0)
            router->routes_by_rank[r]++;
    router->base.paths.by_rank = router->routes_by_rank;
    return TUTTI_OK;
}

enum tutti_status router_create(const struct router_options *options, struct transport **transport)
{
    struct transport *route;
    *transport = NULL;
    TRY(check_options(options));
    struct router *const router = calloc(1, sizeof *router);
    if (router == NULL) return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    memcpy(router->routes, options->routes, sizeof router->routes);
    router->route_count = options->route_count;
    for (int w = 0; w < options->route_count; w++)
        router->moved[router->moved_count++] = options->routes[w].transport;
    if (options->beside != NULL) router->moved[router->moved_count++] = options->beside;
    router->base = (struct transport){
        .ops = &ops, .sharing = &sharing, .rank = options->rank, .size = options->size};
    transport_share_slots(&router->base, options->routes[options->route_count - 1].transport);
    FOR_EACH_ROUTE(router, route)
    if (has_shared_slots(route)) router->sharing = route;
    find_limits(router, options);
    enum tutti_status status = name_groups(router);
    if (status == TUTTI_OK) status = find_paths(router);
    if (status != TUTTI_OK) {
        router_free(&router->base);
        return status;
    }
    FOR_EACH_MOVED(router, route)
    {
        transport_share_slots(route, &router->base);
        (void)route->ops->descriptor(route); /* from its first sleep on */
    }
    *transport = &router->base;
    return TUTTI_OK;
}

void router_free(struct transport *transport)
{
    if (transport == NULL) return;
    free(router_of(transport)->group_ranks);
    free(router_of(transport)->routes_by_rank);
    free(router_of(transport));
}
