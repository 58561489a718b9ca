/* verify_placement.c - results that go straight to the memory of their receivers: invariant 6 of
 * verify.c. */
#include "plan/verify_state.h"

/* A step that advertises must store the first message of a link, as it comes, and nothing else:
 * this is the message that its sender is going to place. */
static bool check_advertising(struct verification *run, const struct rank_plan *rank_plan,
                              uint32_t index)
{
    const struct wiring *w = &run->wiring;
    const struct plan_step *step = &rank_plan->steps[index];
    const size_t receive = w->first_receives[w->first_steps[rank_plan->rank] + index];
    if (step->source_count != 1 || !rank_plan->sources[step->first_source].is_link ||
        !step->has_destination || step->final)
        return fault_at(run->report, rank_plan, index,
                        "advertises memory where it does not store a message as it comes");
    if (w->receives[receive].sequence != 0)
        return fault_at(run->report, rank_plan, index,
                        "advertises memory for a message that is not the first of its link");
    return true;
}

/* How far the rule may look, by the letter of placement.h: to the first message of the link, and
 * where that is this one, at all steps. */
static uint64_t looks_for_placement(const struct verification *run,
                                    const struct rank_plan *rank_plan, uint32_t index)
{
    const struct wiring *w = &run->wiring;
    const uint32_t first_step = w->first_steps[rank_plan->rank];
    const struct plan_step *step = &rank_plan->steps[index];
    const struct plan_source *source = &rank_plan->sources[step->first_source];
    const bool sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    uint64_t looks = step->source_count > 1 ? (uint64_t)step->source_count * step->target_count : 0;
    if (step->source_count == 1 && source->is_link && step->has_destination && !sends) {
        const struct wiring_receive *receive = &w->receives[w->first_receives[first_step + index]];
        const struct wiring_taker first = wiring_taker(w, receive->port, 0);
        const uint32_t at = w->lanes[first.lane].first_step + first.step - first_step;
        looks = rank_plan->steps[at].first_source;
        if (receive->sequence == 0) looks += rank_plan->step_count;
    }
    return 1 + looks / ENTRIES_A_LOOK;
}

bool verify_find_placements(struct verification *run)
{
    placement_rule *const rule =
        run->options->placement != NULL ? run->options->placement : placement_of_step;
    for (int rank = 0; rank < run->plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = run->plan->ranks[rank];
        const uint32_t first_step = run->wiring.first_steps[rank];
        for (uint32_t i = 0; i < rank_plan->step_count; i++) {
            if (!verify_look(run, looks_for_placement(run, rank_plan, i))) return false;
            const enum placement placement = rule(rank_plan, i, verify_is_in_place(run, rank));
            run->placements[first_step + i] = (unsigned char)placement;
            if (placement == PLACEMENT_ADVERTISES && !check_advertising(run, rank_plan, i))
                return false;
        }
    }
    return true;
}

static bool knows_beginning(const struct verification *run, const struct verified_turn *turn,
                            int rank)
{
    const struct wiring *w = &run->wiring;
    const uint32_t repetition = run->ranks[turn->rank_plan->rank].run;
    for (uint32_t i = w->first_lanes[rank]; i < w->first_lanes[rank + 1]; i++)
        if (turn->start->entries[i] > 2 * repetition * w->lanes[i].step_count) return true;
    return false;
}

static bool fault_placement(struct verification *run, const struct verified_turn *turn,
                            int receiver, const struct plan_location *place, uint32_t position,
                            const char *done, const struct access *other)
{
    const struct wiring_lane *lane = &run->wiring.lanes[other->lane];
    return fault_at(run->report, turn->rank_plan, turn->index,
                    "race: may place its result in rank %d's %s chunk %u, which rank %d's lane %u "
                    "step %u%s %s; nothing orders them",
                    receiver, verify_buffer_name(place->buffer), place->first + position,
                    lane->rank, other->lane - run->wiring.first_lanes[lane->rank],
                    other->step % lane->step_count, verify_run_of(run, other), done);
}

static bool check_place_order(struct verification *run, const struct verified_turn *turn,
                              int receiver, const struct plan_location *place, uint32_t position)
{
    const struct cell *cell = verify_cell_at(run, receiver, place->buffer, place->first + position);
    const struct access *write = &cell->write;
    if (cell->written &&
        (cell->placed_for != 0 ||
         !verify_comes_before(turn, write->lane, write->step, write->position == position)))
        return fault_placement(run, turn, receiver, place, position, "writes", write);
    for (uint32_t i = cell->reads; i != 0; i = run->reads[i].next) {
        const struct access *read = &run->reads[i].access;
        const bool same_position = read->position == position;
        if (!verify_look(run, 1)) return false;
        if (!verify_comes_before(turn, read->lane, read->step, same_position))
            return fault_placement(run, turn, receiver, place, position, "reads", read);
        if (run->reads[i].until_consumed &&
            verify_receiver_not_before(run, turn, read, same_position) >= 0)
            return fault_placement(run, turn, receiver, place, position, "may still be sending",
                                   read);
    }
    return true;
}

static bool place_at(struct verification *run, const struct verified_turn *turn, int receiver,
                     uint32_t taking_step)
{
    const struct plan_step *step =
        &run->plan->ranks[receiver]->steps[taking_step - run->wiring.first_steps[receiver]];
    if (!verify_look(run, (uint64_t)step->chunk_count + PLAN_LANES_MAX / ENTRIES_A_LOOK))
        return false;
    if (!knows_beginning(run, turn, receiver))
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "may place its result in the memory of rank %d before that has begun",
                        receiver);
    for (uint32_t i = 0; i < step->chunk_count; i++) {
        if (!check_place_order(run, turn, receiver, &step->destination, i)) return false;
        struct cell *cell =
            verify_cell_at(run, receiver, step->destination.buffer, step->destination.first + i);
        verify_forget_reads(run, cell); /* all of them come before */
        cell->write = (struct access){turn->lane, turn->when, i};
        cell->written = true;
        cell->placed_for = taking_step + 1;
    }
    return true;
}

bool verify_place(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    if (run->placements[turn->all_step] != PLACEMENT_PLACES) return true;
    struct verified_turn storing = *turn;
    storing.has_read = true;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        if (!verify_look(run, link->port_count)) return false;
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            const struct wiring_taker taker = wiring_taker(w, port, w->sends[i].sequence);
            const uint32_t taking_step = w->lanes[taker.lane].first_step + taker.step;
            if (run->placements[taking_step] == PLACEMENT_ADVERTISES &&
                !place_at(run, &storing, w->ports[port].receiver, taking_step))
                return false;
        }
    }
    return true;
}
