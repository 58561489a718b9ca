#include "health/known.h"

#include <stdio.h>

#include "health/deaths.h"
#include "health/network_state.h"
#include "health/remote_rank.h"

/* A rank that was asked answers much earlier, even if its application does not call anything. */
static const uint64_t SILENT_NS = 500000000;

enum rank_state known_state(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_has_left(health, rank) ? RANK_LEFT : RANK_PRESENT;
    return board_state(health->board, number);
}

uint64_t known_left_at(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_left_at(health, rank);
    return atomic_load_explicit(&health->board->ranks[number].left_at, memory_order_relaxed);
}

struct board_call *known_calls(const struct health *health, int rank, int slot)
{
    const int number = team_local_number(health->team, rank);
    return number < 0 ? remote_calls(health, rank, slot) : health_calls_of(health, number, slot);
}

bool known_call(const struct health *health, int rank, int slot, uint64_t begun)
{
    return team_shares_host(health->team, rank) || remote_knows_call(health, rank, slot, begun);
}

bool known_progress(const struct health *health, int rank, struct board_progress *progress)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_read_progress(health, rank, progress);
    return board_read_progress(health->board, health->board_size, number, progress);
}

bool known_to_be_in_call(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_is_in_call(health, rank);
    return board_is_in_call(health->board, health->board_size, number);
}

bool known_to_agree(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_agrees(health, rank);
    return atomic_load_explicit(&health->board->ranks[number].agrees, memory_order_relaxed) != 0;
}

struct board_finding known_standing(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_standing(health, rank);
    return (struct board_finding){.rank = rank,
                                  .is_stopped = health_is_stopped(health, rank),
                                  .sequence = health_sequence_of(health, number)};
}

bool known_to_be_stopped(const struct health *health, int rank, uint64_t now_ns)
{
    if (!team_shares_host(health->team, rank)) return remote_is_stopped(health, rank, now_ns);
    return health_is_stopped(health, rank);
}

bool known_report(const struct health *health, int rank, struct peer_report *report)
{
    struct network *const network = health->network;
    if (network == NULL || network->is_stopped || remote_of(health, rank) == NULL) return false;
    network->control->ops->report(network->control, rank, report);
    return true;
}

bool known_silence(const struct health *health, int rank, uint64_t now_ns,
                   char text[static KNOWN_SILENCE_MAX])
{
    snprintf(text, KNOWN_SILENCE_MAX, "does not run (stopped by a signal or a debugger)");
    if (health_is_stopped(health, rank)) return true; /* on this host */
    const uint64_t silent_ns = remote_silent_ns(health, rank, now_ns);
    if (silent_ns < SILENT_NS) return false;
    snprintf(text, KNOWN_SILENCE_MAX, "has not answered for %.1f s: its process %s",
             (double)silent_ns * 1e-9,
             remote_is_stopped(health, rank, now_ns)
                 ? "does not run, but its host answers"
                 : "does not run, or its host cannot be reached");
    return true;
}

bool known_to_have_ended(struct health *health, int rank)
{
    if (!team_shares_host(health->team, rank)) return remote_has_ended(health, rank);
    return health_is_dead(health, rank);
}
