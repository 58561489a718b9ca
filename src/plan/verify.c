/* verify.c - the abstract run.
 *
 *     form.c     is every index in bounds?           wiring.c   who takes which message?
 *     value.c    what does a chunk hold?             clock.c    what is known to have come before?
 *
 * The run executes a step when its messages are there, which makes room on their links, and posts its result
 * when all its targets have room (one message a link); then the step is completed. Links being FIFO with one
 * writer and one reader, every order of steps gives the same messages, so one order decides; that is why the
 * order chosen here must never count as an order of memory accesses. Those are ordered by vector clocks, in
 * the manner of FastTrack (Flanagan, Freund, PLDI 2009):
 *
 * 1. A step's *start clock* joins its lane's clock, those of the completed steps that it comes after, and the
 *    start clocks of the senders of its messages. When it completes, all it knew of completes.
 * 2. Room on a link orders nothing: a transport may have more.
 * 3. An access of step X to a chunk comes before that of step Y when Y's start clock has X completed, or has
 *    X before it and both touch the chunk at the same position of their ranges.
 * 4. What a send reads is read until the receivers have it: then their steps must come before Y likewise.
 *    That is the source of a pure send; the destination of a step that stores and sends, since it may be sent
 *    from there; nothing where a step reduces straight into a message.
 * 5. A copy of a chunk onto itself, as there are in place, stores nothing; sent on, it is a send of that chunk.
 * 6. A step that may place its result (placement.h) writes the destinations of those of its receivers that may advertise them, at the
 *    same positions, when it runs. Of its own operands it has then consumed these positions. Whether every receiver advertises does not
 *    matter: fewer stores can only do less harm. From then on until the receiving step has run, the memory belongs to that step.
 *
 * The plan runs twice. A rank begins its second run when all its lanes are done with the first one and the
 * receivers have taken what it sends from memory; the application has read the output and filled the input.
 * With scratch_outlives_run, sends from scratch may go on: then only what the plan does orders them.
 *
 * Cost: steps times lanes of all ranks, with a small constant; memory, clocks in flight and chunks.
 */
#include "plan/verify.h"

#include <stdlib.h>
#include <string.h>

#include "plan/clock.h"
#include "plan/fault.h"
#include "plan/form.h"
#include "plan/value.h"
#include "plan/wiring.h"

enum { RUN_COUNT = 2 };

/* Contributors of a value, and entries of a clock, that cost one look. */
enum { WORDS_A_LOOK = 4, ENTRIES_A_LOOK = 16 };

/* An access to a cell by a step of a lane, counted through both runs. */
struct access {
    uint32_t lane, step, position;
};

struct read {
    struct access access;
    uint32_t next;       /* in run.reads; 0 ends the list */
    bool until_consumed; /* by all receivers of what the step sends */
};

/* Memory of one chunk. */
struct cell {
    value value;
    struct access write; /* the last one */
    uint32_t reads;      /* since then */
    uint32_t placed_for; /* the last write was placed: 1 + the step, of all, that is to receive it; else 0 */
    bool written; /* by a step, not by the application */
};

struct message {
    uint32_t references;
    struct clock *clock; /* the sender's start clock */
    uint32_t lane, step;
    uint32_t chunk_count;
    value values[];
};

struct lane_state {
    struct clock *clock; /* knows nothing of its own lane: `done` does */
    uint32_t done;       /* steps, through both runs */
    bool queued;
    bool posting;             /* the step was executed and waits for room */
    struct message *outgoing; /* what it posts, if anything */
};

struct rank_state {
    uint32_t lanes_running;
    uint32_t run;
    size_t first_cell; /* input, output, scratch */
};

struct run {
    const struct plan *plan;
    const struct verify_options *options;
    struct verify_report *report;
    struct wiring wiring;
    struct clock_pool clocks;
    struct value_table *values;
    struct lane_state *lanes;
    struct rank_state *ranks;
    struct cell *cells;
    unsigned char *placements; /* enum placement, of each step of all */
    struct read *reads;        /* index 0 is not used */
    uint32_t reads_used, reads_capacity, reads_free;
    struct message **in_flight; /* of each link */
    uint32_t *waiting;          /* receivers of each link that have not taken it yet */
    bool *taken;                /* by port: the one in flight */
    struct clock **completed;   /* of each step that others come after, while they have not */
    uint32_t *dependents;       /* of each step */
    uint32_t *queue;            /* ring of lanes that may be able to go on */
    uint32_t queue_head, queue_count;
    value *results; /* of the step being run */
    value *tree;    /* per chunk, or one for all when uniform: what the others must look like */
    int *tree_rank;
    struct plan_budget *budget;
    bool no_memory;
};

static bool out_of_memory(struct run *run)
{
    run->no_memory = true;
    return false;
}

/* False when the budget has ended, which counts before everything else. */
static bool look(const struct run *run, uint64_t looks)
{
    return plan_budget_work(run->budget, looks);
}

/* An array of its own, all zero; NULL when out of memory, or of the budget. */
static void *charged_array(struct run *run, uint64_t count, size_t item_bytes)
{
    return plan_budget_hold(run->budget, count * item_bytes) ? calloc(count, item_bytes) : NULL;
}

/* ------------------------------------------------------------------------------------- steps and places */

/* A step as the run meets it. */
struct turn {
    const struct rank_plan *rank_plan;
    const struct plan_step *step;
    uint32_t index;    /* in rank_plan->steps */
    uint32_t all_step; /* among the steps of all ranks */
    uint32_t lane;     /* among all lanes */
    uint32_t when;     /* in the lane, counted through both runs */
    bool has_read;     /* its own reading of a position comes before what it does there */
    const struct clock *start;
};

