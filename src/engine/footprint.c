#include "engine/footprint.h"

#include <stdint.h>

#include "base/held.h"
#include "engine/bind.h"
#include "engine/run.h"

size_t program_bytes(const struct program *program)
{
    size_t bytes = held(program) + held(program->steps) + held(program->lanes) +
                   held(program->sources) + held(program->afters) + held(program->step_tx) +
                   held(program->step_tx_paths) + held(program->lists) + held(program->tx_links) +
                   held(program->rx_links);
    for (int slot = 0; slot < TRANSPORT_SLOT_COUNT; slot++)
        bytes += held(program->tx[slot]) + held(program->rx[slot]);
    return bytes;
}

size_t operation_bytes(const struct operation *operation)
{
    return held(operation->lanes) + held(operation->sends) + held(operation->completed) +
           held(operation->taken) + held(operation->views) + held(operation->sources) +
           held(operation->places) + held(operation->targets) + held(operation->flights) +
           held(operation->source_formats) + held(operation->place_formats) +
           (operation->scratch_kind == NULL ? held(operation->scratch)
                                            : operation->scratch_capacity);
}
