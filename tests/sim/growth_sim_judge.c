/* growth_sim_judge.c - the rules that a simulated growth must keep, and those for its end. */
#include "membership/growth.h"
#include "tests/sim/growth_sim_world.h"

#define BOUND_NS (1000 * MILLISECOND)

static bool is_majority_of(uint64_t voters, uint64_t set)
{
    const int count = __builtin_popcountll(set & voters), all = __builtin_popcountll(voters);
    return 2 * count > all || (2 * count == all && (set & voters & -voters));
}

static uint64_t reached_by(const struct world *w, int node)
{
    uint64_t reached = 0;
    for (int other = 0; other < w->node_count; other++)
        if (sim_is_up(w->sim, other) && !sim_is_cut(w->sim, node, other))
            reached |= UINT64_C(1) << other;
    return reached;
}

/* Whether a member of the old team has this team, and lives: joiners that are left alone with a team
 * do not count (docs/how-to/add-members.md, limits). */
static bool has_member(const struct world *w, int number)
{
    for (int node = 0; node < w->member_count; node++)
        if (sim_is_up(w->sim, node) && w->processes[node].outcomes[number] == IS_MADE) return true;
    return false;
}

void judge_made(struct world *w, int node)
{
    const int number = w->processes[node].team;
    const struct team *team = &w->teams[number];
    for (int other = 0; other < w->node_count; other++) {
        const struct process *process = &w->processes[other];
        if (!sim_is_up(w->sim, other)) continue;
        for (int i = 0; i < w->team_count; i++)
            if (process->outcomes[i] == IS_MADE && i != number && has_member(w, i))
                story_fail(&w->story, "node %d has team %d, node %d has team %d", node, number,
                           other, i);
        if (process->outcomes[number] == IS_NOWHERE)
            story_fail(&w->story, "node %d has team %d, node %d decided that it is nowhere", node,
                       number, other);
    }
    for (int other = 0; other < w->node_count; other++)
        if ((nodes_of(team) >> other & 1) && !(w->processes[other].met >> number & 1))
            story_fail(&w->story, "node %d has team %d, and node %d has not met it", node, number,
                       other);
}

void judge_nowhere(struct world *w, int node, int number)
{
    for (int other = 0; other < w->node_count; other++)
        if (sim_is_up(w->sim, other) && w->processes[other].outcomes[number] == IS_MADE)
            story_fail(&w->story, "node %d decided that team %d is nowhere, node %d has it", node,
                       number, other);
}

/* Those that a rank without a decision could reach for long. */
void judge_undecided(struct world *w, int node)
{
    const struct team *team = &w->teams[w->processes[node].team];
    if (sim_now_ns(w->sim) < w->last_change_ns + BOUND_NS) return;
    if (is_majority_of(team->survivors, reached_by(w, node) & team->survivors))
        story_fail(&w->story, "node %d has no decision on team %d and reaches most survivors", node,
                   w->processes[node].team);
}

void judge_places(struct world *w, const struct team *team, const int *places)
{
    const struct growth_team described = describe(w, team);
    uint64_t taken = 0;
    for (int i = 0; i < growth_size(&described); i++) {
        const bool is_rank = places[i] >= 0 && places[i] < growth_size(&described);
        if (!is_rank || (taken >> places[i] & 1))
            story_fail(&w->story, "number %d has rank %d, which is none or another's", i, places[i]);
        else
            taken |= UINT64_C(1) << places[i];
    }
    for (int rank = 0, number = 0; rank < w->member_count; rank++) {
        if (!(team->survivors >> rank & 1)) continue;
        if (w->keeps_ranks && places[number] != rank)
            story_fail(&w->story, "rank %d became rank %d", rank, places[number]);
        number++;
    }
}

void growth_judge_end(struct world *w)
{
    uint64_t members = 0, joiners = 0, made = 0;
    for (int node = 0; node < w->node_count; node++) {
        const struct process *process = &w->processes[node];
        if (!sim_is_up(w->sim, node)) continue;
        if (!process->has_ended)
            story_fail(&w->story, "node %d waits for ever, at step %d", node, (int)process->step);
        *(is_member(w, node) ? &members : &joiners) |= UINT64_C(1) << node;
        if (process->step == GROWTH_MADE) made |= UINT64_C(1) << node;
    }
    const int gaps = w->member_count - __builtin_popcountll(members);
    const int wanted = w->keeps_ranks ? gaps : w->wanted;
    if (w->is_cut_for_long || members == 0 || made != 0) return;
    for (int node = 0; node < w->member_count; node++)
        if (w->processes[node].is_late || w->processes[node].step == GROWTH_LEFT_OUT ||
            w->processes[node].step == GROWTH_UNDECIDED)
            return; /* it was waited for, or has taken along what it knew */
    if (__builtin_popcountll(joiners) >= wanted)
        story_fail(&w->story, "nobody has a new team, though %llx and %llx live",
                   (unsigned long long)members, (unsigned long long)joiners);
}