static struct turn turn_of(const struct run *run, uint32_t lane)
{
    const struct wiring_lane *of = &run->wiring.lanes[lane];
    const struct rank_plan *rank_plan = run->plan->ranks[of->rank];
    struct turn turn = {.rank_plan = rank_plan, .lane = lane, .when = run->lanes[lane].done};
    turn.all_step = of->first_step + turn.when % of->step_count;
    turn.index = turn.all_step - run->wiring.first_steps[of->rank];
    turn.step = &rank_plan->steps[turn.index];
    return turn;
}

static const char *buffer_name(enum plan_buffer buffer)
{
    static const char *const names[PLAN_BUFFER_COUNT] = {"input", "output", "scratch"};
    return names[buffer];
}

/* In place, an output chunk may be an input chunk: that one's index, or the number of inputs. */
static uint32_t aliased_input(const struct plan_shape *shape, int rank, uint32_t output)
{
    const uint32_t none = plan_chunk_count(shape, rank, PLAN_INPUT);
    const uint32_t at = output + plan_begin_in_place(shape, rank, PLAN_OUTPUT);
    const uint32_t begin = plan_begin_in_place(shape, rank, PLAN_INPUT);
    return at >= begin && at - begin < none ? at - begin : none;
}

static bool is_in_place(const struct run *run, int rank)
{
    return run->options->ranks_in_place != NULL ? run->options->ranks_in_place[rank]
                                                : run->options->in_place;
}

static struct cell *cell_at(const struct run *run, int rank, enum plan_buffer buffer, uint32_t chunk)
{
    const struct plan_shape *shape = &run->plan->shape;
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    size_t index = chunk;
    if (buffer == PLAN_OUTPUT) {
        const uint32_t alias = is_in_place(run, rank) ? aliased_input(shape, rank, chunk) : inputs;
        index = alias < inputs ? alias : (size_t)inputs + chunk;
    } else if (buffer == PLAN_SCRATCH) {
        index = (size_t)inputs + plan_chunk_count(shape, rank, PLAN_OUTPUT) + chunk;
    }
    return &run->cells[run->ranks[rank].first_cell + index];
}

static struct cell *turn_cell(const struct run *run, const struct turn *turn,
                              const struct plan_place *place, uint32_t position)
{
    return cell_at(run, turn->rank_plan->rank, place->buffer, place->first + position);
}

/* ------------------------------------------------------------------------------------------------ order */

static uint32_t seen(const struct turn *turn, uint32_t lane)
{
    return lane == turn->lane ? 2 * turn->when + turn->has_read : turn->start->entries[lane];
}

static bool comes_before(const struct turn *turn, uint32_t lane, uint32_t step, bool same_position)
{
    const uint32_t entry = seen(turn, lane);
    return entry >= clock_completed(step) || (same_position && entry == clock_before(step));
}

/* The receiver (a rank) that may not have taken what that step sends; -1 when all have, or the budget has ended. */
static int receiver_not_before(const struct run *run, const struct turn *turn,
                               const struct access *access, bool same_position)
{
    const struct wiring *w = &run->wiring;
    const struct wiring_lane *lane = &w->lanes[access->lane];
    const uint32_t step = lane->first_step + access->step % lane->step_count;
    const uint32_t repetition = access->step / lane->step_count;
    for (size_t i = w->first_sends[step]; i < w->first_sends[step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        if (!look(run, link->port_count)) return -1;
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            const struct wiring_taker taker = wiring_taker(w, port, w->sends[i].sequence);
            const uint32_t when = repetition * w->lanes[taker.lane].step_count + taker.step;
            if (!comes_before(turn, taker.lane, when, same_position))
                return w->ports[port].receiver;
        }
    }
    return -1;
}

static const char *run_of(const struct run *run, const struct access *access)
{
    return access->step >= run->wiring.lanes[access->lane].step_count ? " of the second run" : "";
}

static bool fault_race(const struct run *run, const struct turn *turn, const char *does,
                       const struct plan_place *place, uint32_t position, const char *done,
                       const struct access *other)
{
    const struct wiring_lane *lane = &run->wiring.lanes[other->lane];
    const struct access own = {turn->lane, turn->when, position};
    const uint32_t number = other->lane - run->wiring.first_lanes[lane->rank];
    const uint32_t step = other->step % lane->step_count;
    fault_at(run->report, turn->rank_plan, turn->index,
             "race: %s %s chunk %u%s, which lane %u step %u%s %s; nothing orders them", does,
             buffer_name(place->buffer), place->first + position, run_of(run, &own), number, step,
             run_of(run, other), done);
    run->report->other_rank = lane->rank;
    run->report->other_lane = (int)number;
    run->report->other_step = (int)step;
    return false;
}

/* Memory in which a result was placed is its receiver's until that has run. */
static bool check_placed(struct run *run, const struct turn *turn, const char *does,
                         const struct plan_place *place, uint32_t position)
{
    const struct cell *cell = turn_cell(run, turn, place, position);
    if (cell->placed_for == 0 || cell->placed_for == turn->all_step + 1) return true;
    return fault_at(run->report, turn->rank_plan, turn->index,
                    "race: %s %s chunk %u, where rank %d may have placed its result by then; "
                    "nothing orders them",
                    does, buffer_name(place->buffer), place->first + position,
                    run->wiring.lanes[cell->write.lane].rank);
}

static bool check_read_order(struct run *run, const struct turn *turn,
                             const struct plan_place *place, uint32_t position)
{
    const struct cell *cell = turn_cell(run, turn, place, position);
    const struct access *write = &cell->write;
    if (!check_placed(run, turn, "reads", place, position)) return false;
    if (!cell->written || comes_before(turn, write->lane, write->step, write->position == position))
        return true;
    return fault_race(run, turn, "reads", place, position, "writes", write);
}

