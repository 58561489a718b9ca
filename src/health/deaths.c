#include "health/deaths.h"

#include <unistd.h>

#include "health/health.h"
#include "health/remote_rank.h"

bool health_look_at_processes(struct health *health)
{
    return processes_look(&health->processes);
}

int health_next_ended(const struct health *health, int *at)
{
    return processes_next_ended(&health->processes, at);
}

bool health_is_dead(struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    return number >= 0 ? processes_has_ended(&health->processes, number)
                       : remote_is_dead(health, rank);
}

int health_pid_of(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    if (rank == health->team->rank) return getpid();
    if (number >= 0) return processes_told_pid_of(&health->processes, number);
    struct discovery_entry entry;
    team_hosts_entry(health->team->members.hosts, rank, &entry);
    return entry.pid;
}

bool health_share_process(const struct health *health, int rank, int other)
{
    const int number = team_local_number(health->team, rank),
              others = team_local_number(health->team, other);
    if (number < 0 || others < 0) return rank == other;
    return processes_shares(&health->processes, number, others);
}

bool health_is_hidden(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    return number >= 0 && processes_is_hidden(&health->processes, number);
}

bool health_has_executed(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    return number >= 0 && processes_has_executed(&health->processes, number);
}

bool health_is_stopped(const struct health *health, int rank)
{
    const int number = team_local_number(health->team, rank);
    return number >= 0 && processes_is_stopped(&health->processes, number);
}
