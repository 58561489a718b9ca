#include "health/network_leave.h"

#include <sched.h>
#include <time.h>

#include "health/deaths.h"
#include "health/heartbeats.h"
#include "health/known.h"
#include "health/network.h"
#include "health/network_state.h"
#include "health/recover.h"
#include "health/remote_rank.h"
#include "os/at_exit.h"
#include "os/clock.h"

enum {
    PASSES_A_LOOK = 64, /* around, in a wait */
    LOOK_NS = 3000000,  /* the same, when passes are rare: each may wait long for a busy core */
    NAP_NS = 50000
};

/* Whether a rank lacks something of this one. May lack: messages to a rank that no connection was
 * ever made to; and where the connection is lost, the last that this rank said of data that it has
 * received. */
static bool is_owed(const struct network *network, int rank, bool counts_maybe)
{
    const struct control *control = network->control;
    const bool is_owed_data = !network->transport->ops->is_settled(network->transport, rank);
    struct peer_report report;
    control->ops->report(control, rank, &report);
    if (!is_owed_data && control->ops->is_settled(control, rank))
        return counts_maybe && report.state == PEER_LOST;
    const bool has_met = report.state != PEER_UNUSED && report.state != PEER_WANTED;
    return counts_maybe || has_met || is_owed_data;
}

static bool owes_somebody(struct health *health, bool counts_maybe)
{
    for (int r = 0; r < health->team->size; r++)
        if (r != health->team->rank && is_owed(health->network, r, counts_maybe) &&
            known_state(health, r) != RANK_LEFT && !health_is_dead(health, r))
            return true;
    return false;
}

/* Also where no call of this rank noticed, but an agreement did. Others may have left then without
 * a word that reached this rank. */
static bool is_broken(const struct health *health)
{
    return board_has_failed(health->board) || recover_has_lost(health);
}

bool network_settle(struct health *health, uint64_t deadline_ns)
{
    struct transport *transport = health->network->transport;
    const uint64_t begin_ns = clock_now_ns();
    uint64_t looked_ns = begin_ns;
    bool counts_maybe = true;
    for (unsigned passes = 1; owes_somebody(health, counts_maybe); passes++) {
        const bool moved = network_progress(health);
        transport->ops->flush(transport);
        const uint64_t now = clock_now_ns();
        if (passes % PASSES_A_LOOK != 0 && now - looked_ns < LOOK_NS) {
            if (!moved) sched_yield();
            continue;
        }
        looked_ns = now;
        if (is_broken(health) && deadline_ns > now + NETWORK_FAREWELL_NS)
            deadline_ns = now + NETWORK_FAREWELL_NS;
        if (now > deadline_ns) return false;
        /* The outcome of an agreement is worth a wait: perhaps nobody else knows it. */
        counts_maybe = recover_has_begun(health) || now - begin_ns < NETWORK_FAREWELL_NS;
        remote_look_at_all(health, now);
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return true;
}

void network_leave(struct health *health, uint64_t timeout_ns)
{
    const uint64_t now = clock_now_ns();
    struct transport *transport = health->network->transport;
    if (health->team->settings.is_encrypted && at_exit_has_begun()) return;
    (void)network_progress(health);
    transport->ops->flush(transport);
    /* The word of it is all that is left to say, and that nobody who goes on without others need
     * wait for this rank. */
    if (is_broken(health)) {
        remote_tell_leaving(health->network);
        (void)network_settle(health, now + NETWORK_FAREWELL_NS);
        return;
    }
    if (!network_settle(health, now + timeout_ns)) return;
    heartbeats_end(health->network);
    remote_tell_leaving(health->network);
    (void)network_settle(health, clock_now_ns() + NETWORK_FAREWELL_NS);
    (void)network_progress(health); /* a rank that left waits for word that this was heard */
}

/* Whether this rank is to tell other hosts of the failure. Where one fails, two of its host may do
 * so, in case that the one cannot; hosts that heard of it need not. */
static bool is_teller(const struct health *health)
{
    const struct team_hosts *const hosts = health->team->members.hosts;
    const int rank = health->team->rank;
    struct tutti_failure failure;
    if (hosts == NULL || board_failure(health->board, &failure) == TUTTI_OK) return false;
    const int number = hosts->local_numbers[rank], host = hosts->host_of[rank];
    /* The board is foreign. */
    if (failure.reporter < 0 || failure.reporter >= hosts->size) return number == 0;
    if (host == 0) return number == 0 || (number == 1 && failure.reporter == 0);
    return hosts->host_of[failure.reporter] == host && (number <= 1 || failure.reporter == rank);
}

/* If the network could not be made, perhaps because of a card, a smaller one will do. */
static bool has_path_to_tell(struct health *health)
{
    if (health->network != NULL && health->network->transport != NULL) return true;
    if (health->team->transports.set.control != NULL) return false;
    network_free(health);
    return network_create_to_tell(health) == TUTTI_OK;
}

void network_give_up(struct health *health)
{
    if (!is_teller(health) || !has_path_to_tell(health)) return;
    const struct team_hosts *const hosts = health->team->members.hosts;
    if (hosts->host_of[health->team->rank] != 0) /* rank 0's is the first */
        remote_tell_failure_to(health->network, 0);
    else
        for (int host = 1; host < hosts->host_count; host++)
            remote_tell_failure_to(health->network, hosts->firsts[host]);
    (void)network_settle(health, clock_now_ns() + NETWORK_FAREWELL_NS);
}
