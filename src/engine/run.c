#include "engine/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "engine/computing.h"
#include "engine/cut_unit.h"
#include "engine/deliver.h"
#include "engine/grow.h"
#include "engine/outgoing.h"
#include "engine/reduce.h"
#include "engine/send.h"
#include "engine/small.h"
#include "engine/take.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

void operation_init(struct operation *operation, uint32_t spin_budget)
{
    *operation = (struct operation){.fault_peer = -1, .spin_budget = spin_budget};
}

static void free_scratch(struct operation *operation)
{
    const struct memory_kind *kind = operation->scratch_kind;
    if (kind == NULL)
        free(operation->scratch);
    else if (operation->scratch != NULL)
        kind->release(kind, operation->scratch, operation->scratch_capacity);
    operation->scratch = NULL;
    operation->scratch_capacity = 0;
}

/* False: there is no memory. */
static bool make_scratch(struct operation *operation, const struct program *program)
{
    const struct memory_kind *kind = program->kinds[PLAN_SCRATCH];
    free_scratch(operation);
    const size_t bytes = (program->scratch_bytes + 4095) / 4096 * 4096;
    operation->scratch_kind = kind;
    operation->scratch = kind == NULL ? aligned_alloc(64, bytes) : kind->allocate(kind, bytes);
    if (operation->scratch != NULL) operation->scratch_capacity = bytes;
    return operation->scratch != NULL;
}

static bool has_scratch(const struct operation *operation, const struct program *program)
{
    return program->scratch_bytes <= operation->scratch_capacity &&
           (program->scratch_bytes == 0 || program->kinds[PLAN_SCRATCH] == operation->scratch_kind);
}

void operation_release(struct operation *operation)
{
    free(operation->lanes);
    free(operation->sends);
    free(operation->completed);
    free(operation->taken);
    free(operation->views);
    free(operation->sources);
    free(operation->places);
    free(operation->targets);
    free(operation->flights);
    free(operation->source_formats);
    free(operation->place_formats);
    free(operation->unit_room);
    free_scratch(operation);
    operation_init(operation, operation->spin_budget);
}

static bool make_room(struct operation *operation, const struct program *program)
{
    uint32_t place_capacity = operation->send_capacity, view_capacity = operation->source_capacity,
             target_capacity = operation->send_capacity, taken_capacity = operation->step_capacity;
    if (!grow((void **)&operation->lanes, &operation->lane_capacity, program->lane_count,
              sizeof(struct run_lane)) ||
        !grow((void **)&operation->places, &place_capacity, program->tx_count, sizeof(void *)) ||
        !grow((void **)&operation->targets, &target_capacity, program->tx_count,
              sizeof(struct link_tx *)) ||
        !grow((void **)&operation->sends, &operation->send_capacity, program->tx_count,
              sizeof(struct run_send)) ||
        !grow((void **)&operation->taken, &taken_capacity, program->step_count, sizeof(uint16_t)) ||
        !grow((void **)&operation->completed, &operation->step_capacity, program->step_count,
              sizeof(bool)) ||
        !grow((void **)&operation->views, &view_capacity, program->source_count_max, sizeof(void *)) ||
        !grow((void **)&operation->sources, &operation->source_capacity, program->source_count_max,
              sizeof(void *)))
        return false;
    if (program->has_computing && !computing_make_room(operation, program)) return false;
    return has_scratch(operation, program) || make_scratch(operation, program);
}

static bool has_room(const struct operation *operation, const struct program *program)
{
    return program->lane_count <= operation->lane_capacity &&
           program->tx_count <= operation->send_capacity &&
           program->step_count <= operation->step_capacity &&
           program->source_count_max <= operation->source_capacity &&
           (!program->has_computing || computing_has_room(operation, program)) &&
           has_scratch(operation, program);
}

enum tutti_status operation_make_room(struct operation *operation, const struct program *program)
{
    if (make_room(operation, program)) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "an operation: out of memory");
}

/* Advertises where messages are expected, if that is in one piece. */
static void expect_messages(struct operation *operation)
{
    const struct program *program = operation->program;
    for (uint32_t i = 0; i < program->expect_count; i++) {
        const struct program_expect *expect = &program->expects[i];
        struct link_rx *link = operation->rx[expect->rx];
        size_t run = expect->bytes;
        char *destination = buffer_at(&operation->buffers[PLAN_OUTPUT], expect->offset, &run);
        if (run < expect->bytes) continue;
        link->ops->advertise(link, destination, expect->bytes);
        operation->any_advertised = true;
    }
}

