#include "model/simulate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/simulation.h"

static void schedule(struct simulated_run *run, uint64_t at_ps, enum simulated_kind kind,
                     uint32_t index)
{
    events_add(&run->events, at_ps, kind, index);
}

static inline bool takes_time(const struct simulated_run *run, const struct model_effort *effort)
{
    return effort->core_ps > 0 || (effort->memory_bytes > 0 && run->machine->memory_byte_fs > 0);
}

/* Computes; that event is due afterwards. */
static void compute(struct simulated_run *run, int rank, struct model_effort effort,
                    enum simulated_kind kind, uint32_t index)
{
    if (run->ranks[rank].shares_core)
        turns_add(&run->turns, &run->events, run->now_ps, rank, effort, kind, index);
    else
        schedule(run,
                 servers_compute(&run->servers, run->ranks[rank].core, rank, run->now_ps,
                                 effort.core_ps, effort.memory_bytes),
                 kind, index);
}

/* The event has happened, and what follows from it is under way. */
static void go_on_computing(struct simulated_run *run, int rank)
{
    if (run->ranks[rank].shares_core) turns_next(&run->turns, &run->events, run->now_ps, rank);
}

/* ---------------------------------------------------------------------------------------- ranks */

static void wake_lane(struct simulated_run *run, uint32_t lane_index)
{
    struct simulated_rank *state = &run->ranks[run->lanes[lane_index].rank];
    state->awake |= UINT64_C(1) << (lane_index - state->first_lane);
}

static void release_rank(struct simulated_run *run, int rank, uint32_t count)
{
    struct simulated_rank *state = &run->ranks[rank];
    state->waits_for -= count;
    if (state->waits_for > 0) return;
    run->ranks_left--;
    run->result->time_ps = run->now_ps;
}

/* ------------------------------------------------------------------------------------- messages */

/* A piece leaves its sender: the last one that was given to its link. */
static void depart(struct simulated_run *run, uint32_t port_index, uint64_t bytes)
{
    const struct port *port = &run->ports[port_index];
    const uint64_t fetch_ps =
        port->sent == 1 && crosses(run, port) ? model_fetch_ps(run->machine, &port->work) : 0;
    if (port->distance == MODEL_SAME_HOST)
        schedule(run, run->now_ps + run->machine->latency_ps[MODEL_SAME_HOST] - fetch_ps, ARRIVED,
                 port_index);
    else
        servers_depart(&run->servers, &run->events, run->now_ps,
                       model_host_of(run->machine, port->from), (enum model_distance)port->distance,
                       bytes, port_index);
}

static void fly_on(struct simulated_run *run, enum flight_event at, uint32_t flight)
{
    const uint32_t index = run->servers.flights[flight].port;
    const struct port *port = &run->ports[index];
    uint64_t arrival_ps;
    if (servers_fly_on(&run->servers, &run->events, run->now_ps, at, flight,
                       model_host_of(run->machine, port->from), model_host_of(run->machine, port->to),
                       (enum model_distance)port->distance, &arrival_ps))
        schedule(run, arrival_ps, ARRIVED, index);
}

static void give_to_link(struct simulated_run *run, uint32_t port_index)
{
    struct port *port = &run->ports[port_index];
    const uint64_t bytes = piece_of(run, port->bytes, port->sent);
    port->sent++;
    port->under_way++;
    run->ranks[port->from].waits_for += port->wants_credit;
    depart(run, port_index, bytes);
    if (port->sent < port->piece_count) return;
    port->is_active = false;
    release_rank(run, port->from, 1);
}

/* Whether a part is large enough: a message that is sent by reference while it is computed goes in
 * few parts, see engine/send.c. */
static bool is_worth_posting(const struct simulated_run *run, const struct port *port)
{
    if (!port->work.is_reference || port->work.in_flight == 0 || port->ready == port->piece_count)
        return true;
    return (port->ready - port->posted) * run->piece_bytes >= port->bytes / port->work.in_flight;
}

