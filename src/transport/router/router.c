#include "transport/router/router.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/status.h"

/* Where there is something that does not end the sleep. */
enum { SHORT_SLEEP_NS = 200000 };

struct router {
    struct transport base;
    struct transport *near; /* NULL: alone here */
    struct transport *far;
    const int *near_numbers;
    int *group_ranks; /* of all groups, one after the other */
    size_t piece_bytes_max;
    unsigned piece_count_max;
};

static struct router *router_of(struct transport *transport)
{
    return (struct router *)transport;
}

/* ------------------------------------------------------------------------------------------- opening */

static void router_limits(struct transport *transport, size_t *piece_bytes_max,
                          unsigned *piece_count_max)
{
    *piece_bytes_max = router_of(transport)->piece_bytes_max;
    *piece_count_max = router_of(transport)->piece_count_max;
}

/* The transport that leads to a peer, and what it calls that one. */
static struct transport *way_to(const struct router *router, int *peer)
{
    assert(*peer >= 0 && *peer < router->base.size && *peer != router->base.rank);
    if (router->near == NULL || router->near_numbers[*peer] < 0) return router->far;
    *peer = router->near_numbers[*peer];
    return router->near;
}

static enum tutti_status router_open_tx(struct transport *transport, int slot, int channel,
                                        int peer, size_t bytes, struct link_tx **link)
{
    struct transport *const way = way_to(router_of(transport), &peer);
    return way->ops->open_tx(way, slot, channel, peer, bytes, link);
}

static enum tutti_status router_open_rx(struct transport *transport, int slot, int channel,
                                        int peer, struct link_rx **link)
{
    struct transport *const way = way_to(router_of(transport), &peer);
    return way->ops->open_rx(way, slot, channel, peer, link);
}

/* Groups are near's, and links that share are. */
static struct transport *near_of(struct transport *transport)
{
    struct transport *const near = router_of(transport)->near;
    assert(near != NULL);
    return near;
}

static enum tutti_status router_open_multicast_tx(struct transport *transport, int slot, int channel,
                                                  int group, size_t bytes, struct link_tx **link)
{
    struct transport *const near = near_of(transport);
    return near->ops->open_multicast_tx(near, slot, channel, group, bytes, link);
}

static enum tutti_status router_open_multicast_rx(struct transport *transport, int slot, int channel,
                                                  int group, int peer, struct link_rx **link)
{
    struct transport *const near = near_of(transport);
    const int number = router_of(transport)->near_numbers[peer];
    return near->ops->open_multicast_rx(near, slot, channel, group, number, link);
}

static enum tutti_status router_open_shared_slots(struct transport *transport, int slot)
{
    struct transport *const near = near_of(transport);
    return near->ops->open_shared_slots(near, slot);
}

static void *router_reserve_shared(struct transport *transport, int slot, size_t bytes)
{
    struct transport *const near = near_of(transport);
    return near->ops->reserve_shared(near, slot, bytes);
}

static void router_send_shared(struct transport *transport, int slot, struct link_tx *const *links,
                               unsigned count, size_t bytes)
{
    struct transport *const near = near_of(transport);
    near->ops->send_shared(near, slot, links, count, bytes);
}

/* ------------------------------------------------------------------------------------------ waiting */

static bool move(struct transport *part)
{
    return part != NULL && part->ops->progress(part);
}

static bool router_progress(struct transport *transport)
{
    const struct router *router = router_of(transport);
    const bool near_moved = move(router->near);
    return move(router->far) || near_moved;
}

static void router_sleep_begin(struct transport *transport)
{
    const struct router *router = router_of(transport);
    if (router->near != NULL) router->near->ops->sleep_begin(router->near);
    router->far->ops->sleep_begin(router->far);
}

static void router_sleep_cancel(struct transport *transport)
{
    const struct router *router = router_of(transport);
    if (router->near != NULL) router->near->ops->sleep_cancel(router->near);
    router->far->ops->sleep_cancel(router->far);
}

static void router_sleep(struct transport *transport, uint64_t timeout_ns)
{
    const struct router *router = router_of(transport);
    if (router->near == NULL) {
        router->far->ops->sleep(router->far, timeout_ns);
        return;
    }
    /* poll passes over what is negative */
    struct pollfd entries[] = {{.fd = router->near->ops->descriptor(router->near), .events = POLLIN},
                               {.fd = router->far->ops->descriptor(router->far), .events = POLLIN}};
    if ((entries[0].fd < 0 || entries[1].fd < 0) && timeout_ns > SHORT_SLEEP_NS)
        timeout_ns = SHORT_SLEEP_NS;
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(entries, 2, &timeout, NULL);
    router_sleep_cancel(transport);
}

/* It is one sleeper, so one of the two is enough: the one that needs no name to ring by. */
static void router_wake(struct transport *transport)
{
    struct transport *const far = router_of(transport)->far;
    far->ops->wake(far);
}

static void router_wake_all(struct transport *transport)
{
    const struct router *router = router_of(transport);
    if (router->near != NULL) router->near->ops->wake_all(router->near);
    router->far->ops->wake_all(router->far);
}