static inline void rewind_lanes(struct operation *operation)
{
    const struct program *const program = operation->program;
    operation->lanes_left = 0;
    operation->any_referenced = operation->any_advertised = false;
    operation->paths = 0;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        operation->lanes[l] = (struct run_lane){.step = program->lanes[l].first_step};
        operation->lanes_left += program->lanes[l].first_step < program->lanes[l].end_step;
    }
    for (uint32_t t = 0; t < program->tx_count; t++) operation->sends[t].referenced = false;
    for (uint32_t s = 0; s < program->step_count; s++) operation->taken[s] = 0;
    if (program->has_computing) computing_prepare(operation);
    if (program->after_count > 0)
        memset(operation->completed, 0, program->step_count * sizeof(bool));
}

void operation_prepare_again(struct operation *operation)
{
    rewind_lanes(operation);
}

enum tutti_status operation_prepare(struct operation *operation, struct program *program,
                                    struct transport *transport, int slot,
                                    const struct buffer *input, const struct buffer *output)
{
    const bool is_cut = input->segments != NULL || output->segments != NULL;
    if (!has_room(operation, program)) TRY(operation_make_room(operation, program));
    if (is_cut && cut_unit_may_be(program) && program->has_executor)
        return error_set(TUTTI_UNSUPPORTED,
                         "encoding %s: buffers in segments, which may end within a unit, and "
                         "kernels that finish later",
                         program->encoding->name);
    operation->program = program;
    operation->transport = transport;
    operation->slot = slot;
    operation->tx = program->tx[slot];
    operation->rx = program->rx[slot];
    /* Buffers without elements may be NULL; offsets of 0 and copies of nothing still need an
     * address. */
    char *const nowhere = (char *)operation;
    operation->buffers[PLAN_INPUT] = *input;
    operation->buffers[PLAN_OUTPUT] = *output;
    operation->buffers[PLAN_SCRATCH] = (struct buffer){.base = operation->scratch};
    for (int b = 0; b < PLAN_BUFFER_COUNT; b++)
        if (operation->buffers[b].base == NULL) operation->buffers[b].base = nowhere;
    operation->sends_active = 0;
    operation->shared_slot_is_taken = false;
    operation->takes_short_way = !is_cut && !program->moves_by_kernels;
    operation->fault_peer = -1;
    operation->is_special = program->has_computing;
    operation->is_gated = false;
    operation->gate = NULL;
    operation->executor = NULL;
    for (uint32_t t = 0; t < program->tx_count; t++) operation->sends[t].active = false;
    rewind_lanes(operation);
    return TUTTI_OK;
}

void operation_open(struct operation *operation, uint64_t signature)
{
    operation->transport->signatures[operation->slot] = signature;
    operation->transport->takes_kind[operation->slot] = operation->program->kinds[PLAN_SCRATCH];
    if (operation->program->expect_count > 0) expect_messages(operation);
}

void operation_open_at(struct operation *operation, struct operation_gate *gate, uint64_t signature)
{
    operation->gate = gate;
    operation->gated_signature = signature;
    operation->is_gated = operation->is_special = true;
}

/* ---------------------------------------------------------------------------------------- steps */

static bool afters_completed(const struct operation *operation, const struct program_step *step)
{
    for (uint32_t i = 0; i < step->after_count; i++)
        if (!operation->completed[operation->program->afters[step->first_after + i]]) return false;
    return true;
}

static enum run_result run_send_only(struct operation *operation, struct run_lane *lane,
                                     const struct program_step *step, bool special)
{
    const struct program_source *from = &operation->program->sources[step->first_source];
    if (lane->target == 0 && step_has(step, STEP_SHARES) && outgoing_share(operation, step))
        return RUN_DONE;
    for (; lane->target < step->tx_count; lane->target++) {
        const uint32_t t = step_tx(operation, step, lane->target);
        if (operation->sends[t].active) return RUN_BLOCKED;
        if ((special && program_computes(operation->program, step)) ||
            !send_at_once(operation, step, t, from))
            outgoing_send(operation, step, lane->target);
    }
    return RUN_DONE;
}

/* The bytes of a result that an executor makes at once if none has to fit into a place of a link.
 * To start a kernel costs as much as to move many pieces. But the more it moves, the more pages of
 * memory its threads are in at one time, and those of all ranks may be in one device's. */
enum { PIECES_OF_EXECUTOR = 256 };

static size_t executor_piece(const struct program *program, const struct program_step *step)
{
    const size_t buffers = step->source_count + step->tx_count + 1,
                 pieces = program->executor_bytes / buffers / program->piece_bytes;
    if (pieces <= 1) return program->piece_bytes;
    return program->piece_bytes * (pieces < PIECES_OF_EXECUTOR ? pieces : PIECES_OF_EXECUTOR);
}