/* A question goes to the receiver, and its answer waits behind the bytes that the receiver itself
 * has given its card. While an earlier message is under way, the question has already gone. */
static bool ask_for_place(struct simulated_run *run, uint32_t port_index)
{
    struct port *port = &run->ports[port_index];
    if (!port->work.is_asked || port->has_place) return true;
    if (port->has_asked) return false;
    port->has_asked = true;
    port->has_place = port->under_way > 0;
    if (port->has_place) return true;
    const uint64_t there_ps = run->now_ps + run->machine->latency_ps[port->distance];
    uint64_t wait_ps = 0;
    if (port->distance != MODEL_SAME_HOST)
        wait_ps = servers_wait_ps(&run->servers, model_host_of(run->machine, port->to), there_ps,
                                  port->work.answer_bytes);
    schedule(run, there_ps + wait_ps + run->machine->latency_ps[port->distance], ANSWERED,
             port_index);
    return false;
}

/* Gives a link the pieces that are ready, as far as it has room. */
static void push(struct simulated_run *run, uint32_t port_index)
{
    struct port *port = &run->ports[port_index];
    if (is_worth_posting(run, port)) port->posted = port->ready;
    while (port->is_active && !port->is_pushing && port->sent < port->posted &&
           port->under_way < port->window && ask_for_place(run, port_index)) {
        const struct model_sent sent = {.is_first = port->sent == 0,
                                        .is_repeated = port->is_repeated,
                                        .is_retaken = port->is_retaken,
                                        .is_late = port->is_late};
        const struct model_effort effort = model_effort_of_sender(
            run->machine, &port->work, piece_of(run, port->bytes, port->sent), sent);
        if (!takes_time(run, &effort)) {
            give_to_link(run, port_index);
            continue;
        }
        port->is_pushing = true;
        compute(run, port->from, effort, PUSHED, port_index);
    }
    if (!port->is_pushing) port->is_late = port->is_active && port->sent < port->ready;
}

/* The same, as it goes. is_first: it is the first message on the port. */
static struct model_work work_on_port(struct simulated_run *run, const struct port *port,
                                      const struct plan_step *step, uint64_t bytes, bool is_first)
{
    const struct simulated_rank *from = &run->ranks[port->from];
    const struct model_work work = work_of_port(run, port, step, bytes);
    const bool is_placed = is_first && port->is_advertised && work.may_place &&
                           placement_of_step(from->plan, (uint32_t)(step - from->plan->steps),
                                             false) == PLACEMENT_PLACES;
    return is_placed ? model_work_placed(&work) : work;
}

/* Within a host a message by reference has no more parts than there may be under way. */
static uint32_t window_of(const struct simulated_run *run, const struct port *port)
{
    if (port->work.is_placed) return UINT32_MAX;
    if (port->work.in_flight == 0) return run->machine->piece_count_max;
    const bool is_free = port->work.is_reference && port->distance == MODEL_SAME_HOST;
    return is_free ? UINT32_MAX : port->work.in_flight;
}

/* The work of a message that is received: its sender may already be at a later one. */
static struct model_work work_of_message(struct simulated_run *run,
                                         const struct wiring_receive *receive, uint64_t bytes)
{
    const struct port *port = &run->ports[receive->port];
    const struct simulated_rank *from = &run->ranks[port->from];
    if (port->message_count == receive->sequence + 1 && port->bytes == bytes) return port->work;
    const uint32_t link = run->wiring->ports[receive->port].link,
                   step = run->senders[run->first_messages[link] + receive->sequence];
    return work_on_port(run, port, &from->plan->steps[step - from->first_step], bytes,
                        receive->sequence == 0);
}

/* Whether a sum is stored in places that have to be taken back from the core that read the message
 * before. Not so for a sum that is added to a message where it came, and goes on; and the rows of
 * tables, which are measured with copies, already have it for copies. */
