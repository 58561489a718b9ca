#include "model/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "model/work.h"
#include "plan/layout.h"

const char *model_resource_name(enum model_resource resource)
{
    static const char *const names[MODEL_RESOURCES] = {[MODEL_CORE] = "core",
                                                       [MODEL_MEMORY] = "memory",
                                                       [MODEL_CARD_OUT] = "card, out",
                                                       [MODEL_CARD_IN] = "card, in",
                                                       [MODEL_UPLINK_OUT] = "uplink, out",
                                                       [MODEL_UPLINK_IN] = "uplink, in"};
    return (unsigned)resource < MODEL_RESOURCES ? names[resource] : "?";
}

enum kind {
    COMPUTED,   /* a lane's piece */
    PUSHED,     /* a port's piece is in the hands of its link */
    UPLINK_OUT, /* a flight's first byte is there */
    UPLINK_IN,
    CARD_IN,
    ARRIVED, /* a port's piece can be used */
    CREDIT   /* one was consumed, as its sender knows now */
};
enum { KIND_BITS = 3 };

struct event {
    uint64_t at_ps;
    uint32_t order; /* of those at one time, first in, first out */
    uint32_t what;  /* index << KIND_BITS | kind */
};

/* Serves one piece after the other. */
struct server {
    int64_t free_ps; /* when it has done all that has come */
    uint64_t busy_ps;
};

struct core {
    struct server server;
    int last_rank;
};

/* A link's end at one receiver: messages one after the other, in pieces. */
struct port {
    struct model_work work; /* of the message that is being sent */
    uint64_t bytes;         /* of it */
    uint32_t piece_count, ready, posted,
        sent;                /* of its pieces: all, computed, to be sent now, given to the link */
    uint32_t window;         /* pieces under way */
    uint32_t under_way;      /* pieces of all messages */
    uint32_t arrived, taken; /* the same */
    int from, to;
    uint32_t writer, reader; /* lanes */
    uint8_t distance;
    bool is_active; /* not all of the message is sent */
    bool is_pushing;
    bool wants_credit; /* its sender waits until its messages are consumed */
    bool may_fill;     /* it sends more pieces than can be under way */
};

struct lane {
    int rank;
    uint32_t step, end_step; /* of the rank's */
    uint32_t piece, piece_count;
    uint32_t target;
    uint64_t bytes;
    bool has_begun; /* its step */
    bool is_computing;
};

/* A piece on its way through the network. */
struct flight {
    uint64_t finish_ps; /* of its last byte where it is */
    uint64_t bytes;
    uint32_t port; /* of a free one: the next one */
};

struct rank_state {
    const struct rank_plan *plan;
    uint32_t first_lane, first_step,
        waits_for; /* lanes, messages to be sent, pieces to be consumed */
    uint32_t core;
    uint32_t awake; /* lanes that may be able to go on, a bit each */
    bool is_going_on;
    struct model_sender sender;
};

struct run {
    const struct plan *plan;
    const struct wiring *wiring;
    const struct model_machine *machine;
    struct model_result *result;
    struct layout layout;
    uint64_t *part_ends; /* bytes of the first parts of a block; parts + 1 of them */
    uint64_t piece_bytes, now_ps;
    struct event *events;
    size_t event_count, event_room;
    uint32_t order;
    struct rank_state *ranks;
    struct lane *lanes;
    struct port *ports;
    uint32_t *first_ports; /* of each link: to whom it sends first */
    bool *completed;       /* of each step, where its rank has dependencies */
    struct core *cores;
    struct server *servers[MODEL_RESOURCES];
    struct flight *flights;
    uint32_t flight_count, flight_room, free_flight;
    int ranks_left;
    bool has_failed; /* for want of memory */
};

/* ----------------------------------------------------------------------------------------------- events */

static inline bool is_before(const struct event *one, const struct event *other)
{
    if (one->at_ps != other->at_ps) return one->at_ps < other->at_ps;
    return (int32_t)(one->order - other->order) < 0; /* it turns around */
}

