#include "membership/standing.h"

#include "membership/rank_set.h"

uint64_t standing_epoch(uint64_t number, uint32_t about)
{
    return (uint64_t)about << 32 | standing_number(number);
}

uint64_t standing_number(uint64_t epoch)
{
    return epoch & UINT32_MAX;
}

uint32_t standing_about(uint64_t epoch)
{
    return (uint32_t)(epoch >> 32);
}

uint32_t standing_about_set(const uint64_t *set, int size)
{
    uint32_t number = 2166136261u;
    for (int r = 0; r < size; r++) number = (number ^ rank_set_has(set, r)) * 16777619u;
    return number != 0 ? number : 1;
}

bool standing_is_majority(int count, bool has_first, int size)
{
    return 2 * count > size || (2 * count == size && has_first);
}

bool standing_has_moved_on(const struct standing_self *self, uint64_t decided, bool has_opposed)
{
    const uint64_t lacking = self->missed != 0 ? self->missed : self->number;
    return self->is_accused || has_opposed || decided >= lacking;
}

void standing_note_end(struct standing_self *self, bool takes_part)
{
    if (!takes_part && self->missed == 0) self->missed = self->number;
}
