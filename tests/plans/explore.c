#include "tests/plans/explore.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "plan/form.h"
#include "plan/verify.h"
#include "tests/plans/explore_state.h"

/* Event `earlier` and the next event of process p could come in the other order: the search must
 * try something that leads to that where it chose `earlier`. */
static void try_other_order(struct explore_model *m, uint32_t earlier, int p, const uint16_t *clock)
{
    struct explore_node *node = &m->path[earlier - 1];
    uint64_t candidates = node->enabled & UINT64_C(1) << p;
    for (uint32_t i = earlier; i < m->depth; i++)
        if (clock[m->path[i].process] >= m->path[i].index)
            candidates |= node->enabled & UINT64_C(1) << m->path[i].process;
    if (candidates & node->backtrack) return;
    node->backtrack |= candidates != 0 ? candidates & -candidates : node->enabled;
}

/* The next event of process p conflicts with event `earlier`, unless that comes before it in any
 * case. */
static void meet(struct explore_model *m, uint32_t earlier, int p, bool analyse,
                 const uint16_t *causes, uint16_t *clock)
{
    if (earlier == 0) return;
    const struct explore_node *node = &m->path[earlier - 1];
    if (node->process == p || causes[node->process] >= node->index) return;
    if (analyse) try_other_order(m, earlier, p, causes);
    explore_join(m, clock, node->clock);
}

/* Executes the next action of process p; its event leaves the node at the end of the path. */
static void step_on(struct explore_model *m, int p, bool analyse)
{
    struct explore_process *process = &m->processes[p];
    struct explore_node *node = &m->path[m->depth];
    const uint32_t event = m->depth + 1;
    uint16_t causes[EXPLORE_PROCESSES_MAX] = {0}, clock[EXPLORE_PROCESSES_MAX];
    explore_join_causes(m, process, causes);
    memcpy(clock, causes, sizeof clock);
    const int access_count = explore_accesses_of(m, process, m->accesses);
    for (int i = 0; i < access_count; i++) {
        struct explore_location *location = &m->locations[m->accesses[i].location];
        meet(m, location->write, p, analyse, causes, clock);
        for (int q = 0; m->accesses[i].writes && q < m->process_count; q++)
            meet(m, location->reads[q], p, analyse, causes, clock);
    }
    for (int i = 0; i < access_count; i++) {
        struct explore_location *location = &m->locations[m->accesses[i].location];
        if (m->accesses[i].writes) {
            memset(location->reads, 0, sizeof location->reads);
            location->write = event;
        } else {
            location->reads[p] = event;
        }
    }
    clock[p] = (uint16_t)++process->event_count;
    node->process = p;
    node->index = process->event_count;
    memcpy(node->clock, clock, sizeof clock);
    memcpy(process->clock, clock, sizeof clock);
    explore_act(m, process, event);
    m->depth++;
    m->report->events++;
}

static bool independent(struct explore_model *m, int p, int q)
{
    const int a = explore_accesses_of(m, &m->processes[p], m->accesses);
    const int b = explore_accesses_of(m, &m->processes[q], m->other_accesses);
    for (int i = 0; i < a; i++)
        for (int k = 0; k < b; k++)
            if (m->accesses[i].location == m->other_accesses[k].location &&
                (m->accesses[i].writes || m->other_accesses[k].writes))
                return false;
    return true;
}

static void go(struct explore_model *m, int p)
{
    struct explore_node *node = &m->path[m->depth];
    const uint64_t asleep = (node->sleep | node->done) & ~(UINT64_C(1) << p);
    uint64_t sleep = 0;
    for (int q = 0; q < m->process_count; q++)
        if (asleep >> q & 1 && independent(m, p, q)) sleep |= UINT64_C(1) << q;
    node->done |= UINT64_C(1) << p;
    step_on(m, p, true);
    m->path[m->depth] = (struct explore_node){.sleep = sleep};
}

static void reset(struct explore_model *m)
{
    for (int i = 0; i < m->process_count; i++) {
        struct explore_process *p = &m->processes[i];
        *p = (struct explore_process){.kind = p->kind, .rank = p->rank, .lane = p->lane};
    }
    for (int i = 0; i < m->lane_count; i++)
        m->lanes[i].step = m->lanes[i].read = m->lanes[i].written = 0;
    memset(m->locations, 0, (size_t)m->location_count * sizeof *m->locations);
    memset(m->unread, 0, sizeof m->unread);
    memset(m->read_clock, 0, sizeof m->read_clock);
    memset(m->trees, 0, (size_t)m->tree_count * sizeof *m->trees);
    for (int i = 0; i < m->link_count; i++) {
        struct explore_link *link = &m->links[i];
        link->begun = link->posted = 0;
        memset(link->taken, 0, sizeof link->taken);
        memset(link->taken_pieces, 0, sizeof link->taken_pieces);
        memset(link->taken_event, 0, sizeof link->taken_event);
    }
    m->depth = 0;
}

/* Goes on from the end of the path to the end of an execution. */
static void run_forward(struct explore_model *m)
{
    while (!m->wrong && m->report->events < m->options->events_max && m->depth < m->depth_max) {
        struct explore_node *node = &m->path[m->depth];
        node->enabled = 0;
        for (int p = 0; p < m->process_count; p++)
            if (explore_is_enabled(m, &m->processes[p])) node->enabled |= UINT64_C(1) << p;
        if (node->enabled == 0) explore_check_end(m);
        const uint64_t awake = node->enabled & ~node->sleep;
        if (awake == 0) return;
        node->backtrack = awake & -awake;
        go(m, __builtin_ctzll(awake));
    }
}

/* Finds the deepest state where something else is to be tried; false: all is done. */
static bool step_back(struct explore_model *m, uint64_t *next)
{
    while (m->depth > 0) {
        const struct explore_node *node = &m->path[--m->depth];
        *next = node->backtrack & ~node->done & ~node->sleep;
        if (*next != 0) return true;
    }
    return false;
}

static enum explore_outcome search(struct explore_model *m)
{
    uint64_t next = 0;
    reset(m);
    m->path[0] = (struct explore_node){0};
    for (;;) {
        run_forward(m);
        m->report->executions++;
        if (m->wrong) return EXPLORE_WRONG;
        if (m->depth == m->depth_max || m->report->events >= m->options->events_max)
            return EXPLORE_BOUND;
        if (!step_back(m, &next)) return EXPLORE_RIGHT;
        const uint32_t depth = m->depth;
        reset(m);
        while (m->depth < depth) step_on(m, m->path[m->depth].process, false);
        go(m, __builtin_ctzll(next));
    }
}

enum explore_outcome explore(const struct plan *plan, const struct explore_options *options,
                             struct explore_report *report)
{
    struct verify_report form;
    *report = (struct explore_report){0};
    if (plan->shape.rank_count > EXPLORE_RANKS_MAX || !form_check(plan, &form))
        return EXPLORE_MALFORMED;
    assert(options->capacity >= 1 && options->capacity <= EXPLORE_CAPACITY_MAX);
    struct explore_model *m = calloc(1, sizeof *m);
    assert(m != NULL);
    m->plan = plan;
    m->options = options;
    m->report = report;
    m->rank_count = plan->shape.rank_count;
    m->longest = 1;
    const enum explore_outcome outcome = explore_set_up(m) ? search(m) : EXPLORE_MALFORMED;
    explore_tear_down(m);
    return outcome;
}
