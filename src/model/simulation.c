#include "model/simulation.h"

#include <stdlib.h>
#include <string.h>

#include "plan/layout.h"

static void *allocate(struct simulated_run *run, size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    run->has_failed |= memory == NULL;
    return memory;
}

/* The size of a block's parts, and of pieces: as binding cuts the largest chunk (engine/bind.c). */
static void cut(struct simulated_run *run, size_t count, size_t element_bytes)
{
    const uint32_t parts = run->plan->shape.parts;
    const struct layout layout = {.count = count, .element_bytes = element_bytes, .parts = parts};
    run->part_ends = allocate(run, (size_t)parts + 1, sizeof *run->part_ends);
    if (run->has_failed) return;
    for (uint32_t i = 0; i <= parts; i++)
        run->part_ends[i] = layout_part_begin(&layout, count, i) * element_bytes;
}

static uint64_t largest_step(const struct simulated_run *run)
{
    uint64_t largest = 0;
    for (int r = 0; r < run->plan->shape.rank_count; r++) {
        const struct rank_plan *plan = run->plan->ranks[r];
        for (uint32_t i = 0; i < plan->step_count; i++) {
            const uint64_t bytes = step_bytes(run, plan, &plan->steps[i]);
            if (bytes > largest) largest = bytes;
        }
    }
    return largest;
}

uint64_t model_piece_bytes(const struct model_machine *machine, uint64_t largest)
{
    const struct path_table *table = machine->within != NULL ? machine->within : machine->between;
    uint64_t piece = machine->piece_bytes_max;
    if (table != NULL) {
        const uint64_t wanted = path_piece_bytes(&table->sizes, largest, machine->piece_count_max);
        if (wanted < piece) piece = wanted;
        if (piece > table->sizes.piece_bytes_max) piece = table->sizes.piece_bytes_max;
    }
    return piece;
}

/* The least number of pieces under way on any link, whatever path they take. */
static unsigned least_window(const struct model_machine *machine)
{
    const struct path_table *const tables[] = {machine->within, machine->between};
    unsigned least = machine->piece_count_max;
    for (int t = 0; t < 2; t++)
        for (unsigned i = 0; tables[t] != NULL && i < tables[t]->row_count; i++)
            if (tables[t]->rows[i].in_flight < least) least = tables[t]->rows[i].in_flight;
    return least;
}

static void set_up_ports(struct simulated_run *run, uint64_t largest)
{
    const unsigned window = least_window(run->machine);
    const struct wiring *wiring = run->wiring;
    for (uint32_t p = 0; p < wiring->port_count; p++) {
        struct port *port = &run->ports[p];
        const struct wiring_link *link = &wiring->links[wiring->ports[p].link];
        port->from = link->source;
        port->to = wiring->ports[p].receiver;
        port->writer = link->writer;
        port->reader = wiring->ports[p].reader;
        const int from = model_host_of(run->machine, port->from),
                  to = model_host_of(run->machine, port->to);
        port->distance = from == to ? MODEL_SAME_HOST
                         : model_rack_of(run->machine, from) == model_rack_of(run->machine, to)
                             ? MODEL_SAME_RACK
                             : MODEL_OTHER_RACK;
        port->may_fill = (uint64_t)link->send_count * pieces_of(run, largest) > window;
    }
}

/* Steps whose results may be stored there by the ranks that compute them. */
static void find_advertised(struct simulated_run *run)
{
    const struct wiring *wiring = run->wiring;
    for (int r = 0; run->machine->is_mapped && r < run->plan->shape.rank_count; r++) {
        const struct rank_plan *plan = run->plan->ranks[r];
        for (uint32_t s = 0; s < plan->step_count; s++) {
            if (placement_of_step(plan, s, false) != PLACEMENT_ADVERTISES) continue;
            const size_t receive = wiring->first_receives[wiring->first_steps[r] + s];
            run->ports[wiring->receives[receive].port].is_advertised = true;
        }
    }
}

/* Each link begins with the rank behind its sender, as in binding. */
static void set_up_links(struct simulated_run *run)
{
    const struct wiring *wiring = run->wiring;
    for (uint32_t l = 0; l < wiring->link_count; l++) {
        const struct wiring_link *link = &wiring->links[l];
        uint32_t first = 0;
        while (first < link->port_count &&
               wiring->ports[link->first_port + first].receiver < link->source)
            first++;
        run->first_ports[l] = link->first_port + first % link->port_count;
    }
}

static void set_up_messages(struct simulated_run *run)
{
    const struct wiring *wiring = run->wiring;
    uint32_t count = 0;
    for (uint32_t l = 0; l < wiring->link_count; l++) {
        run->first_messages[l] = count;
        count += wiring->links[l].send_count;
    }
    run->senders = allocate(run, count, sizeof *run->senders);
    for (uint32_t step = 0; step < wiring->step_count && !run->has_failed; step++)
        for (size_t s = wiring->first_sends[step]; s < wiring->first_sends[step + 1]; s++)
            run->senders[run->first_messages[wiring->sends[s].link] + wiring->sends[s].sequence] =
                step;
}