static void schedule(struct run *run, uint64_t at_ps, enum kind kind, uint32_t index)
{
    if (run->event_count == run->event_room) {
        const size_t room = run->event_room == 0 ? 1024 : 2 * run->event_room;
        struct event *events = realloc(run->events, room * sizeof *events);
        if (events == NULL) {
            run->has_failed = true;
            return;
        }
        run->events = events;
        run->event_room = room;
    }
    const struct event event = {at_ps, run->order++, index << KIND_BITS | kind};
    size_t at = run->event_count++;
    for (; at > 0 && is_before(&event, &run->events[(at - 1) / 4]); at = (at - 1) / 4)
        run->events[at] = run->events[(at - 1) / 4];
    run->events[at] = event;
}

static struct event next_event(struct run *run)
{
    const struct event first = run->events[0], last = run->events[--run->event_count];
    size_t at = 0;
    for (;;) {
        const size_t begin = 4 * at + 1,
                     end = begin + 4 < run->event_count ? begin + 4 : run->event_count;
        size_t least = begin;
        if (begin >= run->event_count) break;
        for (size_t child = begin + 1; child < end; child++)
            if (is_before(&run->events[child], &run->events[least])) least = child;
        if (!is_before(&run->events[least], &last)) break;
        run->events[at] = run->events[least];
        at = least;
    }
    run->events[at] = last;
    return first;
}

/* ------------------------------------------------------------------------------------------------ servers */

/* A piece of work that comes at `now`; returns when it is done. */
static uint64_t serve(struct server *server, uint64_t now_ps, uint64_t work_ps)
{
    if (server->free_ps < (int64_t)now_ps) server->free_ps = (int64_t)now_ps;
    server->free_ps += (int64_t)work_ps;
    server->busy_ps += work_ps;
    return (uint64_t)server->free_ps;
}

static inline bool takes_time(const struct run *run, const struct model_effort *effort)
{
    return effort->core_ps > 0 || (effort->memory_bytes > 0 && run->machine->memory_byte_fs > 0);
}

static uint64_t serve_core(struct run *run, int rank, struct model_effort effort)
{
    const struct model_machine *machine = run->machine;
    struct core *core = &run->cores[run->ranks[rank].core];
    uint64_t work_ps = effort.core_ps;
    if (core->last_rank != rank && core->last_rank >= 0) work_ps += machine->turn_ps;
    core->last_rank = rank;
    const uint64_t end_ps = serve(&core->server, run->now_ps, work_ps);
    if (effort.memory_bytes == 0 || machine->memory_byte_fs == 0) return end_ps;
    const struct model_cost each = {.byte_fs = machine->memory_byte_fs};
    const uint64_t memory_ps = serve(&run->servers[MODEL_MEMORY][model_host_of(machine, rank)],
                                     run->now_ps, model_cost_ps(each, effort.memory_bytes));
    if (memory_ps <= end_ps) return end_ps;
    core->server.free_ps = (int64_t)memory_ps;
    return memory_ps;
}

/* A token bucket (the generic cell rate algorithm, ITU-T I.371): a port that has rested takes up to its burst at once. Returns when the
 * first byte passes. */
static uint64_t pass(struct run *run, enum model_resource resource, int number,
                     const struct model_port *kind, struct flight *flight)
{
    struct server *port = &run->servers[resource][number];
    const struct model_cost each = {.byte_fs = kind->message.byte_fs};
    const int64_t now_ps = (int64_t)run->now_ps,
                  rested_ps = now_ps - (int64_t)model_cost_ps(each, kind->burst_bytes);
    uint64_t work_ps = model_cost_ps(kind->message, flight->bytes);
    if (kind->queue_bytes > 0 && resource != MODEL_CARD_OUT &&
        port->free_ps - now_ps > (int64_t)model_cost_ps(each, kind->queue_bytes))
        work_ps += work_ps * kind->again_permille / 1000;
    if (port->free_ps < rested_ps) port->free_ps = rested_ps;
    port->free_ps += (int64_t)work_ps;
    port->busy_ps += work_ps;
    const int64_t end_ps = port->free_ps > now_ps ? port->free_ps : now_ps;
    if (flight->finish_ps < (uint64_t)end_ps) flight->finish_ps = (uint64_t)end_ps;
    return (uint64_t)(end_ps - now_ps > (int64_t)work_ps ? end_ps - (int64_t)work_ps : now_ps);
}

