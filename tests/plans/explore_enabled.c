/* explore_enabled.c - which processes may act. */
#include "tests/plans/explore_state.h"

static bool run_is_done(const struct explore_model *m, int rank)
{
    for (int i = 0; i < m->lane_count; i++)
        if (m->lanes[i].rank == rank && m->lanes[i].step < m->lanes[i].step_count) return false;
    return m->unread[rank] == 0;
}

static bool piece_is_there(const struct explore_link *link, int receiver, uint32_t piece)
{
    const uint32_t message = link->taken[receiver];
    return message + 1 < link->begun || (message + 1 == link->begun && piece < link->posted);
}

static bool has_room(const struct explore_model *m, const struct explore_link *link)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        if (link->group >> rank & 1 &&
            link->begun - link->taken[rank] >= (uint32_t)m->options->capacity)
            return false;
    return true;
}

static bool may_start(const struct explore_model *m, const struct explore_lane *p)
{
    const struct plan_step *step = explore_step_of(m, p);
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (m->completed[p->rank][rank_plan->afters[step->first_after + i]] == 0) return false;
    return true;
}

static bool may_read(const struct explore_model *m, const struct explore_lane *p)
{
    const struct plan_step *step = explore_step_of(m, p);
    if (explore_posts_memory_only(m, p) || p->read == explore_piece_count(step)) return false;
    if (p->read == 0 && !may_start(m, p)) return false;
    for (uint32_t i = 0; i < step->source_count; i++)
        if (explore_sources_of(m, p)[i].is_link &&
            !piece_is_there(&m->links[explore_source_link(m, p, i)], p->rank, p->read))
            return false;
    return true;
}

static bool may_write(const struct explore_model *m, const struct explore_lane *p)
{
    if (explore_posts_memory_only(m, p)) {
        if (p->written == 0 && !may_start(m, p)) return false;
    } else if (p->written == p->read) {
        return false;
    }
    for (uint32_t i = 0; p->written == 0 && i < explore_target_count(explore_step_of(m, p)); i++)
        if (!has_room(m, &m->links[explore_target_link(m, p, i)])) return false;
    return true;
}

bool explore_is_enabled(const struct explore_model *m, const struct explore_process *p)
{
    if (p->kind == EXPLORE_APPLICATION)
        return p->running ? run_is_done(m, p->rank) : p->run < (uint32_t)m->options->run_count;
    if (!m->processes[p->rank].running || p->lane->step == p->lane->step_count) return false;
    return p->kind == EXPLORE_READER ? may_read(m, p->lane) : may_write(m, p->lane);
}
