#include "engine_sim_world.h"

#include <assert.h>
#include <stdint.h>

#include "control/rank_set.h"

static void number_hosts(const struct world *w, struct comm *comm)
{
    for (int rank = 0; rank < comm->size; rank++) {
        int host = 0;
        while (host < comm->host_count &&
               !is_near(w, comm->node_of[rank], comm->node_of[comm->firsts[host]]))
            host++;
        if (host == comm->host_count) comm->firsts[comm->host_count++] = rank;
        comm->host_of[rank] = host;
        comm->counts[host]++;
    }
    comm->levels = (struct algo_levels){.level_count = 1, .group_of = {comm->host_of}};
}

static void draw_rounds(struct world *w, struct comm *comm, bool is_first)
{
    const struct algo_levels *levels = comm->host_count > 1 ? &comm->levels : NULL;
    comm->round_count = 1 + (int)sim_below(w->sim, is_first ? ROUNDS_MAX : 2);
    for (int r = 0; r < comm->round_count; r++) {
        struct round *round = &comm->rounds[r];
        const bool is_blocking = sim_chance(w->sim, 500);
        round->job_count = is_blocking ? 1 : 1 + (int)sim_below(w->sim, JOBS_MAX);
        for (int i = 0; i < round->job_count; i++) {
            struct sim_job *job = &round->jobs[i];
            if (!is_first && r == 0 && i == 0)
                sim_job_draw_allreduce(w->sim, comm->size, levels, job);
            else
                sim_job_draw(w->sim, comm->size, levels, job);
            job->slot = is_blocking ? 0 : 1 + i;
            job->signature = comm->epoch + (uint64_t)(r * JOBS_MAX + i);
        }
    }
}

static void draw_links(struct world *w, struct comm *comm)
{
    const struct sim_net_options options = {
        .size = comm->size,
        .nodes = comm->node_of,
        .kind = NET + (int)(comm - w->comms),
        .streams = 1 + sim_below(w->sim, SIM_STREAMS_MAX),
        .piece_bytes = sim_chance(w->sim, 500) ? 320 + 64 * sim_below(w->sim, 8)
                                               : 1024u << sim_below(w->sim, 5),
        .piece_count = 1 + sim_below(w->sim, sim_chance(w->sim, 500) ? 3 : 16),
        .frame_count = 2 + sim_below(w->sim, 8),
        .reach_bytes = sim_chance(w->sim, 500) ? 0 : SIZE_MAX,
        .expects = sim_chance(w->sim, 500)};
    comm->net = sim_net_create(w->sim, &options);
}

/* With the nodes of the set, which are in order. */
int world_create_comm(struct world *w, uint64_t epoch, uint64_t nodes)
{
    assert(w->comm_count < COMMS_MAX);
    const int index = w->comm_count++;
    struct comm *comm = &w->comms[index];
    comm->epoch = epoch;
    for (int node = 0; node < RANKS_MAX; node++) {
        const bool is_member = rank_set_has(&nodes, node);
        comm->rank_of[node] = is_member ? comm->size : -1;
        if (is_member) comm->node_of[comm->size++] = node;
    }
    for (int host = 0; host < HOSTS_MAX; host++) comm->boards[host].culprit = -1;
    number_hosts(w, comm);
    draw_links(w, comm);
    draw_rounds(w, comm, index == 0);
    story_tell(&w->story, "communicator %d: nodes %llx on %d hosts, %d rounds", index,
               (unsigned long long)nodes, comm->host_count, comm->round_count);
    return index;
}
