/* Data between hosts goes over the network; with TUTTI_TRANSPORT=tcp all data does.
 *
 * An operation is over when its bytes lie in links: some of them may still wait for room in a socket or for a connection, and what was
 * sent may be lost with a connection. So the progress thread knows every such communicator from its creation on: it sends what threads
 * leave behind (network_hand_over), and listens to the other ranks while nobody calls.
 */
#include <stdlib.h>

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
    const size_t size = (size_t)network->health->team->size;
    network->ranks = calloc(size, sizeof *network->ranks);
    network->next_ns = calloc(size, sizeof *network->next_ns);
    if (network->ranks == NULL || network->next_ns == NULL) return out_of_memory();
    for (size_t r = 0; r < size; r++) network->ranks[r].known_slot = -1;
    return TUTTI_OK;
}

static enum tutti_status open_transport(struct network *network,
                                        const struct net_address *addresses, bool *are_remote)
{
    struct health *health = network->health;
    const struct comm_hosts *hosts =
        health->team->transports.over_tcp ? NULL : health->team->members.hosts;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;) are_remote[r] = true;
    const struct remote_options options = {.rank = health->team->rank,
                                           .size = health->team->size,
                                           .identity = health->team->identity,
                                           .addresses = addresses,
                                           .are_remote = are_remote,
                                           .is_encrypted = health->team->settings.is_encrypted,
                                           .checks = health->team->settings.integrity !=
                                                     TUTTI_INTEGRITY_OFF,
                                           .hears = remote_hear,
                                           .names = name_rank,
                                           .context = network};
    TRY(transports_open_remote(&health->team->transports.set, &options,
                               hosts != NULL ? hosts->local_numbers : NULL,
                               hosts != NULL ? hosts->largest : 0));
    network->transport = health->team->transports.set.all;
    return TUTTI_OK;
}

enum tutti_status network_create(struct health *health, const struct net_address *addresses)
{
    struct network *network = calloc(1, sizeof *network);
    bool *are_remote = calloc((size_t)health->team->size, sizeof *are_remote);
    enum tutti_status status = TUTTI_OK;
    if (network == NULL || are_remote == NULL) status = out_of_memory();
    if (status == TUTTI_OK) {
        network->health = health;
        health->network = network;
        if (health->team->members.hosts != NULL) status = know_hosts(network);
    } else {
        free(network);
    }
    if (status == TUTTI_OK) status = open_transport(network, addresses, are_remote);
    free(are_remote);
    return status;
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
    const enum tutti_status status = transport->peers->check(transport);
    if (status != TUTTI_OK && !has_failed)
        health_fail(health, NULL, status, health->team->rank, "%s", tutti_error_message());
    if (domain_has_output(&health->team->domain))
        domain_set_output(&health->team->domain, transport->peers->is_awaited(transport));
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
        !network->is_stopped && network->transport->peers->is_awaited(network->transport);
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
    free(network->ranks);
    free(network->next_ns);
    free(network);
}

void network_footprint(const struct health *health, struct tutti_footprint *sum)
{
    const struct network *network = health->network;
    if (network == NULL) return;
    sum->private_bytes += sizeof *network;
    if (network->ranks != NULL)
        sum->private_bytes +=
            (size_t)health->team->size * (sizeof *network->ranks + sizeof *network->next_ns);
}
