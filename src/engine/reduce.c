#include "engine/reduce.h"

void reduce_find_expected(const struct operation *operation, const struct program_step *step,
                          size_t done)
{
    for (uint32_t i = 0; i < step->tx_count; i++)
        operation->places[i] = step_send(operation, step, i)->expected + done;
}

void reduce_for_all(const struct operation *operation, const struct program_step *step,
                    char *destination, size_t done, size_t bytes)
{
    void **const places = operation->places;
    reduce_find_expected(operation, step, done);
    const unsigned first = destination == NULL;
    struct kernel_call call = {.destination = destination != NULL ? destination : places[0],
                               .others = places + first,
                               .other_count = step->tx_count - first};
    reduce_fill_call(operation, step, &call, bytes, step_has(step, STEP_STREAMS))(&call);
}
