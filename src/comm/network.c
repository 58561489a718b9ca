/* network.c - a communicator with data that goes over TCP: its connections, and who moves them.
 *
 *     link opened ──wants──► visit, if the peer is the lower rank ──► socket ──attach──► transport/tcp
 *                            else the peer visits this rank       ──┘
 *
 * That is the data between hosts; or all of it, where that is asked for. Calls may be over while some of what they sent still waits
 * for room in a socket; then the progress thread sends it.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "comm/network.h"
#include "os/clock.h"
#include "transport/tcp/tcp.h"

enum {
    PASSES_A_LOOK = 64, /* at the door, when nothing is wanted here */
    NAP_NS = 50000,
    FAREWELL_NS = 500000000, /* for words that nobody waits for */
    REVISIT_NS = 5000000
};

/* Until what waits for a connection gives up: calls have deadlines of their own. */
static const uint64_t FOR_GOOD = UINT64_MAX / 2;

static_assert(TCP_STREAMS_MAX <= 8, "a bit for each stream of a peer");

/* May not call the transport. */
static void want(void *context, int peer, unsigned stream)
{
    struct comm_network *network = context;
    network->wanted[peer] |= (uint8_t)(1 << stream);
    network->any_wanted = true;
    network->missing++;
}

enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses)
{
    struct comm_network *network = calloc(1, sizeof *network);
    const size_t size = (size_t)comm->size;
    if (network == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    comm->network = network;
    network->comm = comm;
    network->addresses = calloc(size, sizeof *network->addresses);
    network->wanted = calloc(size, sizeof *network->wanted);
    network->visited_ns = calloc(size, sizeof *network->visited_ns);
    if (comm->hosts != NULL) network->far = calloc(size, sizeof *network->far);
    if (network->addresses == NULL || network->wanted == NULL || network->visited_ns == NULL ||
        (comm->hosts != NULL && network->far == NULL))
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memcpy(network->addresses, addresses, size * sizeof *addresses);
    for (int r = 0; network->far != NULL && r < comm->size; r++)
        network->far[r] = (struct far_rank){.probe_fd = -1, .known_slot = -1};
    network->client.identity = comm->identity;
    network->client.rank = comm->rank;
    network->client.size = comm->size;
    const struct tcp_options options = {.rank = comm->rank,
                                        .size = comm->size,
                                        .wants = want,
                                        .wants_context = network,
                                        .hears = far_hear,
                                        .hears_context = network};
    TRY(tcp_create(&options, &network->tcp));
    comm->transport = network->tcp;
    network_enter(&network->client);
    return TUTTI_OK;
}

/* A door may let in and then not know what for, when its communicator has just left: not again and again at once. */
static enum tutti_status go_for_wanted(struct comm_network *network)
{
    const uint64_t now = clock_now_ns();
    network->any_wanted = false;
    for (int r = 0; r < network->comm->size; r++) {
        if (network->wanted[r] == 0) continue;
        if (now - network->visited_ns[r] < REVISIT_NS) {
            network->any_wanted = true;
            continue;
        }
        network->visited_ns[r] = now;
        for (unsigned s = 0; network->wanted[r] != 0; s++) {
            if ((network->wanted[r] & 1 << s) == 0) continue;
            network->wanted[r] &= (uint8_t) ~(1 << s);
            TRY(network_visit(&network->client, r, s, &network->addresses[r], FOR_GOOD));
        }
    }
    return TUTTI_OK;
}

static enum tutti_status attach_arrived(struct comm_network *network, bool *moved)
{
    int peer, fd;
    unsigned stream;
    while (network_take(&network->client, &peer, &stream, &fd)) {
        *moved = true;
        if (network->missing > 0) network->missing--;
        TRY(tcp_attach(network->tcp, peer, stream, fd));
    }
    return TUTTI_OK;
}

/* A connection that cannot be made. */
static enum tutti_status check_client(struct network_client *client)
{
    const int status = atomic_load_explicit(&client->status, memory_order_acquire);
    return status == TUTTI_OK ? TUTTI_OK : error_set((enum tutti_status)status, "%s", client->why);
}

void comm_network_stop(struct tutti_comm *comm)
{
    if (comm->network->is_stopped) return;
    comm->network->is_stopped = true;
    far_tell_failure(comm->network);
    tcp_stop(comm->network->tcp);
    atomic_store_explicit(&comm->has_output, false, memory_order_relaxed);
}

bool comm_network_progress(struct tutti_comm *comm)
{
    struct comm_network *network = comm->network;
    struct transport *tcp = network->tcp;
    bool moved = false;
    enum tutti_status status = TUTTI_OK;
    if (board_has_failed(comm->board)) {
        comm_network_stop(comm);
        tcp->ops->progress(tcp); /* others still have to hear why */
        return false;
    }
    if (network->any_wanted) status = go_for_wanted(network);
    if (network->missing > 0 || ++network->passes % PASSES_A_LOOK == 0)
        network_progress(clock_now_ns());
    if (status == TUTTI_OK) status = attach_arrived(network, &moved);
    if (status == TUTTI_OK) status = check_client(&network->client);
    if (status != TUTTI_OK) comm_fail(comm, NULL, status, comm->rank, "%s", tutti_error_message());
    moved |= tcp->ops->progress(tcp);
    if (atomic_load_explicit(&comm->has_output, memory_order_relaxed))
        atomic_store_explicit(&comm->has_output, !tcp_is_idle(comm->network->tcp),
                              memory_order_relaxed);
    return moved;
}

bool comm_network_is_joining(const struct tutti_comm *comm)
{
    return comm->network->missing > 0;
}

void comm_network_leave_rest(struct tutti_comm *comm)
{
    if (comm->network->is_stopped || tcp_is_idle(comm->network->tcp) ||
        comm_ensure_progress(comm) != TUTTI_OK)
        return;
    atomic_store_explicit(&comm->has_output, true, memory_order_relaxed);
    progress_notify();
}

/* Whether somebody who is there lacks something of this rank. */
static bool is_owed(struct tutti_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !tcp_is_settled(comm->network->tcp, r) &&
            comm_state_of(comm, r) != RANK_LEFT && !comm_is_gone(comm, r))
            return true;
    return false;
}