/* Whether no part of a step's result may go through a place. */
static bool avoids_places(const struct operation *operation, const struct run_lane *lane,
                          const struct program_step *step)
{
    if (!deliver_sends(lane, step)) return true;
    if (lane->state != LANE_OPENED) return false;
    for (uint32_t i = 0; i < step->tx_count; i++)
        if (!step_send(operation, step, i)->by_reference) return false;
    return true;
}

/* The size of the piece of a step's result that is being sent, of which the part that has come lies
 * in the slots. */
static inline size_t whole_piece(const struct operation *operation, const struct run_lane *lane,
                                 const struct program_step *step, bool special)
{
    const struct program *program = operation->program;
    const size_t left = step->bytes - (lane->done - lane->filled);
    size_t most = program->piece_bytes;
    if (special && program->has_executor && avoids_places(operation, lane, step))
        most = executor_piece(program, step);
    return left < most ? left : most;
}

/* If the receivers of a step expect its messages somewhere, stores its result there. Returns
 * whether the step may take larger pieces from now on. */
static bool ask_receivers(struct operation *operation, struct run_lane *lane,
                          const struct program_step *step)
{
    if (!outgoing_ask_expected(operation, lane, step)) return false;
    lane_go(lane, LANE_PLACES);
    return operation->program->has_executor;
}

/* Counts that many more bytes of a step as done. */
static inline enum run_result advance(struct run_lane *lane, const struct program_step *step,
                                      size_t bytes)
{
    lane->done += bytes;
    return lane->done == step->bytes && lane->state != LANE_STAGED ? RUN_DONE : RUN_MOVED;
}

/* Runs one piece of a step. `special` is that of the operation, and a constant wherever this is
 * called. */
static ALWAYS_INLINE enum run_result run_step(struct operation *operation, struct run_lane *lane,
                                              const struct program_step *step, bool special)
{
    const struct program *program = operation->program;
    if (special && computing_has_begun(operation, lane)) {
        if (!computing_poll(operation, lane)) return RUN_BLOCKED;
        return advance(lane, step, computing_deliver(operation, lane, step));
    }
    if (lane->done == 0 && step->after_count > 0 && !afters_completed(operation, step))
        return RUN_BLOCKED;
    if (step_has(step, STEP_ONLY_SENDS)) return run_send_only(operation, lane, step, special);
    enum run_result result;
    if (step_has(step, STEP_IS_SMALL) && operation->takes_short_way && lane->done == 0 &&
        lane->filled == 0 && lane->state == LANE_FEEDS && small_run(operation, lane, step, &result))
        return result;
    if (step_has(step, STEP_EXPECTS) && lane->done == 0 && take_placed(operation, step))
        return RUN_DONE;

    if (lane_is_staged(lane) && lane->done == step->bytes) /* all is stored, not all announced */
        return outgoing_open_staged(operation, lane, step) ? RUN_DONE : RUN_BLOCKED;
    struct piece piece; /* fields that belong to one path are set with it */
    piece.whole = whole_piece(operation, lane, step, special);
    piece.bytes = piece.whole - lane->filled;
    piece.place = piece.traveller_place = NULL;
    const enum run_result look = take_look(operation, lane, step, &piece, special);
    if (look == RUN_BLOCKED && step_has(step, STEP_PLACES_DIRECTLY) && !lane->has_said)
        take_directly(operation, lane, step);
    if (look != RUN_MOVED) return look;
    if (step_has(step, STEP_EXPECTS | STEP_PLACES_DIRECTLY)) take_notice(operation, lane, step);
    if (step_has(step, STEP_PLACES) && !lane->has_asked && ask_receivers(operation, lane, step)) {
        piece.bytes = piece.whole = whole_piece(operation, lane, step, special);
        take_look(operation, lane, step, &piece, special); /* the same again, with more bytes */
    }
    if (step_has(step, STEP_SENDS_INPUT) && lane->done == 0 && lane->state == LANE_FEEDS)
        outgoing_send_input(operation, lane, step);
    if (deliver_sends(lane, step) && !outgoing_find(operation, lane, step, &piece))
        return RUN_BLOCKED;

    const bool stores = step->destination_buffer != PROGRAM_NONE &&
                        (!step_has(step, STEP_STAGES) || lane_is_staged(lane));
    const bool lies_elsewhere =
        program->sources[step->first_source].rx != PROGRAM_NONE && operation->views[0] == NULL;
    if (lies_elsewhere) { /* then it is a plain receive */
        if (!take_copy(operation, lane, step, &piece.bytes)) return RUN_BLOCKED;
    } else if (special && program_computes(program, step)) {
        computing_start(operation, lane, step, stores, &piece);
        if (computing_has_begun(operation, lane)) return RUN_MOVED;
        return advance(lane, step, computing_deliver(operation, lane, step));
    } else {
        reduce_piece(operation, lane, step, stores, piece.place, piece.bytes);
    }
    deliver_piece(operation, lane, step, &piece);
    return advance(lane, step, piece.bytes);
}

