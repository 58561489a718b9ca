#include <time.h>

#include "health/deaths.h"
#include "health/health.h"
#include "health/known.h"
#include "health/network_state.h"
#include "health/quiesce.h"
#include "os/clock.h"
#include "os/futex.h"

enum {
    QUIESCE_NS = 300000000, /* other processes: their reading harms only themselves */
    /* Threads: our memory may be freed under them. Whoever was told where a result is expected: it
     * writes there. Nobody needs that long for a piece and a look at the board who is not
     * stopped. */
    QUIESCE_HARM_NS = 2000000000u,
};

bool health_stop_links(struct health *health)
{
    struct network *network = health->network;
    struct transport *all = health->team->transports.set.all;
    if (network != NULL) {
        network->is_stopped = true;
        domain_set_output(&health->team->domain, false);
    }
    return all == NULL || all->ops->stop(all);
}

/* Whether a rank of this host may still be inside a call of that slot: then it may read memory that
 * was posted to it, and write to memory where it is expected to. */
static bool is_engaged(struct health *health, int number, int slot)
{
    return board_state(health->board, number) == RANK_PRESENT &&
           board_is_engaged(health_calls_of(health, number, slot));
}

bool health_leave_call(struct health *health, const struct engagement *engagement)
{
    board_end(health_own_calls(health, engagement->slot), engagement->begun);
    if (health_stop_links(health)) return true;
    if (!engagement->any_referenced && !engagement->any_advertised) return true;
    fence_everybody(); /* whoever begins after this sees the failure first */
    return false;
}

bool health_is_quiet(struct health *health, const struct engagement *engagement, uint64_t left_ns)
{
    struct tutti_failure failure;
    const bool died = board_failure(health->board, &failure) == TUTTI_PROC_FAILED &&
                      failure.culprit >= 0 && known_state(health, failure.culprit) != RANK_LEFT;
    const uint64_t limit_ns = health->team->members.has_threads || engagement->any_advertised
                                  ? QUIESCE_HARM_NS
                                  : QUIESCE_NS;
    if (clock_now_ns() - left_ns >= limit_ns) return true;
    for (int i = 0; i < team_local_size(health->team); i++) {
        const int r = team_local_rank(health->team, i);
        if (r != health->team->rank && !(died && health_share_process(health, r, failure.culprit)) &&
            is_engaged(health, i, engagement->slot) && !health_is_dead(health, r))
            return false;
    }
    return true;
}

void health_quiesce(struct health *health, const struct engagement *engagement)
{
    if (health_leave_call(health, engagement)) return;
    const uint64_t left_ns = clock_now_ns();
    while (!health_is_quiet(health, engagement, left_ns))
        nanosleep(&(struct timespec){0, 100000}, NULL);
}
