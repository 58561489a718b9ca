/* verify.c - the abstract run.
 *
 *     form.c     is every index in bounds?           wiring.c   who takes which message?
 *     value.c    what does a chunk hold?      vector_clock.c    what is known to have come before?
 *
 * The run executes a step when its messages are there, which makes room on their links, and posts
 * its result when all its targets have room (one message a link); then the step is completed. Links
 * are FIFO with one writer and one reader, so every order of steps gives the same messages, and one
 * order decides. Therefore the order chosen here must never count as an order of memory accesses.
 * Vector clocks order the accesses, in the manner of FastTrack (Flanagan, Freund, PLDI 2009):
 *
 * 1. A step's *start clock* joins its lane's clock, the clocks of the completed steps that it comes
 *    after, and the start clocks of the senders of its messages. When it completes, all it knew of
 *    completes.
 * 2. Room on a link orders nothing: a transport may have more.
 * 3. An access of step X to a chunk comes before an access of step Y when Y's start clock has X
 *    completed, or has X before it and both touch the chunk at the same position of their ranges.
 * 4. A send reads its memory until the receivers have the message: then their steps must come
 *    before Y likewise. This memory is the source of a pure send; the destination of a step that
 *    stores and sends, since it may be sent from there; nothing if a step reduces straight into a
 *    message.
 * 5. A copy of a chunk onto itself, as there are in place, stores nothing, unless it rounds; sent
 *    on, it is a send of that chunk.
 * 6. A step that may place its result (placement.h) writes the destinations of its receivers that
 *    may advertise, at the same positions, when it runs. By then it has consumed these positions of
 *    its own operands. It does not matter whether every receiver advertises: fewer stores can only
 *    do less harm. From then on until the receiving step has run, the memory belongs to that step.
 *
 * The plan runs twice. A rank begins its second run when all its lanes are done with the first one
 * and the receivers have taken what it sends from memory; the application has read the output and
 * filled the input. With scratch_outlives_run, sends from scratch may go on: then only what the
 * plan does orders them.
 *
 * Cost: steps times lanes of all ranks, with a small constant; memory, clocks in flight and chunks.
 */
#include "plan/verify.h"

#include <stdlib.h>
#include <string.h>

#include "plan/form.h"
#include "plan/verify_state.h"

enum { RUN_COUNT = 2 };

static struct verified_turn turn_of(const struct verification *run, uint32_t lane)
{
    const struct wiring_lane *of = &run->wiring.lanes[lane];
    const struct rank_plan *rank_plan = run->plan->ranks[of->rank];
    struct verified_turn turn = {.rank_plan = rank_plan, .lane = lane, .when = run->lanes[lane].done};
    turn.all_step = of->first_step + turn.when % of->step_count;
    turn.index = turn.all_step - run->wiring.first_steps[of->rank];
    turn.step = &rank_plan->steps[turn.index];
    return turn;
}

/* --------------------------------------------------------------------------- readiness, waiting */

static void enqueue(struct verification *run, uint32_t lane)
{
    struct lane_state *state = &run->lanes[lane];
    if (state->queued) return;
    state->queued = true;
    const uint32_t width = run->wiring.lane_count;
    run->queue[(run->queue_head + run->queue_count++) % width] = lane;
}

static bool lane_is_done(const struct verification *run, uint32_t lane)
{
    const struct wiring_lane *of = &run->wiring.lanes[lane];
    return run->lanes[lane].done == (run->ranks[of->rank].run + 1) * of->step_count;
}

/* The reason why a lane waits, and the lane that it waits for. */
struct wait {
    uint32_t lane; /* WIRING_NONE: nothing, it can go on */
    enum { WAIT_MESSAGE, WAIT_ROOM, WAIT_STEP } what;
    int peer;       /* the rank that should send or receive */
    uint32_t index; /* the step that should be completed */
};

static struct wait wait_for_room(const struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        uint32_t port = link->first_port;
        if (run->in_flight[w->sends[i].link] == NULL) continue;
        while (run->taken[port]) port++;
        verify_look(run, port - link->first_port); /* the next charge tells */
        return (struct wait){
            .lane = w->ports[port].reader, .what = WAIT_ROOM, .peer = w->ports[port].receiver};
    }
    return (struct wait){.lane = WIRING_NONE};
}