/* ------------------------------------------------------------------------------------------ chunks, pieces */

static uint64_t range_bytes(const struct run *run, const struct rank_plan *plan,
                            struct plan_place place, uint32_t chunk_count)
{
    const uint32_t parts = run->plan->shape.parts;
    const uint64_t *ends = run->part_ends;
    if (place.buffer != PLAN_SCRATCH) {
        const uint32_t first = place.first % parts;
        const uint64_t last = (uint64_t)first + chunk_count;
        return last / parts * ends[parts] + ends[last % parts] - ends[first];
    }
    uint64_t bytes = 0;
    for (uint32_t i = place.first; i < place.first + chunk_count; i++) {
        const uint32_t part = plan->scratch_like[i] % parts;
        bytes += ends[part + 1] - ends[part];
    }
    return bytes;
}

/* Any of its places says, for those of a step are all of one size. */
static uint64_t step_bytes(const struct run *run, const struct rank_plan *plan,
                           const struct plan_step *step)
{
    if (step->has_destination) return range_bytes(run, plan, step->destination, step->chunk_count);
    for (uint32_t i = 0; i < step->source_count; i++) {
        const struct plan_source *source = &plan->sources[step->first_source + i];
        if (!source->is_link) return range_bytes(run, plan, source->place, step->chunk_count);
    }
    return 0;
}

static uint32_t pieces_of(const struct run *run, uint64_t bytes)
{
    return bytes <= run->piece_bytes ? 1 : (uint32_t)((bytes - 1) / run->piece_bytes + 1);
}

/* Of a message of so many bytes, its piece of that number. */
static uint64_t piece_of(const struct run *run, uint64_t bytes, uint32_t number)
{
    const uint64_t left = bytes - number * run->piece_bytes;
    return left < run->piece_bytes ? left : run->piece_bytes;
}

/* ------------------------------------------------------------------------------------------------- ranks */

static void wake_lane(struct run *run, uint32_t lane_index)
{
    struct rank_state *state = &run->ranks[run->lanes[lane_index].rank];
    state->awake |= 1u << (lane_index - state->first_lane);
}

static void release_rank(struct run *run, int rank, uint32_t count)
{
    struct rank_state *state = &run->ranks[rank];
    state->waits_for -= count;
    if (state->waits_for > 0) return;
    run->ranks_left--;
    if (run->result->rank_ps != NULL) run->result->rank_ps[rank] = run->now_ps;
    if (run->now_ps >= run->result->time_ps) {
        run->result->time_ps = run->now_ps;
        run->result->last_rank = rank;
    }
}

/* ----------------------------------------------------------------------------------------------- messages */

static uint32_t take_flight(struct run *run)
{
    if (run->free_flight != UINT32_MAX) {
        const uint32_t index = run->free_flight;
        run->free_flight = run->flights[index].port;
        return index;
    }
    if (run->flight_count == run->flight_room) {
        const uint32_t room = run->flight_room == 0 ? 256 : 2 * run->flight_room;
        struct flight *flights = realloc(run->flights, room * sizeof *flights);
        if (flights == NULL) {
            run->has_failed = true;
            return UINT32_MAX;
        }
        run->flights = flights;
        run->flight_room = room;
    }
    return run->flight_count++;
}

