#include "transport/local/slot_owner.h"

#include "transport/local/segment.h"

static_assert((int)SLOT_OWNER_SETTLES >= (int)DATA_SLOTS, "a phase times no slot of the last one");

static uint32_t median_of(uint32_t *costs)
{
    for (int i = 1; i < SLOT_OWNER_TIMED; i++)
        for (int k = i; k > 0 && costs[k] < costs[k - 1]; k--) {
            const uint32_t larger = costs[k - 1];
            costs[k - 1] = costs[k];
            costs[k] = larger;
        }
    return costs[SLOT_OWNER_TIMED / 2];
}

void slot_owner_note(struct slot_owner *owner, size_t bytes, uint64_t ticks)
{
    const uint32_t number = owner->messages++ % SLOT_OWNER_HOLDS;
    if (number >= 2 * SLOT_OWNER_PHASE) {
        if (number == SLOT_OWNER_HOLDS - 1) owner->asks = false;
        return;
    }
    const uint32_t phase = number / SLOT_OWNER_PHASE, in_phase = number % SLOT_OWNER_PHASE;
    const uint64_t cost = ticks / (bytes >> 12);
    if (in_phase >= SLOT_OWNER_SETTLES)
        owner->costs[phase][in_phase - SLOT_OWNER_SETTLES] =
            cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    if (in_phase < SLOT_OWNER_PHASE - 1) return;
    owner->asks = phase == 0 ||
                  median_of(owner->costs[0]) / 3 > median_of(owner->costs[1]) / 2; /* 1.5 times */
}

void slot_owner_take(char *slot, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CACHE_LINE) ((volatile char *)slot)[at] = 0;
}
