#include "comm/known.h"

#include "comm/deaths.h"
#include "comm/remote_rank.h"

bool known_call(const struct tutti_comm *comm, int rank, int slot, uint64_t begun)
{
    return comm_shares_host(comm, rank) || remote_knows_call(comm, rank, slot, begun);
}

bool known_progress(const struct tutti_comm *comm, int rank, struct board_progress *progress)
{
    if (!comm_shares_host(comm, rank)) return remote_read_progress(comm, rank, progress);
    return board_read_progress(comm->health.board, comm->size, rank, progress);
}

bool known_to_be_in_call(const struct tutti_comm *comm, int rank)
{
    if (!comm_shares_host(comm, rank)) return remote_is_in_call(comm, rank);
    return board_is_in_call(comm->health.board, comm->size, rank);
}

struct board_finding known_standing(const struct tutti_comm *comm, int rank)
{
    if (!comm_shares_host(comm, rank)) return remote_standing(comm, rank);
    return (struct board_finding){.rank = rank,
                                  .is_stopped = comm_is_stopped(comm, rank),
                                  .sequence = comm_sequence_of(comm, rank)};
}

bool known_to_be_stopped(const struct tutti_comm *comm, int rank, uint64_t since_ns, uint64_t now_ns)
{
    if (!comm_shares_host(comm, rank)) return remote_is_stopped(comm, rank, since_ns, now_ns);
    return comm_is_stopped(comm, rank);
}

bool known_to_have_ended(struct tutti_comm *comm, int rank)
{
    if (!comm_shares_host(comm, rank)) return remote_has_ended(comm, rank);
    return comm_is_gone(comm, rank);
}