static struct wait wait_of(const struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    const int rank = turn->rank_plan->rank;
    if (run->lanes[turn->lane].posting) return wait_for_room(run, turn);
    for (uint32_t i = 0; i < turn->step->after_count; i++) {
        const uint32_t after = turn->rank_plan->afters[turn->step->first_after + i];
        const uint32_t lane = w->first_lanes[rank] + turn->rank_plan->steps[after].lane;
        const uint32_t when = run->ranks[rank].run * w->lanes[lane].step_count +
                              w->first_steps[rank] + after - w->lanes[lane].first_step;
        if (run->lanes[lane].done <= when)
            return (struct wait){.lane = lane, .what = WAIT_STEP, .index = after};
    }
    for (size_t i = w->first_receives[turn->all_step]; i < w->first_receives[turn->all_step + 1];
         i++) {
        const struct wiring_port *port = &w->ports[w->receives[i].port];
        const struct wiring_link *link = &w->links[port->link];
        if (run->in_flight[port->link] == NULL || run->taken[w->receives[i].port])
            return (struct wait){.lane = link->writer, .what = WAIT_MESSAGE, .peer = link->source};
    }
    return (struct wait){.lane = WIRING_NONE};
}

/* Nothing can go on any more: names a step of the circle of waiting lanes. */
static bool fault_deadlock(struct verification *run)
{
    uint32_t lane = 0;
    while (lane_is_done(run, lane)) lane++;
    for (uint32_t i = 0; i < run->wiring.lane_count; i++) {
        const struct verified_turn at = turn_of(run, lane);
        lane = wait_of(run, &at).lane;
        /* This one waits for its rank's second run, and so for another lane of its rank. */
        if (lane_is_done(run, lane)) lane = run->wiring.first_lanes[run->wiring.lanes[lane].rank];
        while (lane_is_done(run, lane)) lane++;
    }
    const struct verified_turn turn = turn_of(run, lane);
    const struct wait wait = wait_of(run, &turn);
    const struct rank_plan *rank_plan = turn.rank_plan;
    switch (wait.what) {
    case WAIT_MESSAGE:
        return fault_at(run->report, rank_plan, turn.index,
                        "deadlock: waits for a message from rank %d", wait.peer);
    case WAIT_ROOM:
        return fault_at(run->report, rank_plan, turn.index,
                        "deadlock: waits until rank %d has received the message before", wait.peer);
    case WAIT_STEP: break;
    }
    const uint32_t other = rank_plan->steps[wait.index].lane;
    return fault_at(run->report, rank_plan, turn.index, "deadlock: waits for lane %u step %u",
                    other, wait.index - rank_plan->lanes[other].first_step);
}

/* ------------------------------------------------------------------------------------ execution */

static bool join_start(struct verification *run, struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    const int rank = turn->rank_plan->rank;
    struct lane_state *lane = &run->lanes[turn->lane];
    const size_t first_receive = w->first_receives[turn->all_step];
    const size_t receive_count = w->first_receives[turn->all_step + 1] - first_receive;
    turn->start = lane->clock;
    if (receive_count == 0 && turn->step->after_count == 0) return true;
    if (!clock_own(&run->clocks, &lane->clock)) return verify_out_of_memory(run);
    turn->start = lane->clock;
    for (size_t i = first_receive; i < first_receive + receive_count; i++) {
        const struct verified_message *message = run->in_flight[w->ports[w->receives[i].port].link];
        clock_join(&run->clocks, lane->clock, message->clock, message->lane,
                   clock_before(message->step));
    }
    for (uint32_t i = 0; i < turn->step->after_count; i++) {
        const uint32_t after = turn->rank_plan->afters[turn->step->first_after + i];
        const uint32_t all_after = w->first_steps[rank] + after;
        const uint32_t other = w->first_lanes[rank] + turn->rank_plan->steps[after].lane;
        if (other == turn->lane) continue;
        const uint32_t when = run->ranks[rank].run * w->lanes[other].step_count + all_after -
                              w->lanes[other].first_step;
        clock_join(&run->clocks, lane->clock, run->completed[all_after], other,
                   clock_completed(when));
        if (--run->dependents[all_after] > 0) continue;
        clock_drop(&run->clocks, run->completed[all_after]);
        run->completed[all_after] = NULL;
    }
    return true;
}

