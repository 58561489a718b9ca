#include <stdlib.h>

#include "base/status.h"
#include "server/server_state.h"

enum tutti_status server_lines_init(struct server_lines *lines, const struct tutti_server *server)
{
    const struct server_division *const division = &server->setup.division;
    const size_t workers = (size_t)division->worker_count, seats = (size_t)division_seats(division);
    bool has_all = true;
    for (int copy = 0; copy < server_copies(server); copy++) {
        lines->to_workers[copy] = calloc(workers, sizeof *lines->to_workers[copy]);
        lines->between[copy] = calloc(seats, sizeof *lines->between[copy]);
        has_all &= lines->to_workers[copy] != NULL && lines->between[copy] != NULL;
    }
    lines->to_seats = calloc(seats, sizeof *lines->to_seats);
    if (has_all && lines->to_seats != NULL) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "no memory for communicators");
}

static void free_comms(struct tutti_comm **comms, int count)
{
    for (int i = 0; i < count && comms != NULL; i++)
        if (comms[i] != NULL && tutti_comm_size(comms[i]) > 1) (void)tutti_comm_free(comms[i]);
    free(comms);
}

void server_lines_release(struct server_lines *lines, const struct tutti_server *server)
{
    const struct server_division *const division = &server->setup.division;
    for (int copy = 0; copy < SERVER_SEATS; copy++) {
        free_comms(lines->to_workers[copy], division->worker_count);
        free_comms(lines->between[copy], division_seats(division));
    }
    free_comms(lines->to_seats, division_seats(division));
}

/* All ranks go through all pairs in one order, so nobody waits in a circle. A pair that cannot
 * be made keeps nobody from the others. Both ends, if they are of this rank, get the communicator. */
struct pair {
    int ranks[2];
    struct tutti_comm **ends[2]; /* NULL: not of this rank */
};

static enum tutti_status connect_pair(struct tutti_server *server, struct tutti_comm *comm,
                                      const struct pair *pair, enum tutti_status before)
{
    char message[ERROR_TEXT_MAX];
    struct tutti_comm *made = NULL;
    if (pair->ends[0] == NULL && pair->ends[1] == NULL) return before;
    error_copy(message, sizeof message);
    const bool is_alone = pair->ranks[0] == pair->ranks[1];
    const enum tutti_status status =
        tutti_comm_group(comm, pair->ranks, is_alone ? 1 : 2, NULL, &made);
    for (int end = 0; end < 2; end++)
        if (pair->ends[end] != NULL) *pair->ends[end] = made;
    if (is_alone && made != NULL) server->own[server->own_count++] = made;
    if (before == TUTTI_OK) return status;
    return error_set(before, "%s", message);
}

/* Where this rank keeps its end of a seat's line; NULL: the seat is not here. */
static struct tutti_comm **end_of(const struct tutti_server *server, int seat,
                                  struct tutti_comm **const *of_copies, int index)
{
    const struct server_division *const division = &server->setup.division;
    if (division_host(division, seat) != server->server) return NULL;
    return &of_copies[seat / division->server_count][index];
}

static int rank_of_seat(const struct tutti_server *server, int seat)
{
    return server->setup.server_ranks[division_host(&server->setup.division, seat)];
}

enum tutti_status server_lines_connect(struct tutti_server *server, struct tutti_comm *comm,
                                       struct server_lines *lines)
{
    const struct server_setup *const setup = &server->setup;
    const int seats = division_seats(&setup->division);
    enum tutti_status status = TUTTI_OK;
    for (int w = 0; w < division_first_workers(&setup->division); w++)
        for (int s = 0; s < seats; s++) {
            const struct pair pair = {{setup->worker_ranks[w], rank_of_seat(server, s)},
                                      {server->worker == w ? &lines->to_seats[s] : NULL,
                                       end_of(server, s, lines->to_workers, w)}};
            status = connect_pair(server, comm, &pair, status);
        }
    for (int low = 0; low < seats; low++)
        for (int high = low + 1; high < seats; high++) {
            if (!division_has_line(&setup->division, low, high)) continue;
            const struct pair pair = {{rank_of_seat(server, low), rank_of_seat(server, high)},
                                      {end_of(server, low, lines->between, high),
                                       end_of(server, high, lines->between, low)}};
            status = connect_pair(server, comm, &pair, status);
        }
    return status;
}

/* All new workers get their connections, or none does. So nobody waits for a pair that is of no use any more. */
static enum tutti_status give_up(struct tutti_comm *comm, enum tutti_status status)
{
    char message[ERROR_TEXT_MAX];
    error_copy(message, sizeof message);
    (void)tutti_comm_revoke_because(comm, message);
    return error_set(status, "%s", message);
}

enum tutti_status server_lines_connect_new(struct tutti_server *server, struct tutti_comm *comm,
                                           int first, int count, const int *joiner_ranks,
                                           const int *host_ranks, struct server_lines *lines)
{
    const struct server_division *const division = &server->setup.division;
    enum tutti_status status = TUTTI_OK;
    for (int j = 0; j < count; j++)
        for (int s = 0; s < division_seats(division); s++) {
            const int host = host_ranks[division_host(division, s)];
            const struct pair pair = {{joiner_ranks[j], host},
                                      {server->worker == first + j ? &lines->to_seats[s] : NULL,
                                       end_of(server, s, lines->to_workers, first + j)}};
            if (host >= 0) status = connect_pair(server, comm, &pair, status);
            if (status != TUTTI_OK) return give_up(comm, status);
        }
    return TUTTI_OK;
}
