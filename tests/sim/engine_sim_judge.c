#include "tests/sim/engine_sim_world.h"

#include <stdio.h>

/* What nobody can have before everybody has begun. */
static void judge_order(struct world *w, const struct seat *seat, const struct sim_task *task)
{
    const struct comm *comm = comm_of(seat);
    const enum collective collective = task->job->algorithm->collective;
    if (collective_is_rooted(collective)) return;
    for (int rank = 0; rank < comm->size; rank++)
        if (w->seats[comm->node_of[rank]][seat->comm].round < seat->round)
            story_fail(&w->story, "node %d is done with %s before node %d has begun", seat->node,
                       collective_name(collective), comm->node_of[rank]);
}

void judge_result(struct world *w, const struct seat *seat, const struct sim_task *task)
{
    if (!sim_task_is_right(task))
        story_fail(&w->story, "node %d has a wrong result of %s by %s, dtype %d, count %zu",
                   seat->node, collective_name(task->job->algorithm->collective),
                   task->job->algorithm->name, (int)task->job->dtype, task->job->count);
    judge_order(w, seat, task);
}

void judge_culprit(struct world *w, int number, int culprit)
{
    if (!w->is_doubted[culprit])
        story_fail(&w->story, "communicator %d fails for node %d, which is there", number, culprit);
}

void judge_decision(struct world *w, const struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    for (int rank = 0; rank < comm->size; rank++) {
        const int node = comm->node_of[rank];
        const struct seat *other = &w->seats[node][seat->comm];
        if (other->state == DECIDED && other->set != seat->set && sim_is_up(w->sim, node))
            story_fail(&w->story, "node %d goes on with %llx, node %d with %llx", seat->node,
                       (unsigned long long)seat->set, node, (unsigned long long)other->set);
    }
}

void judge_exclusion(struct world *w, int node)
{
    if (!w->is_doubted[node] && !w->has_stalled)
        story_fail(&w->story, "node %d is left out, and was always there", node);
}

/* Whether those that live and reach this node could go on: more than half, or half with rank 0. */
static bool is_with_most(const struct world *w, const struct seat *seat)
{
    const struct comm *comm = comm_of(seat);
    int count = 0;
    for (int rank = 0; rank < comm->size; rank++)
        count += comm->node_of[rank] == seat->node || reaches(w, seat->node, comm->node_of[rank]);
    const bool has_lowest =
        comm->node_of[0] == seat->node || reaches(w, seat->node, comm->node_of[0]);
    return 2 * count > comm->size || (2 * count == comm->size && has_lowest);
}

void judge_giving_up(struct world *w, const struct seat *seat)
{
    if (is_with_most(w, seat) && !w->has_healed && !w->has_stalled)
        story_fail(&w->story, "node %d is with most, and gives up", seat->node);
}

void judge_minority(struct world *w, const struct seat *seat)
{
    if (is_with_most(w, seat) && sim_now_ns(w->sim) > w->last_change_ns + 20 * PERIOD_NS)
        story_fail(&w->story, "node %d is with most, and judged a minority", seat->node);
}

void judge_links(struct world *w, const struct sim_links *links)
{
    const char *const wrong = sim_links_wrong(links);
    if (wrong != NULL) story_fail(&w->story, "links: %s", wrong);
}

/* One fault has one culprit. */
static void judge_culprits(struct world *w)
{
    const struct comm *comm = &w->comms[0];
    for (int one = 0; one < comm->size; one++)
        for (int other = 0; other < one; other++) {
            const struct word *a = &w->seats[one][0].failure, *b = &w->seats[other][0].failure;
            if (a->culprit < 0 || b->culprit < 0 || a->is_minority || b->is_minority) continue;
            if (a->culprit != b->culprit && !sim_is_cut(w->sim, one, other))
                story_fail(&w->story, "node %d names node %d, node %d names node %d", one,
                           a->culprit, other, b->culprit);
        }
}

void judge_end(struct world *w)
{
    if (!sim_graves_are_quiet(w->graves))
        story_fail(&w->story, "the memory of an operation that was given up has changed");
    if (w->fault_count == 1 && !w->has_healed && !w->has_stalled) judge_culprits(w);
    for (int node = 0; node < w->node_count; node++)
        w->report->finished +=
            sim_is_up(w->sim, node) && w->seats[node][w->current[node]].state == FINISHED;
}

bool judge_is_over(struct world *w)
{
    int number = -1;
    for (int node = 0; node < w->node_count; node++) {
        if (!sim_is_up(w->sim, node)) continue;
        if (w->seats[node][w->current[node]].state != FINISHED) return false;
        if (number >= 0 && w->current[node] != number) return false;
        number = w->current[node];
    }
    if (number < 0) return true;
    const struct comm *comm = &w->comms[number];
    for (int rank = 0; rank < comm->size; rank++)
        if (!sim_is_up(w->sim, comm->node_of[rank])) return true; /* others would find out */
    if (sim_now_ns(w->sim) < w->next_look_ns) return false;
    w->next_look_ns = sim_now_ns(w->sim) + MILLISECOND;
    return sim_links_is_settled(&comm->links);
}

/* Where the rank of a node waits, for people. */
static void describe_wait(const struct seat *seat, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "node %d, communicator %d, round %d", seat->node, seat->comm,
                        seat->round);
    for (int i = 0; i < JOBS_MAX; i++) {
        const struct sim_task *task = &seat->tasks[i];
        if (task->job == NULL || task->is_done || (size_t)used >= bytes) continue;
        used +=
            snprintf(text + used, bytes - (size_t)used, "; %s by %s of %zu waits for rank %d",
                     collective_name(task->job->algorithm->collective), task->job->algorithm->name,
                     task->job->count, operation_waits_for(&task->operation));
    }
}

void judge_horizon(struct world *w)
{
    char text[200];
    if (judge_is_over(w)) return;
    for (int node = 0; node < w->node_count; node++) {
        const struct seat *seat = &w->seats[node][w->current[node]];
        if (!sim_is_up(w->sim, node) || seat->state == FINISHED) continue;
        describe_wait(seat, text, sizeof text);
        story_fail(&w->story, "%s for ever: %s", seat->state == AGREEING ? "agrees" : "waits", text);
    }
    story_fail(&w->story,
               "finished, but credits have not come back, or on different communicators");
}