static bool is_retaken(struct simulated_run *run, const struct port *port,
                       const struct plan_step *step, uint64_t bytes)
{
    const struct simulated_rank *state = &run->ranks[port->from];
    if (step->source_count < 2 || port->work.is_reference || !port->work.is_shared ||
        !crosses(run, port))
        return false;
    const uint32_t number = state->first_step + (uint32_t)(step - state->plan->steps);
    const size_t first = run->wiring->first_receives[number],
                 end = run->wiring->first_receives[number + 1];
    for (size_t r = first; r < end; r++)
        if (work_of_message(run, &run->wiring->receives[r], bytes).may_forward) return false;
    return true;
}

static uint32_t first_port_of(const struct simulated_run *run, const struct simulated_rank *state,
                              const struct plan_step *step)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t number = state->first_step + (uint32_t)(step - state->plan->steps);
    return run->first_ports[wiring->sends[wiring->first_sends[number]].link];
}

/* A message begins; nothing of it is ready yet. */
static void open_message(struct simulated_run *run, uint32_t port_index,
                         const struct plan_step *step, uint64_t bytes)
{
    struct port *port = &run->ports[port_index];
    struct simulated_rank *state = &run->ranks[port->from];
    port->work = work_on_port(run, port, step, bytes, port->message_count == 0);
    port->bytes = bytes;
    port->message_count++;
    port->piece_count = pieces_of(run, bytes);
    port->ready = port->posted = port->sent = 0;
    port->window = window_of(run, port);
    port->is_repeated = port->work.is_once && port_index != first_port_of(run, state, step);
    port->is_retaken = is_retaken(run, port, step, bytes);
    port->is_active = true;
    port->is_late = false;
    port->has_asked = port->has_place = false;
    state->waits_for++;
    if (!port->work.is_reference || port->wants_credit) return;
    port->wants_credit = true; /* for all that is under way there, as the engine does */
    state->waits_for += port->under_way;
}

/* ---------------------------------------------------------------------------------------- steps */

static uint32_t global_step(const struct simulated_run *run, const struct lane *lane)
{
    return run->ranks[lane->rank].first_step + lane->step;
}

static bool afters_are_completed(const struct simulated_run *run, const struct lane *lane,
                                 const struct plan_step *step)
{
    const struct simulated_rank *state = &run->ranks[lane->rank];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!run->completed[state->first_step + state->plan->afters[step->first_after + i]])
            return false;
    return true;
}

static void complete_step(struct simulated_run *run, struct lane *lane)
{
    struct simulated_rank *state = &run->ranks[lane->rank];
    run->result->steps++;
    if (state->plan->after_count > 0) run->completed[global_step(run, lane)] = true;
    lane->step++;
    lane->has_begun = false;
    if (lane->step == lane->end_step) release_rank(run, lane->rank, 1);
    state->awake |= state->held_up;
}

static bool is_free(struct simulated_run *run, uint32_t port, void *context)
{
    (void)context;
    return !run->ports[port].is_active;
}

static bool open_it(struct simulated_run *run, uint32_t port, void *context)
{
    const struct simulated_message *message = context;
    open_message(run, port, message->step, message->bytes);
    return true;
}

/* Some of the message was computed before its link was free. */
static bool begin_late(struct simulated_run *run, uint32_t port, void *context)
{
    (void)context;
    run->ports[port].is_late = true;
    return true;
}

static bool goes_by_reference(struct simulated_run *run, uint32_t port, void *context)
{
    (void)context;
    return run->ports[port].work.is_reference;
}

/* Makes that many pieces of the port's message ready. */
static bool push_ready(struct simulated_run *run, uint32_t port, void *context)
{
    const uint32_t count = *(const uint32_t *)context;
    if (run->ports[port].ready < count) run->ports[port].ready = count;
    push(run, port);
    return true;
}

static bool post_it(struct simulated_run *run, uint32_t port, void *context)
{
    if (run->ports[port].is_active) return false;
    open_it(run, port, context);
    return push_ready(run, port, &run->ports[port].piece_count);
}