/* ------------------------------------------------------------------------------- what is known of ranks */

static int router_corrupt_rank(const struct transport *transport)
{
    const struct router *router = (const struct router *)transport;
    const int rank = router->far->ops->corrupt_rank(router->far);
    if (rank >= 0 || router->near == NULL) return rank;
    return router->near->ops->corrupt_rank(router->near);
}

static enum tutti_status router_shortage(const struct transport *transport, uint64_t now_ns,
                                         int *peer)
{
    const struct router *router = (const struct router *)transport;
    const enum tutti_status status = router->far->ops->shortage(router->far, now_ns, peer);
    if (status != TUTTI_OK || router->near == NULL) return status;
    return router->near->ops->shortage(router->near, now_ns, peer);
}

static void router_add_footprint(const struct transport *transport, struct transport_footprint *sum)
{
    const struct router *router = (const struct router *)transport;
    sum->private_bytes += sizeof *router;
    for (int g = 0; g < transport->group_count; g++)
        sum->private_bytes += (size_t)transport->groups[g].count * sizeof *router->group_ranks;
    router->far->ops->add_footprint(router->far, sum);
    if (router->near != NULL) router->near->ops->add_footprint(router->near, sum);
}

/* ------------------------------------------------------------------------------------- what it passes on */

static struct transport *way_of(const struct transport *transport, int *peer)
{
    return way_to((const struct router *)transport, peer);
}

static enum tutti_status router_tell(struct transport *transport, int peer, const void *message,
                                     size_t bytes)
{
    struct transport *const way = way_of(transport, &peer);
    return way->peers->tell(way, peer, message, bytes);
}

static enum tutti_status router_tell_final(struct transport *transport, int peer,
                                           const void *message, size_t bytes)
{
    struct transport *const way = way_of(transport, &peer);
    return way->peers->tell_final(way, peer, message, bytes);
}

static unsigned router_unheard(const struct transport *transport, int peer)
{
    const struct transport *const way = way_of(transport, &peer);
    return way->peers->unheard(way, peer);
}

static void router_report(const struct transport *transport, int peer, struct peer_report *report)
{
    const struct transport *const way = way_of(transport, &peer);
    way->peers->report(way, peer, report);
}

static uint64_t router_answered_ns(const struct transport *transport, int peer)
{
    const struct transport *const way = way_of(transport, &peer);
    return way->peers->answered_ns(way, peer);
}

static enum peer_presence router_look(struct transport *transport, int peer, uint64_t now_ns)
{
    struct transport *const way = way_of(transport, &peer);
    return way->peers->look(way, peer, now_ns);
}

static bool router_trouble(const struct transport *transport, int peer, char text[PEERS_TROUBLE_MAX])
{
    if (peer == transport->rank) return peers_no_trouble(transport, peer, text);
    const struct transport *const way =
        peer < 0 ? ((const struct router *)transport)->far : way_of(transport, &peer);
    return way->peers->trouble(way, peer, text);
}

static enum tutti_status router_connect(struct transport *transport, int peer)
{
    struct transport *const way = way_of(transport, &peer);
    return way->peers->connect(way, peer);
}

static void router_forget(struct transport *transport, int peer)
{
    struct transport *const way = way_of(transport, &peer);
    way->peers->forget(way, peer);
}

static bool router_is_settled(const struct transport *transport, int peer)
{
    const struct transport *const way = way_of(transport, &peer);
    return way->peers->is_settled(way, peer);
}

/* What concerns all peers is the far ones' matter: near ones are told nothing and owed nothing. */
static struct transport *far_of(const struct transport *transport)
{
    return ((const struct router *)transport)->far;
}

static bool router_is_connecting(const struct transport *transport)
{
    return far_of(transport)->peers->is_connecting(far_of(transport));
}

static enum tutti_status router_check(const struct transport *transport)
{
    return far_of(transport)->peers->check(far_of(transport));
}

static bool router_is_awaited(const struct transport *transport)
{
    return far_of(transport)->peers->is_awaited(far_of(transport));
}

static bool router_finish(struct transport *transport)
{
    return far_of(transport)->peers->finish(far_of(transport));
}

static bool router_stop(struct transport *transport)
{
    const struct router *router = router_of(transport);
    const bool near_is_untouched = router->near == NULL || router->near->peers->stop(router->near);
    return router->far->peers->stop(router->far) && near_is_untouched;
}

static const struct peer_ops peers = {.tell = router_tell,
                                      .tell_final = router_tell_final,
                                      .unheard = router_unheard,
                                      .report = router_report,
                                      .answered_ns = router_answered_ns,
                                      .look = router_look,
                                      .trouble = router_trouble,
                                      .connect = router_connect,
                                      .is_connecting = router_is_connecting,
                                      .check = router_check,
                                      .forget = router_forget,
                                      .is_awaited = router_is_awaited,
                                      .finish = router_finish,
                                      .is_settled = router_is_settled,
                                      .stop = router_stop};

