#include "health/network_join.h"

#include <time.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "connect/port.h"
#include "health/failure.h"
#include "health/heartbeats.h"
#include "health/network.h"
#include "health/network_leave.h"
#include "health/network_state.h"
#include "health/remote_rank.h"
#include "os/clock.h"
#include "transport/transport.h"

enum {
    PASSES_A_LOOK = 64, /* around, in a wait */
    LOOK_NS = 3000000,  /* the same, when passes are rare: each may wait long for a busy core */
    NAP_NS = 50000,
    HEARSAY_NS = 200000000, /* a failure may be heard of before the word that all had joined */
    MISSED_NS =
        1000000000, /* after so long rank 0 asks those to connect that have not come, and then again */
    ANSWER_NS = 2000000000 /* until every rank has heard from rank 0 which ranks are missing */
};

/* Rank 0 waits for the others to come. Where they do not, it asks them to connect, and so has a
 * reason to tell. */
static enum tutti_status ask_missing(struct network *network, uint64_t now)
{
    const struct team_hosts *hosts = network->health->team->members.hosts;
    for (int host = 1; host < hosts->host_count; host++) {
        const int first = hosts->firsts[host];
        if (network->flags[first].has_joined || now < network->next_ns[host]) continue;
        network->next_ns[host] = now + MISSED_NS;
        TRY(network->control->ops->connect(network->control, first));
    }
    return TUTTI_OK;
}

/* The join ends with that failure, which the other ranks hear before this one goes. */
static enum tutti_status settle_failed(struct health *health)
{
    (void)network_settle(health, clock_now_ns() + NETWORK_FAREWELL_NS);
    return health_check(health);
}

/* Names the ranks of the hosts of which nobody has come, to all that have. */
static enum tutti_status fail_missing(struct health *health)
{
    const struct team_hosts *hosts = health->team->members.hosts;
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;) {
        const int first_there = hosts->firsts[hosts->host_of[r]];
        if (!health->network->flags[first_there].has_joined) rank_list_add(&missing, r);
    }
    char trouble[COMM_TROUBLE_MAX];
    remote_trouble(health, missing.first, trouble);
    health_fail(health, NULL, TUTTI_INIT_TIMEOUT, missing.first,
                "after the start-up deadline %d of %d ranks are missing: %s%s", missing.count,
                health->team->size, missing.text, trouble);
    return settle_failed(health);
}

/* A rank whose words arrive changed is not missing: to wait for it until the deadline would blame
 * it for that. */
static enum tutti_status fail_corrupt(struct health *health, int rank)
{
    char who[128];
    health_name_rank(health, rank, who, sizeof who);
    health_fail(health, NULL, TUTTI_CORRUPT, rank,
                "during start-up, what %s sent to rank %d arrived changed, twice", who,
                health->team->rank);
    return settle_failed(health);
}

/* Whether one of the missing ranks has died or cannot be understood, or this one cannot let others
 * in. */
static enum tutti_status look_around(struct health *health, uint64_t begin_ns, uint64_t now)
{
    const struct transport *links = health->network->transport;
    const int corrupt = links->ops->corrupt_rank(links);
    if (corrupt >= 0) return fail_corrupt(health, corrupt);
    const int dead = remote_find_dead(health, now);
    if (dead < 0) return port_starves(begin_ns, now);
    char who[128];
    health_name_rank(health, dead, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s died or gave up during start-up", who);
}

static bool has_joined(struct health *health)
{
    struct network *network = health->network;
    if (health->team->rank == 0 && !network->all_have_joined && !board_has_failed(health->board) &&
        remote_all_hosts_have_joined(network)) {
        network->all_have_joined = true;
        remote_tell_all_have_joined(network);
    }
    if (network->all_have_joined)
        atomic_store_explicit(&health->board->all_have_joined, 1, memory_order_relaxed);
    return atomic_load_explicit(&health->board->all_have_joined, memory_order_relaxed) != 0;
}

enum tutti_status network_join(struct health *health, enum tutti_status (*look)(void *context),
                               void *look_context, uint64_t deadline_ns)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t failed_ns = 0, looked_ns = begin_ns;
    if (health->network->flags == NULL) return TUTTI_OK; /* all are on this host, and have met */
    if (health->team->rank != 0 && team_local_rank(health->team, 0) == health->team->rank)
        remote_tell_joined(health->network);
    for (unsigned passes = 1;; passes++) {
        const bool moved = network_progress(health);
        if (has_joined(health)) break; /* what failed since then is the first call's to say */
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        const uint64_t now = clock_now_ns();
        if (passes % PASSES_A_LOOK != 0 && now - looked_ns < LOOK_NS) continue;
        looked_ns = now;
        if (board_has_failed(health->board)) { /* perhaps the others began already */
            if (failed_ns == 0) failed_ns = now;
            if (now - failed_ns > HEARSAY_NS) return health_check(health);
            continue;
        }
        if (look != NULL) TRY(look(look_context));
        TRY(look_around(health, begin_ns, now));
        if (health->team->rank == 0 && now > begin_ns + MISSED_NS)
            TRY(ask_missing(health->network, now));
        if (health->team->rank == 0 && now > deadline_ns) return fail_missing(health);
        if (now > deadline_ns + ANSWER_NS) {
            char trouble[COMM_TROUBLE_MAX];
            remote_trouble(health, 0, trouble);
            return error_set(
                TUTTI_INIT_TIMEOUT,
                "rank %d of %d: after the start-up deadline no word came from rank 0%s",
                health->team->rank, health->team->size, trouble);
        }
    }
    (void)network_progress(health); /* the word of it */
    return heartbeats_create(health->network);
}