/* A piece leaves its sender. */
static void depart(struct run *run, uint32_t port_index, uint64_t bytes)
{
    const struct port *port = &run->ports[port_index];
    const struct model_machine *machine = run->machine;
    const uint64_t latency_ps = machine->latency_ps[port->distance];
    if (port->distance == MODEL_SAME_HOST) {
        schedule(run, run->now_ps + latency_ps, ARRIVED, port_index);
        return;
    }
    const uint32_t index = take_flight(run);
    if (index == UINT32_MAX) return;
    struct flight *flight = &run->flights[index];
    *flight = (struct flight){.bytes = bytes, .port = port_index};
    const uint64_t at_ps =
        pass(run, MODEL_CARD_OUT, model_host_of(machine, port->from), &machine->card, flight);
    if (port->distance == MODEL_SAME_RACK)
        schedule(run, at_ps + latency_ps, CARD_IN, index);
    else
        schedule(run, at_ps, UPLINK_OUT, index);
}

static void fly_on(struct run *run, enum kind kind, uint32_t index)
{
    struct flight *flight = &run->flights[index];
    const struct model_machine *machine = run->machine;
    const struct port *port = &run->ports[flight->port];
    const int from = model_host_of(machine, port->from), to = model_host_of(machine, port->to);
    const uint64_t latency_ps = machine->latency_ps[port->distance];
    uint64_t at_ps;
    switch (kind) {
    case UPLINK_OUT:
        at_ps = pass(run, MODEL_UPLINK_OUT, model_rack_of(machine, from), &machine->uplink, flight);
        schedule(run, at_ps, UPLINK_IN, index);
        return;
    case UPLINK_IN:
        at_ps = pass(run, MODEL_UPLINK_IN, model_rack_of(machine, to), &machine->uplink, flight);
        schedule(run, at_ps + latency_ps, CARD_IN, index);
        return;
    default: break;
    }
    flight->finish_ps += latency_ps;
    pass(run, MODEL_CARD_IN, to, &machine->card, flight);
    schedule(run, flight->finish_ps, ARRIVED, flight->port);
    flight->port = run->free_flight;
    run->free_flight = index;
}

static void give_to_link(struct run *run, uint32_t port_index)
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

/* What is sent by reference while it is computed goes in few parts, see engine/send.c. */
static bool is_worth_posting(const struct run *run, const struct port *port)
{
    if (!port->work.is_reference || port->work.in_flight == 0 || port->ready == port->piece_count)
        return true;
    return (port->ready - port->posted) * run->piece_bytes >= port->bytes / port->work.in_flight;
}

/* Gives a link what is ready, as far as it has room. */
static void push(struct run *run, uint32_t port_index)
{
    struct port *port = &run->ports[port_index];
    if (is_worth_posting(run, port)) port->posted = port->ready;
    while (port->is_active && !port->is_pushing && port->sent < port->posted &&
           port->under_way < port->window) {
        const struct model_effort effort = model_effort_of_sender(
            &port->work, piece_of(run, port->bytes, port->sent), port->sent == 0);
        if (!takes_time(run, &effort)) {
            give_to_link(run, port_index);
            continue;
        }
        port->is_pushing = true;
        schedule(run, serve_core(run, port->from, effort), PUSHED, port_index);
    }
}

/* Within a host a message by reference has no more parts than there may be under way. */
static uint32_t window_of(const struct run *run, const struct port *port)
{
    if (port->work.in_flight == 0) return run->machine->piece_count_max;
    const bool is_free = port->work.is_reference && port->distance == MODEL_SAME_HOST;
    return is_free ? UINT32_MAX : port->work.in_flight;
}

/* A message begins; nothing of it is ready yet. */
static void open_message(struct run *run, uint32_t port_index, const struct plan_step *step,
                         uint64_t bytes)
{
    struct port *port = &run->ports[port_index];
    struct rank_state *state = &run->ranks[port->from];
    port->work = model_work_of(&state->sender, run->machine, state->plan, step,
                               (enum model_distance)port->distance, bytes);
    port->bytes = bytes;
    port->piece_count = pieces_of(run, bytes);
    port->ready = port->posted = port->sent = 0;
    port->window = window_of(run, port);
    port->is_active = true;
    state->waits_for++;
    if (!port->work.is_reference || port->wants_credit) return;
    port->wants_credit = true; /* for all that is under way there, as the engine does */
    state->waits_for += port->under_way;
}

/* -------------------------------------------------------------------------------------------------- steps */

