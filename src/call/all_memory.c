#include "call/all_memory.h"

#include "base/dtype.h"
#include "call/begin.h"
#include "call/communicator.h"
#include "call/on_device.h"
#include "memory/heap.h"

enum {
    NOTES_FIRST = 8, /* after each of which ranks tell each other */
    NOTES_A_TELL = 16
};

static uint32_t bit_of(enum collective collective)
{
    return UINT32_C(1) << collective;
}

bool all_memory_is_reached(const struct tutti_comm *comm)
{
    return comm->team.transports.is_one_process && comm->team.transports.maps_heaps;
}

bool all_memory_matters(const struct tutti_comm *comm, const struct call *call)
{
    return comm->team.transports.maps_heaps && !all_memory_is_reached(comm) && !call->what.varies &&
           call->what.collective != COLLECTIVE_BARRIER &&
           call->what.count * dtype_size(call->what.dtype) >=
               comm->team.transports.set.all->paths.tables[0]->sizes.mapped_bytes_min;
}

bool all_memory_decide(struct tutti_comm *comm, enum collective collective)
{
    struct all_memory *const memory = &comm->calls.all_memory;
    if (!memory->is_read)
        memory->all = board_all_mapped(comm->health.board, comm->health.board_size, memory->told);
    memory->is_read = true;
    return (memory->all & bit_of(collective)) != 0;
}

static bool is_mapped(const struct call *call, int which, size_t bytes)
{
    const struct buffer own = call_buffer(call, which), *const buffer = &own;
    uint64_t where;
    if (call_is_on_device(call) && call->extra->on_device[which]) return false;
    for (size_t done = 0, run; done < bytes; done += run) {
        run = bytes - done;
        const void *address = buffer_at(buffer, done, &run);
        if (!heap_find(address, run, &where)) return false;
    }
    return true;
}

/* In place the larger buffer contains the smaller one. A buffer that this rank does not have does
 * not count as unmapped. */
static bool uses_mapped_memory(const struct tutti_comm *comm, const struct call *call)
{
    const enum collective collective = call->what.collective;
    const bool is_root = comm->team.rank == call->what.root;
    const size_t sent = collective_blocks_sent(collective, is_root, comm->team.size),
                 received = collective_blocks_received(collective, is_root, comm->team.size);
    const size_t bytes = call->what.count * dtype_size(call->what.dtype);
    const bool has_input = !call->in_place || sent > received,
               has_output = !call->in_place || !has_input;
    return (!has_output || is_mapped(call, 1, bytes * received)) &&
           (!has_input || is_mapped(call, 0, bytes * sent));
}

static bool is_time_to_tell(uint64_t noted)
{
    return noted <= NOTES_FIRST || noted % NOTES_A_TELL == 0;
}

bool all_memory_note_again(struct tutti_comm *comm)
{
    struct all_memory *const memory = &comm->calls.all_memory;
    if (memory->is_due || !memory->is_read || is_time_to_tell(memory->noted + 1)) return false;
    memory->noted++;
    return true;
}

void all_memory_note(struct tutti_comm *comm, const struct call *call)
{
    struct all_memory *const memory = &comm->calls.all_memory;
    const uint32_t bit = bit_of(call->what.collective);
    const bool is_first = (memory->called & bit) == 0;
    memory->called |= bit;
    const uint32_t like_this = bit | ~memory->called;
    if (uses_mapped_memory(comm, call))
        memory->own |= like_this;
    else
        memory->own &= ~like_this;
    memory->noted++;
    if (is_first || is_time_to_tell(memory->noted)) memory->is_due = true;
}

/* No rank ends it before all have begun it: each needs something of each other one. */
static bool is_shared_by_all(const struct call *call)
{
    if (call->what.collective == COLLECTIVE_BARRIER) return true;
    return !collective_is_rooted(call->what.collective) && !call->what.varies &&
           call->what.count > 0;
}

void all_memory_tell(struct tutti_comm *comm, const struct call *call)
{
    struct all_memory *const memory = &comm->calls.all_memory;
    if (!is_shared_by_all(call)) return;
    board_tell_mapped(comm->health.board, comm->health.board_number, ++memory->told,
                      memory->own & ((UINT32_C(1) << COLLECTIVE_COUNT) - 1));
    memory->is_due = memory->is_read = false;
}