/* Whether the next pieces of the step's messages are here. */
static bool has_come(const struct simulated_run *run, const struct lane *lane)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t step = global_step(run, lane);
    for (size_t r = wiring->first_receives[step]; r < wiring->first_receives[step + 1]; r++) {
        const struct port *port = &run->ports[wiring->receives[r].port];
        if (port->arrived == port->taken) return false;
    }
    return true;
}

static bool is_up_to_date(struct simulated_run *run, uint32_t port, void *context)
{
    (void)context;
    return !run->ports[port].is_late;
}

static struct model_effort effort_of(struct simulated_run *run, const struct lane *lane,
                                     const struct plan_step *step)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t number = global_step(run, lane);
    const uint64_t bytes = piece_of(run, lane->bytes, lane->piece);
    struct model_effort effort =
        model_effort_of_step(run->machine, run->ranks[lane->rank].plan, step, bytes);
    struct model_result_use use = lane->use;
    use.is_read_soon |= step->has_destination && run->machine->memory_byte_fs > 0 &&
                        (!lane->is_open || !for_ports(run, number, NULL, is_up_to_date, NULL));
    model_add_result(&effort, run->machine, &use, bytes);
    for (size_t r = wiring->first_receives[number]; r < wiring->first_receives[number + 1]; r++) {
        const struct model_work work = work_of_message(run, &wiring->receives[r], lane->bytes);
        if (work.is_placed && step->source_count == 1)
            effort = (struct model_effort){0, 0}; /* it is there already */
        const struct model_received received = {
            .is_first = lane->piece == 0,
            .crosses = crosses(run, &run->ports[wiring->receives[r].port])};
        model_add_receiver(&effort, run->machine, &work, step, bytes, received);
    }
    return effort;
}

/* The piece is computed: its messages are consumed, and what it sends is ready. */
static void deliver(struct simulated_run *run, struct lane *lane)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t step = global_step(run, lane);
    for (size_t r = wiring->first_receives[step]; r < wiring->first_receives[step + 1]; r++) {
        const uint32_t index = wiring->receives[r].port;
        struct port *port = &run->ports[index];
        port->taken++;
        if (port->wants_credit || port->may_fill)
            schedule(run, run->now_ps + run->machine->latency_ps[port->distance], CREDIT, index);
        else
            port->under_way--; /* no sender waits for it */
    }
    lane->piece++;
    if (!lane->is_open) return;
    for_ports(run, step, NULL, push_ready, &lane->piece);
    if (lane->piece == lane->piece_count) complete_step(run, lane);
}

static bool any_is_read(const struct simulated_rank *state, struct plan_location place,
                        uint32_t chunk_count)
{
    if (state->is_read == NULL || place.buffer != PLAN_OUTPUT) return false;
    for (uint32_t i = 0; i < chunk_count; i++)
        if (state->is_read[place.first + i]) return true;
    return false;
}

/* The use of the result of a step that stores something. */
static struct model_result_use use_of(struct simulated_run *run, const struct lane *lane,
                                      const struct plan_step *step)
{
    struct simulated_rank *state = &run->ranks[lane->rank];
    struct simulated_message message = {step, lane->bytes};
    /* Only what is read past the caches asks. */
    const bool sends_result = run->machine->memory_byte_fs > 0 && !copies_input(state->plan, step);
    return (struct model_result_use){
        .is_read_elsewhere = any_is_read(state, step->destination, step->chunk_count),
        .is_read_soon = sends_result && !for_ports(run, global_step(run, lane), NULL,
                                                   goes_through_links, &message)};
}

