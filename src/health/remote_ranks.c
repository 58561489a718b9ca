/* A communicator with ranks that it reaches over a network: what goes there moves, all come together, and nobody leaves
 * before the others have what it sent.
 *
 * That is the data between hosts; or all of it, where that is asked for. Operations are over when their bytes lie in links: some of
 * that may still wait for room in a socket, or for a connection, and what was sent may be lost with one. So the progress thread
 * knows every such communicator from its creation on: it sends what threads leave (remote_leave_rest), and listens to the others while nobody
 * calls.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rank_list.h"
#include "base/status.h"
#include "health/deaths.h"
#include "health/failure.h"
#include "health/heartbeats.h"
#include "health/recover.h"
#include "health/remote_rank.h"
#include "health/remote_ranks.h"
#include "health/remote_state.h"
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
    health_name_rank(((const struct remote_ranks *)context)->health, rank, text, size);
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
}

/* With ranks of other hosts there is something to know of each, and to hear from it. */
static enum tutti_status know_hosts(struct remote_ranks *remotes)
{
    const size_t size = (size_t)remotes->health->team->size;
    remotes->ranks = calloc(size, sizeof *remotes->ranks);
    remotes->next_ns = calloc(size, sizeof *remotes->next_ns);
    if (remotes->ranks == NULL || remotes->next_ns == NULL) return out_of_memory();
    for (size_t r = 0; r < size; r++) remotes->ranks[r].known_slot = -1;
    return TUTTI_OK;
}

static enum tutti_status open_transport(struct remote_ranks *remotes,
                                        const struct net_address *addresses, bool *are_remote)
{
    struct health *health = remotes->health;
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
                                           .context = remotes};
    TRY(transports_open_remote(&health->team->transports.set, &options,
                               hosts != NULL ? hosts->locals : NULL,
                               hosts != NULL ? hosts->largest : 0));
    remotes->transport = health->team->transports.set.remote;
    return TUTTI_OK;
}

enum tutti_status remote_create(struct health *health, const struct net_address *addresses)
{
    struct remote_ranks *remotes = calloc(1, sizeof *remotes);
    bool *are_remote = calloc((size_t)health->team->size, sizeof *are_remote);
    enum tutti_status status = TUTTI_OK;
    if (remotes == NULL || are_remote == NULL) status = out_of_memory();
    if (status == TUTTI_OK) {
        remotes->health = health;
        health->remote = remotes;
        if (health->team->members.hosts != NULL) status = know_hosts(remotes);
    } else {
        free(remotes);
    }
    if (status == TUTTI_OK) status = open_transport(remotes, addresses, are_remote);
    free(are_remote);
    return status;
}

bool health_stop_links(struct health *health)
{
    struct remote_ranks *remotes = health->remote;
    struct transport *all = health->team->transports.set.all;
    if (remotes != NULL) {
        remotes->is_stopped = true;
        atomic_store_explicit(&health->team->domain.has_output, false, memory_order_relaxed);
    }
    return all == NULL || all->peers->stop(all);
}

bool remote_move(struct health *health)
{
    struct remote_ranks *remotes = health->remote;
    struct transport *transport = remotes->transport;
    const bool has_failed = board_has_failed(health->board);
    if (has_failed) (void)health_stop_links(health);
    if (++remotes->passes % PASSES_A_HEARTBEAT == 0 || health->team->domain.looks_rarely)
        heartbeats_progress(remotes, clock_now_ns());
    if (has_failed) remote_tell_failure(remotes);
    if (remotes->any_owed) remote_tell_owed(remotes);
    const bool moved = transport->ops->progress(transport);
    const enum tutti_status status = transport->peers->check(transport);
    if (status != TUTTI_OK && !has_failed)
        health_fail(health, NULL, status, health->team->rank, "%s", tutti_error_message());
    if (atomic_load_explicit(&health->team->domain.has_output, memory_order_relaxed))
        atomic_store_explicit(&health->team->domain.has_output,
                              transport->peers->is_awaited(transport), memory_order_relaxed);
    return moved && !has_failed;
}

