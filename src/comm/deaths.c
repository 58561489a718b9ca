#include "comm/deaths.h"

#include "comm/comm.h"
#include "comm/remote_rank.h"

bool comm_is_gone(struct tutti_comm *comm, int rank)
{
    const int number = comm_local_number(comm, rank);
    return number >= 0 ? processes_has_ended(&comm->health.processes, number)
                       : remote_is_dead(comm, rank);
}

bool comm_share_process(const struct tutti_comm *comm, int rank, int other)
{
    const int number = comm_local_number(comm, rank), others = comm_local_number(comm, other);
    if (number < 0 || others < 0) return rank == other;
    return processes_shares(&comm->health.processes, number, others);
}

bool comm_is_hidden(const struct tutti_comm *comm, int rank)
{
    const int number = comm_local_number(comm, rank);
    return number >= 0 && processes_is_hidden(&comm->health.processes, number);
}

bool comm_has_executed(const struct tutti_comm *comm, int rank)
{
    const int number = comm_local_number(comm, rank);
    return number >= 0 && processes_has_executed(&comm->health.processes, number);
}

bool comm_is_stopped(const struct tutti_comm *comm, int rank)
{
    const int number = comm_local_number(comm, rank);
    return number >= 0 && processes_is_stopped(&comm->health.processes, number);
}
