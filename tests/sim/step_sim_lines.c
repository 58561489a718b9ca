#include <stdlib.h>

#include "tests/sim/step_sim_world.h"

int step_node_of(const struct world *w, int end)
{
    return end >= w->seats ? w->shares + end - w->seats : seat_map_server(&w->seat[0].map, end);
}

bool step_is_up(const struct world *w, int end)
{
    return sim_is_up(w->sim, step_node_of(w, end));
}

int step_end_of_worker(const struct world *w, int worker)
{
    return w->seats + worker;
}

void step_send(struct world *w, struct message message)
{
    struct line *const line = &w->lines[message.from][message.to];
    if (!step_is_up(w, message.from) || line->is_over || line->cut_at != 0) {
        free(message.words);
        free(message.applied);
        return;
    }
    uint64_t at = sim_now_ns(w->sim) + sim_between(w->sim, 1, MILLISECOND);
    if (sim_chance(w->sim, 50)) at += sim_between(w->sim, 1, 20 * MILLISECOND);
    if (line->is_slow) at += sim_between(w->sim, 1, 200 * MILLISECOND);
    if (at <= line->last_at) at = line->last_at + 1;
    line->last_at = at;
    if (w->message_count == EVENTS_MAX) {
        story_fail(&w->story, "too many messages");
        return;
    }
    message.entry.members = NULL;
    w->messages[w->message_count] = message;
    sim_at(w->sim, at, DELIVER, step_node_of(w, message.to), w->message_count++, 0);
}

/* The line loses some last messages, and its reader hears of it later. */
static void end_line(struct world *w, int from, int to)
{
    struct line *const line = &w->lines[from][to];
    const uint64_t now = sim_now_ns(w->sim), last = line->last_at > now ? line->last_at : now;
    if (line->cut_at != 0 || line->is_over) return;
    line->cut_at = sim_between(w->sim, now, last + 1);
    line->last_at = line->cut_at + sim_between(w->sim, 1, 10 * MILLISECOND);
    sim_at(w->sim, line->last_at, ENDED, step_node_of(w, to), from, to);
}

static void end_lines(struct world *w, int dead)
{
    for (int to = 0; to < w->seats + w->workers; to++) end_line(w, dead, to);
}

void step_close_line(struct world *w, int one, int other)
{
    end_line(w, one, other);
    w->lines[other][one].is_over = true;
}

void step_cut(struct world *w, int one, int other)
{
    if (!step_is_up(w, one) || !step_is_up(w, other)) return;
    w->report->cut++;
    end_line(w, one, other);
    end_line(w, other, one);
}

void step_crash(struct world *w, int node)
{
    if (!sim_is_up(w->sim, node)) return;
    w->report->servers_died += node < w->shares;
    w->report->workers_died += node >= w->shares;
    for (int end = 0; end < w->seats + w->workers; end++)
        if (step_node_of(w, end) == node) end_lines(w, end);
    sim_crash(w->sim, node);
}

void step_strike(struct world *w, int seat, enum step_entry_kind at)
{
    if (w->strikes == 0 || w->strikes_at != at || w->seat[seat].leader.role != STEP_LEADS) return;
    w->strikes--;
    sim_at(w->sim, sim_now_ns(w->sim) + sim_between(w->sim, 1, 2 * MILLISECOND), CRASH, SIM_NOBODY,
           step_node_of(w, seat), 0);
}