void remote_read_all(struct health *health)
{
    enum { PASSES_MAX = 64 };
    for (int pass = 0; pass < PASSES_MAX; pass++)
        if (!remote_progress(health)) return;
}

void remote_note_rest(struct health *health)
{
    const struct remote_ranks *remotes = health->remote;
    if (remotes == NULL) return;
    const bool is_left =
        !remotes->is_stopped && remotes->transport->peers->is_awaited(remotes->transport);
    atomic_store_explicit(&health->team->domain.has_output, is_left, memory_order_relaxed);
}

void remote_hand_over(struct health *health)
{
    remote_note_rest(health);
    if (atomic_load_explicit(&health->team->domain.has_output, memory_order_relaxed))
        progress_notify();
}

/* Whether somebody who is there lacks something of this rank. */
static bool is_owed(struct health *health)
{
    const struct transport *transport = health->remote->transport;
    for (int r = 0; r < health->team->size; r++)
        if (r != health->team->rank && !transport->peers->is_settled(transport, r) &&
            health_state_of(health, r) != RANK_LEFT && !health_is_gone(health, r))
            return true;
    return false;
}

/* Also where no call of this rank noticed, but an agreement did. Others may have left then without a word that reached this rank. */
static bool is_broken(const struct health *health)
{
    return board_has_failed(health->board) || recover_has_lost(health);
}

/* Until all who are there have what was sent to them; false at the deadline. Of a communicator that breaks meanwhile only the word of
 * that is left to say: who is dead does not show any more, and would be waited for. */
