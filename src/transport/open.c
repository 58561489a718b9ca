#include "transport/open.h"

#include "base/status.h"
#include "transport/local/local.h"
#include "transport/local/paths.h"
#include "transport/ofi/choice.h"
#include "transport/ofi/ofi.h"
#include "transport/router/router.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/paths.h"

static const struct remote_kind card = {.open = ofi_open, .close = ofi_close};
static const struct remote_kind *replacement; /* of TCP's links and cards, by tests */

void transports_replace_remote(const struct remote_kind *kind)
{
    replacement = kind;
}

bool transports_process_has_ended(const struct transport *host, int number)
{
    return local_has_ended(host, number);
}

enum tutti_status transports_find_card(uint32_t *fingerprint)
{
    const struct ofi_choice *choice;
    *fingerprint = 0;
    if (replacement != NULL) return TUTTI_OK;
    TRY(ofi_choose(&choice));
    *fingerprint = choice->fingerprint;
    return TUTTI_OK;
}

void transports_paths(const struct path_table **within, const struct path_table **between)
{
    *within = local_paths(false);
    *between = tcp_paths();
}

const struct path_table *transports_paths_between(const struct transport_set *set)
{
    const struct transport *const between = set->links != NULL ? set->links : set->tcp;
    return between != NULL ? between->paths.tables[0] : NULL;
}

enum tutti_status transports_create_segment(int size, size_t board_bytes, int *fd)
{
    return local_segment_create(size, board_bytes, fd);
}

enum tutti_status transports_open_host(struct transport_set *set, const struct host_options *options)
{
    TRY(local_open(options, &set->host));
    set->all = set->host;
    return TUTTI_OK;
}

void *transports_board(const struct transport_set *set)
{
    return local_board(set->host);
}

enum tutti_status transports_meet_host(struct transport_set *set, const struct host_peer *peers,
                                       const struct host_patience *patience)
{
    return local_meet(set->host, peers, patience);
}

enum tutti_status transports_begin_host(struct transport_set *set,
                                        const struct host_patience *patience, bool *maps_heaps)
{
    TRY(local_begin(set->host, patience));
    *maps_heaps = local_maps_heaps(set->host);
    return TUTTI_OK;
}

void transports_host_facts(const struct transport_set *set, struct host_facts *facts)
{
    *facts = (struct host_facts){.order = local_order(set->host),
                                 .core_count = local_core_count(set->host),
                                 .publishers_fence = local_publishers_fence(set->host)};
}

/* Leaves the set as transports_open_host left it. */
static void close_remote(struct transport_set *set)
{
    if (set->links != NULL) set->kind->close(set->links);
    endpoint_close(set->tcp);
    data_order_free(set->order);
    set->links = set->tcp = NULL;
    set->order = NULL;
    set->control = NULL;
    set->all = set->host;
    set->is_over_host = false;
}

/* Combines what leads to ranks of this host, if numbers are given, with what leads to all. */
static enum tutti_status join(struct transport_set *set, const struct remote_options *options,
                              const int *numbers, int host_size_max)
{
    struct transport *const links = set->links != NULL ? set->links : set->tcp;
    struct router_options parts = {.rank = options->rank,
                                   .size = options->size,
                                   .beside = set->links != NULL ? set->tcp : NULL};
    set->all = links;
    if (numbers == NULL && parts.beside == NULL) return TUTTI_OK;
    set->is_over_host = numbers != NULL;
    if (numbers != NULL)
        parts.routes[parts.route_count++] = (struct router_route){set->host, numbers};
    parts.routes[parts.route_count++] = (struct router_route){links, NULL};
    if (numbers != NULL && host_size_max > 1)
        local_limits(host_size_max, local_checks(set->host), &parts.piece_bytes_max,
                     &parts.piece_count_max);
    TRY(router_create(&parts, &set->router));
    set->all = set->router;
    return TUTTI_OK;
}

/* Opens links of another kind than TCP's, if there are to be any, and what keeps control in order
 * with them. */
static enum tutti_status open_links(struct transport_set *set, const struct remote_options *options)
{
    const struct data_order_options order = {.rank = options->rank,
                                             .size = options->size,
                                             .hears = options->hears,
                                             .context = options->context};
    if (replacement == NULL && !options->uses_card) return TUTTI_OK;
    TRY(data_order_create(&order, &set->order));
    if (options->only_tells) return TUTTI_OK;
    set->kind = replacement != NULL ? replacement : &card;
    return set->kind->open(options, set->order, &set->links);
}

enum tutti_status transports_open_remote(struct transport_set *set,
                                         const struct remote_options *options, const int *numbers,
                                         int host_size_max)
{
    enum tutti_status status = open_links(set, options);
    if (status == TUTTI_OK) status = endpoint_open(options, set->order, &set->tcp);
    if (status == TUTTI_OK) {
        set->control = endpoint_control(set->tcp);
        if (set->order != NULL) data_order_join(set->order, set->links, set->control);
        status = join(set, options, numbers, host_size_max);
    }
    if (status != TUTTI_OK) close_remote(set);
    return status;
}

/* Whether the host's transport is one of those that `all` consists of. */
static bool leads_to_host(const struct transport_set *set)
{
    return set->all == set->host || set->is_over_host;
}

void transports_add_footprint(const struct transport_set *set, struct transport_footprint *sum)
{
    if (set->all != NULL) set->all->ops->add_footprint(set->all, sum);
    if (set->order != NULL) sum->private_bytes += data_order_bytes(set->order);
    if (set->host != NULL && !leads_to_host(set)) /* it has the board alone */
        set->host->ops->add_footprint(set->host, sum);
}

void transports_close(struct transport_set *set, bool is_inherited)
{
    router_free(set->router);
    local_close(set->host);
    if (!is_inherited) close_remote(set);
    *set = (struct transport_set){0};
}
