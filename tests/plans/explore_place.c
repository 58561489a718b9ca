/* explore_place.c - which results are placed in the memory of their receivers. */
#include "tests/plans/explore_state.h"

/* The step whose destination a rank advertises for the first message of a link; NULL: it advertises
 * none. A later offer replaces an earlier one. */
static const struct plan_step *offer_of(const struct explore_model *m, int link, int rank)
{
    const struct rank_plan *rank_plan = m->plan->ranks[rank];
    const struct plan_step *found = NULL;
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const struct plan_step *step = &rank_plan->steps[i];
        if (m->placements[rank][i] == PLACEMENT_ADVERTISES &&
            rank_plan->sources[step->first_source].is_link &&
            m->links_of_step[rank][step->first_source] == link)
            found = step;
    }
    return found;
}

static bool has_sent_before(const struct explore_model *m, const struct explore_lane *p, int link)
{
    struct explore_lane earlier = *p;
    for (earlier.step = 0; earlier.step < p->step; earlier.step++)
        for (uint32_t i = 0; i < explore_target_count(explore_step_of(m, &earlier)); i++)
            if (explore_target_link(m, &earlier, i) == link) return true;
    return false;
}

uint32_t explore_offering(const struct explore_model *m, const struct explore_lane *p, int link)
{
    uint32_t ranks = 0;
    if (m->placements[p->rank][p->first_step + p->step] != PLACEMENT_PLACES ||
        has_sent_before(m, p, link))
        return 0;
    for (int rank = 0; rank < m->rank_count; rank++)
        if (m->links[link].group >> rank & 1 && offer_of(m, link, rank) != NULL)
            ranks |= 1u << rank;
    return ranks;
}

/* Leaves those of the ranks that have begun the same run. */
static uint32_t begun_like(const struct explore_model *m, int self, uint32_t ranks)
{
    for (int rank = 0; rank < m->rank_count; rank++) {
        const struct explore_process *theirs = &m->processes[rank];
        if (!theirs->running || theirs->run != m->processes[self].run) ranks &= ~(1u << rank);
    }
    return ranks;
}

uint32_t explore_places_in(const struct explore_model *m, const struct explore_lane *p, int link)
{
    const uint32_t ranks = explore_offering(m, p, link);
    return p->written == 0 ? begun_like(m, p->rank, ranks) : ranks & p->placed;
}

int explore_placed_location(const struct explore_model *m, const struct explore_lane *p, int link,
                            int rank)
{
    return explore_place_location(m, rank, &offer_of(m, link, rank)->destination, p->written);
}
