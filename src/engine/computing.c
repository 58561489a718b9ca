#include "engine/computing.h"

#include <string.h>

#include "engine/cut_unit.h"
#include "engine/deliver.h"
#include "engine/grow.h"
#include "engine/reduce.h"
#include "engine/start.h"

bool computing_has_room(const struct operation *operation, const struct program *program)
{
    return program->lane_count <= operation->flight_capacity &&
           program->source_count_max <= operation->source_format_capacity &&
           program->tx_count <= operation->place_format_capacity &&
           cut_unit_room(program) <= operation->unit_room_capacity;
}

bool computing_make_room(struct operation *operation, const struct program *program)
{
    return grow((void **)&operation->flights, &operation->flight_capacity, program->lane_count,
                sizeof(struct flight)) &&
           grow((void **)&operation->source_formats, &operation->source_format_capacity,
                program->source_count_max, sizeof(struct kernel_format)) &&
           grow((void **)&operation->place_formats, &operation->place_format_capacity,
                program->tx_count, sizeof(struct kernel_format)) &&
           grow((void **)&operation->unit_room, &operation->unit_room_capacity,
                (uint32_t)cut_unit_room(program), 1);
}

void computing_prepare(struct operation *operation)
{
    const struct program *program = operation->program;
    if (program->lane_count > 0)
        memset(operation->flights, 0, program->lane_count * sizeof(struct flight));
    for (uint32_t t = 0; t < program->tx_count; t++)
        operation->sends[t].computing = operation->sends[t].group = 0;
}

/* --------------------------------------------------------------------------------------- pieces */

/* The kind of memory of a piece's place in link i of the step. */
static const struct memory_kind *memory_of_place(const struct operation *operation,
                                                 const struct program_step *step,
                                                 const struct piece *piece, bool is_placed,
                                                 uint32_t i)
{
    if (!is_placed && piece->path == PATH_SHARED_SLOT) return operation->transport->shared_memory;
    if (is_placed || piece->path != PATH_FORWARD) return step_link(operation, step, i)->memory;
    const struct program_source *sources = &operation->program->sources[step->first_source];
    return operation->rx[sources[piece->traveller].rx]->memory;
}

/* Writes the places from which the links get a piece to operation->places and place_formats;
 * returns how many they are. */
static uint32_t find_places(const struct operation *operation, const struct run_lane *lane,
                            const struct program_step *step, const struct piece *piece)
{
    const struct program *program = operation->program;
    const bool is_placed = lane->state == LANE_PLACES;
    void **const places = operation->places;
    uint32_t count = piece->place == NULL ? 0 : 1;
    if (is_placed) {
        reduce_find_expected(operation, step, lane->done);
        count = step->tx_count;
    } else if (piece->place != NULL && path_is_place(piece->path)) {
        for (uint32_t i = 0; i < step->tx_count; i++)
            places[i] = (char *)places[i] +
                        program_tx_bytes(program, step_tx(operation, step, i), lane->filled);
        count = step->tx_count;
    } else if (piece->place != NULL) {
        places[0] = piece->place;
    }
    for (uint32_t i = 0; i < count; i++)
        operation->place_formats[i] = (struct kernel_format){
            is_placed ? NULL : program->tx_links[step_tx(operation, step, i)].encoding,
            memory_of_place(operation, step, piece, is_placed, i)};
    return count;
}

static void find_source_formats(const struct operation *operation, const struct program_step *step)
{
    const struct program *program = operation->program;
    const struct program_source *sources = &program->sources[step->first_source];
    for (uint32_t i = 0; i < step->source_count; i++)
        operation->source_formats[i] =
            sources[i].rx != PROGRAM_NONE
                ? (struct kernel_format){program->rx_links[sources[i].rx].encoding,
                                         operation->rx[sources[i].rx]->memory}
                : (struct kernel_format){NULL, program->kinds[sources[i].buffer]};
}

static bool only_copies(const struct program_step *step)
{
    return step->source_count == 1 && !step_scales(step);
}

static bool has_formats(const struct program *program, const struct program_step *step)
{
    return program->has_formats || step_has(step, STEP_ENCODES);
}

/* The same run as reduce_find_run finds, in messages that may be encoded. */
static char *find_run(const struct operation *operation, const struct run_lane *lane,
                      const struct program_step *step, bool stores, size_t done, size_t *bytes)
{
    const struct program *program = operation->program;
    const struct program_source *sources = &program->sources[step->first_source];
    char *const destination = reduce_find_run(operation, lane, step, stores, done, bytes);
    for (uint32_t i = 0; step_has(step, STEP_ENCODES) && i < step->source_count; i++)
        if (sources[i].rx != PROGRAM_NONE)
            operation->sources[i] = (const char *)operation->views[i] +
                                    program_rx_bytes(program, (uint32_t)sources[i].rx, done);
    return destination;
}

/* Whether a run of a step that only copies, to links or to `destination`, already lies where it
 * belongs. */
