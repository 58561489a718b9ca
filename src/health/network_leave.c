#include "health/network_leave.h"

#include <sched.h>
#include <time.h>

#include "health/deaths.h"
#include "health/heartbeats.h"
#include "health/network.h"
#include "health/network_state.h"
#include "health/recover.h"
#include "health/remote_rank.h"
#include "os/at_exit.h"
#include "os/clock.h"

enum {
    PASSES_A_LOOK = 64, /* at the clock, in a wait */
    NAP_NS = 50000
};

/* Whether a connection was ever made. */
static bool has_met(const struct transport *transport, int rank)
{
    struct peer_report report;
    transport->peers->report(transport, rank, &report);
    return report.state != PEER_UNUSED && report.state != PEER_WANTED;
}

/* Whether somebody who is there lacks something of this rank. */
static bool is_owed(struct health *health, bool counts_unmet)
{
    const struct transport *transport = health->network->transport;
    for (int r = 0; r < health->team->size; r++)
        if (r != health->team->rank && !transport->peers->is_settled(transport, r) &&
            health_state_of(health, r) != RANK_LEFT && !health_is_dead(health, r) &&
            (counts_unmet || has_met(transport, r) || transport->peers->is_owed_data(transport, r)))
            return true;
    return false;
}

/* Also where no call of this rank noticed, but an agreement did. Others may have left then without a word that reached this rank. */
static bool is_broken(const struct health *health)
{
    return board_has_failed(health->board) || recover_has_lost(health);
}

bool network_settle(struct health *health, uint64_t deadline_ns)
{
    struct transport *transport = health->network->transport;
    const uint64_t begin_ns = clock_now_ns();
    bool counts_unmet = true;
    for (unsigned passes = 1; is_owed(health, counts_unmet); passes++) {
        const bool moved = network_progress(health);
        (void)transport->peers->finish(transport); /* tells what is untold */
        if (passes % PASSES_A_LOOK != 0) {
            if (!moved) sched_yield();
            continue;
        }
        const uint64_t now = clock_now_ns();
        if (is_broken(health) && deadline_ns > now + NETWORK_FAREWELL_NS)
            deadline_ns = now + NETWORK_FAREWELL_NS;
        if (now > deadline_ns) return false;
        /* The outcome of an agreement is worth a wait: perhaps nobody else knows it. */
        counts_unmet = recover_has_begun(health) || now - begin_ns < NETWORK_FAREWELL_NS;
        (void)remote_find_dead(health, now);
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
    (void)transport->peers->finish(transport);
    /* The word of it is all that is left to say, and that nobody who goes on without others need wait for this rank. */
    if (is_broken(health)) {
        remote_tell_leaving(health->network);
        (void)network_settle(health, now + NETWORK_FAREWELL_NS);
        return;
    }
    if (!network_settle(health, now + timeout_ns)) return;
    heartbeats_end(health->network);
    remote_tell_leaving(health->network);
    (void)network_settle(health, clock_now_ns() + NETWORK_FAREWELL_NS);
    (void)network_progress(health); /* who has left waits for the word that this was heard */
}
