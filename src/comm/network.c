/* network.c - a communicator with data that goes over TCP: its connections, and who moves them.
 *
 *     link opened ──wants──► connect, if the peer is the lower rank ─► socket ──attach──► transport/tcp
 *                            else the peer connects to this rank ──┘
 *
 * That is the data between hosts; or all of it, where that is asked for. Operations are over when their bytes lie in links: some of
 * that may still wait for room in a socket, or for a connection, and what was sent may be lost with one. So the progress thread
 * knows every such communicator from its creation on: it sends what threads leave (comm_unlock), and listens at the port and on the
 * connections while nobody calls.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/beat.h"
#include "comm/deaths.h"
#include "comm/failure.h"
#include "comm/far.h"
#include "comm/network.h"
#include "comm/network_state.h"
#include "comm/recover.h"
#include "os/at_exit.h"
#include "os/clock.h"
#include "transport/tcp/tcp.h"

enum {
    PASSES_A_LOOK = 64, /* at the port, when nothing is wanted here */
    PASSES_A_BEAT = 8,  /* looks whether it is time for one */
    NAP_NS = 50000,
    HEARSAY_NS = 200000000, /* a failure may be heard of before the word that all had joined */
    MISSED_NS = 1000000000, /* after so long rank 0 goes to who has not come */
    ANSWER_NS = 2000000000, /* until everybody has heard from rank 0 who is missing */
    ASK_NS = 50000000,      /* after so long, and then again */
    REASK_NS = 1000000000,
    FAREWELL_NS = 500000000, /* for words that nobody waits for */
    RECONNECT_NS = 5000000
};

/* Until what waits for a connection gives up: calls have deadlines of their own. */
static const uint64_t FOR_GOOD = UINT64_MAX / 2;

static_assert(TCP_STREAMS_MAX <= 8, "a bit for each stream of a peer");
static_assert((int)TCP_STREAMS_MAX <= (int)PORT_STREAMS_MAX, "each is let in");

/* May not call the transport. */
static void want(void *context, int peer, unsigned stream)
{
    struct comm_network *network = context;
    if (rails_want(network->rails, peer, stream)) return;
    const uint8_t bit = (uint8_t)(1 << stream);
    network->wanted[peer] |= bit;
    network->any_wanted = true;
    network->missing += (network->awaited[peer] & bit) == 0;
    network->awaited[peer] |= bit;
    if (peer > network->comm->rank) network->next_ns[peer] = clock_now_ns() + ASK_NS;
}

enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses)
{
    struct comm_network *network = calloc(1, sizeof *network);
    const size_t size = (size_t)comm->size;
    if (network == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    comm->transports.network = network;
    network->comm = comm;
    network->addresses = calloc(size, sizeof *network->addresses);
    network->wanted = calloc(size, sizeof *network->wanted);
    network->awaited = calloc(size, sizeof *network->awaited);
    network->next_ns = calloc(size, sizeof *network->next_ns);
    if (comm->members.hosts != NULL) network->far = calloc(size, sizeof *network->far);
    if (network->addresses == NULL || network->wanted == NULL || network->awaited == NULL ||
        network->next_ns == NULL || (comm->members.hosts != NULL && network->far == NULL))
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memcpy(network->addresses, addresses, size * sizeof *addresses);
    for (int r = 0; network->far != NULL && r < comm->size; r++)
        network->far[r] = (struct far_rank){.probe_fd = -1, .known_slot = -1};
    network->client.identity = comm->lineage.identity;
    network->client.rank = comm->rank;
    network->client.size = comm->size;
    network->client.is_encrypted = comm->settings.is_encrypted;
    struct net_address rails[PORT_RAILS_MAX];
    const unsigned rail_count = port_rails(rails);
    TRY(rails_create(network, rails, rail_count, &network->rails));
    network->stream_count = rails_stream_count(network->rails);
    const struct tcp_options options = {.rank = comm->rank,
                                        .size = comm->size,
                                        .streams = network->stream_count,
                                        .checks = comm->settings.integrity != TUTTI_INTEGRITY_OFF,
                                        .wants = want,
                                        .wants_context = network,
                                        .hears = far_hear,
                                        .hears_context = network};
    TRY(tcp_create(&options, &network->tcp));
    comm->transports.data = network->tcp;
    port_enter(&network->client);
    return TUTTI_OK;
}

/* A port may accept and then not know what for, when its communicator has just left: not again and again at once. A higher
 * rank comes by itself when it needs this one; if not, it has to be told after a while. */
static enum tutti_status go_for(struct comm_network *network, int rank, uint64_t now)
{
    const struct net_address *address = &network->addresses[rank];
    const bool connects = rank < network->comm->rank;
    network->next_ns[rank] = now + (connects ? RECONNECT_NS : REASK_NS);
    for (unsigned s = 0; s < TCP_STREAMS_MAX; s++) {
        if ((network->wanted[rank] & 1 << s) == 0) continue;
        TRY(connects ? port_connect(&network->client, rank, s, address, FOR_GOOD)
                     : port_request_callback(&network->client, rank, s, address));
    }
    if (connects) network->wanted[rank] = 0; /* the attempt goes on until it is accepted */
    return TUTTI_OK;
}

static enum tutti_status go_for_wanted(struct comm_network *network)
{
    const uint64_t now = clock_now_ns();
    network->any_wanted = false;
    for (int r = 0; r < network->comm->size; r++) {
        if (network->wanted[r] != 0 && now >= network->next_ns[r]) TRY(go_for(network, r, now));
        network->any_wanted |= network->wanted[r] != 0;
    }
    return TUTTI_OK;
}

static enum tutti_status attach_arrived(struct comm_network *network, bool *moved)
{
    int peer;
    unsigned stream;
    struct channel channel;
    while (port_take(&network->client, &peer, &stream, &channel)) {
        *moved = true;
        if (channel.fd == PORT_UNFIT) return TUTTI_INVALID_OPTIONS;
        if (stream >= network->stream_count) { /* who has more cards finds out when it hears of ours */
            channel_close(&channel);
            continue;
        }
        if (rails_take(network->rails, peer, stream, channel.fd)) {
            if (channel.fd >= 0) TRY(tcp_attach(network->tcp, peer, stream, channel));
            continue;
        }
        if (channel.fd == PORT_CALLBACK) {
            network->wanted[peer] |= (uint8_t)(1 << stream);
            network->any_wanted = true;
            continue;
        }
        const uint8_t bit = (uint8_t)(1 << stream);
        network->wanted[peer] &= (uint8_t)~bit; /* it came by itself */
        network->missing -= (network->awaited[peer] & bit) != 0;
        network->awaited[peer] &= (uint8_t)~bit;
        TRY(tcp_attach(network->tcp, peer, stream, channel));
        if (stream == 0) rails_meet(network->rails, peer);
    }
    return TUTTI_OK;
}

/* A connection that cannot be made. */
static enum tutti_status check_client(struct port_client *client)
{
    const int status = atomic_load_explicit(&client->status, memory_order_acquire);
    return status == TUTTI_OK ? TUTTI_OK : error_set((enum tutti_status)status, "%s", client->why);
}

void comm_network_stop(struct tutti_comm *comm)
{
    if (comm->transports.network->is_stopped) return;
    comm->transports.network->is_stopped = true;
    tcp_stop(comm->transports.network->tcp);
    atomic_store_explicit(&comm->domain.has_output, false, memory_order_relaxed);
}

bool comm_network_progress(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    bool moved = false;
    enum tutti_status status = TUTTI_OK;
    const bool has_failed = board_has_failed(comm->health.board);
    if (has_failed) comm_network_stop(comm);
    if (network->any_wanted) status = go_for_wanted(network);
    if (++network->passes % PASSES_A_LOOK == 0 || network->missing > 0)
        port_progress(clock_now_ns());
    if (network->passes % PASSES_A_BEAT == 0 || comm->domain.looks_rarely)
        beat_progress(network, clock_now_ns());
    if (network->rails != NULL) rails_progress(network->rails, clock_now_ns());
    if (status == TUTTI_OK) status = attach_arrived(network, &moved);
    if (status == TUTTI_OK) status = check_client(&network->client);
    if (network->missing > 0 && status == TUTTI_OK && port_starves(clock_now_ns()))
        status = TUTTI_NO_DESCRIPTORS;
    if (status != TUTTI_OK && !has_failed)
        comm_fail(comm, NULL, status, comm->rank, "%s", tutti_error_message());
    if (has_failed) far_tell_failure(network);
    if (network->any_owed) far_progress(network);
    moved |= network->tcp->ops->progress(network->tcp);
    if (atomic_load_explicit(&comm->domain.has_output, memory_order_relaxed))
        atomic_store_explicit(&comm->domain.has_output, tcp_is_awaited(network->tcp),
                              memory_order_relaxed);
    return moved && !has_failed;
}

void comm_network_read_all(struct tutti_comm *comm)
{
    enum { PASSES_MAX = 64 };
    for (int pass = 0; comm->transports.network != NULL && pass < PASSES_MAX; pass++)
        if (!comm_network_progress(comm)) return;
}

bool comm_network_is_joining(const struct tutti_comm *comm)
{
    return comm->transports.network->missing > 0;
}

void comm_network_note_rest(struct tutti_comm *comm)
{
    const struct comm_network *network = comm->transports.network;
    const bool is_left = !network->is_stopped && tcp_is_awaited(network->tcp);
    atomic_store_explicit(&comm->domain.has_output, is_left, memory_order_relaxed);
}

void comm_network_leave_rest(struct tutti_comm *comm)
{
    comm_network_note_rest(comm);
    if (atomic_load_explicit(&comm->domain.has_output, memory_order_relaxed)) progress_notify();
}

/* Whether somebody who is there lacks something of this rank. */
static bool is_owed(struct tutti_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !tcp_is_settled(comm->transports.network->tcp, r) &&
            comm_state_of(comm, r) != RANK_LEFT && !comm_is_gone(comm, r))
            return true;
    return false;
}