static bool begin_step(struct simulated_run *run, struct lane *lane, const struct plan_step *step)
{
    struct simulated_rank *state = &run->ranks[lane->rank];
    const struct rank_plan *plan = state->plan;
    const uint64_t bit = UINT64_C(1) << (lane - run->lanes - state->first_lane);
    state->held_up |= bit;
    if (!afters_are_completed(run, lane, step)) return false;
    state->held_up &= ~bit;
    lane->bytes = step_bytes(run, plan, step);
    lane->piece = lane->target = 0;
    lane->piece_count = pieces_of(run, lane->bytes);
    lane->has_begun = true;
    lane->is_open = false;
    lane->use = (struct model_result_use){false, false};
    if (step->has_destination) lane->use = use_of(run, lane, step);
    return true;
}

/* Opens a step's messages as soon as earlier messages are out of the way. The pieces that are
 * computed by then are ready at once. */
static void open_messages(struct simulated_run *run, struct lane *lane, const struct plan_step *step)
{
    const uint32_t number = global_step(run, lane);
    struct simulated_message message = {step, lane->bytes};
    if (!for_ports(run, number, NULL, is_free, NULL)) return;
    lane->is_open = true;
    for_ports(run, number, NULL, open_it, &message);
    if (lane->piece > 0) for_ports(run, number, NULL, begin_late, NULL);
    const bool is_whole = lane->piece == 0 && copies_input(run->ranks[lane->rank].plan, step) &&
                          for_ports(run, number, NULL, goes_by_reference, NULL);
    for_ports(run, number, NULL, push_ready, is_whole ? &lane->piece_count : &lane->piece);
}

/* Runs one piece of the lane's step, or posts what a step that only sends can post; false: the lane
 * cannot go on now. */
static bool run_step(struct simulated_run *run, struct lane *lane, uint32_t lane_index)
{
    const struct rank_plan *plan = run->ranks[lane->rank].plan;
    const struct plan_step *step = &plan->steps[lane->step];
    if (!lane->has_begun && !begin_step(run, lane, step)) return false;
    struct simulated_message message = {step, lane->bytes};
    const uint32_t number = global_step(run, lane);
    if (plan_step_only_sends(plan, step)) {
        if (!for_ports(run, number, &lane->target, post_it, &message)) return false;
        complete_step(run, lane);
        return true;
    }
    if (lane->piece < lane->piece_count && !has_come(run, lane)) return false;
    if (!lane->is_open) open_messages(run, lane, step);
    if (lane->piece == lane->piece_count) {
        if (!lane->is_open) return false;
        complete_step(run, lane);
        return true;
    }
    const struct model_effort effort = effort_of(run, lane, step);
    if (!takes_time(run, &effort)) {
        deliver(run, lane);
        return true;
    }
    lane->is_computing = true;
    compute(run, lane->rank, effort, COMPUTED, lane_index);
    return false;
}

/* Runs a lane until another lane has its turn: to the end of a piece that is not the last one of
 * its step. */
static void take_turn(struct simulated_run *run, uint32_t lane_index)
{
    struct lane *lane = &run->lanes[lane_index];
    while (!lane->is_computing && lane->step < lane->end_step) {
        const uint32_t step = lane->step;
        if (!run_step(run, lane, lane_index)) return;
        if (lane->step != step) continue;
        wake_lane(run, lane_index);
        return;
    }
}

/* Lanes that may go on take turns, as in the engine. */
static void go_on(struct simulated_run *run, int rank)
{
    struct simulated_rank *state = &run->ranks[rank];
    if (state->is_going_on) return; /* then it sees them, too */
    state->is_going_on = true;
    while (state->awake != 0) {
        for (uint32_t l = 0; l < state->plan->lane_count; l++) {
            if ((state->awake >> l & 1) == 0) continue;
            state->awake &= ~(UINT64_C(1) << l);
            take_turn(run, state->first_lane + l);
        }
    }
    state->is_going_on = false;
}

static void look_at_lane(struct simulated_run *run, uint32_t lane_index)
{
    wake_lane(run, lane_index);
    go_on(run, run->lanes[lane_index].rank);
}

