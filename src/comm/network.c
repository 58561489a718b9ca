/* network.c - a communicator with ranks that it reaches over a network: what goes there moves, all come together, and nobody leaves
 * before the others have what it sent.
 *
 * That is the data between hosts; or all of it, where that is asked for. Operations are over when their bytes lie in links: some of
 * that may still wait for room in a socket, or for a connection, and what was sent may be lost with one. So the progress thread
 * knows every such communicator from its creation on: it sends what threads leave (comm_unlock), and listens to the others while nobody
 * calls.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "comm/deaths.h"
#include "comm/failure.h"
#include "comm/heartbeats.h"
#include "comm/network.h"
#include "comm/recover.h"
#include "comm/remote_rank.h"
#include "comm/remote_state.h"
#include "os/at_exit.h"
#include "os/clock.h"

enum {
    PASSES_A_LOOK = 64,     /* at the clock, in a wait */
    PASSES_A_HEARTBEAT = 8, /* looks whether it is time for one */
    NAP_NS = 50000,
    HEARSAY_NS = 200000000, /* a failure may be heard of before the word that all had joined */
    MISSED_NS =
        1000000000, /* after so long rank 0 asks those to connect that have not come, and then again */
    ANSWER_NS = 2000000000, /* until everybody has heard from rank 0 who is missing */
    FAREWELL_NS = 500000000 /* for words that nobody waits for */
};

static void name_rank(void *context, int rank, char *text, size_t size)
{
    comm_name_rank(((const struct comm_network *)context)->comm, rank, text, size);
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
}

/* With ranks of other hosts there is something to know of each, and to hear from it. */
static enum tutti_status know_hosts(struct comm_network *network)
{
    const size_t size = (size_t)network->comm->size;
    network->ranks = calloc(size, sizeof *network->ranks);
    network->next_ns = calloc(size, sizeof *network->next_ns);
    if (network->ranks == NULL || network->next_ns == NULL) return out_of_memory();
    for (size_t r = 0; r < size; r++) network->ranks[r].known_slot = -1;
    return TUTTI_OK;
}

static enum tutti_status open_transport(struct comm_network *network,
                                        const struct net_address *addresses, bool *are_remote)
{
    struct tutti_comm *comm = network->comm;
    const struct comm_hosts *hosts = comm->transports.over_tcp ? NULL : comm->members.hosts;
    for (int at = 0, r; (r = comm_next_remote(comm, &at)) >= 0;) are_remote[r] = true;
    const struct remote_options options = {.rank = comm->rank,
                                           .size = comm->size,
                                           .identity = comm->lineage.identity,
                                           .addresses = addresses,
                                           .are_remote = are_remote,
                                           .is_encrypted = comm->settings.is_encrypted,
                                           .checks = comm->settings.integrity != TUTTI_INTEGRITY_OFF,
                                           .hears = remote_hear,
                                           .names = name_rank,
                                           .context = network};
    TRY(transports_open_remote(&comm->transports.set, &options, hosts != NULL ? hosts->locals : NULL,
                               hosts != NULL ? hosts->largest : 0));
    network->transport = comm->transports.set.remote;
    return TUTTI_OK;
}

enum tutti_status comm_network_create(struct tutti_comm *comm, const struct net_address *addresses)
{
    struct comm_network *network = calloc(1, sizeof *network);
    bool *are_remote = calloc((size_t)comm->size, sizeof *are_remote);
    enum tutti_status status = TUTTI_OK;
    if (network == NULL || are_remote == NULL) status = out_of_memory();
    if (status == TUTTI_OK) {
        network->comm = comm;
        comm->transports.network = network;
        if (comm->members.hosts != NULL) status = know_hosts(network);
    } else {
        free(network);
    }
    if (status == TUTTI_OK) status = open_transport(network, addresses, are_remote);
    free(are_remote);
    return status;
}

bool comm_stop_links(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    struct transport *all = comm->transports.set.all;
    if (network != NULL) {
        network->is_stopped = true;
        atomic_store_explicit(&comm->domain.has_output, false, memory_order_relaxed);
    }
    return all == NULL || all->peers->stop(all);
}

bool comm_network_move(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    struct transport *transport = network->transport;
    const bool has_failed = board_has_failed(comm->health.board);
    if (has_failed) (void)comm_stop_links(comm);
    if (++network->passes % PASSES_A_HEARTBEAT == 0 || comm->domain.looks_rarely)
        heartbeats_progress(network, clock_now_ns());
    if (has_failed) remote_tell_failure(network);
    if (network->any_owed) remote_progress(network);
    const bool moved = transport->ops->progress(transport);
    const enum tutti_status status = transport->peers->check(transport);
    if (status != TUTTI_OK && !has_failed)
        comm_fail(comm, NULL, status, comm->rank, "%s", tutti_error_message());
    if (atomic_load_explicit(&comm->domain.has_output, memory_order_relaxed))
        atomic_store_explicit(&comm->domain.has_output, transport->peers->is_awaited(transport),
                              memory_order_relaxed);
    return moved && !has_failed;
}

void comm_network_read_all(struct tutti_comm *comm)
{
    enum { PASSES_MAX = 64 };
    for (int pass = 0; pass < PASSES_MAX; pass++)
        if (!comm_network_progress(comm)) return;
}

