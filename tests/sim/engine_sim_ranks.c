#include "tests/sim/engine_sim_world.h"

void rank_enter(struct world *w, int node, int number)
{
    struct seat *seat = &w->seats[node][number];
    struct comm *comm = &w->comms[number];
    seat->state = AT_WORK;
    w->current[node] = number;
    control_begin_heartbeat(w, node, number);
    sim_at(w->sim, within(w, 0, 2 * MILLISECOND), START, node, number, 0);
    if (comm->boards[host_in(comm, node)].culprit >= 0)
        sim_at(w->sim, sim_now_ns(w->sim), NOTICE, node, number, 0);
    for (int rank = 0; rank < comm->size; rank++) {
        const int other = comm->node_of[rank];
        const struct word word = loss_of(other, node);
        if (w->knows_dead[node][other]) control_find_failure(w, node, number, &word);
        if (w->apart_ns[node][other] != 0)
            sim_at(w->sim, within(w, LOST_NS, LOST_NS + PERIOD_NS), LOST, node, other, 0);
    }
}

static void finish_task(struct world *w, struct seat *seat, struct sim_task *task)
{
    task->is_done = true;
    w->report->operations++;
    judge_result(w, seat, task);
    if (--seat->tasks_left > 0) return;
    const struct comm *comm = comm_of(seat);
    if (seat->round == comm->round_count) {
        seat->state = FINISHED;
        story_tell(&w->story, "node %d has finished communicator %d", seat->node, seat->comm);
        return;
    }
    const uint64_t pause_ns = sim_chance(w->sim, 700) ? 2 * MILLISECOND : 100 * MILLISECOND;
    sim_at(w->sim, within(w, 0, pause_ns), START, seat->node, seat->comm, 0);
}

void rank_end_tasks(struct seat *seat)
{
    for (int i = 0; i < JOBS_MAX; i++) sim_task_end(&seat->tasks[i]);
}

void rank_bury_tasks(struct seat *seat)
{
    for (int i = 0; i < JOBS_MAX; i++) sim_task_bury(&seat->tasks[i], &seat->world->graves);
}

void rank_start_round(struct world *w, struct seat *seat)
{
    if (seat->state != AT_WORK) return;
    struct comm *comm = comm_of(seat);
    const struct round *round = &comm->rounds[seat->round++];
    rank_end_tasks(seat);
    for (int i = 0; i < round->job_count; i++)
        sim_task_begin(&seat->tasks[i], &round->jobs[i],
                       sim_links_transport(&comm->links, rank_of(seat)));
    seat->tasks_left = round->job_count;
    story_tell(&w->story, "node %d begins round %d: %s by %s and %d more", seat->node, seat->round,
               collective_name(round->jobs[0].algorithm->collective),
               round->jobs[0].algorithm->name, round->job_count - 1);
}

/* Each operation as far as it goes, in any order; true when something moved. */
static bool run_all(struct world *w, struct seat *seat, bool is_last_look)
{
    const int first = (int)sim_below(w->sim, JOBS_MAX);
    bool has_moved = false;
    for (int i = 0; i < JOBS_MAX; i++) {
        struct sim_task *task = &seat->tasks[(first + i) % JOBS_MAX];
        if (task->job == NULL || task->is_done) continue;
        task->operation.must_not_spin = is_last_look;
        const enum run_result result = operation_run(&task->operation);
        has_moved |= result != RUN_BLOCKED;
        if (result != RUN_BLOCKED) w->moved_ns = sim_now_ns(w->sim);
        if (result == RUN_FAULT) {
            story_fail(&w->story, "node %d: what came from rank %d makes no sense", seat->node,
                       task->operation.fault_peer);
            return false;
        }
        if (result == RUN_DONE) finish_task(w, seat, task);
    }
    return has_moved;
}

/* Something happened at that node. Nobody looks again before something else does. */
void rank_work(struct world *w, int node)
{
    struct seat *seat = &w->seats[node][w->current[node]];
    for (int look = 0; look < 2; look++)
        while (seat->state == AT_WORK && seat->tasks_left > 0 && !w->story.has_failed)
            if (!run_all(w, seat, look == 1)) break;
}
