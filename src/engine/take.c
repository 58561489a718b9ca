#include "engine/take.h"

#include "engine/buffer.h"

bool take_placed(struct operation *operation, const struct program_step *step)
{
    struct link_rx *link = step_only_source(operation, step);
    struct link_view view;
    size_t run = step->bytes;
    if (link->ops->peek(link, &view) != LINK_READY || view.bytes != step->bytes ||
        view.data != buffer_at(&operation->buffers[PLAN_OUTPUT], step->destination_offset, &run) ||
        run < step->bytes)
        return false;
    taken(operation, step, PATH_WRITE);
    link->ops->consume(link, step->bytes);
    return true;
}

void take_notice(struct operation *operation, const struct run_lane *lane,
                 const struct program_step *step)
{
    size_t run = 1;
    const char *belongs = buffer_at(&operation->buffers[step->destination_buffer],
                                    step->destination_offset + lane->done, &run);
    if (operation->views[0] == belongs)
        taken(operation, step, lane->has_said ? PATH_DIRECT : PATH_WRITE);
}

void take_directly(struct operation *operation, struct run_lane *lane,
                   const struct program_step *step)
{
    struct link_rx *link = step_only_source(operation, step);
    const size_t left = step->bytes - lane->done;
    size_t run = left;
    lane->has_said = true;
    char *destination = buffer_at(&operation->buffers[step->destination_buffer],
                                  step->destination_offset + lane->done, &run);
    if (run == left) link->ops->place_directly(link, destination, left);
}

bool take_copy(struct operation *operation, const struct run_lane *lane,
               const struct program_step *step, size_t *bytes)
{
    struct link_rx *link = step_only_source(operation, step);
    char *destination = buffer_at(&operation->buffers[step->destination_buffer],
                                  step->destination_offset + lane->done, bytes);
    return link->ops->take(link, destination, *bytes);
}
