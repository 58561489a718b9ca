/* verify_order.c - whether accesses to memory are ordered: see verify.c. */
#include <stdlib.h>

#include "plan/verify_state.h"

int verify_receiver_not_before(const struct verification *run, const struct verified_turn *turn,
                               const struct access *access, bool same_position)
{
    const struct wiring *w = &run->wiring;
    const struct wiring_lane *lane = &w->lanes[access->lane];
    const uint32_t step = lane->first_step + access->step % lane->step_count;
    const uint32_t repetition = access->step / lane->step_count;
    for (size_t i = w->first_sends[step]; i < w->first_sends[step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        if (!verify_look(run, link->port_count)) return -1;
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            const struct wiring_taker taker = wiring_taker(w, port, w->sends[i].sequence);
            const uint32_t when = repetition * w->lanes[taker.lane].step_count + taker.step;
            if (!verify_comes_before(turn, taker.lane, when, same_position))
                return w->ports[port].receiver;
        }
    }
    return -1;
}

const char *verify_run_of(const struct verification *run, const struct access *access)
{
    return access->step >= run->wiring.lanes[access->lane].step_count ? " of the second run" : "";
}

static bool fault_race(const struct verification *run, const struct verified_turn *turn,
                       const char *does, const struct plan_location *place, uint32_t position,
                       const char *done, const struct access *other)
{
    const struct wiring_lane *lane = &run->wiring.lanes[other->lane];
    const struct access own = {turn->lane, turn->when, position};
    const uint32_t number = other->lane - run->wiring.first_lanes[lane->rank];
    const uint32_t step = other->step % lane->step_count;
    fault_at(run->report, turn->rank_plan, turn->index,
             "race: %s %s chunk %u%s, which lane %u step %u%s %s; nothing orders them", does,
             verify_buffer_name(place->buffer), place->first + position, verify_run_of(run, &own),
             number, step, verify_run_of(run, other), done);
    run->report->other_rank = lane->rank;
    run->report->other_lane = (int)number;
    run->report->other_step = (int)step;
    return false;
}

/* Memory in which a result was placed is its receiver's until that has run. */
static bool check_placed(struct verification *run, const struct verified_turn *turn,
                         const char *does, const struct plan_location *place, uint32_t position)
{
    const struct cell *cell = verify_turn_cell(run, turn, place, position);
    if (cell->placed_for == 0 || cell->placed_for == turn->all_step + 1) return true;
    return fault_at(run->report, turn->rank_plan, turn->index,
                    "race: %s %s chunk %u, where rank %d may have placed its result by then; "
                    "nothing orders them",
                    does, verify_buffer_name(place->buffer), place->first + position,
                    run->wiring.lanes[cell->write.lane].rank);
}

bool verify_check_read(struct verification *run, const struct verified_turn *turn,
                       const struct plan_location *place, uint32_t position)
{
    const struct cell *cell = verify_turn_cell(run, turn, place, position);
    const struct access *write = &cell->write;
    if (!check_placed(run, turn, "reads", place, position)) return false;
    if (!cell->written ||
        verify_comes_before(turn, write->lane, write->step, write->position == position))
        return true;
    return fault_race(run, turn, "reads", place, position, "writes", write);
}

bool verify_check_write(struct verification *run, const struct verified_turn *turn,
                        const struct plan_location *place, uint32_t position)
{
    const struct cell *cell = verify_turn_cell(run, turn, place, position);
    const struct access *write = &cell->write;
    if (!check_placed(run, turn, "overwrites", place, position)) return false;
    if (cell->written &&
        !verify_comes_before(turn, write->lane, write->step, write->position == position))
        return fault_race(run, turn, "overwrites", place, position, "writes", write);
    for (uint32_t i = cell->reads; i != 0; i = run->reads[i].next) {
        const struct access *read = &run->reads[i].access;
        const bool same_position = read->position == position;
        if (!verify_look(run, 1)) return false;
        if (!verify_comes_before(turn, read->lane, read->step, same_position))
            return fault_race(run, turn, "overwrites", place, position, "reads", read);
        if (!run->reads[i].until_consumed) continue;
        if (verify_receiver_not_before(run, turn, read, same_position) >= 0)
            return fault_race(run, turn, "overwrites", place, position, "may still be sending",
                              read);
    }
    return true;
}

bool verify_add_read(struct verification *run, struct cell *cell, const struct access *access,
                     bool until_consumed)
{
    /* A later read of the same lane, if it is over, says that the earlier one is. */
    struct read *last = &run->reads[cell->reads];
    if (cell->reads != 0 && !last->until_consumed && last->access.lane == access->lane &&
        !until_consumed) {
        last->access = *access;
        return true;
    }
    uint32_t at = run->reads_free;
    if (at != 0) {
        run->reads_free = run->reads[at].next;
    } else {
        if (run->reads_used == run->reads_capacity) {
            if (run->reads_capacity > UINT32_MAX / 2 - 1) return verify_out_of_memory(run);
            const size_t bytes = run->reads_capacity * sizeof(struct read);
            struct read *grown =
                plan_budget_hold(run->budget, bytes) ? realloc(run->reads, 2 * bytes) : NULL;
            if (grown == NULL) return verify_out_of_memory(run);
            run->reads = grown;
            run->reads_capacity *= 2;
        }
        at = run->reads_used++;
    }
    run->reads[at] = (struct read){*access, cell->reads, until_consumed};
    cell->reads = at;
    return true;
}

void verify_forget_reads(struct verification *run, struct cell *cell)
{
    while (cell->reads != 0) {
        const uint32_t at = cell->reads;
        cell->reads = run->reads[at].next;
        run->reads[at].next = run->reads_free;
        run->reads_free = at;
    }
}
