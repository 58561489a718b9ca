/* explore_set_up.c - a model begins and ends. */
#include <assert.h>
#include <stdlib.h>

#include "base/collective.h"
#include "tests/plans/explore_state.h"

static uint32_t members_of(const struct rank_plan *rank_plan, int group)
{
    uint32_t mask = 0;
    const struct plan_group *of = &rank_plan->groups[group];
    for (uint32_t i = 0; i < of->member_count; i++)
        mask |= 1u << rank_plan->members[of->first_member + i];
    return mask;
}

static int find_link(struct explore_model *m, int source, uint32_t group, int to, int channel)
{
    for (int i = 0; i < m->link_count; i++)
        if (m->links[i].source == source && m->links[i].group == group && m->links[i].to == to &&
            m->links[i].channel == channel)
            return i;
    m->links = realloc(m->links, sizeof *m->links * (size_t)(m->link_count + 1));
    assert(m->links != NULL);
    struct explore_link *link = &m->links[m->link_count];
    *link = (struct explore_link){
        .source = source, .channel = channel, .to = to, .group = group, .writer = EXPLORE_NOBODY};
    for (int rank = 0; rank < EXPLORE_RANKS_MAX; rank++) link->readers[rank] = EXPLORE_NOBODY;
    return m->link_count++;
}

static bool claim(int *holder, int lane)
{
    if (*holder == EXPLORE_NOBODY) *holder = lane;
    return *holder == lane;
}

/* The receivers of a unicast link are a set of one rank; `to` tells it from a group of two. */
static bool connect_step(struct explore_model *m, int lane, uint32_t index)
{
    const struct explore_lane *p = &m->lanes[lane];
    const struct rank_plan *rank_plan = m->plan->ranks[p->rank];
    const struct plan_step *step = &rank_plan->steps[index];
    int *links = m->links_of_step[p->rank];
    const uint32_t self = 1u << p->rank;
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *s = &rank_plan->sources[step->first_source + i];
        int *at = &links[step->first_source + i];
        if (!s->is_link) continue;
        *at = s->group == PLAN_NO_GROUP
                  ? find_link(m, s->peer, self, p->rank, s->channel)
                  : find_link(m, s->peer, members_of(rank_plan, s->group) & ~(1u << s->peer),
                              EXPLORE_NOBODY, s->channel);
        if (!claim(&m->links[*at].readers[p->rank], lane)) return false;
        for (uint32_t k = 0; k < i; k++)
            if (rank_plan->sources[step->first_source + k].is_link && at[(int)k - (int)i] == *at)
                return false;
    }
    for (uint32_t i = 0; i < step->target_count; i++) {
        const int peer = rank_plan->targets[step->first_target + i];
        int *at = &links[rank_plan->source_count + step->first_target + i];
        *at = find_link(m, p->rank, 1u << peer, peer, step->target_channel);
        if (!claim(&m->links[*at].writer, lane)) return false;
        for (uint32_t k = 0; k < i; k++)
            if (at[(int)k - (int)i] == *at) return false;
    }
    if (step->target_group == PLAN_NO_GROUP) return true;
    int *at = &links[rank_plan->source_count + rank_plan->target_count + index];
    *at = find_link(m, p->rank, members_of(rank_plan, step->target_group) & ~self, EXPLORE_NOBODY,
                    step->target_channel);
    return claim(&m->links[*at].writer, lane);
}

/* Nobody could tell apart two links from one rank to another on one channel. */
static bool links_are_distinct(const struct explore_model *m)
{
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < i; k++)
            if (m->links[i].source == m->links[k].source &&
                m->links[i].channel == m->links[k].channel &&
                (m->links[i].group & m->links[k].group) != 0)
                return false;
    return true;
}

static void lay_out_rank(struct explore_model *m, int rank)
{
    const struct plan_shape *shape = &m->plan->shape;
    const struct rank_plan *rank_plan = m->plan->ranks[rank];
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    const uint32_t outputs = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    m->first_location[rank] = m->location_count;
    m->output_location[rank] = m->first_location[rank] + (int)inputs * EXPLORE_PIECES;
    m->scratch_location[rank] = m->output_location[rank] + (int)outputs * EXPLORE_PIECES;
    m->location_count = m->scratch_location[rank] + (int)rank_plan->scratch_count * EXPLORE_PIECES;
    m->alias[rank] = calloc(outputs + 1, sizeof(int));
    m->completed[rank] = calloc(rank_plan->step_count + 1, sizeof(uint32_t));
    m->links_of_step[rank] = calloc(
        rank_plan->source_count + rank_plan->target_count + rank_plan->step_count + 1, sizeof(int));
    m->placements[rank] = calloc(rank_plan->step_count + 1, sizeof(enum placement));
    assert(m->alias[rank] && m->completed[rank] && m->links_of_step[rank] && m->placements[rank]);
    for (uint32_t out = 0; out < outputs; out++) {
        m->alias[rank][out] = EXPLORE_NOBODY;
        for (uint32_t in = 0; in < inputs; in++)
            if (shape->collective == COLLECTIVE_ALLTOALL
                    ? in == out
                    : plan_chunk_class(shape, rank, PLAN_INPUT, in) ==
                          plan_chunk_class(shape, rank, PLAN_OUTPUT, out))
                m->alias[rank][out] = (int)in;
    }
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const uint32_t count = explore_piece_count(&rank_plan->steps[i]);
        if (count > m->longest) m->longest = count;
    }
}