/* The value of source i of the step at that position; VALUE_NONE after a fault. */
static value read_source(struct verification *run, const struct verified_turn *turn,
                         const struct plan_source *source, size_t *receive, uint32_t position)
{
    if (source->is_link) {
        const uint32_t port = run->wiring.receives[(*receive)++].port;
        const value sent = run->in_flight[run->wiring.ports[port].link]->values[position];
        return rounding_on_link(run->options->places, source->peer, turn->rank_plan->rank)
                   ? value_rounded(sent)
                   : sent;
    }
    const uint32_t chunk = source->location.first + position;
    const value found = verify_turn_cell(run, turn, &source->location, position)->value;
    if (found == VALUE_NONE) {
        fault_at(run->report, turn->rank_plan, turn->index, "reads %s chunk %u, which nobody wrote",
                 verify_buffer_name(source->location.buffer), chunk);
        return VALUE_NONE;
    }
    if (value_class(run->values, found) !=
        plan_location_class(turn->rank_plan, source->location.buffer, chunk)) {
        fault_at(run->report, turn->rank_plan, turn->index,
                 "reads %s chunk %u after another chunk was stored in its memory",
                 verify_buffer_name(source->location.buffer), chunk);
        return VALUE_NONE;
    }
    return verify_check_read(run, turn, &source->location, position) ? found : VALUE_NONE;
}

static bool fault_overlap(struct verification *run, const struct verified_turn *turn, int rank,
                          uint32_t class)
{
    if (rank == VALUE_SOME_RANK)
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "adds some rank twice to chunk %u", class);
    return fault_at(run->report, turn->rank_plan, turn->index, "adds rank %d twice to chunk %u",
                    rank, class);
}

static bool rounds(const struct verification *run, const struct verified_turn *turn)
{
    const struct verify_options *const options = run->options;
    rounding_rule *const rule = options->rounding != NULL ? options->rounding : rounding_of_step;
    return options->places != NULL && rule(turn->rank_plan, turn->index, options->places,
                                           verify_is_in_place(run, turn->rank_plan->rank));
}

/* Rounds the result where the rule says so. */
static void round_result(struct verification *run, const struct verified_turn *turn,
                         uint32_t position)
{
    if (rounds(run, turn)) run->results[position] = value_rounded(run->results[position]);
}

/* Left to right, as the engine does; the sum is rounded, and scaled when final, at the end of the
 * step. */
static bool reduce_position(struct verification *run, const struct verified_turn *turn,
                            uint32_t position)
{
    const struct plan_step *step = turn->step;
    const struct plan_source *sources = &turn->rank_plan->sources[step->first_source];
    size_t receive = run->wiring.first_receives[turn->all_step];
    struct value_parts sum, operand;
    const value first = read_source(run, turn, &sources[0], &receive, position);
    if (first == VALUE_NONE) return false;
    run->results[position] = first;
    if (step->source_count == 1) {
        round_result(run, turn, position);
        return true;
    }
    value_take(run->values, first, &sum);
    for (uint32_t i = 1; i < step->source_count; i++) {
        const value next = read_source(run, turn, &sources[i], &receive, position);
        if (next == VALUE_NONE) return false;
        value_take(run->values, next, &operand);
        if (operand.class != sum.class)
            return fault_at(run->report, turn->rank_plan, turn->index, "adds chunk %u to chunk %u",
                            operand.class, sum.class);
        const int both = value_overlap(run->values, &sum, &operand);
        if (both != VALUE_DISJOINT) return fault_overlap(run, turn, both, sum.class);
        value_add(run->values, &sum, &operand);
    }
    const bool complete = value_is_complete(run->values, &sum);
    const uint32_t rank_count = (uint32_t)run->plan->shape.rank_count;
    if (!complete && sum.count == rank_count)
        return fault_overlap(run, turn, VALUE_SOME_RANK, sum.class);
    if (step->final && !complete)
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "is marked final with %u of %u ranks in chunk %u", sum.count, rank_count,
                        sum.class);
    if (complete && !step->final)
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "completes chunk %u but is not marked final", sum.class);
    sum.final = step->final;
    if (!sum.ordered) run->report->rank_ordered = false;
    run->results[position] = value_store(run->values, &sum);
    if (run->results[position] == VALUE_NONE) return verify_out_of_memory(run);
    round_result(run, turn, position);
    return true;
}

/* Local sources may be the destination itself, position by position, and overlap it in no other
 * way. */