void comm_network_note_rest(struct tutti_comm *comm)
{
    const struct comm_network *network = comm->transports.network;
    if (network == NULL) return;
    const bool is_left =
        !network->is_stopped && network->transport->peers->is_awaited(network->transport);
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
    const struct transport *transport = comm->transports.network->transport;
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && !transport->peers->is_settled(transport, r) &&
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
    struct transport *transport = comm->transports.network->transport;
    for (unsigned passes = 1; is_owed(comm); passes++) {
        const bool moved = comm_network_progress(comm);
        (void)transport->peers->finish(transport); /* tells what is untold */
        if (passes % PASSES_A_LOOK != 0) {
            if (!moved) sched_yield();
            continue;
        }
        const uint64_t now = clock_now_ns();
        if (is_broken(comm) && deadline_ns > now + FAREWELL_NS) deadline_ns = now + FAREWELL_NS;
        if (now > deadline_ns) return false;
        (void)remote_find_dead(comm, now);
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return true;
}

void comm_network_finish(struct tutti_comm *comm)
{
    const uint64_t now = clock_now_ns();
    struct transport *transport = comm->transports.network->transport;
    if (comm->settings.is_encrypted && at_exit_has_begun()) return;
    (void)comm_network_progress(comm);
    (void)transport->peers->finish(transport);
    /* The word of it is all that is left to say, and that nobody who goes on without others need wait for this rank. */
    if (is_broken(comm)) {
        remote_tell_leaving(comm->transports.network);
        (void)settle(comm, now + FAREWELL_NS);
        return;
    }
    if (!settle(comm, now + comm->settings.timeout_ns)) return;
    heartbeats_end(comm->transports.network);
    remote_tell_leaving(comm->transports.network);
    (void)settle(comm, clock_now_ns() + FAREWELL_NS);
    (void)comm_network_progress(comm); /* who has left waits for the word that this was heard */
}

/* Rank 0 waits for the others to come. Where they do not, it asks them to connect, and so has a reason to tell. */
static enum tutti_status ask_missing(struct comm_network *network, uint64_t now)
{
    const struct comm_hosts *hosts = network->comm->members.hosts;
    for (int host = 1; host < hosts->host_count; host++) {
        const int first = hosts->firsts[host];
        if (network->ranks[first].has_joined || now < network->next_ns[first]) continue;
        network->next_ns[first] = now + MISSED_NS;
        TRY(network->transport->peers->connect(network->transport, first));
    }
    return TUTTI_OK;
}

/* Names the ranks of the hosts of which nobody has come, to all that have. */
static enum tutti_status fail_missing(struct tutti_comm *comm)
{
    const struct comm_hosts *hosts = comm->members.hosts;
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int at = 0, r; (r = comm_next_remote(comm, &at)) >= 0;) {
        const int first_there = hosts->firsts[hosts->host_of[r]];
        if (!comm->transports.network->ranks[first_there].has_joined) rank_list_add(&missing, r);
    }
    char trouble[COMM_TROUBLE_MAX];
    comm_trouble(comm, missing.first, trouble);
    comm_fail(comm, NULL, TUTTI_INIT_TIMEOUT, missing.first,
              "after the start-up deadline %d of %d ranks are missing: %s%s", missing.count,
              comm->size, missing.text, trouble);
    (void)settle(comm, clock_now_ns() + FAREWELL_NS);
    return comm_check(comm);
}

/* What may have become of those who are missing. */
static enum tutti_status look_around(struct tutti_comm *comm, uint64_t now)
{
    const int dead = remote_find_dead(comm, now);
    if (dead < 0) return TUTTI_OK;
    char who[128];
    comm_name_rank(comm, dead, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s died during start-up", who);
}

static bool has_joined(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    if (comm->rank == 0 && !network->all_have_joined && !board_has_failed(comm->health.board) &&
        remote_all_hosts_have_joined(network)) {
        network->all_have_joined = true;
        remote_tell_all_have_joined(network);
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
    if (comm->transports.network->ranks == NULL)
        return TUTTI_OK; /* all are on this host, and have met */
    if (comm->rank != 0 && comm_local_rank(comm, 0) == comm->rank)
        remote_tell_joined(comm->transports.network);
    for (unsigned passes = 1;; passes++) {
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
            comm_trouble(comm, 0, trouble);
            return error_set(
                TUTTI_INIT_TIMEOUT,
                "rank %d of %d: after the start-up deadline no word came from rank 0%s", comm->rank,
                comm->size, trouble);
        }
    }
    (void)comm_network_progress(comm); /* the word of it */
    return heartbeats_create(comm->transports.network);
}

void comm_network_free(struct tutti_comm *comm)
{
    struct comm_network *network = comm->transports.network;
    if (network == NULL) return;
    comm->transports.network = NULL;
    heartbeats_free(network);
    free(network->ranks);
    free(network->next_ns);
    free(network);
}

void comm_network_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum)
{
    const struct comm_network *network = comm->transports.network;
    if (network == NULL) return;
    sum->private_bytes += sizeof *network;
    if (network->ranks != NULL)
        sum->private_bytes +=
            (size_t)comm->size * (sizeof *network->ranks + sizeof *network->next_ns);
}
