/* signs.c - what this rank knows of another rank's sickness, for a policy (tutti/exclude.h). */
#include "base/sized.h"
#include "base/status.h"
#include "call/communicator.h"
#include "health/known.h"
#include "os/clock.h"
#include "tutti/exclude.h"

/* With the domain held. */
static void look(struct tutti_comm *comm, int rank, struct tutti_signs *signs)
{
    struct peer_report report;
    signs->is_stalled = known_to_be_stopped(&comm->health, rank, signs->now_ns);
    if (!known_report(&comm->health, rank, &report)) return;
    signs->corrupt_count += report.mended + report.is_corrupt;
}

/* The failure that ended the communicator; the board is foreign, and so is its culprit. */
static void add_failure(const struct tutti_comm *comm, int rank, struct tutti_signs *signs)
{
    struct tutti_failure failure;
    const enum tutti_status status = board_failure(comm->health.board, &failure);
    if (status == TUTTI_OK || failure.culprit != rank) return;
    signs->corrupt_count += status == TUTTI_CORRUPT;
    signs->has_failed_device = status == TUTTI_SYSTEM;
}

enum tutti_status tutti_comm_signs(struct tutti_comm *comm, int rank, struct tutti_signs *signs)
{
    TRY(communicator_check_handle(comm, "comm_signs"));
    TRY(SIZED_CHECK_RESULT("tutti_comm_signs: signs", tutti_signs, signs));
    if (rank < 0 || rank >= comm->team.size || rank == comm->team.rank)
        return error_set(TUTTI_INVALID_RANK,
                         "tutti_comm_signs: rank must be another rank, 0 to %d, is %d",
                         comm->team.size - 1, rank);
    struct tutti_signs own = {.size_bytes = sizeof own, .now_ns = clock_now_ns()};
    own.held_ns = straggler_held_ns(&comm->health.straggler, rank);
    if (domain_try_lock(&comm->team.domain)) {
        look(comm, rank, &own);
        domain_unlock(&comm->team.domain);
    }
    add_failure(comm, rank, &own);
    SIZED_WRITE(tutti_signs, signs, signs->size_bytes, &own);
    return TUTTI_OK;
}
