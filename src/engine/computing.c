#include "engine/computing.h"

#include "engine/deliver.h"
#include "engine/reduce.h"
#include "kernel/executor.h"

/* Where the links get a piece from, in operation->places; how many those are. */
static uint32_t find_places(const struct operation *operation, const struct run_lane *lane,
                            const struct program_step *step, const struct piece *piece)
{
    void **const places = operation->places;
    if (lane->placing) {
        reduce_find_expected(operation, step, lane->done);
        return step->tx_count;
    }
    if (piece->place == NULL) return 0;
    if (!path_is_place(piece->way)) {
        places[0] = piece->place;
        return 1;
    }
    for (uint32_t i = 0; i < step->tx_count; i++) places[i] = (char *)places[i] + lane->filled;
    return step->tx_count;
}

/* Whether a run of a step that only copies lies where it belongs. */
static bool lies_there(const struct operation *operation, const struct program_step *step,
                       const void *destination, uint32_t place_count)
{
    const void *source = operation->sources[0];
    if (step->source_count > 1 || step_scales(step)) return false;
    if (destination == NULL) return place_count == 1 && operation->places[0] == source;
    return destination == source && place_count == 0;
}

void computing_start(struct operation *operation, struct run_lane *lane,
                     const struct program_step *step, bool stores, const struct piece *piece)
{
    struct kernel_executor *executor = operation->program->executor;
    void **const places = operation->places;
    const uint32_t place_count = find_places(operation, lane, step, piece);
    const bool streams = step->streams && !lane->is_staged && (stores || lane->placing);
    bool any = false;
    for (size_t done = 0, run; done < piece->bytes; done += run) {
        run = piece->bytes - done;
        char *const destination = reduce_find_run(operation, lane, step, stores, done, &run);
        if (!lies_there(operation, step, destination, place_count)) {
            const unsigned first = destination == NULL;
            struct kernel_call call = {.destination = first ? places[0] : destination,
                                       .others = places + first,
                                       .other_count = place_count - first};
            executor->ops->start(executor, reduce_fill_call(operation, step, &call, run, streams),
                                 &call);
            any = true;
        }
        for (uint32_t i = 0; i < place_count; i++) places[i] = (char *)places[i] + run;
    }
    *computing_flight(operation, lane) =
        (struct flight){*piece, any ? executor->ops->flush(executor) : 0};
    operation->shared_slot_is_taken |= piece->way == PATH_SHARED_SLOT && place_count > 0;
}

bool computing_is_finished(struct operation *operation, struct run_lane *lane)
{
    struct kernel_executor *executor = operation->program->executor;
    struct flight *flight = computing_flight(operation, lane);
    if (!executor->ops->is_finished(executor, flight->group)) return false;
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