/* Until all who are there have what was sent to them; false at the deadline. */
static bool settle(struct tutti_comm *comm, uint64_t deadline_ns)
{
    for (unsigned passes = 1; is_owed(comm); passes++) {
        const bool moved = comm_network_progress(comm);
        (void)tcp_finish(comm->network->tcp); /* tells what is untold */
        if (moved) continue;
        if (passes % PASSES_A_LOOK != 0) {
            sched_yield();
            continue;
        }
        const uint64_t now = clock_now_ns();
        if (now > deadline_ns) return false;
        if (comm->hosts != NULL) (void)comm_network_find_dead(comm, now);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return true;
}

void comm_network_finish(struct tutti_comm *comm)
{
    const uint64_t now = clock_now_ns();
    (void)comm_network_progress(comm);
    (void)tcp_finish(comm->network->tcp);
    if (board_has_failed(comm->board)) { /* the word of it is all that is left to say */
        (void)settle(comm, now + FAREWELL_NS);
        return;
    }
    if (!settle(comm, now + comm->timeout_ns)) return;
    far_tell_leaving(comm->network);
    (void)settle(comm, clock_now_ns() + FAREWELL_NS);
}

void comm_network_free(struct tutti_comm *comm)
{
    struct comm_network *network = comm->network;
    if (network == NULL) return;
    network_leave(&network->client);
    tcp_close(network->tcp);
    comm->transport = NULL;
    comm->network = NULL;
    far_free(network);
    free(network->addresses);
    free(network->wanted);
    free(network->visited_ns);
    free(network);
}

void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum)
{
    struct tcp_footprint links;
    tcp_footprint(comm->network->tcp, &links);
    sum->private_bytes +=
        sizeof *comm->network +
        (size_t)comm->size * (sizeof *comm->network->addresses + sizeof *comm->network->wanted +
                              sizeof *comm->network->visited_ns) +
        links.private_bytes;
    sum->link_count += links.link_count;
    sum->descriptor_count += links.descriptor_count;
}
