/* worker_protocol.h - how the CPU and a worker (worker.h) talk: what lies in the pinned memory that
 * both reach, and in the device's.
 *
 *     control │ end                        the CPU's
 *             │ said[team]                 the worker's: │ how far it is │ number of its last order that is done │
 *     ring of team 0   [ order 16 ][ order 1 ][ order 2 ] ...      the CPU's
 *     ring of team 1   [          ][         ][         ] ...
 *
 *     home │ control, team_size            never changes         in the device's memory
 *          │ inbox of team 0  │ tickets │ done │ order │ end │    the team's
 *
 * The blocks of a worker are in few *teams*. The first block of a team that comes is its leader: it
 * alone looks into the host's memory, where looks of many blocks would hold up each other and all
 * that the device reads and stores there. It passes orders on to the others through the inbox, and
 * says when all have done their parts.
 *
 * Each team has a ring of its own: so it reads no orders but those that it has a part in, and
 * several small orders run at once. A large order is cut into parts, each for one team; the CPU
 * knows that it is done when all of these teams have said so. In the host's memory nothing is
 * atomic but loads and stores, each word has one writer.
 *
 * An order is one line of 128 bytes, which a warp of the device reads at once, over the bus once.
 * In each of its words the upper half is the number of the order, the lower half a part of struct
 * worker_order: a reader that finds the number that it waits for in all words has all of the order,
 * in whichever order the words were written or read. More pointers than an order has room for lie
 * elsewhere.
 *
 * Orders
 *  1. Orders of a ring are numbered from 1 on, without end, for as long as the control lives:
 *     number n is in place n % WORKER_SLOTS. The CPU uses a place again only when the team has said
 *     that the order before is done. A worker begins behind the number in said[team].
 *  2. The CPU stores each word of an order with release: what it stored before, or saw of others,
 *     is seen by the leader that has found the order. On the device that takes a fence of system
 *     scope after the words were found, and then a barrier of the block. The leader's fence, and a
 *     member's after it has found the order in the inbox, make it seen by the member.
 *  3. A member adds to `done` when all its threads have passed a barrier, and one of them then a
 *     fence of system scope. The leader says that an order is done after its own such barrier, when
 *     it has found all additions, and another fence. The CPU loads said[team] with acquire: it, and
 *     every thread that it tells, sees all that the team stored anywhere.
 *  4. `end` beats orders: a leader that finds it leaves, whatever is in the ring. It looks at it
 *     whenever it looks for an order, also at the first time. It says WORKER_LEFT when all blocks
 *     of the team have come and gone. After that the worker touches nothing of all this.
 *  5. Between two workers, while none is there, all is the CPU's.
 *
 * Members
 *  6. A block takes a ticket, and so has a number in its team, the leader 0. A block that comes
 *     late has no part in orders that were passed on before: each order tells for how many members
 *     it is, which are all whose tickets the leader has seen. So no block waits for blocks for
 *     which the device has no room yet.
 *  7. The inbox holds one order. The leader stores the next one when all members that had a part in
 *     it have added to `done`; a member that had none may miss it.
 *  8. Tickets, `done` and `left` are counted on and on. Each worker takes a ticket for each block:
 *     so a ticket tells which worker of the home it is, from 1 on, and `end` holds the number of
 *     the one that is to leave.
 */
#ifndef TUTTI_GPU_WORKER_PROTOCOL_H
#define TUTTI_GPU_WORKER_PROTOCOL_H

#include <stdint.h>

#include "gpu/reduce.h"
#include "gpu/worker.h"

enum {
    WORKER_BLOCKS_MAX = 64,
    WORKER_TEAMS_MAX = 4,
    WORKER_SLOTS = 16,   /* of a ring; a power of 2 */
    WORKER_WORDS = 16,   /* of a slot */
    WORKER_POINTERS = 4, /* in an order itself */
    WORKER_ALIGNMENT = 128
};

/* In `said`, above the number of the order. */
enum worker_state {
    WORKER_ABSENT,  /* it has not begun */
    WORKER_PRESENT, /* what was before it in its stream is over */
    WORKER_LEFT
};

/* One part of an order, for one team. */
struct worker_order {
    struct gpu_reduce reduce; /* `share`: worker_share */
    union {
        uint64_t pointers[WORKER_POINTERS]; /* as behind a struct gpu_reduce */
        uint64_t elsewhere; /* address of the pointers, if they are more than that */
    };
};

/* Part `part` of `parts`: every `parts`th row of what a block has under way at once; 1 to
 * WORKER_TEAMS_MAX parts. */
static inline uint8_t worker_share(uint32_t part, uint32_t parts)
{
    return (uint8_t)(parts << 4 | part);
}

struct worker_slot {
    uint64_t words[WORKER_WORDS]; /* number of the order << 32 | a word of struct worker_order */
};

struct worker_control {
    uint64_t end; /* not 0: leave */
    uint64_t unused[WORKER_ALIGNMENT / 8 - 1];
    uint64_t said[WORKER_TEAMS_MAX]; /* enum worker_state << 32 | number of the last order that is done */
    uint64_t unused_too[WORKER_ALIGNMENT / 8 - WORKER_TEAMS_MAX];
    struct worker_slot rings[WORKER_TEAMS_MAX][WORKER_SLOTS]; /* as many of them as there are teams */
};

/* All 0 before the first worker. Each word on a line of its own, as different blocks wait for
 * them. */
struct worker_inbox {
    uint64_t tickets;
    uint64_t unused1[WORKER_ALIGNMENT / 8 - 1];
    uint64_t done;
    uint64_t unused2[WORKER_ALIGNMENT / 8 - 1];
    uint64_t left; /* blocks that touch the inbox no more, but for the leader's */
    uint64_t unused3[WORKER_ALIGNMENT / 8 - 1];
    struct worker_slot order;
    uint64_t end;          /* number of the worker that is to leave */
    uint64_t member_count; /* number of the order << 32 | members that have a part in it */
    uint64_t unused4[WORKER_ALIGNMENT / 8 - 2];
};

/* The arguments of the kernel: in the device's memory, because each block reads them, and many
 * reads of the host's memory take long. */
struct worker_home {
    uint64_t control;   /* address of the struct worker_control */
    uint64_t team_size; /* blocks; all teams have as many */
    uint64_t unused[WORKER_ALIGNMENT / 8 - 2];
    struct worker_inbox inboxes[WORKER_TEAMS_MAX];
};

#endif