static bool add_lane(struct explore_model *m, int rank, const struct plan_lane *from)
{
    if (m->process_count + 2 > EXPLORE_PROCESSES_MAX) return false;
    struct explore_lane *lane = &m->lanes[m->lane_count++];
    *lane = (struct explore_lane){
        .rank = rank, .first_step = from->first_step, .step_count = from->step_count};
    lane->held = calloc(m->longest, sizeof *lane->held);
    lane->held_event = calloc(m->longest, sizeof *lane->held_event);
    assert(lane->held && lane->held_event);
    m->processes[m->process_count++] =
        (struct explore_process){.kind = EXPLORE_READER, .rank = rank, .lane = lane};
    m->processes[m->process_count++] =
        (struct explore_process){.kind = EXPLORE_WRITER, .rank = rank, .lane = lane};
    return true;
}

static bool add_processes(struct explore_model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++)
        m->processes[m->process_count++] =
            (struct explore_process){.kind = EXPLORE_APPLICATION, .rank = rank};
    for (int rank = 0; rank < m->rank_count; rank++)
        for (uint32_t i = 0; i < m->plan->ranks[rank]->lane_count; i++)
            if (!add_lane(m, rank, &m->plan->ranks[rank]->lanes[i])) return false;
    return true;
}

static void find_placements(struct explore_model *m)
{
    for (int rank = 0; m->options->placement != NULL && rank < m->rank_count; rank++)
        for (uint32_t i = 0; i < m->plan->ranks[rank]->step_count; i++)
            m->placements[rank][i] =
                m->options->placement(m->plan->ranks[rank], i, m->options->in_place);
}

bool explore_set_up(struct explore_model *m)
{
    uint64_t event_count = 64;
    for (int rank = 0; rank < m->rank_count; rank++) lay_out_rank(m, rank);
    m->location_count += m->rank_count * m->options->run_count; /* "has begun" */
    if (!add_processes(m)) return false;
    find_placements(m);
    for (int lane = 0; lane < m->lane_count; lane++)
        for (uint32_t i = 0; i < m->lanes[lane].step_count; i++) {
            if (!connect_step(m, lane, m->lanes[lane].first_step + i)) return false;
            event_count += 2 * (uint64_t)m->longest * (uint64_t)m->options->run_count;
        }
    if (!links_are_distinct(m)) return false;
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < EXPLORE_CAPACITY_MAX; k++) {
            m->links[i].pieces[k] = calloc(m->longest, sizeof(struct explore_piece));
            assert(m->links[i].pieces[k] != NULL);
        }
    m->tree_count = m->options->run_count * (int)m->plan->shape.parts * EXPLORE_PIECES;
    m->depth_max = (uint32_t)event_count;
    m->locations = calloc((size_t)m->location_count, sizeof *m->locations);
    m->trees = calloc((size_t)m->tree_count, sizeof *m->trees);
    m->accesses = calloc((size_t)m->location_count + 64, sizeof *m->accesses);
    m->other_accesses = calloc((size_t)m->location_count + 64, sizeof *m->other_accesses);
    m->path = calloc((size_t)m->depth_max + 1, sizeof *m->path);
    assert(m->locations && m->trees && m->accesses && m->other_accesses && m->path);
    return true;
}

void explore_tear_down(struct explore_model *m)
{
    for (int rank = 0; rank < m->rank_count; rank++) {
        free(m->alias[rank]);
        free(m->completed[rank]);
        free(m->links_of_step[rank]);
        free(m->placements[rank]);
    }
    for (int i = 0; i < m->lane_count; i++) {
        free(m->lanes[i].held);
        free(m->lanes[i].held_event);
    }
    for (int i = 0; i < m->link_count; i++)
        for (int k = 0; k < EXPLORE_CAPACITY_MAX; k++) free(m->links[i].pieces[k]);
    free(m->links);
    free(m->locations);
    free(m->trees);
    free(m->accesses);
    free(m->other_accesses);
    free(m->path);
    free(m);
}
