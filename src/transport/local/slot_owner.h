/* slot_owner.h - whether the reader of a slot makes its lines its own before it gives the slot back.
 *
 *     sender stores ─► sender's line ─► reader loads ─► both have it ─► sender stores again
 *                                                    └► reader stores ─► reader's line ─► sender stores again
 *
 * A core that stores to a line that another core has loaded, too, may have to ask for each such line
 * and wait; where the other core has stored to the line, it is handed over. On AMD's processors (Zen 4,
 * two cores that seem to share no L3) the upper way moves 2.3 GB/s and the lower one 20 GB/s; between
 * cores that share caches the upper way may be the better one. So each sender tries both, times its
 * own stores from the reservation of a slot to its message, and asks its reader for the lower way if
 * that is clearly the faster one. It tries again now and then, since threads move to other cores.
 *
 * Only speed depends on it. A reader obeys if no other rank reads the slot.
 */
#ifndef TUTTI_TRANSPORT_LOCAL_SLOT_OWNER_H
#define TUTTI_TRANSPORT_LOCAL_SLOT_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/clock.h"

enum {
    SLOT_OWNER_BYTES_MIN = 8 << 10, /* of a message that is timed */
    SLOT_OWNER_SETTLES = 4,         /* messages until all slots are used in the new way */
    SLOT_OWNER_TIMED = 8,           /* messages after them, whose median counts */
    SLOT_OWNER_PHASE = SLOT_OWNER_SETTLES + SLOT_OWNER_TIMED,
    SLOT_OWNER_HOLDS = 8192 /* messages from one trial to the next */
};

/* The knowledge that a sender has of a link. All zero: none, and readers are not asked. */
struct slot_owner {
    uint64_t begun;    /* when the place of the next message was reserved; 0: it is not timed */
    uint32_t messages; /* of a size that is timed, since the trial began */
    bool asks;
    uint32_t costs[2][SLOT_OWNER_TIMED]; /* ticks for 4 KiB: without asking, and with it */
};

/* A message of a size that is timed has been stored. */
void slot_owner_note(struct slot_owner *owner, size_t bytes, uint64_t ticks);
/* The place of the next message has been reserved. */
static inline void slot_owner_begin(struct slot_owner *owner, size_t bytes)
{
    if (bytes >= SLOT_OWNER_BYTES_MIN && owner->begun == 0 &&
        owner->messages % SLOT_OWNER_HOLDS < 2 * SLOT_OWNER_PHASE)
        owner->begun = clock_ticks();
}
/* Its bytes have been stored. Returns whether its reader is asked. */
static inline bool slot_owner_end(struct slot_owner *owner, size_t bytes)
{
    const bool asks = owner->asks;
    if (bytes >= SLOT_OWNER_BYTES_MIN)
        slot_owner_note(owner, bytes, owner->begun != 0 ? clock_ticks() - owner->begun : 0);
    owner->begun = 0;
    return asks;
}

/* The reader's part: stores to each line of a slot, whose bytes nobody needs any more. */
void slot_owner_take(char *slot, size_t bytes);

#endif
