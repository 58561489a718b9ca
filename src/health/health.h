/* health.h - what a rank knows of the other ranks of its team: which are there, how far they are,
 * which delay calls, and why the communicator failed.
 *
 *     ranks of this host ── board, control rings, processes ──┐
 *                                                             ├──► known.h, deaths.h: what is known of a rank, wherever it is
 *     ranks of other hosts ── control messages, heartbeats ───┘         │
 *                                                                       ▼
 *     failure.h: one failure on each host  ◄── whoever finds one                 agree.h: those who are left agree
 *     recorder.h: the last calls, choices.h: why their algorithms ──► trace.h tells them
 *     straggler.h: who is late again and again
 *
 * It is told of calls by their numbers and descriptions, and knows no request. Members of a part
 * are for its own file and, where a header X_state.h declares them, for the files that this names;
 * others pass the part's address to its functions.
 */
#ifndef TUTTI_HEALTH_HEALTH_H
#define TUTTI_HEALTH_HEALTH_H

#include <stdatomic.h>
#include <stdint.h>

#include "health/board.h"
#include "health/choices.h"
#include "health/processes.h"
#include "health/recorder.h"
#include "health/straggler.h"
#include "health/trace.h"
#include "team/team.h"

struct health {
    struct team *team; /* of which it is the health */
    struct board *board; /* shared by the ranks of this host; private memory where the communicator has one rank */
    int board_size, board_number; /* how many ranks it has; this rank's number among them */
    struct network *network;      /* ranks that control messages reach; NULL: there are none */
    struct control_ring *
        control_rings; /* of each rank of this host, by local number, behind the board; NULL: the communicator has one rank */
    struct recovery *_Atomic recovery; /* NULL until an agreement is begun or heard of, see recover.h */
    uint64_t unnumbered; /* calls that the library made itself, before all that have a sequence number */
    struct processes processes;
    _Alignas(64) struct recorder recorder; /* the last calls, by sequence number */
    struct recorder message_recorder;      /* the last messages */
    struct straggler straggler;
    struct trace trace;
    struct choices choices; /* why the last calls got their algorithms */
};

/* Whether any rank is reached over a network, which with TUTTI_TRANSPORT=tcp is so within a host,
 * too. A call may then return with bytes still unsent. */
static inline bool health_has_network(const struct health *health)
{
    return health->network != NULL;
}
/* The latest calls in a slot: of a rank of this host, by its local number; and this rank's own. */
static inline struct board_call *health_calls_of(const struct health *health, int number, int slot)
{
    return board_calls(health->board, health->board_size, number, slot);
}
static inline struct board_call *health_own_calls(const struct health *health, int slot)
{
    return health_calls_of(health, health->board_number, slot);
}
/* The sequence number of the latest call that a rank of this host, by its local number, has begun;
 * queued calls have not. 0: none. */
static inline uint64_t health_sequence_of(const struct health *health, int number)
{
    const uint64_t count = board_sequence(health->board, health->board_size, number);
    return count > health->unnumbered ? count - health->unnumbered : 0;
}
#endif