static void set_up_ranks(struct simulated_run *run)
{
    const struct model_machine *machine = run->machine;
    int *seated = allocate(run, (size_t)machine->host_count, sizeof *seated);
    if (run->has_failed) {
        free(seated);
        return;
    }
    for (int r = 0; r < machine->rank_count; r++)
        seated[model_cores_of(machine, model_host_of(machine, r))]++;
    bool *is_full = allocate(run, (size_t)machine->host_count, sizeof *is_full);
    for (int h = 0; h < machine->host_count && !run->has_failed; h++) {
        is_full[h] = seated[h] > machine->core_count;
        seated[h] = 0;
    }
    uint32_t lane = 0;
    for (int r = 0; r < machine->rank_count && !run->has_failed; r++) {
        struct simulated_rank *state = &run->ranks[r];
        const int host = model_cores_of(machine, model_host_of(machine, r));
        state->plan = run->plan->ranks[r];
        state->first_lane = lane;
        state->first_step = run->wiring->first_steps[r];
        state->core = host * machine->core_count + seated[host]++ % machine->core_count;
        model_sender_init(&state->sender, machine, state->plan, is_full[host]);
        state->waits_for = 1; /* it has begun */
        for (uint32_t l = 0; l < state->plan->lane_count; l++) {
            const struct plan_lane *from = &state->plan->lanes[l];
            run->lanes[lane++] = (struct lane){.rank = r,
                                               .step = from->first_step,
                                               .end_step = from->first_step + from->step_count};
            state->waits_for += from->step_count > 0;
        }
    }
    free(seated);
    free(is_full);
}

/* Whether nothing of the message is read where it lies by another core. */
static bool stays_on_core(struct simulated_run *run, uint32_t port_index, void *context)
{
    const struct simulated_message *message = context;
    const struct port *port = &run->ports[port_index];
    return !crosses(run, port) || goes_through_links(run, port_index, context) ||
           !work_of_port(run, port, message->step, message->bytes).is_shared;
}

/* The place of a step's message, if it lies in the output. */
static bool sends_output(const struct rank_plan *plan, const struct plan_step *step,
                         struct plan_location *place)
{
    const struct plan_source *source = &plan->sources[step->first_source];
    if (!step->has_destination && !plan_step_only_sends(plan, step)) return false;
    *place = step->has_destination ? step->destination : source->location;
    return place->buffer == PLAN_OUTPUT && !copies_input(plan, step);
}

static void mark_output(struct simulated_run *run, struct simulated_rank *state)
{
    const struct rank_plan *plan = state->plan;
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const struct plan_step *step = &plan->steps[s];
        struct plan_location place;
        if (!sends_output(plan, step, &place)) continue;
        struct simulated_message message = {step, step_bytes(run, plan, step)};
        if (!for_ports(run, state->first_step + s, NULL, stays_on_core, &message))
            memset(state->is_read + place.first, true, step->chunk_count);
    }
}

/* Only memory that is mapped is read where it lies by other cores than its own. */
static void set_up_outputs(struct simulated_run *run)
{
    for (int r = 0; run->machine->is_mapped && r < run->machine->rank_count && !run->has_failed;
         r++) {
        struct simulated_rank *state = &run->ranks[r];
        state->is_read = allocate(run, plan_chunk_count(&run->plan->shape, r, PLAN_OUTPUT),
                                  sizeof *state->is_read);
        if (!run->has_failed) mark_output(run, state);
    }
}

static void set_up_turns(struct simulated_run *run)
{
    const int count = run->machine->rank_count;
    int *const cores = allocate(run, (size_t)count, sizeof *cores);
    for (int r = 0; r < count && !run->has_failed; r++) cores[r] = run->ranks[r].core;
    run->has_failed |=
        cores == NULL || !turns_init(&run->turns, &run->servers, cores, run->in_step, TURN);
    for (int r = 0; r < count && !run->has_failed; r++)
        run->ranks[r].shares_core = turns_shares(&run->turns, r);
    free(cores);
}

void simulation_begin(struct simulated_run *run, size_t element_bytes)
{
    const struct model_machine *machine = run->machine;
    const struct wiring *wiring = run->wiring;
    cut(run, run->count, element_bytes);
    run->ranks = allocate(run, (size_t)machine->rank_count, sizeof *run->ranks);
    run->lanes = allocate(run, wiring->lane_count, sizeof *run->lanes);
    run->ports = allocate(run, wiring->port_count, sizeof *run->ports);
    run->first_ports = allocate(run, wiring->link_count, sizeof *run->first_ports);
    run->first_messages = allocate(run, wiring->link_count, sizeof *run->first_messages);
    run->completed = allocate(run, wiring->step_count, sizeof *run->completed);
    run->has_failed |= !servers_init(&run->servers, machine, run->have_rested);
    if (run->has_failed) return;
    const uint64_t largest = whole_bytes(run, largest_step(run));
    run->piece_bytes = model_piece_bytes(machine, largest);
    set_up_ports(run, largest);
    find_advertised(run);
    set_up_links(run);
    set_up_messages(run);
    set_up_ranks(run);
    if (!run->has_failed) set_up_outputs(run);
    set_up_turns(run);
}

void simulation_end(struct simulated_run *run)
{
    free(run->part_ends);
    for (int r = 0; run->ranks != NULL && r < run->machine->rank_count; r++)
        free(run->ranks[r].is_read);
    free(run->ranks);
    free(run->lanes);
    free(run->ports);
    free(run->first_ports);
    free(run->first_messages);
    free(run->senders);
    free(run->completed);
    turns_release(&run->turns);
    servers_release(&run->servers);
    events_release(&run->events);
}
