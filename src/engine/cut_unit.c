#include "engine/cut_unit.h"

#include <string.h>

static size_t unit_bytes_of(const struct program *program)
{
    return program->encoding->unit_elements * program->element_bytes;
}

size_t cut_unit_room(const struct program *program)
{
    /* A unit of each source, and of the destination. */
    return cut_unit_may_be(program) ? (program->source_count_max + 1) * unit_bytes_of(program) : 0;
}

bool cut_unit_is_next(const struct program *program, size_t rest, size_t *run)
{
    const size_t unit_bytes = unit_bytes_of(program);
    if (*run >= rest) return false;
    if (*run >= unit_bytes) {
        *run = *run / unit_bytes * unit_bytes;
        return false;
    }
    *run = rest < unit_bytes ? rest : unit_bytes;
    return true;
}

const void *cut_unit_gather(const struct buffer *buffer, size_t offset, size_t bytes, char *room)
{
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        const char *const from = buffer_at(buffer, offset + done, &run);
        if (run == bytes) return from;
        memcpy(room + done, from, run);
    }
    return room;
}

void cut_unit_scatter(const struct buffer *buffer, size_t offset, size_t bytes, const char *from)
{
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        char *const to = buffer_at(buffer, offset + done, &run);
        memcpy(to, from + done, run);
    }
}
