#include "tests/sim/engine_sim_world.h"

#include <assert.h>
#include <stdint.h>

#include "membership/rank_set.h"

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

/* Whether a large operation is over before the horizon, and worth it: it takes one for a remote
 * write. */
static bool carries_much(const struct world *w, const struct comm *comm)
{
    struct transport *const transport = sim_links_transport(&comm->links, 0);
    size_t bytes;
    unsigned count;
    if (w->carrier != ENGINE_SIM_CARDS || comm->size > 5) return false;
    transport->ops->limits(transport, &bytes, &count);
    return bytes * count >= 20000;
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
            if (carries_much(w, comm) && sim_chance(w->sim, 400)) sim_job_enlarge(w->sim, job);
            job->slot = is_blocking ? 0 : 1 + i;
            job->signature = comm->epoch + (uint64_t)(r * JOBS_MAX + i);
        }
    }
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
    sim_links_create(&comm->links, w->carrier, w->sim, comm->size, comm->node_of, NET + index);
    draw_rounds(w, comm, index == 0);
    story_tell(&w->story, "communicator %d: nodes %llx on %d hosts, %d rounds", index,
               (unsigned long long)nodes, comm->host_count, comm->round_count);
    return index;
}
