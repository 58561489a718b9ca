#include "health/health_init.h"

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

static size_t round_up(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* The ranks of a host share the board, the control rings, and, if there are other hosts, the table
 * of all ranks. */
static size_t control_rings_offset(const struct team *team)
{
    return round_up(board_bytes(team_local_size(team), team->size));
}

static size_t table_offset(const struct team *team)
{
    return control_rings_offset(team) +
           round_up((size_t)team_local_size(team) * sizeof(struct control_ring));
}

enum tutti_status health_be_alone(struct health *health)
{
    const size_t bytes = control_rings_offset(health->team);
    health->board = aligned_alloc(LINE, bytes);
    if (health->board == NULL)
        return error_set(TUTTI_NO_MEMORY, "creating a communicator: out of memory");
    memset(health->board, 0, bytes);
    health->board_size = 1;
    board_enter(health->board, 0, getpid());
    return TUTTI_OK;
}

size_t health_shared_bytes(const struct team *team)
{
    return table_offset(team) + (team_spans_hosts(team) ? rank_table_bytes(team->size) : 0);
}

void health_use_host(struct health *health, void *shared, struct transport *host)
{
    const struct team *team = health->team;
    processes_use(&health->processes, host);
    health->board = shared;
    health->board_size = team_local_size(team);
    health->board_number = team_local_number(team, team->rank);
    health->control_rings =
        (struct control_ring *)(void *)((char *)shared + control_rings_offset(team));
}

static struct rank_table *table_of(const struct health *health)
{
    return (struct rank_table *)(void *)((char *)health->board + table_offset(health->team));
}

void health_write_table(struct health *health)
{
    const struct team_hosts *hosts = health->team->members.hosts;
    if (hosts != NULL && health->board_number == 0)
        rank_table_write(table_of(health), hosts->entries, hosts->size);
}

void health_share_table(struct health *health)
{
    struct team_hosts *hosts = health->team->members.hosts;
    if (hosts != NULL) team_hosts_share(hosts, table_of(health));
}

void health_release(struct health *health)
{
    if (health->team->size == 1) free(health->board);
    network_free(health);
    processes_close(&health->processes);
    trace_release(health);
    choices_release(&health->choices);
    straggler_release(&health->straggler);
    recover_free(health);
}

void health_restart_numbers(struct health *health)
{
    health->unnumbered = recorder_restart(&health->recorder);
    choices_restart(&health->choices);
}

void health_footprint(const struct health *health, struct tutti_footprint *sum)
{
    sum->private_bytes += held(health->recorder.memory) + held(health->message_recorder.memory) +
                          held(health->straggler.held_ns) + held(health->straggler.delays) +
                          recover_bytes(health) + choices_bytes(&health->choices);
    if (health->team->size == 1) sum->private_bytes += held(health->board);
    processes_footprint(&health->processes, sum);
    network_footprint(health, sum);
}