static void finish_computing(struct simulated_run *run, uint32_t lane_index)
{
    run->lanes[lane_index].is_computing = false;
    deliver(run, &run->lanes[lane_index]);
    look_at_lane(run, lane_index);
}

/* A link has room again, or its core has time: its message goes on, and so does the lane that waits
 * to send the next one. */
static void go_on_sending(struct simulated_run *run, uint32_t port_index)
{
    push(run, port_index);
    if (!run->ports[port_index].is_active) look_at_lane(run, run->ports[port_index].writer);
}

static void happen(struct simulated_run *run, unsigned kind, uint32_t index)
{
    struct port *port = kind >= PUSHED && kind != TURN ? &run->ports[index] : NULL;
    switch (kind) {
    case COMPUTED:
        finish_computing(run, index);
        go_on_computing(run, run->lanes[index].rank);
        break;
    case PUSHED:
        port->is_pushing = false;
        give_to_link(run, index);
        go_on_sending(run, index);
        go_on_computing(run, port->from);
        break;
    case TURN: turns_look(&run->turns, &run->events, run->now_ps, index); break;
    case ARRIVED:
        port->arrived++;
        look_at_lane(run, port->reader);
        break;
    case CREDIT:
        port->under_way--;
        if (port->wants_credit) release_rank(run, port->from, 1);
        go_on_sending(run, index);
        break;
    case ANSWERED:
        port->has_place = true;
        go_on_sending(run, index);
        break;
    default: fly_on(run, (enum flight_event)kind, index); break;
    }
}

/* ------------------------------------------------------------------------------------------ all */

/* Whether the size of a step is known. As in binding, that of a step between links alone that
 * stores nothing is not. */
static bool has_size(const struct rank_plan *plan, const struct plan_step *step)
{
    bool has = step->has_destination || step->chunk_count == 0;
    for (uint32_t i = 0; i < step->source_count; i++)
        has |= !plan->sources[step->first_source + i].is_link;
    return has;
}

static bool all_have_sizes(const struct plan *plan)
{
    for (int r = 0; r < plan->shape.rank_count; r++)
        for (uint32_t i = 0; i < plan->ranks[r]->step_count; i++)
            if (!has_size(plan->ranks[r], &plan->ranks[r]->steps[i])) return false;
    return true;
}

static void note_loads(const struct simulated_run *run)
{
    for (int r = 0; r < MODEL_RESOURCES; r++) {
        struct model_load *load = &run->result->loads[r];
        for (int i = 0; i < servers_count(&run->servers, (enum model_resource)r); i++) {
            const uint64_t busy_ps = run->servers.of[r][i].busy_ps;
            if (busy_ps > load->busy_ps)
                *load = (struct model_load){.busy_ps = busy_ps, .number = i};
        }
    }
}

void model_wait_for_busiest(struct model_result *result)
{
    for (int r = 0; r < MODEL_RESOURCES; r++)
        if (result->time_ps < result->loads[r].busy_ps) result->time_ps = result->loads[r].busy_ps;
}

static void run_all(struct simulated_run *run)
{
    for (uint32_t l = 0; l < run->wiring->lane_count; l++) wake_lane(run, l);
    for (int r = 0; r < run->machine->rank_count; r++) go_on(run, r);
    for (int r = 0; r < run->machine->rank_count; r++) release_rank(run, r, 1);
    while (run->events.count > 0 && run->ranks_left > 0 && !run->events.has_failed) {
        const struct event event = events_next(&run->events);
        run->now_ps = event.at_ps;
        run->result->events++;
        happen(run, event_kind(&event), event_index(&event));
    }
    run->has_failed |= run->events.has_failed;
}

/* Whether a port uses more of its burst in a call than it saves up until the next one. */
static bool uses_up_bursts(const struct simulated_run *run)
{
    const struct model_machine *machine = run->machine;
    const struct model_result *result = run->result;
    for (int r = 0; r < MODEL_RESOURCES; r++) {
        const bool is_uplink = resource_is_uplink((enum model_resource)r);
        const struct model_port *port = is_uplink ? &machine->uplink : &machine->card;
        if (resource_is_port((enum model_resource)r) && port->burst_bytes > 0 &&
            result->loads[r].busy_ps > result->time_ps)
            return true;
    }
    return false;
}