static ALWAYS_INLINE enum run_result run_lane(struct operation *operation, struct run_lane *lane,
                                              uint32_t end_step, bool special)
{
    const struct program *program = operation->program;
    enum run_result result = RUN_BLOCKED;
    while (lane->step < end_step) {
        const enum run_result step_result =
            run_step(operation, lane, &program->steps[lane->step], special);
        if (step_result == RUN_FAULT) return RUN_FAULT;
        if (step_result != RUN_DONE) return result == RUN_MOVED ? RUN_MOVED : step_result;
        if (program->after_count > 0) operation->completed[lane->step] = true;
        *lane = (struct run_lane){.step = lane->step + 1};
        result = RUN_MOVED;
        if (lane->step == end_step) operation->lanes_left--;
    }
    return result;
}

static bool references_consumed(struct operation *operation)
{
    for (uint32_t t = 0; t < operation->program->tx_count; t++)
        if (operation->sends[t].referenced && !operation->tx[t]->ops->consumed(operation->tx[t]))
            return false;
    return true;
}

static ALWAYS_INLINE enum run_result run_all(struct operation *operation, bool special)
{
    const struct program *program = operation->program;
    enum run_result result = RUN_BLOCKED;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        struct run_lane *lane = &operation->lanes[l];
        if (lane->step == program->lanes[l].end_step) continue;
        const enum run_result lane_result =
            run_lane(operation, lane, program->lanes[l].end_step, special);
        if (lane_result == RUN_FAULT) return RUN_FAULT;
        if (lane_result == RUN_MOVED) result = RUN_MOVED;
    }
    for (uint32_t t = 0; operation->sends_active > 0 && t < program->tx_count; t++)
        if (operation->sends[t].active && send_push(operation, t)) result = RUN_MOVED;
    if (operation->lanes_left > 0 || operation->sends_active > 0) return result;
    if (operation->any_referenced && !references_consumed(operation)) return result;
    return RUN_DONE;
}

/* Whether the gate, if there is one, has opened; then the operation is open. */
static bool pass_gate(struct operation *operation)
{
    if (!operation->is_gated) return true;
    if (!operation->gate->ops->is_open(operation->gate)) return false;
    operation->is_gated = false;
    operation_open(operation, operation->gated_signature);
    return true;
}

static void end_gate(struct operation *operation, bool is_done)
{
    struct operation_gate *gate = operation->gate;
    operation->gate = NULL;
    operation->is_gated = false;
    if (gate != NULL) gate->ops->end(gate, is_done);
}

/* A separate function, so that other operations pay nothing for it. */
static __attribute__((noinline)) enum run_result run_specially(struct operation *operation)
{
    if (operation->fault_peer >= 0) return RUN_FAULT;
    const bool was_gated = operation->is_gated;
    if (!pass_gate(operation)) return RUN_BLOCKED;
    const enum run_result result = run_all(operation, true);
    if (result == RUN_DONE) end_gate(operation, true);
    return result == RUN_BLOCKED && was_gated ? RUN_MOVED : result;
}

enum run_result operation_run(struct operation *operation)
{
    if (__builtin_expect(operation->is_special, 0)) return run_specially(operation);
    return run_all(operation, false);
}

void operation_give_up(struct operation *operation)
{
    end_gate(operation, false);
}

bool operation_is_computing(struct operation *operation)
{
    return operation->program->has_executor && computing_any(operation);
}

int operation_waits_for(const struct operation *operation)
{
    const struct program *program = operation->program;
    if (operation->is_gated) return -1;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        const struct run_lane *lane = &operation->lanes[l];
        if (lane->step == program->lanes[l].end_step) continue;
        const struct program_step *step = &program->steps[lane->step];
        for (uint32_t i = 0; i < step->source_count; i++) {
            const int rx = program->sources[step->first_source + i].rx;
            struct link_view view;
            if (rx != PROGRAM_NONE &&
                operation->rx[rx]->ops->peek(operation->rx[rx], &view) != LINK_READY)
                return operation->rx[rx]->peer;
        }
    }
    for (uint32_t t = 0; t < program->tx_count; t++)
        if ((operation->sends[t].active || operation->sends[t].referenced) &&
            !operation->tx[t]->ops->consumed(operation->tx[t]) && operation->tx[t]->peer >= 0)
            return operation->tx[t]->peer;
    return -1;
}