static uint32_t global_step(const struct run *run, const struct lane *lane)
{
    return run->ranks[lane->rank].first_step + lane->step;
}

static bool afters_are_completed(const struct run *run, const struct lane *lane,
                                 const struct plan_step *step)
{
    const struct rank_state *state = &run->ranks[lane->rank];
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!run->completed[state->first_step + state->plan->afters[step->first_after + i]])
            return false;
    return true;
}

static void complete_step(struct run *run, struct lane *lane)
{
    struct rank_state *state = &run->ranks[lane->rank];
    run->result->steps++;
    if (state->plan->after_count > 0) run->completed[global_step(run, lane)] = true;
    lane->step++;
    lane->has_begun = false;
    if (lane->step == lane->end_step) release_rank(run, lane->rank, 1);
    if (state->plan->after_count == 0) return;
    state->awake |= (1u << state->plan->lane_count) - 1;
}

/* The ports of a step's targets: all those of the links it sends on. Calls `each` for them until that says no. */
static bool for_ports(struct run *run, uint32_t step, uint32_t *skip,
                      bool (*each)(struct run *run, uint32_t port, void *context), void *context)
{
    const struct wiring *wiring = run->wiring;
    uint32_t number = 0;
    for (size_t s = wiring->first_sends[step]; s < wiring->first_sends[step + 1]; s++) {
        const struct wiring_link *link = &wiring->links[wiring->sends[s].link];
        uint32_t port = run->first_ports[wiring->sends[s].link];
        for (uint32_t p = 0; p < link->port_count; p++, number++, port++) {
            if (port == link->first_port + link->port_count) port = link->first_port;
            if (skip != NULL && number < *skip) continue;
            if (!each(run, port, context)) return false;
            if (skip != NULL) (*skip)++;
        }
    }
    return true;
}

struct message {
    const struct plan_step *step;
    uint64_t bytes;
};

static bool is_free(struct run *run, uint32_t port, void *context)
{
    (void)context;
    return !run->ports[port].is_active;
}

static bool open_it(struct run *run, uint32_t port, void *context)
{
    const struct message *message = context;
    open_message(run, port, message->step, message->bytes);
    return true;
}

static bool goes_by_reference(struct run *run, uint32_t port, void *context)
{
    (void)context;
    return run->ports[port].work.is_reference;
}

static bool push_all(struct run *run, uint32_t port, void *context)
{
    (void)context;
    run->ports[port].ready = run->ports[port].piece_count;
    push(run, port);
    return true;
}

static bool push_one_more(struct run *run, uint32_t port, void *context)
{
    (void)context;
    if (run->ports[port].ready < run->ports[port].piece_count) run->ports[port].ready++;
    push(run, port);
    return true;
}

static bool post_it(struct run *run, uint32_t port, void *context)
{
    if (run->ports[port].is_active) return false;
    open_it(run, port, context);
    run->ports[port].ready = run->ports[port].piece_count;
    push(run, port);
    return true;
}

/* Whether the next pieces of the step's messages are here. */
static bool has_come(const struct run *run, const struct lane *lane)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t step = global_step(run, lane);
    for (size_t r = wiring->first_receives[step]; r < wiring->first_receives[step + 1]; r++) {
        const struct port *port = &run->ports[wiring->receives[r].port];
        if (port->arrived == port->taken) return false;
    }
    return true;
}

static struct model_effort effort_of(const struct run *run, const struct lane *lane,
                                     const struct plan_step *step)
{
    const struct wiring *wiring = run->wiring;
    const uint32_t number = global_step(run, lane);
    const uint64_t bytes = piece_of(run, lane->bytes, lane->piece);
    struct model_effort effort =
        model_effort_of_step(run->machine, run->ranks[lane->rank].plan, step, bytes);
    for (size_t r = wiring->first_receives[number]; r < wiring->first_receives[number + 1]; r++)
        model_add_receiver(&effort, &run->ports[wiring->receives[r].port].work, bytes,
                           lane->piece == 0);
    return effort;
}