static const struct transport_ops ops = {.limits = router_limits,
                                         .open_tx = router_open_tx,
                                         .open_rx = router_open_rx,
                                         .open_multicast_tx = router_open_multicast_tx,
                                         .open_multicast_rx = router_open_multicast_rx,
                                         .open_shared_slots = router_open_shared_slots,
                                         .reserve_shared = router_reserve_shared,
                                         .send_shared = router_send_shared,
                                         .progress = router_progress,
                                         .sleep_begin = router_sleep_begin,
                                         .sleep_cancel = router_sleep_cancel,
                                         .sleep = router_sleep,
                                         .wake = router_wake,
                                         .descriptor = transport_no_descriptor,
                                         .wake_all = router_wake_all,
                                         .corrupt_rank = router_corrupt_rank,
                                         .shortage = router_shortage,
                                         .add_footprint = router_add_footprint};

/* ------------------------------------------------------------------------------------------ creating */

static enum tutti_status check_options(const struct router_options *options)
{
    const struct transport *const near = options->near, *const far = options->far;
    if (far == NULL || far->rank != options->rank || far->size != options->size)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: the far transport is of other ranks");
    if (far->group_count > 0)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: the far transport names a group");
    if (near == NULL) return TUTTI_OK;
    if (options->near_numbers == NULL)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: nobody is near");
    int count = 0;
    for (int r = 0; r < options->size; r++) {
        const int number = options->near_numbers[r];
        if (number >= near->size || (number == near->rank) != (r == options->rank))
            return error_set(TUTTI_INVALID_OPTIONS, "a router: rank %d cannot be number %d of %d",
                             r, number, near->size);
        count += number >= 0;
    }
    if (count != near->size)
        return error_set(TUTTI_INVALID_OPTIONS, "a router: %d ranks with numbers below %d", count,
                         near->size);
    return TUTTI_OK;
}

static void lower_limits(struct router *router, size_t piece_bytes_max, unsigned piece_count_max)
{
    if (piece_bytes_max < router->piece_bytes_max) router->piece_bytes_max = piece_bytes_max;
    if (piece_count_max < router->piece_count_max) router->piece_count_max = piece_count_max;
}

static void find_limits(struct router *router, const struct router_options *options)
{
    size_t piece_bytes_max;
    unsigned piece_count_max;
    options->far->ops->limits(options->far, &router->piece_bytes_max, &router->piece_count_max);
    if (options->near != NULL) {
        options->near->ops->limits(options->near, &piece_bytes_max, &piece_count_max);
        lower_limits(router, piece_bytes_max, piece_count_max);
    }
    lower_limits(router, options->piece_bytes_max > 0 ? options->piece_bytes_max : SIZE_MAX,
                 options->piece_count_max > 0 ? options->piece_count_max : UINT32_MAX);
}

static bool is_member(const struct transport_group *group, int number)
{
    for (int i = 0; i < group->count; i++)
        if (group->ranks[i] == number) return true;
    return false;
}

/* The members of near's groups by their ranks. */
static enum tutti_status name_groups(struct router *router)
{
    const struct transport *const near = router->near;
    size_t count = 0;
    for (int g = 0; near != NULL && g < near->group_count; g++)
        count += (size_t)near->groups[g].count;
    if (count == 0) return TUTTI_OK;
    int *next = router->group_ranks = calloc(count, sizeof *next);
    if (next == NULL) return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    for (int g = 0; g < near->group_count; g++) {
        const struct transport_group *const group = &near->groups[g];
        int found = 0;
        for (int r = 0; r < router->base.size && found < group->count; r++)
            if (is_member(group, router->near_numbers[r])) next[found++] = r;
        router->base.groups[g] = (struct transport_group){next, found};
        next += found;
    }
    router->base.group_count = near->group_count;
    return TUTTI_OK;
}

enum tutti_status router_create(const struct router_options *options, struct transport **transport)
{
    *transport = NULL;
    TRY(check_options(options));
    struct router *const router = calloc(1, sizeof *router);
    if (router == NULL) return error_set(TUTTI_NO_MEMORY, "a router: out of memory");
    router->base = (struct transport){.ops = &ops,
                                      .peers = &peers,
                                      .rank = options->rank,
                                      .size = options->size,
                                      .signatures = options->far->signatures};
    router->near = options->near;
    router->far = options->far;
    router->near_numbers = options->near_numbers;
    find_limits(router, options);
    const enum tutti_status status = name_groups(router);
    if (status != TUTTI_OK) {
        router_free(&router->base);
        return status;
    }
    if (router->near != NULL) {
        router->near->signatures = router->base.signatures;
        (void)router->near->ops->descriptor(router->near); /* from its first sleep on */
    }
    (void)router->far->ops->descriptor(router->far);
    *transport = &router->base;
    return TUTTI_OK;
}

void router_free(struct transport *transport)
{
    if (transport == NULL) return;
    free(router_of(transport)->group_ranks);
    free(router_of(transport));
}