/* Also where no call of this rank noticed, but an agreement did. Others may have left then without a word that reached this rank. */
static bool is_broken(const struct tutti_comm *comm)
{
    return board_has_failed(comm->health.board) || recover_has_lost(comm);
}

/* Until all who are there have what was sent to them; false at the deadline. Of a communicator that breaks meanwhile only the word of
 * that is left to say: who is dead does not show any more, and would be waited for. */
static bool settle(struct tutti_comm *comm, uint64_t deadline_ns)
{
    for (unsigned passes = 1; is_owed(comm); passes++) {
        const bool moved = comm_network_progress(comm);
        (void)tcp_finish(comm->transports.network->tcp); /* tells what is untold */
        if (passes % PASSES_A_LOOK != 0) {
            if (!moved) sched_yield();
            continue;
        }
        const uint64_t now = clock_now_ns();
        if (is_broken(comm) && deadline_ns > now + FAREWELL_NS) deadline_ns = now + FAREWELL_NS;
        if (now > deadline_ns) return false;
        if (comm->members.hosts != NULL) (void)comm_network_find_dead(comm, now);
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return true;
}

void comm_network_finish(struct tutti_comm *comm)
{
    const uint64_t now = clock_now_ns();
    if (comm->settings.is_encrypted && at_exit_has_begun()) return;
    (void)comm_network_progress(comm);
    (void)tcp_finish(comm->transports.network->tcp);
    /* The word of it is all that is left to say, and that nobody who goes on without others need wait for this rank. */
    if (is_broken(comm)) {
        far_tell_leaving(comm->transports.network);
        (void)settle(comm, now + FAREWELL_NS);
        return;
    }
    if (!settle(comm, now + comm->settings.timeout_ns)) return;
    beat_end(comm->transports.network);
    far_tell_leaving(comm->transports.network);
    (void)settle(comm, clock_now_ns() + FAREWELL_NS);
    (void)comm_network_progress(comm); /* who has left waits for the word that this was heard */
}

/* Rank 0 waits for the others to come. Where they do not, it asks them to connect, and so has a reason to tell. */
static enum tutti_status ask_missing(struct comm_network *network, uint64_t now)
{
    const struct comm_hosts *hosts = network->comm->members.hosts;
    for (int host = 1; host < hosts->host_count; host++) {
        const int first = hosts->firsts[host];
        struct tcp_peer_report report;
        tcp_state(network->tcp, first, &report);
        if (network->far[first].has_joined || report.state != TCP_PEER_UNUSED ||
            now < network->next_ns[first])
            continue;
        network->next_ns[first] = now + REASK_NS;
        TRY(port_request_callback(&network->client, first, 0, &network->addresses[first]));
    }
    return TUTTI_OK;
}

/* Names the ranks of the hosts of which nobody has come, to all that have. */
static enum tutti_status fail_missing(struct tutti_comm *comm)
{
    const struct comm_hosts *hosts = comm->members.hosts;
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int r = 0; r < comm->size; r++) {
        const int first_there = hosts->firsts[hosts->host_of[r]];
        if (!comm_is_near(comm, r) && !comm->transports.network->far[first_there].has_joined)
            rank_list_add(&missing, r);
    }
    char trouble[COMM_TROUBLE_MAX];
    comm_network_trouble(comm, missing.first, trouble);
    comm_fail(comm, NULL, TUTTI_INIT_TIMEOUT, missing.first,
              "after the start-up deadline %d of %d ranks are missing: %s%s", missing.count,
              comm->size, missing.text, trouble);
    (void)settle(comm, clock_now_ns() + FAREWELL_NS);
    return comm_check(comm);
}