static bool check_overlap(struct verification *run, const struct verified_turn *turn)
{
    const struct plan_step *step = turn->step;
    if (!step->has_destination || step->chunk_count < 2) return true;
    const struct cell *low = verify_turn_cell(run, turn, &step->destination, 0), *high = low;
    for (uint32_t i = 0; i < step->chunk_count; i++) { /* in place, cells need not be in order */
        const struct cell *cell = verify_turn_cell(run, turn, &step->destination, i);
        if (cell < low) low = cell;
        if (cell > high) high = cell;
    }
    for (uint32_t s = 0; s < step->source_count; s++) {
        const struct plan_source *source = &turn->rank_plan->sources[step->first_source + s];
        for (uint32_t i = 0; !source->is_link && i < step->chunk_count; i++) {
            const struct cell *cell = verify_turn_cell(run, turn, &source->location, i);
            if (cell < low || cell > high ||
                cell == verify_turn_cell(run, turn, &step->destination, i))
                continue;
            if (!verify_look(run, step->chunk_count)) return false;
            for (uint32_t k = 0; k < step->chunk_count; k++)
                if (cell == verify_turn_cell(run, turn, &step->destination, k))
                    return fault_at(run->report, turn->rank_plan, turn->index,
                                    "stores over %s chunk %u, which it reads for another position",
                                    verify_buffer_name(source->location.buffer),
                                    source->location.first + i);
        }
    }
    return true;
}

static bool stores_nothing(const struct verification *run, const struct verified_turn *turn)
{
    const struct plan_step *step = turn->step;
    const struct plan_source *source = &turn->rank_plan->sources[step->first_source];
    return step->chunk_count > 0 && step->has_destination && step->source_count == 1 &&
           !source->is_link && !rounds(run, turn) &&
           verify_turn_cell(run, turn, &source->location, 0) ==
               verify_turn_cell(run, turn, &step->destination, 0);
}

static bool check_root_only_reads(const struct verification *run, const struct verified_turn *turn,
                                  uint32_t position)
{
    const struct plan_location *to = &turn->step->destination;
    const int rank = turn->rank_plan->rank;
    if (to->buffer != PLAN_OUTPUT || !verify_is_in_place(run, rank) ||
        !plan_has_all(&run->plan->shape, rank) || stores_nothing(run, turn) || rounds(run, turn))
        return true;
    return fault_at(
        run->report, turn->rank_plan, turn->index,
        "stores in output chunk %u, which in place is the root's input: a root only reads",
        to->first + position);
}

static bool check_destination(struct verification *run, const struct verified_turn *turn,
                              uint32_t position)
{
    const struct plan_location *to = &turn->step->destination;
    const uint32_t class = value_class(run->values, run->results[position]);
    if (class != plan_location_class(turn->rank_plan, to->buffer, to->first + position))
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "stores chunk %u in %s chunk %u, which is part of another one", class,
                        verify_buffer_name(to->buffer), to->first + position);
    if (!check_root_only_reads(run, turn, position)) return false;
    return stores_nothing(run, turn) || verify_check_write(run, turn, to, position);
}

static bool compute(struct verification *run, const struct verified_turn *turn)
{
    if (!check_overlap(run, turn)) return false;
    for (uint32_t i = 0; i < turn->step->chunk_count; i++) {
        if (!reduce_position(run, turn, i)) return false;
        if (turn->step->has_destination && !check_destination(run, turn, i)) return false;
    }
    return true;
}