/* The piece is computed: its messages are consumed, and what it sends is ready. */
static void deliver(struct run *run, struct lane *lane)
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
            port->under_way--; /* nobody needs to know */
    }
    for_ports(run, step, NULL, push_one_more, NULL);
    if (++lane->piece == lane->piece_count) complete_step(run, lane);
}

static bool begin_step(struct run *run, struct lane *lane, const struct plan_step *step)
{
    const struct rank_plan *plan = run->ranks[lane->rank].plan;
    if (!afters_are_completed(run, lane, step)) return false;
    lane->bytes = step_bytes(run, plan, step);
    lane->piece = lane->target = 0;
    lane->piece_count = pieces_of(run, lane->bytes);
    lane->has_begun = true;
    return true;
}

/* What is copied and sent: as a whole from where it lies, if all receivers get at that, before it is copied. */
static bool copies_input(const struct rank_plan *plan, const struct plan_step *step)
{
    const struct plan_source *source = &plan->sources[step->first_source];
    return step->source_count == 1 && !source->is_link && source->place.buffer == PLAN_INPUT &&
           step->has_destination && step->destination.buffer == PLAN_OUTPUT;
}

/* One piece of the lane's step, or what a step that only sends can post; false: it cannot go on now. */
static bool run_step(struct run *run, struct lane *lane, uint32_t lane_index)
{
    const struct rank_plan *plan = run->ranks[lane->rank].plan;
    const struct plan_step *step = &plan->steps[lane->step];
    if (!lane->has_begun && !begin_step(run, lane, step)) return false;
    struct message message = {step, lane->bytes};
    const uint32_t number = global_step(run, lane);
    if (plan_step_only_sends(plan, step)) {
        if (!for_ports(run, number, &lane->target, post_it, &message)) return false;
        complete_step(run, lane);
        return true;
    }
    if (!has_come(run, lane)) return false;
    if (lane->piece == 0) {
        if (!for_ports(run, number, NULL, is_free, NULL)) return false;
        for_ports(run, number, NULL, open_it, &message);
        if (copies_input(plan, step) && for_ports(run, number, NULL, goes_by_reference, NULL))
            for_ports(run, number, NULL, push_all, NULL);
    }
    const struct model_effort effort = effort_of(run, lane, step);
    if (!takes_time(run, &effort)) {
        deliver(run, lane);
        return true;
    }
    lane->is_computing = true;
    schedule(run, serve_core(run, lane->rank, effort), COMPUTED, lane_index);
    return false;
}

/* As far as it goes before another lane has its turn: to the end of a piece that is not the last one of its step. */
static void take_turn(struct run *run, uint32_t lane_index)
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

/* Lanes that may go on take turns, as the engine has it. */
static void go_on(struct run *run, int rank)
{
    struct rank_state *state = &run->ranks[rank];
    if (state->is_going_on) return; /* then it sees them, too */
    state->is_going_on = true;
    while (state->awake != 0) {
        for (uint32_t l = 0; l < state->plan->lane_count; l++) {
            if ((state->awake >> l & 1) == 0) continue;
            state->awake &= ~(1u << l);
            take_turn(run, state->first_lane + l);
        }
    }
    state->is_going_on = false;
}

static void look_at_lane(struct run *run, uint32_t lane_index)
{
    wake_lane(run, lane_index);
    go_on(run, run->lanes[lane_index].rank);
}

static void finish_computing(struct run *run, uint32_t lane_index)
{
    run->lanes[lane_index].is_computing = false;
    deliver(run, &run->lanes[lane_index]);
    look_at_lane(run, lane_index);
}

/* A link has room again, or its core has time: on with its message, and with the lane that waits to send the next one. */
static void go_on_sending(struct run *run, uint32_t port_index)
{
    push(run, port_index);
    if (!run->ports[port_index].is_active) look_at_lane(run, run->ports[port_index].writer);
}

