/* quiesce.c - after a failure: until nobody can still be reading or writing memory of this rank. */
#include <time.h>

#include "comm/comm.h"
#include "comm/deaths.h"
#include "comm/network.h"
#include "comm/quiesce.h"
#include "os/clock.h"
#include "os/futex.h"

enum {
    QUIESCE_NS = 300000000, /* other processes: their reading harms only themselves */
    /* Threads: our memory may be freed under them. Whoever was told where a result is expected: it writes there. Nobody
     * needs that long for a piece and a look at the board who is not stopped. */
    QUIESCE_HARM_NS = 2000000000u,
};

/* Whether a rank may still be inside a call of that slot: then it may read memory that was posted to it, and write
 * to memory where it is expected to. */
static bool is_engaged(struct tutti_comm *comm, int rank, int slot)
{
    return comm_state_of(comm, rank) == RANK_PRESENT &&
           board_is_engaged(comm_calls_of(comm, rank, slot));
}

void comm_quiesce(struct tutti_comm *comm, const struct engagement *engagement)
{
    board_end(comm_calls_of(comm, comm->rank, engagement->slot), engagement->begun);
    if (comm_stop_links(comm)) return;
    if (!engagement->any_referenced && !engagement->any_advertised) return;
    fence_everybody(); /* whoever begins after this sees the failure first */
    struct tutti_failure failure;
    const bool died = board_failure(comm->health.board, &failure) == TUTTI_PROC_FAILED &&
                      failure.culprit >= 0 && comm_state_of(comm, failure.culprit) != RANK_LEFT;
    const uint64_t begin_ns = clock_now_ns();
    const uint64_t limit_ns =
        comm->members.has_threads || engagement->any_advertised ? QUIESCE_HARM_NS : QUIESCE_NS;
    for (int i = 0, r; i < comm_local_size(comm); i++)
        while ((r = comm_local_rank(comm, i)) != comm->rank &&
               !(died && comm_share_process(comm, r, failure.culprit)) &&
               is_engaged(comm, r, engagement->slot) && !comm_is_gone(comm, r) &&
               clock_now_ns() - begin_ns < limit_ns)
            nanosleep(&(struct timespec){0, 100000}, NULL);
}

void comm_quiesce_call(struct tutti_comm *comm, const struct call_request *request)
{
    const struct engagement engagement = {.slot = request->slot,
                                          .begun = request->begun,
                                          .any_referenced = request->operation.any_referenced,
                                          .any_advertised = request->operation.any_advertised};
    comm_quiesce(comm, &engagement);
}