static bool check_write_order(struct run *run, const struct turn *turn,
                              const struct plan_place *place, uint32_t position)
{
    const struct cell *cell = turn_cell(run, turn, place, position);
    const struct access *write = &cell->write;
    if (!check_placed(run, turn, "overwrites", place, position)) return false;
    if (cell->written && !comes_before(turn, write->lane, write->step, write->position == position))
        return fault_race(run, turn, "overwrites", place, position, "writes", write);
    for (uint32_t i = cell->reads; i != 0; i = run->reads[i].next) {
        const struct access *read = &run->reads[i].access;
        const bool same_position = read->position == position;
        if (!look(run, 1)) return false;
        if (!comes_before(turn, read->lane, read->step, same_position))
            return fault_race(run, turn, "overwrites", place, position, "reads", read);
        if (!run->reads[i].until_consumed) continue;
        if (receiver_not_before(run, turn, read, same_position) >= 0)
            return fault_race(run, turn, "overwrites", place, position, "may still be sending",
                              read);
    }
    return true;
}

static bool add_read(struct run *run, struct cell *cell, const struct access *access,
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
            if (run->reads_capacity > UINT32_MAX / 2 - 1) return out_of_memory(run);
            const size_t bytes = run->reads_capacity * sizeof(struct read);
            struct read *grown =
                plan_budget_hold(run->budget, bytes) ? realloc(run->reads, 2 * bytes) : NULL;
            if (grown == NULL) return out_of_memory(run);
            run->reads = grown;
            run->reads_capacity *= 2;
        }
        at = run->reads_used++;
    }
    run->reads[at] = (struct read){*access, cell->reads, until_consumed};
    cell->reads = at;
    return true;
}

static void forget_reads(struct run *run, struct cell *cell)
{
    while (cell->reads != 0) {
        const uint32_t at = cell->reads;
        cell->reads = run->reads[at].next;
        run->reads[at].next = run->reads_free;
        run->reads_free = at;
    }
}

/* ------------------------------------------------------------------------------------- readiness, waiting */

static void enqueue(struct run *run, uint32_t lane)
{
    struct lane_state *state = &run->lanes[lane];
    if (state->queued) return;
    state->queued = true;
    const uint32_t width = run->wiring.lane_count;
    run->queue[(run->queue_head + run->queue_count++) % width] = lane;
}

static bool lane_is_done(const struct run *run, uint32_t lane)
{
    const struct wiring_lane *of = &run->wiring.lanes[lane];
    return run->lanes[lane].done == (run->ranks[of->rank].run + 1) * of->step_count;
}

/* What a lane waits for: another lane, and why. */
struct wait {
    uint32_t lane; /* WIRING_NONE: nothing, it can go on */
    enum { WAIT_MESSAGE, WAIT_ROOM, WAIT_STEP } what;
    int peer;       /* the rank that should send or receive */
    uint32_t index; /* the step that should be completed */
};

static struct wait wait_for_room(const struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        uint32_t port = link->first_port;
        if (run->in_flight[w->sends[i].link] == NULL) continue;
        while (run->taken[port]) port++;
        look(run, port - link->first_port); /* the next charge tells */
        return (struct wait){
            .lane = w->ports[port].reader, .what = WAIT_ROOM, .peer = w->ports[port].receiver};
    }
    return (struct wait){.lane = WIRING_NONE};
}

