/* Data between hosts goes over the network; with TUTTI_TRANSPORT=tcp all data does.
 *
 * An operation is over when its bytes lie in links: some of them may still wait for room in a
 * socket or for a connection, and what was sent may be lost with a connection. So the progress
 * thread knows every such communicator from its creation on: it sends what threads leave behind
 * (network_hand_over), and listens to the other ranks while nobody calls.
 */
#include <stdlib.h>
#include <string.h>

#include "base/held.h"
#include "base/status.h"
#include "health/failure.h"
#include "health/heartbeats.h"
#include "health/network.h"
#include "health/network_state.h"
#include "health/quiesce.h"
#include "os/clock.h"

enum { PASSES_A_HEARTBEAT = 8 }; /* looks whether it is time for one */

static void name_rank(void *context, int rank, char *text, size_t size)
{
    health_name_rank(((const struct network *)context)->health, rank, text, size);
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
}

/* With ranks of other hosts there is something to know of each, and to hear from it. */
static enum tutti_status know_hosts(struct network *network)
{
    const struct team *team = network->health->team;
    network->flags = calloc((size_t)team->size, sizeof *network->flags);
    network->next_ns = calloc((size_t)team->members.hosts->host_count, sizeof *network->next_ns);
    if (network->flags == NULL || network->next_ns == NULL ||
        !rank_map_init(&network->ranks, team->size))
        return out_of_memory();
    return TUTTI_OK;
}

static enum tutti_status know_ports(struct network *network, const uint16_t *ports)
{
    const size_t bytes = (size_t)network->health->team->size * sizeof *ports;
    network->ports = malloc(bytes);
    if (network->ports == NULL) return out_of_memory();
    memcpy(network->ports, ports, bytes);
    return TUTTI_OK;
}

static void locate(void *context, int rank, struct remote_location *location)
{
    const struct network *network = context;
    const struct team *team = network->health->team;
    struct discovery_entry entry;
    if (network->ports != NULL) {
        *location = (struct remote_location){0};
        net_address_parse("127.0.0.1", &location->port);
        location->port.port = network->ports[rank];
        return;
    }
    team_hosts_entry(team->members.hosts, rank, &entry);
    *location =
        (struct remote_location){.port = entry.address, .is_remote = !team_shares_host(team, rank)};
}

static enum tutti_status open_transport(struct network *network, bool only_tells)
{
    struct health *health = network->health;
    const struct team_hosts *hosts =
        only_tells || health->team->transports.over_tcp ? NULL : health->team->members.hosts;
    const struct remote_options options = {.rank = health->team->rank,
                                           .size = health->team->size,
                                           .identity = health->team->identity,
                                           .is_encrypted = health->team->settings.is_encrypted,
                                           .checks = health->team->settings.integrity !=
                                                     TUTTI_INTEGRITY_OFF,
                                           .uses_card = health->team->transports.uses_card,
                                           .only_tells = only_tells,
                                           .locates = locate,
                                           .hears = remote_hear,
                                           .names = name_rank,
                                           .context = network};
    TRY(transports_open_remote(&health->team->transports.set, &options,
                               hosts != NULL ? hosts->local_numbers : NULL,
                               hosts != NULL ? hosts->largest : 0));
    network->transport = health->team->transports.set.all;
    network->control = health->team->transports.set.control;
    return TUTTI_OK;
}

static enum tutti_status begin(struct health *health)
{
    struct network *network = calloc(1, sizeof *network);
    if (network == NULL) return out_of_memory();
    network->health = health;
    health->network = network;
    return health->team->members.hosts != NULL ? know_hosts(network) : TUTTI_OK;
}

enum tutti_status network_create(struct health *health, const uint16_t *ports)
{
    TRY(begin(health));
    if (ports != NULL) TRY(know_ports(health->network, ports));
    return open_transport(health->network, false);
}

enum tutti_status network_create_to_tell(struct health *health)
{
    TRY(begin(health));
    return open_transport(health->network, true);
}

bool network_move(struct health *health)
{
    struct network *network = health->network;
    struct transport *transport = network->transport;
    const bool has_failed = board_has_failed(health->board);
    if (has_failed) (void)health_stop_links(health);
    if (++network->passes % PASSES_A_HEARTBEAT == 0 || domain_is_last_look(&health->team->domain))
        heartbeats_progress(network, clock_now_ns());
    if (has_failed) remote_tell_failure(network);
    if (network->any_owed) remote_tell_owed(network);
    const bool moved = transport->ops->progress(transport);
    const enum tutti_status status = network->control->ops->check(network->control);
    if (status != TUTTI_OK && !has_failed)
        health_fail(health, NULL, status, health->team->rank, "%s", tutti_error_message());
    if (domain_has_output(&health->team->domain))
        domain_set_output(&health->team->domain, transport->ops->is_awaited(transport));
    return moved && !has_failed;
}

void network_read_all(struct health *health)
{
    enum { PASSES_MAX = 64 };
    for (int pass = 0; pass < PASSES_MAX; pass++)
        if (!network_progress(health)) return;
}

void network_note_output(struct health *health)
{
    const struct network *network = health->network;
    if (network == NULL) return;
    const bool is_left =
        !network->is_stopped && network->transport->ops->is_awaited(network->transport);
    domain_set_output(&health->team->domain, is_left);
}

void network_pass_output(struct health *health)
{
    network_note_output(health);
    if (domain_has_output(&health->team->domain)) progress_notify();
}

void network_free(struct health *health)
{
    struct network *network = health->network;
    if (network == NULL) return;
    health->network = NULL;
    heartbeats_free(network);
    remote_free_all(network);
    free(network->ports);
    free(network->next_ns);
    free(network);
}

void network_footprint(const struct health *health, struct tutti_footprint *sum)
{
    const struct network *network = health->network;
    if (network == NULL) return;
    const struct remote_rank *remote;
    sum->private_bytes += held(network) + held(network->ports) + held(network->next_ns) +
                          held(network->flags) + rank_map_bytes(&network->ranks);
    for (int at = 0; (remote = rank_map_next(&network->ranks, &at)) != NULL;) {
        sum->private_bytes += held(remote);
        for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++)
            sum->private_bytes += held(remote->calls[slot]);
    }
    sum->private_bytes += heartbeats_bytes(network);
}