static bool record_accesses(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    const struct plan_step *step = turn->step;
    const bool sends = w->first_sends[turn->all_step] < w->first_sends[turn->all_step + 1];
    const bool sends_source =
        sends && step->source_count == 1 && (!step->has_destination || stores_nothing(run, turn));
    for (uint32_t s = 0; s < step->source_count; s++) {
        const struct plan_source *source = &turn->rank_plan->sources[step->first_source + s];
        for (uint32_t i = 0; !source->is_link && i < step->chunk_count; i++)
            if (!verify_add_read(run, verify_turn_cell(run, turn, &source->location, i),
                                 &(struct access){turn->lane, turn->when, i}, sends_source))
                return false;
    }
    if (!step->has_destination || stores_nothing(run, turn)) return true;
    for (uint32_t i = 0; i < step->chunk_count; i++) {
        struct cell *cell = verify_turn_cell(run, turn, &step->destination, i);
        verify_forget_reads(run, cell); /* all of them come before */
        cell->write = (struct access){turn->lane, turn->when, i};
        cell->written = true;
        cell->placed_for = 0;
        cell->value = run->results[i];
        if (sends && !verify_add_read(run, cell, &cell->write, true)) return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------- messages */

static void take_messages(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_receives[turn->all_step]; i < w->first_receives[turn->all_step + 1];
         i++) {
        const uint32_t port = w->receives[i].port, link = w->ports[port].link;
        run->taken[port] = true;
        if (--run->waiting[link] > 0) continue;
        verify_drop_message(run, run->in_flight[link]);
        run->in_flight[link] = NULL;
        enqueue(run, w->links[link].writer);
    }
}

static bool make_message(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    const size_t count = w->first_sends[turn->all_step + 1] - w->first_sends[turn->all_step];
    if (count == 0) return true;
    const size_t values_bytes = turn->step->chunk_count * sizeof(value);
    if (!plan_budget_hold(run->budget, sizeof(struct verified_message) + values_bytes))
        return false;
    struct verified_message *message = malloc(sizeof *message + values_bytes);
    if (message == NULL) return verify_out_of_memory(run);
    message->chunk_count = turn->step->chunk_count;
    message->references = (uint32_t)count;
    message->clock = clock_keep(run->lanes[turn->lane].clock);
    message->lane = turn->lane;
    message->step = turn->when;
    if (values_bytes > 0) memcpy(message->values, run->results, values_bytes);
    run->lanes[turn->lane].outgoing = message;
    return true;
}

static void post_message(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        run->in_flight[w->sends[i].link] = run->lanes[turn->lane].outgoing;
        run->waiting[w->sends[i].link] = link->port_count;
        verify_look(run, link->port_count); /* the next charge tells */
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            run->taken[port] = false;
            enqueue(run, w->ports[port].reader);
            run->report->message_count += run->ranks[turn->rank_plan->rank].run == 0;
        }
    }
    run->lanes[turn->lane].outgoing = NULL;
}

static bool complete(struct verification *run, const struct verified_turn *turn)
{
    const struct wiring *w = &run->wiring;
    struct lane_state *lane = &run->lanes[turn->lane];
    const int rank = turn->rank_plan->rank;
    if (w->first_receives[turn->all_step] < w->first_receives[turn->all_step + 1] &&
        !clock_complete(&run->clocks, &lane->clock))
        return verify_out_of_memory(run);
    lane->done++;
    run->report->step_count += run->ranks[rank].run == 0;
    if (run->dependents[turn->all_step] == 0) return true;
    run->completed[turn->all_step] = clock_keep(lane->clock);
    for (uint32_t i = w->first_lanes[rank]; i < w->first_lanes[rank + 1]; i++) enqueue(run, i);
    return true;
}

/* At least, of one run of the step. */
static uint64_t looks_of_step(const struct rank_plan *rank_plan, const struct plan_step *step,
                              uint32_t lane_count)
{
    const struct plan_source *sources = &rank_plan->sources[step->first_source];
    const uint32_t ranks = (uint32_t)rank_plan->shape.rank_count;
    const uint64_t words = ranks <= VERIFY_EXACT_RANKS ? ranks / 64 : 1;
    const uint64_t sends = step->target_count > 0 || step->target_group != PLAN_NO_GROUP;
    uint64_t joins = step->after_count;
    for (uint32_t i = 0; i < step->source_count; i++) joins += sources[i].is_link;
    uint64_t per_chunk = step->source_count + step->has_destination + sends;
    if (step->source_count > 1) per_chunk += step->source_count * (1 + words / WORDS_A_LOOK);
    return 1 + step->chunk_count * per_chunk + joins * (1 + lane_count / ENTRIES_A_LOOK);
}

static bool execute(struct verification *run, struct verified_turn *turn)
{
    if (!verify_look(run, looks_of_step(turn->rank_plan, turn->step, run->wiring.lane_count)))
        return false;
    if (!join_start(run, turn) || !compute(run, turn) || !record_accesses(run, turn) ||
        !verify_place(run, turn) || !make_message(run, turn))
        return false;
    take_messages(run, turn);
    run->lanes[turn->lane].posting = true;
    return true;
}

/* -------------------------------------------------------------------------- beginnings and ends */

/* Steps of other lanes that come after a step: its completed clock is kept until they have
 * started. */
