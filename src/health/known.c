#include "health/known.h"

#include "health/deaths.h"
#include "health/remote_rank.h"

enum rank_state known_state(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (number < 0) return remote_has_left(health, rank) ? RANK_LEFT : RANK_PRESENT;
    return board_state(health->board, number);
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

bool known_to_have_ended(struct health *health, int rank)
{
    if (!team_shares_host(health->team, rank)) return remote_has_ended(health, rank);
    return health_is_dead(health, rank);
}