static struct wait wait_of(const struct run *run, const struct turn *turn)
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
static bool fault_deadlock(struct run *run)
{
    uint32_t lane = 0;
    while (lane_is_done(run, lane)) lane++;
    for (uint32_t i = 0; i < run->wiring.lane_count; i++) {
        const struct turn at = turn_of(run, lane);
        lane = wait_of(run, &at).lane;
        /* This one waits for its rank's second run, and so for another lane of its rank. */
        if (lane_is_done(run, lane)) lane = run->wiring.first_lanes[run->wiring.lanes[lane].rank];
        while (lane_is_done(run, lane)) lane++;
    }
    const struct turn turn = turn_of(run, lane);
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

/* --------------------------------------------------------------------------------------------- execution */

static bool join_start(struct run *run, struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    const int rank = turn->rank_plan->rank;
    struct lane_state *lane = &run->lanes[turn->lane];
    const size_t first_receive = w->first_receives[turn->all_step];
    const size_t receive_count = w->first_receives[turn->all_step + 1] - first_receive;
    turn->start = lane->clock;
    if (receive_count == 0 && turn->step->after_count == 0) return true;
    if (!clock_own(&run->clocks, &lane->clock)) return out_of_memory(run);
    turn->start = lane->clock;
    for (size_t i = first_receive; i < first_receive + receive_count; i++) {
        const struct message *message = run->in_flight[w->ports[w->receives[i].port].link];
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

/* What source i of the step has at that position; VALUE_NONE after a fault. */
static value read_source(struct run *run, const struct turn *turn, const struct plan_source *source,
                         size_t *receive, uint32_t position)
{
    if (source->is_link) {
        const uint32_t port = run->wiring.receives[(*receive)++].port;
        return run->in_flight[run->wiring.ports[port].link]->values[position];
    }
    const uint32_t chunk = source->place.first + position;
    const value found = turn_cell(run, turn, &source->place, position)->value;
    if (found == VALUE_NONE) {
        fault_at(run->report, turn->rank_plan, turn->index, "reads %s chunk %u, which nobody wrote",
                 buffer_name(source->place.buffer), chunk);
        return VALUE_NONE;
    }
    if (value_class(run->values, found) !=
        plan_place_class(turn->rank_plan, source->place.buffer, chunk)) {
        fault_at(run->report, turn->rank_plan, turn->index,
                 "reads %s chunk %u after another chunk was stored in its memory",
                 buffer_name(source->place.buffer), chunk);
        return VALUE_NONE;
    }
    return check_read_order(run, turn, &source->place, position) ? found : VALUE_NONE;
}

static bool fault_overlap(struct run *run, const struct turn *turn, int rank, uint32_t class)
{
    if (rank == VALUE_SOME_RANK)
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "adds some rank twice to chunk %u", class);
    return fault_at(run->report, turn->rank_plan, turn->index, "adds rank %d twice to chunk %u",
                    rank, class);
}

/* Left to right, as the engine does; the sum is rounded, and scaled when final, at the end of the step. */
static bool reduce_position(struct run *run, const struct turn *turn, uint32_t position)
{
    const struct plan_step *step = turn->step;
    const struct plan_source *sources = &turn->rank_plan->sources[step->first_source];
    size_t receive = run->wiring.first_receives[turn->all_step];
    struct value_parts sum, operand;
    const value first = read_source(run, turn, &sources[0], &receive, position);
    if (first == VALUE_NONE) return false;
    run->results[position] = first;
    if (step->source_count == 1) return true;
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
    return run->results[position] != VALUE_NONE || out_of_memory(run);
}

/* Local sources may be the destination itself, position by position, and overlap it in no other way. */
static bool check_overlap(struct run *run, const struct turn *turn)
{
    const struct plan_step *step = turn->step;
    if (!step->has_destination || step->chunk_count < 2) return true;
    const struct cell *low = turn_cell(run, turn, &step->destination, 0), *high = low;
    for (uint32_t i = 0; i < step->chunk_count; i++) { /* in place, cells need not be in order */
        const struct cell *cell = turn_cell(run, turn, &step->destination, i);
        if (cell < low) low = cell;
        if (cell > high) high = cell;
    }
    for (uint32_t s = 0; s < step->source_count; s++) {
        const struct plan_source *source = &turn->rank_plan->sources[step->first_source + s];
        for (uint32_t i = 0; !source->is_link && i < step->chunk_count; i++) {
            const struct cell *cell = turn_cell(run, turn, &source->place, i);
            if (cell < low || cell > high || cell == turn_cell(run, turn, &step->destination, i))
                continue;
            if (!look(run, step->chunk_count)) return false;
            for (uint32_t k = 0; k < step->chunk_count; k++)
                if (cell == turn_cell(run, turn, &step->destination, k))
                    return fault_at(run->report, turn->rank_plan, turn->index,
                                    "stores over %s chunk %u, which it reads for another position",
                                    buffer_name(source->place.buffer), source->place.first + i);
        }
    }
    return true;
}

static bool stores_nothing(const struct run *run, const struct turn *turn)
{
    const struct plan_step *step = turn->step;
    const struct plan_source *source = &turn->rank_plan->sources[step->first_source];
    return step->chunk_count > 0 && step->has_destination && step->source_count == 1 &&
           !source->is_link &&
           turn_cell(run, turn, &source->place, 0) == turn_cell(run, turn, &step->destination, 0);
}

static bool check_root_only_reads(const struct run *run, const struct turn *turn, uint32_t position)
{
    const struct plan_place *to = &turn->step->destination;
    const int rank = turn->rank_plan->rank;
    if (to->buffer != PLAN_OUTPUT || !is_in_place(run, rank) ||
        !plan_has_all(&run->plan->shape, rank) || stores_nothing(run, turn))
        return true;
    return fault_at(
        run->report, turn->rank_plan, turn->index,
        "stores in output chunk %u, which in place is the root's input: a root only reads",
        to->first + position);
}

static bool check_destination(struct run *run, const struct turn *turn, uint32_t position)
{
    const struct plan_place *to = &turn->step->destination;
    const uint32_t class = value_class(run->values, run->results[position]);
    if (class != plan_place_class(turn->rank_plan, to->buffer, to->first + position))
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "stores chunk %u in %s chunk %u, which is part of another one", class,
                        buffer_name(to->buffer), to->first + position);
    if (!check_root_only_reads(run, turn, position)) return false;
    return stores_nothing(run, turn) || check_write_order(run, turn, to, position);
}

static bool compute(struct run *run, const struct turn *turn)
{
    if (!check_overlap(run, turn)) return false;
    for (uint32_t i = 0; i < turn->step->chunk_count; i++) {
        if (!reduce_position(run, turn, i)) return false;
        if (turn->step->has_destination && !check_destination(run, turn, i)) return false;
    }
    return true;
}

static bool record_accesses(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    const struct plan_step *step = turn->step;
    const bool sends = w->first_sends[turn->all_step] < w->first_sends[turn->all_step + 1];
    const bool sends_source =
        sends && step->source_count == 1 && (!step->has_destination || stores_nothing(run, turn));
    for (uint32_t s = 0; s < step->source_count; s++) {
        const struct plan_source *source = &turn->rank_plan->sources[step->first_source + s];
        for (uint32_t i = 0; !source->is_link && i < step->chunk_count; i++)
            if (!add_read(run, turn_cell(run, turn, &source->place, i),
                          &(struct access){turn->lane, turn->when, i}, sends_source))
                return false;
    }
    if (!step->has_destination || stores_nothing(run, turn)) return true;
    for (uint32_t i = 0; i < step->chunk_count; i++) {
        struct cell *cell = turn_cell(run, turn, &step->destination, i);
        forget_reads(run, cell); /* all of them come before */
        cell->write = (struct access){turn->lane, turn->when, i};
        cell->written = true;
        cell->placed_for = 0;
        cell->value = run->results[i];
        if (sends && !add_read(run, cell, &cell->write, true)) return false;
    }
    return true;
}

/* -------------------------------------------------------------------------------------------- placement */

/* Whoever advertises has to store just the first message of a link, as it comes: that is what its sender is going to place. */
static bool check_advertising(struct run *run, const struct rank_plan *rank_plan, uint32_t index)
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

/* How far the rule may look, by the letter of placement.h: to the first message of the link, and where that is this one, at all steps. */
static uint64_t looks_for_placement(const struct run *run, const struct rank_plan *rank_plan,
                                    uint32_t index)
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

static bool find_placements(struct run *run)
{
    placement_rule *const rule =
        run->options->placement != NULL ? run->options->placement : placement_of_step;
    for (int rank = 0; rank < run->plan->shape.rank_count; rank++) {
        const struct rank_plan *rank_plan = run->plan->ranks[rank];
        const uint32_t first_step = run->wiring.first_steps[rank];
        for (uint32_t i = 0; i < rank_plan->step_count; i++) {
            if (!look(run, looks_for_placement(run, rank_plan, i))) return false;
            const enum placement placement = rule(rank_plan, i, is_in_place(run, rank));
            run->placements[first_step + i] = (unsigned char)placement;
            if (placement == PLACEMENT_ADVERTISES && !check_advertising(run, rank_plan, i))
                return false;
        }
    }
    return true;
}

static bool knows_beginning(const struct run *run, const struct turn *turn, int rank)
{
    const struct wiring *w = &run->wiring;
    const uint32_t repetition = run->ranks[turn->rank_plan->rank].run;
    for (uint32_t i = w->first_lanes[rank]; i < w->first_lanes[rank + 1]; i++)
        if (turn->start->entries[i] > 2 * repetition * w->lanes[i].step_count) return true;
    return false;
}

static bool fault_placement(struct run *run, const struct turn *turn, int receiver,
                            const struct plan_place *place, uint32_t position, const char *done,
                            const struct access *other)
{
    const struct wiring_lane *lane = &run->wiring.lanes[other->lane];
    return fault_at(run->report, turn->rank_plan, turn->index,
                    "race: may place its result in rank %d's %s chunk %u, which rank %d's lane %u "
                    "step %u%s %s; nothing orders them",
                    receiver, buffer_name(place->buffer), place->first + position, lane->rank,
                    other->lane - run->wiring.first_lanes[lane->rank],
                    other->step % lane->step_count, run_of(run, other), done);
}

static bool check_place_order(struct run *run, const struct turn *turn, int receiver,
                              const struct plan_place *place, uint32_t position)
{
    const struct cell *cell = cell_at(run, receiver, place->buffer, place->first + position);
    const struct access *write = &cell->write;
    if (cell->written && (cell->placed_for != 0 || !comes_before(turn, write->lane, write->step,
                                                                 write->position == position)))
        return fault_placement(run, turn, receiver, place, position, "writes", write);
    for (uint32_t i = cell->reads; i != 0; i = run->reads[i].next) {
        const struct access *read = &run->reads[i].access;
        const bool same_position = read->position == position;
        if (!look(run, 1)) return false;
        if (!comes_before(turn, read->lane, read->step, same_position))
            return fault_placement(run, turn, receiver, place, position, "reads", read);
        if (run->reads[i].until_consumed && receiver_not_before(run, turn, read, same_position) >= 0)
            return fault_placement(run, turn, receiver, place, position, "may still be sending",
                                   read);
    }
    return true;
}

static bool place_at(struct run *run, const struct turn *turn, int receiver, uint32_t taking_step)
{
    const struct plan_step *step =
        &run->plan->ranks[receiver]->steps[taking_step - run->wiring.first_steps[receiver]];
    if (!look(run, (uint64_t)step->chunk_count + PLAN_LANES_MAX / ENTRIES_A_LOOK)) return false;
    if (!knows_beginning(run, turn, receiver))
        return fault_at(run->report, turn->rank_plan, turn->index,
                        "may place its result in the memory of rank %d before that has begun",
                        receiver);
    for (uint32_t i = 0; i < step->chunk_count; i++) {
        if (!check_place_order(run, turn, receiver, &step->destination, i)) return false;
        struct cell *cell =
            cell_at(run, receiver, step->destination.buffer, step->destination.first + i);
        forget_reads(run, cell); /* all of them come before */
        cell->write = (struct access){turn->lane, turn->when, i};
        cell->written = true;
        cell->placed_for = taking_step + 1;
    }
    return true;
}

/* Invariant 6. */
static bool place(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    if (run->placements[turn->all_step] != PLACEMENT_PLACES) return true;
    struct turn storing = *turn;
    storing.has_read = true;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        if (!look(run, link->port_count)) return false;
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

/* ---------------------------------------------------------------------------------------------- messages */

static void drop_message(struct run *run, struct message *message)
{
    if (--message->references > 0) return;
    plan_budget_release(run->budget, sizeof *message + message->chunk_count * sizeof(value));
    clock_drop(&run->clocks, message->clock);
    free(message);
}

static void take_messages(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_receives[turn->all_step]; i < w->first_receives[turn->all_step + 1];
         i++) {
        const uint32_t port = w->receives[i].port, link = w->ports[port].link;
        run->taken[port] = true;
        if (--run->waiting[link] > 0) continue;
        drop_message(run, run->in_flight[link]);
        run->in_flight[link] = NULL;
        enqueue(run, w->links[link].writer);
    }
}

static bool make_message(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    const size_t count = w->first_sends[turn->all_step + 1] - w->first_sends[turn->all_step];
    if (count == 0) return true;
    const size_t values_bytes = turn->step->chunk_count * sizeof(value);
    if (!plan_budget_hold(run->budget, sizeof(struct message) + values_bytes)) return false;
    struct message *message = malloc(sizeof *message + values_bytes);
    if (message == NULL) return out_of_memory(run);
    message->chunk_count = turn->step->chunk_count;
    message->references = (uint32_t)count;
    message->clock = clock_keep(run->lanes[turn->lane].clock);
    message->lane = turn->lane;
    message->step = turn->when;
    if (values_bytes > 0) memcpy(message->values, run->results, values_bytes);
    run->lanes[turn->lane].outgoing = message;
    return true;
}

static void post_message(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    for (size_t i = w->first_sends[turn->all_step]; i < w->first_sends[turn->all_step + 1]; i++) {
        const struct wiring_link *link = &w->links[w->sends[i].link];
        run->in_flight[w->sends[i].link] = run->lanes[turn->lane].outgoing;
        run->waiting[w->sends[i].link] = link->port_count;
        look(run, link->port_count); /* the next charge tells */
        for (uint32_t port = link->first_port; port < link->first_port + link->port_count; port++) {
            run->taken[port] = false;
            enqueue(run, w->ports[port].reader);
            run->report->message_count += run->ranks[turn->rank_plan->rank].run == 0;
        }
    }
    run->lanes[turn->lane].outgoing = NULL;
}

static bool complete(struct run *run, const struct turn *turn)
{
    const struct wiring *w = &run->wiring;
    struct lane_state *lane = &run->lanes[turn->lane];
    const int rank = turn->rank_plan->rank;
    if (w->first_receives[turn->all_step] < w->first_receives[turn->all_step + 1] &&
        !clock_complete(&run->clocks, &lane->clock))
        return out_of_memory(run);
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

static bool execute(struct run *run, struct turn *turn)
{
    if (!look(run, looks_of_step(turn->rank_plan, turn->step, run->wiring.lane_count)))
        return false;
    if (!join_start(run, turn) || !compute(run, turn) || !record_accesses(run, turn) ||
        !place(run, turn) || !make_message(run, turn))
        return false;
    take_messages(run, turn);
    run->lanes[turn->lane].posting = true;
    return true;
}

/* ----------------------------------------------------------------------------------- beginnings and ends */

/* Steps of other lanes that come after a step: its completed clock is kept until they have started. */
static void count_dependents(struct run *run, int rank)
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

static void forget_accesses(struct run *run, struct cell *cell, value value_now)
{
    forget_reads(run, cell);
    *cell = (struct cell){.value = value_now};
}

static uint64_t cells_of(const struct rank_plan *rank_plan)
{
    const struct plan_shape *shape = &rank_plan->shape;
    return (uint64_t)plan_chunk_count(shape, rank_plan->rank, PLAN_INPUT) +
           plan_chunk_count(shape, rank_plan->rank, PLAN_OUTPUT) + rank_plan->scratch_count;
}

/* The application has read the output and filled the input. */
static bool begin_rank(struct run *run, int rank)
{
    const struct plan_shape *shape = &run->plan->shape;
    const struct wiring *w = &run->wiring;
    const uint32_t outputs = plan_chunk_count(shape, rank, PLAN_OUTPUT);
    const uint32_t inputs = plan_chunk_count(shape, rank, PLAN_INPUT);
    if (!look(run, cells_of(run->plan->ranks[rank]))) return false;
    for (uint32_t i = 0; i < outputs; i++)
        forget_accesses(run, cell_at(run, rank, PLAN_OUTPUT, i), VALUE_NONE);
    for (uint32_t i = 0; i < inputs; i++)
        forget_accesses(run, cell_at(run, rank, PLAN_INPUT, i),
                        value_contribution(rank, plan_chunk_class(shape, rank, PLAN_INPUT, i)));
    for (uint32_t i = 0; i < run->plan->ranks[rank]->scratch_count; i++) {
        struct cell *cell = cell_at(run, rank, PLAN_SCRATCH, i);
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
static bool join_lanes(struct run *run, int rank)
{
    const struct wiring *w = &run->wiring;
    const uint32_t first = w->first_lanes[rank], end = w->first_lanes[rank + 1];
    if (first == end) return true;
    if (!clock_own(&run->clocks, &run->lanes[first].clock)) return out_of_memory(run);
    struct clock *all = run->lanes[first].clock;
    all->entries[first] = 2 * run->lanes[first].done;
    for (uint32_t i = first + 1; i < end; i++) {
        clock_join(&run->clocks, all, run->lanes[i].clock, i, 2 * run->lanes[i].done);
        clock_drop(&run->clocks, run->lanes[i].clock);
        run->lanes[i].clock = clock_keep(all);
    }
    return true;
}

/* Where a wrong output shows: at the step that wrote it. */
static uint32_t writer_of(const struct run *run, const struct cell *cell)
{
    if (!cell->written) return FAULT_NO_STEP;
    const struct wiring_lane *lane = &run->wiring.lanes[cell->write.lane];
    return lane->first_step + cell->write.step % lane->step_count -
           run->wiring.first_steps[lane->rank];
}

static int owner_of(const struct plan_shape *shape, uint32_t class)
{
    const uint32_t block = class / shape->parts;
    switch (shape->collective) {
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return (int)block;
    case COLLECTIVE_ALLTOALL: return (int)(block / (uint32_t)shape->rank_count);
    default: return shape->root;
    }
}

/* All ranks' trees of an allreduce's chunk must be one; all trees of the plan, if it claims so. */
static bool check_tree(struct run *run, int rank, uint32_t chunk, const struct cell *cell)
{
    const bool uniform = run->options->associative_tree_uniform;
    if (!uniform && run->plan->shape.collective != COLLECTIVE_ALLREDUCE) return true;
    const uint32_t at = uniform ? 0 : chunk;
    if (run->tree[at] == VALUE_NONE) {
        run->tree[at] = cell->value;
        run->tree_rank[at] = rank;
        return true;
    }
    if (run->tree[at] == cell->value) return true;
    struct value_parts here, there;
    value_take(run->values, cell->value, &here);
    value_take(run->values, run->tree[at], &there);
    if (memcmp(here.hash, there.hash, sizeof here.hash) == 0) return true;
    return fault_at(run->report, run->plan->ranks[rank], writer_of(run, cell),
                    "output chunk %u is added up in another order than chunk %u on rank %d", chunk,
                    there.class, run->tree_rank[at]);
}

static bool check_output(struct run *run, int rank, uint32_t chunk)
{
    const struct plan_shape *shape = &run->plan->shape;
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    const struct cell *cell = cell_at(run, rank, PLAN_OUTPUT, chunk);
    const uint32_t class = plan_chunk_class(shape, rank, PLAN_OUTPUT, chunk);
    const uint32_t writer = writer_of(run, cell);
    const bool reduces = collective_reduces(shape->collective);
    struct value_parts found = {0};
    if (cell->value != VALUE_NONE) value_take(run->values, cell->value, &found);
    const bool right = reduces ? found.class == class && value_is_complete(run->values, &found)
                               : cell->value == value_contribution(owner_of(shape, class), class);
    if (right) return !reduces || check_tree(run, rank, chunk, cell);
    if (!cell->written)
        return fault_at(run->report, rank_plan, writer, "output chunk %u is never written", chunk);
    if (found.class != class)
        return fault_at(run->report, rank_plan, writer, "output chunk %u holds chunk %u, not %u",
                        chunk, found.class, class);
    if (!reduces)
        return fault_at(run->report, rank_plan, writer, "output chunk %u is not rank %d's", chunk,
                        owner_of(shape, class));
    return fault_at(run->report, rank_plan, writer,
                    "output chunk %u ends with the contributions of %u of %d ranks", chunk,
                    found.count, shape->rank_count);
}

/* The joined clock knows of a beginning on every other rank, in this run. */
static bool check_barrier(struct run *run, int rank)
{
    const struct wiring *w = &run->wiring;
    const struct rank_plan *rank_plan = run->plan->ranks[rank];
    const uint32_t first = w->first_lanes[rank];
    for (int other = 0; other < run->plan->shape.rank_count; other++) {
        bool began = other == rank;
        for (uint32_t i = w->first_lanes[other]; !began && i < w->first_lanes[other + 1]; i++)
            began = first < w->first_lanes[rank + 1] &&
                    run->lanes[first].clock->entries[i] >
                        2 * run->ranks[rank].run * w->lanes[i].step_count;
        if (!began)
            return fault_at(run->report, rank_plan,
                            rank_plan->step_count == 0 ? FAULT_NO_STEP : rank_plan->step_count - 1,
                            "the rank may end here before rank %d has begun", other);
    }
    return true;
}

/* Of one run, to end it on that rank. */
static uint64_t looks_to_end(const struct rank_plan *rank_plan, uint32_t lane_count)
{
    const struct plan_shape *shape = &rank_plan->shape;
    const uint64_t barrier = shape->collective == COLLECTIVE_BARRIER ? lane_count : 0;
    return 1 + (uint64_t)plan_chunk_count(shape, rank_plan->rank, PLAN_OUTPUT) + barrier +
           (uint64_t)rank_plan->lane_count * (1 + lane_count / ENTRIES_A_LOOK);
}

static bool end_rank(struct run *run, int rank)
{
    const struct plan_shape *shape = &run->plan->shape;
    if (!look(run, looks_to_end(run->plan->ranks[rank], run->wiring.lane_count))) return false;
    if (!join_lanes(run, rank)) return false;
    if (shape->collective == COLLECTIVE_BARRIER && !check_barrier(run, rank)) return false;
    for (uint32_t i = 0; i < plan_chunk_count(shape, rank, PLAN_OUTPUT); i++)
        if (!check_output(run, rank, i)) return false;
    return true;
}

/* A rank whose last lane is done goes on to its second run. */
static bool lane_ended(struct run *run, int rank)
{
    struct rank_state *state = &run->ranks[rank];
    if (--state->lanes_running > 0) return true;
    if (!end_rank(run, rank)) return false;
    if (state->run + 1 == RUN_COUNT) return true;
    state->run++;
    return begin_rank(run, rank);
}

static bool run_lane(struct run *run, uint32_t lane)
{
    const int rank = run->wiring.lanes[lane].rank;
    while (!lane_is_done(run, lane)) {
        struct turn turn = turn_of(run, lane);
        if (!look(run, 1 + (uint64_t)turn.step->after_count + turn.step->source_count +
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
        if (lane_is_done(run, lane)) return lane_ended(run, rank);
    }
    return true;
}

static bool run_all(struct run *run)
{
    const int rank_count = run->plan->shape.rank_count;
    for (int rank = 0; rank < rank_count; rank++) {
        if (!begin_rank(run, rank)) return false;
        if (run->ranks[rank].lanes_running == 0 && !end_rank(run, rank)) return false;
    }
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

/* ----------------------------------------------------------------------------------------- setting it up */

static bool lay_out_cells(struct run *run)
{
    const struct plan_shape *shape = &run->plan->shape;
    uint64_t cell_count = 0;
    run->ranks = charged_array(run, (uint64_t)shape->rank_count, sizeof *run->ranks);
    if (run->ranks == NULL) return out_of_memory(run);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        run->ranks[rank].first_cell = (size_t)cell_count;
        cell_count += cells_of(run->plan->ranks[rank]);
    }
    run->cells = charged_array(run, cell_count + 1, sizeof *run->cells);
    return run->cells != NULL || out_of_memory(run);
}

static uint32_t longest_range(const struct plan *plan)
{
    uint32_t longest = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        for (uint32_t i = 0; i < plan->ranks[rank]->step_count; i++)
            if (plan->ranks[rank]->steps[i].chunk_count > longest)
                longest = plan->ranks[rank]->steps[i].chunk_count;
    return longest;
}

static bool set_up(struct run *run)
{
    const struct wiring *w = &run->wiring;
    const size_t tree_count =
        run->plan->shape.collective == COLLECTIVE_ALLREDUCE ? run->plan->shape.parts : 1;
    if (!lay_out_cells(run)) return false;
    run->values = value_table_create(run->plan->shape.rank_count, run->budget);
    run->lanes = charged_array(run, (uint64_t)w->lane_count + 1, sizeof *run->lanes);
    run->reads_capacity = 64;
    run->reads_used = 1;
    run->reads = charged_array(run, run->reads_capacity, sizeof *run->reads);
    run->in_flight = charged_array(run, (uint64_t)w->link_count + 1, sizeof *run->in_flight);
    run->waiting = charged_array(run, (uint64_t)w->link_count + 1, sizeof *run->waiting);
    run->taken = charged_array(run, (uint64_t)w->port_count + 1, sizeof *run->taken);
    run->completed = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->completed);
    run->dependents = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->dependents);
    run->queue = charged_array(run, (uint64_t)w->lane_count + 1, sizeof *run->queue);
    run->results = charged_array(run, (uint64_t)longest_range(run->plan) + 1, sizeof *run->results);
    run->placements = charged_array(run, (uint64_t)w->step_count + 1, sizeof *run->placements);
    run->tree = charged_array(run, tree_count, sizeof *run->tree);
    run->tree_rank = charged_array(run, tree_count, sizeof *run->tree_rank);
    if (!run->values || !run->lanes || !run->reads || !run->in_flight || !run->waiting ||
        !run->taken || !run->completed || !run->dependents || !run->queue || !run->results ||
        !run->placements || !run->tree || !run->tree_rank)
        return out_of_memory(run);
    clock_pool_init(&run->clocks, w->lane_count, run->budget);
    struct clock *nothing = clock_take(&run->clocks);
    if (nothing == NULL) return out_of_memory(run);
    for (uint32_t i = 0; i < w->lane_count; i++) run->lanes[i].clock = clock_keep(nothing);
    clock_drop(&run->clocks, nothing);
    return true;
}

static void tear_down(struct run *run)
{
    const struct wiring *w = &run->wiring;
    for (uint32_t i = 0; run->in_flight != NULL && i < w->link_count; i++)
        if (run->in_flight[i] != NULL) drop_message(run, run->in_flight[i]);
    for (uint32_t i = 0; run->completed != NULL && i < w->step_count; i++)
        clock_drop(&run->clocks, run->completed[i]);
    for (uint32_t i = 0; run->lanes != NULL && i < w->lane_count; i++) {
        if (run->lanes[i].outgoing != NULL) {
            clock_drop(&run->clocks, run->lanes[i].outgoing->clock);
            free(run->lanes[i].outgoing);
        }
        clock_drop(&run->clocks, run->lanes[i].clock);
    }
    clock_pool_release(&run->clocks);
    value_table_free(run->values);
    free(run->lanes);
    free(run->ranks);
    free(run->cells);
    free(run->reads);
    free(run->in_flight);
    free(run->waiting);
    free(run->taken);
    free(run->completed);
    free(run->dependents);
    free(run->queue);
    free(run->results);
    free(run->placements);
    free(run->tree);
    free(run->tree_rank);
}

struct verify_cost verify_cost_of(const struct plan *plan)
{
    struct verify_cost cost = {0};
    uint32_t lane_count = 0;
    uint64_t looks = 0;
    for (int rank = 0; rank < plan->shape.rank_count; rank++)
        lane_count += plan->ranks[rank]->lane_count;
    for (int rank = 0; rank < plan->shape.rank_count; rank++) {
        const struct rank_plan *const rank_plan = plan->ranks[rank];
        looks += cells_of(rank_plan) + looks_to_end(rank_plan, lane_count);
        for (uint32_t i = 0; i < rank_plan->step_count; i++)
            looks += looks_of_step(rank_plan, &rank_plan->steps[i], lane_count);
        cost.chunk_count += cells_of(rank_plan);
    }
    cost.work = RUN_COUNT * looks;
    cost.bytes = cost.chunk_count * sizeof(struct cell);
    return cost;
}

/* Where the caller has no budget: a machine's memory is not to be filled by a plan. */
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
    struct run run = {.plan = plan, .options = options, .report = report, .budget = budget};
    const uint64_t held = budget->bytes;
    *report = (struct verify_report){.rank_ordered = true};
    fault_none(report);
    if (!form_check(plan, report)) return VERIFY_WRONG;
    enum verify_verdict verdict = wiring_init(&run.wiring, plan, budget, report);
    if (verdict == VERIFY_PROVEN && !(set_up(&run) && find_placements(&run) && run_all(&run)))
        verdict = run.no_memory ? VERIFY_NO_MEMORY : VERIFY_WRONG;
    tear_down(&run);
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
