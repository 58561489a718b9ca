#include "health/life.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/held.h"
#include "base/status.h"
#include "health/control_ring.h"
#include "health/network.h"
#include "health/recover.h"

enum { LINE = 64 };

enum tutti_status health_init(struct health *health, struct team *team)
{
    health->team = team;
    TRY(trace_init(health));
    return straggler_init(&health->straggler, team->size);
}

static size_t control_rings_offset(const struct team *team)
{
    return (board_bytes(team->size) + LINE - 1) / LINE * LINE;
}

static enum tutti_status make_board(const struct team *team, struct board **board)
{
    const size_t bytes = control_rings_offset(team);
    *board = aligned_alloc(LINE, bytes);
    if (*board == NULL) return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memset(*board, 0, bytes);
    return TUTTI_OK;
}

enum tutti_status health_be_alone(struct health *health)
{
    TRY(make_board(health->team, &health->board));
    board_enter(health->board, 0, getpid());
    return TUTTI_OK;
}

size_t health_shared_bytes(const struct team *team)
{
    return control_rings_offset(team) + (size_t)team_local_size(team) * sizeof(struct control_ring);
}

void health_use_host(struct health *health, void *shared, struct transport *host)
{
    processes_use(&health->processes, host);
    health->board = shared;
    health->control_rings =
        (struct control_ring *)(void *)((char *)shared + control_rings_offset(health->team));
}

enum tutti_status health_know_remote(struct health *health)
{
    const struct team *team = health->team;
    TRY(make_board(team, &health->remote_board));
    for (int at = 0, r; (r = team_next_remote(team, &at)) >= 0;) {
        const int pid = team->members.hosts->entries[r].pid;
        board_enter(health->remote_board, r, pid);
        board_enter(health->board, r, pid); /* for messages that name it */
    }
    return TUTTI_OK;
}

void health_release(struct health *health)
{
    if (health->team->size == 1) free(health->board);
    network_free(health);
    processes_close(&health->processes);
    free(health->remote_board);
    trace_release(health);
    straggler_release(&health->straggler);
    recover_free(health);
}

void health_restart_numbers(struct health *health)
{
    health->unnumbered = recorder_restart(&health->recorder);
}

void health_footprint(const struct health *health, struct tutti_footprint *sum)
{
    sum->private_bytes += held(health->remote_board) + held(health->recorder.memory) +
                          held(health->message_recorder.memory);
    if (health->team->size == 1) sum->private_bytes += held(health->board);
    processes_footprint(&health->processes, sum);
    network_footprint(health, sum);
}