struct outcome {
    bool step_matters; /* it may be another one if cores that ranks share begin elsewhere */
    bool uses_up_bursts;
};

static enum tutti_status simulate_once(struct simulated_run *run, size_t element_bytes,
                                       struct outcome *outcome)
{
    simulation_begin(run, element_bytes);
    if (!run->has_failed) run_all(run);
    if (!run->has_failed) {
        note_loads(run);
        *outcome = (struct outcome){turns_depend_on_step(&run->turns), uses_up_bursts(run)};
        model_wait_for_busiest(run->result);
    }
    const bool is_stuck = run->ranks_left > 0;
    simulation_end(run);
    if (run->has_failed) return error_set(TUTTI_NO_MEMORY, "a simulation: out of memory");
    if (is_stuck) return error_set(TUTTI_INVALID_ALGORITHM, "the plan comes to a halt");
    return TUTTI_OK;
}

/* A call among others: ports begin it rested, unless others before it have left them no time for
 * that. */
static enum tutti_status simulate_call(const struct simulated_run *job, bool in_step,
                                       size_t element_bytes, struct model_result *result,
                                       bool *step_matters)
{
    struct outcome outcome = {false, false};
    struct model_result first = {.time_ps = 0};
    struct simulated_run run = *job;
    run.in_step = in_step;
    run.have_rested = true;
    run.result = &first;
    enum tutti_status status = simulate_once(&run, element_bytes, &outcome);
    *result = first;
    if (status == TUTTI_OK && outcome.uses_up_bursts) {
        *result = (struct model_result){.time_ps = 0};
        run = *job;
        run.in_step = in_step;
        run.result = result;
        status = simulate_once(&run, element_bytes, &outcome);
        result->events += first.events;
    }
    *step_matters = outcome.step_matters;
    return status;
}

enum tutti_status model_simulate(const struct plan *plan, const struct wiring *wiring,
                                 const struct model_machine *machine, size_t count,
                                 size_t element_bytes, struct model_result *result)
{
    return model_simulate_part(plan, wiring, machine, count, count, element_bytes, result);
}

enum tutti_status model_simulate_part(const struct plan *plan, const struct wiring *wiring,
                                      const struct model_machine *machine, size_t count,
                                      size_t whole_count, size_t element_bytes,
                                      struct model_result *result)
{
    const struct simulated_run job = {.plan = plan,
                                      .wiring = wiring,
                                      .machine = machine,
                                      .count = count,
                                      .whole_count = whole_count,
                                      .ranks_left = plan->shape.rank_count};
    assert(machine->rank_count == plan->shape.rank_count && machine->core_count > 0);
    assert(machine->piece_bytes_max > 0 && machine->piece_count_max > 0);
    assert(count == whole_count || (count > 0 && count < whole_count));
    if (wiring->port_count > EVENT_INDEX_MAX || wiring->lane_count > EVENT_INDEX_MAX)
        return error_set(TUTTI_UNSUPPORTED, "a plan of %u links is too large to be simulated",
                         wiring->port_count);
    if (!all_have_sizes(plan))
        return error_set(TUTTI_UNSUPPORTED,
                         "the plan has a step between links alone without a destination");
    struct model_result in_step = {.time_ps = 0}, out_of_step = {.time_ps = 0};
    bool step_matters = false;
    TRY(simulate_call(&job, true, element_bytes, &in_step, &step_matters));
    if (step_matters) TRY(simulate_call(&job, false, element_bytes, &out_of_step, &step_matters));
    *result = out_of_step.time_ps > in_step.time_ps ? out_of_step : in_step;
    result->events = in_step.events + out_of_step.events;
    return TUTTI_OK;
}