static void happen(struct run *run, enum kind kind, uint32_t index)
{
    switch (kind) {
    case COMPUTED: finish_computing(run, index); break;
    case PUSHED:
        run->ports[index].is_pushing = false;
        give_to_link(run, index);
        go_on_sending(run, index);
        break;
    case UPLINK_OUT:
    case UPLINK_IN:
    case CARD_IN: fly_on(run, kind, index); break;
    case ARRIVED:
        run->ports[index].arrived++;
        look_at_lane(run, run->ports[index].reader);
        break;
    case CREDIT:
        run->ports[index].under_way--;
        if (run->ports[index].wants_credit) release_rank(run, run->ports[index].from, 1);
        go_on_sending(run, index);
        break;
    }
}

/* ---------------------------------------------------------------------------------------------- beginning */

static void *allocate(struct run *run, size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    run->has_failed |= memory == NULL;
    return memory;
}

/* The size of a block's parts, and of pieces: as binding cuts the largest chunk (engine/bind.c). */
static void cut(struct run *run, size_t count, size_t element_bytes)
{
    const uint32_t parts = run->plan->shape.parts;
    const struct layout layout = {.count = count, .element_bytes = element_bytes, .parts = parts};
    run->part_ends = allocate(run, (size_t)parts + 1, sizeof *run->part_ends);
    if (run->has_failed) return;
    for (uint32_t i = 0; i <= parts; i++)
        run->part_ends[i] = layout_part_begin(&layout, count, i) * element_bytes;
}

static uint64_t largest_step(const struct run *run)
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

static void choose_piece(struct run *run, uint64_t largest)
{
    const struct model_machine *machine = run->machine;
    const struct path_table *table = machine->within != NULL ? machine->within : machine->between;
    uint64_t piece = machine->piece_bytes_max;
    if (table != NULL) {
        uint64_t wanted = (largest / machine->piece_count_max + 4095) / 4096 * 4096;
        if (wanted < table->sizes.piece_bytes_min) wanted = table->sizes.piece_bytes_min;
        if (wanted < piece) piece = wanted;
        if (piece > table->sizes.piece_bytes_max) piece = table->sizes.piece_bytes_max;
    }
    run->piece_bytes = piece;
}

static void set_up_ports(struct run *run, uint64_t largest)
{
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
        port->may_fill =
            (uint64_t)link->send_count * pieces_of(run, largest) > run->machine->piece_count_max;
    }
}

/* To the rank behind it, as binding has it. */
static void set_up_links(struct run *run)
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