static void count_dependents(struct verification *run, int rank)
{
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    for (uint32_t i = 0; i < rank_plan->step_count; i++) {
        const struct plan_step *step = &rank_plan->steps[i];
        for (uint32_t k = 0; k < step->after_count; k++) {
            const uint32_t after = rank_plan->afters[step->first_after + k];
            if (rank_plan->steps[after].lane != step->lane)
                run->dependents[run->wiring.first_steps[rank] + after]++;
        }
    }
}

static void forget_accesses(struct verification *run, struct cell *cell, value value_now)
{
    verify_forget_reads(run, cell);
    *cell = (struct cell){.value = value_now};
}

/* The application has read the output and filled the input. */
static bool begin_rank(struct verification *run, int rank)
{
    const struct plan_shape *shape = &run->plan->shape;
    const struct wiring *w = &run->wiring;
    const uint32_t outputs = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    if (!verify_look(run, verify_cells_of(run->plan->ranks[rank]))) return false;
    for (uint32_t i = 0; i < outputs; i++)
        forget_accesses(run, verify_cell_at(run, rank, PLAN_OUTPUT, i), VALUE_NONE);
    for (uint32_t i = 0; i < inputs; i++)
        forget_accesses(run, verify_cell_at(run, rank, PLAN_INPUT, i),
                        value_contribution(rank, plan_chunk_class(shape, rank, PLAN_INPUT, i)));
    for (uint32_t i = 0; i < run->plan->ranks[rank]->scratch_count; i++) {
        struct cell *cell = verify_cell_at(run, rank, PLAN_SCRATCH, i);
        if (run->options->scratch_outlives_run)
            cell->value = VALUE_NONE;
        else
            forget_accesses(run, cell, VALUE_NONE);
    }
    count_dependents(run, rank);
    run->ranks[rank].lanes_running = 0;
    for (uint32_t i = w->first_lanes[rank]; i < w->first_lanes[rank + 1]; i++) {
        if (w->lanes[i].step_count == 0) continue;
        run->ranks[rank].lanes_running++;
        enqueue(run, i);
    }
    return true;
}

/* Everything any lane of the rank knows, for all of them. */
static bool join_lanes(struct verification *run, int rank)
{
    const struct wiring *w = &run->wiring;
    const uint32_t first = w->first_lanes[rank], end = w->first_lanes[rank + 1];
    if (first == end) return true;
    if (!clock_own(&run->clocks, &run->lanes[first].clock)) return verify_out_of_memory(run);
    struct clock *all = run->lanes[first].clock;
    all->entries[first] = 2 * run->lanes[first].done;
    for (uint32_t i = first + 1; i < end; i++) {
        clock_join(&run->clocks, all, run->lanes[i].clock, i, 2 * run->lanes[i].done);
        clock_drop(&run->clocks, run->lanes[i].clock);
        run->lanes[i].clock = clock_keep(all);
    }
    return true;
}

/* The looks that it takes to end a run on that rank. */
static uint64_t looks_to_end(const struct rank_plan *rank_plan, uint32_t lane_count)
{
    const struct plan_shape *shape = &rank_plan->shape;
    const uint64_t barrier = shape->collective == COLLECTIVE_BARRIER ? lane_count : 0;
    return 1 + (uint64_t)plan_chunk_count(shape, rank_plan->rank, PLAN_OUTPUT) + barrier +
           (uint64_t)rank_plan->lane_count * (1 + lane_count / ENTRIES_A_LOOK);
}

static bool end_rank(struct verification *run, int rank)
{
    const struct plan_shape *shape = &run->plan->shape;
    if (!verify_look(run, looks_to_end(run->plan->ranks[rank], run->wiring.lane_count)))
        return false;
    if (!join_lanes(run, rank)) return false;
    if (shape->collective == COLLECTIVE_BARRIER && !verify_check_barrier(run, rank)) return false;
    for (uint32_t i = 0; i < plan_chunk_count(shape, rank, PLAN_OUTPUT); i++)
        if (!verify_check_output(run, rank, i)) return false;
    return true;
}

/* A rank whose lanes are all done goes on to its second run; one without a step takes both at
 * once. */
static bool end_runs(struct verification *run, int rank)
{
    struct verified_rank *state = &run->ranks[rank];
    while (state->lanes_running == 0) {
        if (!end_rank(run, rank)) return false;
        if (state->run + 1 == RUN_COUNT) return true;
        state->run++;
        if (!begin_rank(run, rank)) return false;
    }
    return true;
}