static bool lies_there(const struct operation *operation, const struct program_step *step,
                       const void *destination, uint32_t place_count)
{
    if (!only_copies(step) || destination != NULL || step_has(step, STEP_ROUNDS)) return false;
    return place_count == 0 || (place_count == 1 && operation->places[0] == operation->sources[0]);
}

/* Starts the kernel of a run, to `destination` unless that is NULL, and to the places. */
static void start_run(const struct operation *operation, const struct program_step *step,
                      char *destination, uint32_t place_count, size_t bytes, bool streams)
{
    const struct program *program = operation->program;
    const unsigned first = destination == NULL;
    const struct kernel_formats formats = {
        .destination = first
                           ? operation->place_formats[0]
                           : (struct kernel_format){NULL, program->kinds[step->destination_buffer]},
        .sources = operation->source_formats,
        .others = operation->place_formats + first,
        .through = step_has(step, STEP_ROUNDS) ? program->encoding : NULL};
    const bool formatted = has_formats(program, step);
    struct kernel_call call = {.destination = first ? operation->places[0] : destination,
                               .others = operation->places + first,
                               .other_count = place_count - first,
                               .formats = formatted ? &formats : NULL};
    kernel_reduce *const kernel = reduce_fill_call(operation, step, &call, bytes, streams);
    start_kernel(operation,
                 !formatted ? kernel
                 : streams  ? program->format_kernels.reduce_stream
                            : program->format_kernels.reduce,
                 &call);
}

/* Computes one unit of a piece that segments cut, `done` bytes into it. */
static void compute_unit(const struct operation *operation, const struct run_lane *lane,
                         const struct program_step *step, bool stores, size_t done, size_t bytes,
                         uint32_t place_count)
{
    const struct program *program = operation->program;
    const struct program_source *sources = &program->sources[step->first_source];
    char *const result = operation->unit_room;
    char *room = result + bytes;
    for (uint32_t i = 0; i < step->source_count; i++) {
        if (sources[i].rx != PROGRAM_NONE) continue; /* find_run has found it */
        operation->sources[i] = cut_unit_gather(&operation->buffers[sources[i].buffer],
                                                sources[i].offset + lane->done + done, bytes, room);
        room += bytes;
    }
    start_run(operation, step, stores ? result : NULL, place_count, bytes, false);
    if (stores)
        cut_unit_scatter(&operation->buffers[step->destination_buffer],
                         step->destination_offset + lane->done + done, bytes, result);
}

void computing_start(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step, bool stores, const struct piece *piece)
{
    const struct program *program = operation->program;
    const bool is_placed = lane->state == LANE_PLACES;
    void **const places = operation->places;
    const uint32_t place_count = find_places(operation, lane, step, piece);
    const bool streams =
        step_has(step, STEP_STREAMS) && !lane_is_staged(lane) && (stores || is_placed);
    bool any = false;
    find_source_formats(operation, step);
    for (size_t done = 0, run; done < piece->bytes; done += run) {
        run = piece->bytes - done;
        char *destination = find_run(operation, lane, step, stores, done, &run);
        const bool is_cut = run < piece->bytes - done && step_has(step, STEP_ENCODES) &&
                            cut_unit_is_next(program, piece->bytes - done, &run);
        if (only_copies(step) && destination == operation->sources[0] && !step_has(step, STEP_ROUNDS))
            destination = NULL; /* it is there, maybe where it can only be read */
        if (is_cut) {
            compute_unit(operation, lane, step, stores, done, run, place_count);
        } else if (!lies_there(operation, step, destination, place_count)) {
            start_run(operation, step, destination, place_count, run, streams);
            any = true;
        }
        for (uint32_t i = 0; i < place_count; i++)
            places[i] = (char *)places[i] + wire_bytes(operation->place_formats[i].encoding,
                                                       program->element_bytes, run);
    }
    *computing_flight(operation, lane) = (struct flight){*piece, start_end(operation, any)};
    operation->shared_slot_is_taken |= computing_has_begun(operation, lane) && place_count > 0 &&
                                       !is_placed && piece->path == PATH_SHARED_SLOT;
}

bool computing_poll(struct operation *operation, struct run_lane *lane)
{
    struct flight *flight = computing_flight(operation, lane);
    if (!start_is_finished(operation, flight->group)) return false;
    flight->group = 0;
    return true;
}

size_t computing_deliver(struct operation *operation, struct run_lane *lane,
                         const struct program_step *step)
{
    const struct piece *piece = &computing_flight(operation, lane)->piece;
    deliver_computed(operation, lane, step, piece);
    return piece->bytes;
}

bool computing_any(struct operation *operation)
{
    const struct program *program = operation->program;
    bool any = false;
    for (uint32_t l = 0; l < program->lane_count; l++) {
        struct run_lane *lane = &operation->lanes[l];
        any |= computing_has_begun(operation, lane) && !computing_poll(operation, lane);
    }
    for (uint32_t t = 0; t < program->tx_count; t++)
        any |= !start_is_copied(operation, &operation->sends[t]);
    return any;
}