static void set_up_ranks(struct run *run)
{
    const struct model_machine *machine = run->machine;
    int *seated = allocate(run, (size_t)machine->host_count, sizeof *seated);
    if (run->has_failed) {
        free(seated);
        return;
    }
    for (int r = 0; r < machine->rank_count; r++) seated[model_host_of(machine, r)]++;
    bool *is_full = allocate(run, (size_t)machine->host_count, sizeof *is_full);
    for (int h = 0; h < machine->host_count && !run->has_failed; h++) {
        is_full[h] = seated[h] > machine->core_count;
        seated[h] = 0;
    }
    uint32_t lane = 0;
    for (int r = 0; r < machine->rank_count && !run->has_failed; r++) {
        struct rank_state *state = &run->ranks[r];
        const int host = model_host_of(machine, r);
        state->plan = run->plan->ranks[r];
        state->first_lane = lane;
        state->first_step = run->wiring->first_steps[r];
        state->core = (uint32_t)(host * machine->core_count + seated[host]++ % machine->core_count);
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

/* All have rested for long. */
static struct server *make_servers(struct run *run, size_t count)
{
    struct server *servers = allocate(run, count, sizeof *servers);
    for (size_t i = 0; i < count && servers != NULL; i++) servers[i].free_ps = INT64_MIN / 2;
    return servers;
}

static void set_up(struct run *run, size_t count, size_t element_bytes)
{
    const struct model_machine *machine = run->machine;
    const struct wiring *wiring = run->wiring;
    const size_t hosts = (size_t)machine->host_count, racks = (size_t)machine->rack_count;
    const size_t core_count = hosts * (size_t)machine->core_count;
    cut(run, count, element_bytes);
    run->ranks = allocate(run, (size_t)machine->rank_count, sizeof *run->ranks);
    run->lanes = allocate(run, wiring->lane_count, sizeof *run->lanes);
    run->ports = allocate(run, wiring->port_count, sizeof *run->ports);
    run->first_ports = allocate(run, wiring->link_count, sizeof *run->first_ports);
    run->completed = allocate(run, wiring->step_count, sizeof *run->completed);
    run->cores = allocate(run, core_count, sizeof *run->cores);
    for (int r = MODEL_MEMORY; r < MODEL_RESOURCES; r++)
        run->servers[r] = make_servers(run, r < MODEL_UPLINK_OUT ? hosts : racks);
    if (run->has_failed) return;
    for (size_t c = 0; c < core_count; c++) run->cores[c].last_rank = -1;
    const uint64_t largest = largest_step(run);
    choose_piece(run, largest);
    set_up_ports(run, largest);
    set_up_links(run);
    set_up_ranks(run);
}

static void tear_down(struct run *run)
{
    free(run->part_ends);
    free(run->ranks);
    free(run->lanes);
    free(run->ports);
    free(run->first_ports);
    free(run->completed);
    free(run->cores);
    for (int r = 0; r < MODEL_RESOURCES; r++) free(run->servers[r]);
    free(run->flights);
    free(run->events);
}

/* ---------------------------------------------------------------------------------------------------- all */

static void note_load(struct model_load *load, uint64_t busy_ps, int number)
{
    if (busy_ps <= load->busy_ps) return;
    *load = (struct model_load){.busy_ps = busy_ps, .number = number};
}

static void note_loads(const struct run *run)
{
    const struct model_machine *machine = run->machine;
    struct model_load *loads = run->result->loads;
    for (int c = 0; c < machine->host_count * machine->core_count; c++)
        note_load(&loads[MODEL_CORE], run->cores[c].server.busy_ps, c);
    for (int r = MODEL_MEMORY; r < MODEL_RESOURCES; r++) {
        const int count = r < MODEL_UPLINK_OUT ? machine->host_count : machine->rack_count;
        for (int i = 0; i < count; i++) note_load(&loads[r], run->servers[r][i].busy_ps, i);
    }
}

static void run_all(struct run *run)
{
    for (uint32_t l = 0; l < run->wiring->lane_count; l++) wake_lane(run, l);
    for (int r = 0; r < run->machine->rank_count; r++) go_on(run, r);
    for (int r = 0; r < run->machine->rank_count; r++) release_rank(run, r, 1);
    while (run->event_count > 0 && run->ranks_left > 0 && !run->has_failed) {
        const struct event event = next_event(run);
        run->now_ps = event.at_ps;
        run->result->events++;
        happen(run, (enum kind)(event.what & ((1u << KIND_BITS) - 1)), event.what >> KIND_BITS);
    }
}

enum tutti_status model_simulate(const struct plan *plan, const struct wiring *wiring,
                                 const struct model_machine *machine, size_t count,
                                 size_t element_bytes, struct model_result *result)
{
    struct run run = {.plan = plan,
                      .wiring = wiring,
                      .machine = machine,
                      .result = result,
                      .free_flight = UINT32_MAX,
                      .ranks_left = plan->shape.rank_count};
    uint64_t *const rank_ps = result->rank_ps;
    *result = (struct model_result){.rank_ps = rank_ps};
    if (wiring->port_count >> (32 - KIND_BITS) != 0)
        return error_set(TUTTI_UNSUPPORTED, "a plan of %u links is too large to be simulated",
                         wiring->port_count);
    set_up(&run, count, element_bytes);
    if (!run.has_failed) run_all(&run);
    if (!run.has_failed) note_loads(&run);
    const bool is_stuck = run.ranks_left > 0;
    tear_down(&run);
    if (run.has_failed) return error_set(TUTTI_NO_MEMORY, "a simulation: out of memory");
    if (is_stuck) return error_set(TUTTI_INVALID_ALGORITHM, "the plan comes to a halt");
    return TUTTI_OK;
}
