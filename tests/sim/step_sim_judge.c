#include "tests/sim/step_sim_world.h"

/* Nobody waits for a worker that cannot push everywhere. */
static void judge_newcomer(struct world *w, int worker)
{
    for (int s = 0; s < w->seats; s++)
        if (step_is_up(w, s) && !w->seat[s].is_broken && w->is_full[s] && !w->was_cut[s] &&
            !w->seat[s].of[worker].is_linked)
            story_fail(&w->story, "worker %d is in before seat %d has a line to it", worker, s);
}

void step_judge_entry(struct world *w, int seat, const struct step_entry *entry, uint64_t members)
{
    if (entry->index >= ENTRIES_MAX) {
        story_fail(&w->story, "too many entries");
        return;
    }
    if (!w->canon[entry->index].is_known) {
        w->canon[entry->index].is_known = true;
        w->canon[entry->index].kind = entry->kind;
        w->canon[entry->index].number = entry->number;
        w->canon[entry->index].members = members;
        w->canon[entry->index].left_count = entry->left_count;
        w->report->entries++;
        w->report->steps += entry->kind == STEP_DECIDED;
        w->report->invited += entry->kind == STEP_INVITED;
        w->report->refilled += entry->kind == STEP_FULL;
        w->report->learned += entry->kind == STEP_FULL && entry->left_count == 0;
        if (entry->kind == STEP_FULL) w->is_full[entry->number] = true;
        if (entry->kind == STEP_CAME) judge_newcomer(w, (int)entry->number);
        w->report->came += entry->kind == STEP_CAME;
        w->report->came_late += entry->kind == STEP_CAME && entry->left_count > 0;
    } else if (w->canon[entry->index].kind != entry->kind ||
               w->canon[entry->index].number != entry->number ||
               w->canon[entry->index].members != members ||
               w->canon[entry->index].left_count != entry->left_count) {
        story_fail(&w->story, "seat %d carries out another entry %llu", seat,
                   (unsigned long long)entry->index);
    }
}

/* A seat carries out the end of a round of wishes: no worker takes part in more than ROUNDS_MAX. */
void step_judge_round(struct world *w, int seat, const struct step_entry *end)
{
    struct step_entry *const first = &w->rounds[end->round % ROUNDS_MAX];
    if (first->kind == STEP_DECIDED) {
        *first = *end;
        w->report->changed += end->kind == STEP_CHANGED;
        w->report->kept += end->kind == STEP_KEPT;
    }
    if (first->kind != end->kind || first->number != end->number ||
        first->left_count != end->left_count)
        story_fail(&w->story, "seat %d ends round %llu otherwise", seat,
                   (unsigned long long)end->round);
}

void step_judge_update(struct world *w, int seat, int worker)
{
    struct seen *const of = &w->seat[seat].of[worker];
    const uint64_t clock = of->decided;
    if (!of->has_ended || of->ticked != clock + 1) {
        story_fail(&w->story, "seat %d lacks the update of worker %d for a step", seat, worker);
        return;
    }
    if (of->ended != w->worker[worker].pushed[clock])
        story_fail(&w->story, "seat %d has a part of update %llu of worker %d", seat,
                   (unsigned long long)clock, worker);
    for (int r = 0; r < w->seat[seat].ranges; r++) {
        if (of->applied[r][clock] != 0)
            story_fail(&w->story, "seat %d applies update %llu of worker %d again", seat,
                       (unsigned long long)clock, worker);
        of->applied[r][clock] = (uint8_t)of->ended;
    }
    w->report->updates++;
}

/* The worker got values of a seat with so many steps. */
void step_judge_values(struct world *w, int worker, const struct message *message)
{
    const struct worker *const own = &w->worker[worker];
    if (message->clock < own->clock)
        story_fail(&w->story, "worker %d pulled values of clock %llu in clock %llu", worker,
                   (unsigned long long)message->clock, (unsigned long long)own->clock);
    if (message->index > 0 && !w->canon[message->index].is_known)
        story_fail(&w->story, "worker %d pulled an entry that nobody carried out", worker);
}

/* --------------------------------------------------------------------------------------- in the end */

static bool is_left(const struct world *w, int seat)
{
    return step_is_up(w, seat) && !w->seat[seat].is_broken && w->is_full[seat];
}

static bool some_share_is_gone(const struct world *w)
{
    for (int p = 0; p < w->shares; p++) {
        bool has_any = false;
        for (int s = 0; s < w->seats; s++)
            has_any |= is_left(w, s) && w->seat[s].map.seats[s].share == p;
        if (!has_any) return true;
    }
    return false;
}

static void judge_pushes(struct world *w, int seat, int worker)
{
    const struct worker *const own = &w->worker[worker];
    for (uint64_t c = 0; c < own->clock; c++)
        for (int r = 0; r < RANGES; r++)
            if (w->seat[seat].of[worker].applied[r][c] != own->pushed[c])
                story_fail(&w->story, "seat %d lacks pushes of clock %llu of worker %d, range %d",
                           seat, (unsigned long long)c, worker, r);
}

void step_judge_end(struct world *w)
{
    const bool is_over = some_share_is_gone(w);
    w->report->ended += is_over;
    for (int s = 0; s < w->seats && !is_over; s++)
        w->report->stopped += step_is_up(w, s) && w->seat[s].is_broken;
    for (int i = 0; i < w->workers; i++) {
        const struct worker *const own = &w->worker[i];
        if (!step_is_up(w, step_end_of_worker(w, i))) continue;
        if (own->role != IS_DONE && !(is_over && own->role == HAS_FAILED))
            story_fail(&w->story, "worker %d stays in clock %llu (%d)", i,
                       (unsigned long long)own->clock, own->role);
        for (int s = 0; s < w->seats && !is_over; s++)
            if (is_left(w, s)) judge_pushes(w, s, i);
    }
    for (int s = 0; s < w->seats && !is_over; s++)
        if (step_is_up(w, s) && !w->seat[s].is_broken && !w->is_full[s] &&
            w->seat[s].ranges == RANGES)
            story_fail(&w->story, "seat %d has its share, and is not FULL", s);
}