static bool settle(struct health *health, uint64_t deadline_ns)
{
    struct transport *transport = health->remote->transport;
    for (unsigned passes = 1; is_owed(health); passes++) {
        const bool moved = remote_progress(health);
        (void)transport->peers->finish(transport); /* tells what is untold */
        if (passes % PASSES_A_LOOK != 0) {
            if (!moved) sched_yield();
            continue;
        }
        const uint64_t now = clock_now_ns();
        if (is_broken(health) && deadline_ns > now + FAREWELL_NS) deadline_ns = now + FAREWELL_NS;
        if (now > deadline_ns) return false;
        (void)remote_find_dead(health, now);
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    return true;
}

void remote_finish(struct health *health)
{
    const uint64_t now = clock_now_ns();
    struct transport *transport = health->remote->transport;
    if (health->team->settings.is_encrypted && at_exit_has_begun()) return;
    (void)remote_progress(health);
    (void)transport->peers->finish(transport);
    /* The word of it is all that is left to say, and that nobody who goes on without others need wait for this rank. */
    if (is_broken(health)) {
        remote_tell_leaving(health->remote);
        (void)settle(health, now + FAREWELL_NS);
        return;
    }
    if (!settle(health, now + health->team->settings.timeout_ns)) return;
    heartbeats_end(health->remote);
    remote_tell_leaving(health->remote);
    (void)settle(health, clock_now_ns() + FAREWELL_NS);
    (void)remote_progress(health); /* who has left waits for the word that this was heard */
}

/* Rank 0 waits for the others to come. Where they do not, it asks them to connect, and so has a reason to tell. */
static enum tutti_status ask_missing(struct remote_ranks *remotes, uint64_t now)
{
    const struct comm_hosts *hosts = remotes->health->team->members.hosts;
    for (int host = 1; host < hosts->host_count; host++) {
        const int first = hosts->firsts[host];
        if (remotes->ranks[first].has_joined || now < remotes->next_ns[first]) continue;
        remotes->next_ns[first] = now + MISSED_NS;
        TRY(remotes->transport->peers->connect(remotes->transport, first));
    }
    return TUTTI_OK;
}

/* Names the ranks of the hosts of which nobody has come, to all that have. */
static enum tutti_status fail_missing(struct health *health)
{
    const struct comm_hosts *hosts = health->team->members.hosts;
    struct rank_list missing = RANK_LIST_EMPTY;
    for (int at = 0, r; (r = team_next_remote(health->team, &at)) >= 0;) {
        const int first_there = hosts->firsts[hosts->host_of[r]];
        if (!health->remote->ranks[first_there].has_joined) rank_list_add(&missing, r);
    }
    char trouble[COMM_TROUBLE_MAX];
    remote_trouble(health, missing.first, trouble);
    health_fail(health, NULL, TUTTI_INIT_TIMEOUT, missing.first,
                "after the start-up deadline %d of %d ranks are missing: %s%s", missing.count,
                health->team->size, missing.text, trouble);
    (void)settle(health, clock_now_ns() + FAREWELL_NS);
    return health_check(health);
}

/* What may have become of those who are missing. */
static enum tutti_status look_around(struct health *health, uint64_t now)
{
    const int dead = remote_find_dead(health, now);
    if (dead < 0) return TUTTI_OK;
    char who[128];
    health_name_rank(health, dead, who, sizeof who);
    return error_set(TUTTI_PROC_FAILED, "%s died during start-up", who);
}

static bool has_joined(struct health *health)
{
    struct remote_ranks *remotes = health->remote;
    if (health->team->rank == 0 && !remotes->all_have_joined && !board_has_failed(health->board) &&
        remote_all_hosts_have_joined(remotes)) {
        remotes->all_have_joined = true;
        remote_tell_all_have_joined(remotes);
    }
    if (remotes->all_have_joined)
        atomic_store_explicit(&health->board->all_have_joined, 1, memory_order_relaxed);
    return atomic_load_explicit(&health->board->all_have_joined, memory_order_relaxed) != 0;
}

enum tutti_status remote_join(struct health *health, enum tutti_status (*look)(void *context),
                              void *look_context, uint64_t deadline_ns)
{
    const uint64_t begin_ns = clock_now_ns();
    uint64_t failed_ns = 0;
    if (health->remote->ranks == NULL) return TUTTI_OK; /* all are on this host, and have met */
    if (health->team->rank != 0 && team_local_rank(health->team, 0) == health->team->rank)
        remote_tell_joined(health->remote);
    for (unsigned passes = 1;; passes++) {
        const bool moved = remote_progress(health);
        if (has_joined(health)) break; /* what failed since then is the first call's to say */
        if (!moved) nanosleep(&(struct timespec){0, NAP_NS}, NULL);
        if (passes % PASSES_A_LOOK != 0) continue;
        const uint64_t now = clock_now_ns();
        if (board_has_failed(health->board)) { /* perhaps the others began already */
            if (failed_ns == 0) failed_ns = now;
            if (now - failed_ns > HEARSAY_NS) return health_check(health);
            continue;
        }
        if (look != NULL) TRY(look(look_context));
        TRY(look_around(health, now));
        if (health->team->rank == 0 && now > begin_ns + MISSED_NS)
            TRY(ask_missing(health->remote, now));
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
    (void)remote_progress(health); /* the word of it */
    return heartbeats_create(health->remote);
}

void remote_free(struct health *health)
{
    struct remote_ranks *remotes = health->remote;
    if (remotes == NULL) return;
    health->remote = NULL;
    heartbeats_free(remotes);
    free(remotes->ranks);
    free(remotes->next_ns);
    free(remotes);
}

void remote_footprint(const struct health *health, struct tutti_footprint *sum)
{
    const struct remote_ranks *remotes = health->remote;
    if (remotes == NULL) return;
    sum->private_bytes += sizeof *remotes;
    if (remotes->ranks != NULL)
        sum->private_bytes +=
            (size_t)health->team->size * (sizeof *remotes->ranks + sizeof *remotes->next_ns);
}