static bool run_lane(struct verification *run, uint32_t lane)
{
    const int rank = run->wiring.lanes[lane].rank;
    while (!lane_is_done(run, lane)) {
        struct verified_turn turn = turn_of(run, lane);
        if (!verify_look(run, 1 + (uint64_t)turn.step->after_count + turn.step->source_count +
                                  turn.step->target_count))
            return false;
        if (wait_of(run, &turn).lane != WIRING_NONE) return true;
        if (!run->lanes[lane].posting) {
            if (!execute(run, &turn)) return false;
            continue;
        }
        post_message(run, &turn);
        run->lanes[lane].posting = false;
        if (!complete(run, &turn)) return false;
        if (!lane_is_done(run, lane)) continue;
        run->ranks[rank].lanes_running--;
        return end_runs(run, rank);
    }
    return true;
}

static bool run_all(struct verification *run)
{
    const int rank_count = run->plan->shape.rank_count;
    for (int rank = 0; rank < rank_count; rank++)
        if (!begin_rank(run, rank) || !end_runs(run, rank)) return false;
    while (run->queue_count > 0) {
        const uint32_t lane = run->queue[run->queue_head];
        run->queue_head = (run->queue_head + 1) % run->wiring.lane_count;
        run->queue_count--;
        run->lanes[lane].queued = false;
        if (!run_lane(run, lane)) return false;
    }
    for (int rank = 0; rank < rank_count; rank++)
        if (run->ranks[rank].lanes_running > 0) return fault_deadlock(run);
    return true;
}

/* -------------------------------------------------------------------------------- setting it up */

struct verify_cost verify_cost_of(const struct plan *plan)
{
    struct verify_cost cost = {0};
    uint32_t lane_count = 0;
    uint64_t looks = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        lane_count += plan->ranks[rank]->lane_count;
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const struct rank_plan *const rank_plan = plan->ranks[rank];
        looks += verify_cells_of(rank_plan) + looks_to_end(rank_plan, lane_count);
        for (uint32_t i = 0; i < rank_plan->step_count; i++)
            looks += looks_of_step(rank_plan, &rank_plan->steps[i], lane_count);
        cost.chunk_count += verify_cells_of(rank_plan);
    }
    cost.work = RUN_COUNT * looks;
    cost.bytes = cost.chunk_count * sizeof(struct cell);
    return cost;
}

/* The limits for a caller without a budget: even then no plan may fill a machine's memory. */
static struct plan_budget no_budget(void)
{
    return (struct plan_budget){
        .work_max = UINT64_MAX, .bytes_max = UINT64_C(8) << 30, .deadline_ns = UINT64_MAX};
}

static void say_too_costly(const struct plan_budget *budget, struct verify_report *report)
{
    char why[160];
    plan_budget_explain(budget, why, sizeof why);
    fault_at(report, NULL, FAULT_NO_STEP, "too costly to be proven: %s", why);
}

enum verify_verdict plan_verify(const struct plan *plan, const struct verify_options *options,
                                struct verify_report *report)
{
    struct plan_budget own = no_budget();
    struct plan_budget *const budget = options->budget != NULL ? options->budget : &own;
    struct verification run = {.plan = plan, .options = options, .report = report, .budget = budget};
    const uint64_t held = budget->bytes;
    *report = (struct verify_report){.rank_ordered = true};
    fault_none(report);
    if (!form_check(plan, report)) return VERIFY_WRONG;
    enum verify_verdict verdict = wiring_init(&run.wiring, plan, budget, report);
    if (verdict == VERIFY_PROVEN &&
        !(verify_set_up(&run) && verify_find_placements(&run) && run_all(&run)))
        verdict = run.no_memory ? VERIFY_NO_MEMORY : VERIFY_WRONG;
    verify_tear_down(&run);
    wiring_release(&run.wiring);
    if (budget->end != PLAN_BUDGET_LASTS)
        verdict = VERIFY_TOO_COSTLY;
    else
        budget->bytes = held;
    if (verdict == VERIFY_NO_MEMORY) fault_at(report, NULL, FAULT_NO_STEP, "out of memory");
    if (verdict == VERIFY_TOO_COSTLY) say_too_costly(budget, report);
    if (verdict != VERIFY_PROVEN) report->rank_ordered = false;
    return verdict;
}