/* What may have become of those who are missing. */
static enum tutti_status look_around(struct tutti_comm *comm, uint64_t now)
{
    const int dead = comm_network_find_dead(comm, now);
    if (dead < 0) return TUTTI_OK;
    char who[128];
    comm_name_rank(comm, dead, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s died during start-up", who);
}

static bool has_joined(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    if (comm->rank == 0 && !network->all_have_joined && !board_has_failed(comm->health.board) &&
        far_all_hosts_have_joined(network)) {
        network->all_have_joined = true;
        far_tell_all_have_joined(network);
    }
    if (network->all_have_joined)
        atomic_store_explicit(&comm->health.board->all_have_joined, 1, memory_order_relaxed);
    return atomic_load_explicit(&comm->health.board->all_have_joined, memory_order_relaxed) != 0;
}

enum tutti_status comm_network_join(struct tutti_comm *comm,
                                    enum tutti_status (*look)(void *context), void *look_context,
                                    uint64_t deadline_ns)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t failed_ns = 0;
    if (comm->rank != 0 && comm_local_rank(comm, 0) == comm->rank)
        far_tell_joined(comm->transports.network);
    for (unsigned passes = 1;; passes++) {
        port_progress(clock_now_ns());
        const bool moved = comm_network_progress(comm);
        if (has_joined(comm)) break; /* what failed since then is the first call's to say */
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        if (passes % PASSES_A_LOOK != 0) continue;
        const uint64_t now = clock_now_ns();
        if (board_has_failed(comm->health.board)) { /* perhaps the others began already */
            if (failed_ns == 0) failed_ns = now;
            if (now - failed_ns > HEARSAY_NS) return comm_check(comm);
            continue;
        }
        if (look != NULL) TRY(look(look_context));
        TRY(look_around(comm, now));
        if (comm->rank == 0 && now > begin_ns + MISSED_NS)
            TRY(ask_missing(comm->transports.network, now));
        if (comm->rank == 0 && now > deadline_ns) return fail_missing(comm);
        if (now > deadline_ns + ANSWER_NS) {
            char trouble[COMM_TROUBLE_MAX];
            comm_network_trouble(comm, 0, trouble);
            return error_set(
                TUTTI_INIT_TIMEOUT,
                "rank %d of %d: after the start-up deadline no word came from rank 0%s", comm->rank,
                comm->size, trouble);
        }
    }
    (void)comm_network_progress(comm); /* the word of it */
    return beat_create(comm->transports.network);
}

void comm_network_free(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    if (network == NULL) return;
    port_leave(&network->client);
    tcp_close(network->tcp);
    comm->transports.data = NULL;
    comm->transports.network = NULL;
    far_free(network);
    beat_free(network);
    rails_free(network->rails);
    free(network->addresses);
    free(network->wanted);
    free(network->awaited);
    free(network->next_ns);
    free(network);
}

void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum)
{
    sum->private_bytes +=
        sizeof *comm->transports.network +
        (size_t)comm->size *
            (sizeof *comm->transports.network->addresses + sizeof *comm->transports.network->wanted +
             sizeof *comm->transports.network->awaited + sizeof *comm->transports.network->next_ns +
             (comm->transports.network->far != NULL ? sizeof *comm->transports.network->far : 0)) +
        rails_bytes(comm->transports.network->rails);
}
