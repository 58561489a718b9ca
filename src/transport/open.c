#include "transport/open.h"

#include "base/status.h"
#include "transport/local/local.h"
#include "transport/local/paths.h"
#include "transport/ofi/choice.h"
#include "transport/ofi/ofi.h"
#include "transport/router/router.h"
#include "transport/tcp/endpoint.h"
#include "transport/tcp/paths.h"

static const struct remote_kind tcp = {.open = endpoint_open, .close = endpoint_close};
static const struct remote_kind card = {.open = ofi_open, .close = ofi_close};
static const struct remote_kind *replacement; /* of both, by tests */

void transports_replace_remote(const struct remote_kind *kind)
{
    replacement = kind;
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

static enum tutti_status join(struct transport_set *set, const struct remote_options *options,
                              const int *numbers, int host_size_max)
{
    struct router_options parts = {.rank = options->rank,
                                   .size = options->size,
                                   .ways = {{set->host, numbers}, {set->remote, NULL}},
                                   .way_count = 2};
    if (host_size_max > 1)
        local_limits(host_size_max, local_checks(set->host), &parts.piece_bytes_max,
                     &parts.piece_count_max);
    TRY(router_create(&parts, &set->router));
    set->all = set->router;
    return TUTTI_OK;
}

enum tutti_status transports_open_remote(struct transport_set *set,
                                         const struct remote_options *options, const int *numbers,
                                         int host_size_max)
{
    const bool opens_card = options->uses_card && !options->only_tells;
    set->remote_kind = replacement != NULL ? replacement : opens_card ? &card : &tcp;
    TRY(set->remote_kind->open(options, &set->remote));
    set->all = set->remote;
    return numbers != NULL ? join(set, options, numbers, host_size_max) : TUTTI_OK;
}

void transports_add_footprint(const struct transport_set *set, struct transport_footprint *sum)
{
    if (set->all != NULL) set->all->ops->add_footprint(set->all, sum);
    if (set->all == set->remote && set->host != NULL) /* it has the board alone */
        set->host->ops->add_footprint(set->host, sum);
}

void transports_close(struct transport_set *set, bool is_inherited)
{
    router_free(set->router);
    local_close(set->host);
    if (!is_inherited && set->remote != NULL) set->remote_kind->close(set->remote);
    *set = (struct transport_set){0};
}
