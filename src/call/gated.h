/* gated.h - calls that wait for a gate (engine/gate.h) before they run: a device's stream, say,
 * whose earlier work fills the input.
 *
 *     gated_set ──begin──► waits in its slot ──the gate opens──► runs ──► over: the gate is told
 *                               └──────────────failure──────────┴─────────►┘
 *
 * The code that makes a struct call may give it a gate before the call is made; a call through the
 * interface has none. Then
 *
 * 1. the call has its place in the order of calls, its number and its slot like any other, and
 *    other ranks see that it has begun;
 * 2. until the gate opens it touches no buffer and sends nothing; calls in other slots go on. A
 *    thread in a blocking call keeps the communicator to itself meanwhile, so other threads'
 *    blocking calls may time out: gates are for started calls mostly;
 * 3. its deadline counts from when the gate opens. Before that only a failure of the communicator
 *    ends it; a rank that frees the communicator waits for the gate no longer than the call's
 *    timeout, and then fails the communicator. But a call that waits for a device, and for no
 *    stream of the caller's, has its deadline from the start;
 * 4. the gate is told once that the call is over: by a blocking call before it returns, whatever it
 *    returns; by a started one before its request is done. A start that is refused makes no call,
 *    and its gate is told nothing;
 * 5. a prepared call asks the same gate in each of its runs, anew from when that run is started.
 *
 * There are two gates: the one that was set, and one that belongs to the call (struct call_gate).
 * The operation waits for the call's, which asks the one that was set, and notes on the board and
 * in the recorder that it has opened. All of that happens with the domain held. A communicator of
 * one rank has no operation: the call itself asks its gate, a blocking one the gate that was set.
 */
#ifndef TUTTI_CALL_GATED_H
#define TUTTI_CALL_GATED_H

#include <stdatomic.h>
#include <stdint.h>

#include "call/request.h"

/* The gated calls of a communicator. */
struct gated_calls {
    int count; /* calls that have begun and wait for their gates; with the domain held */
    _Atomic uint64_t finish_ns; /* since when the communicator is being freed; 0: it is not */
};

/* Gives a gate to a call that is not made yet. The gate must live until it is told that the call is
 * over; the gate of a prepared call must live until the prepared call is freed. NO_MEMORY. Any
 * thread. */
enum tutti_status gated_set(struct call *call, struct operation_gate *gate);

/* The rest is for calls on their way. A call with a gate has begun in its slot: it waits from now
 * on, and its operation must be opened at call.extra->gate.base (operation_open_at). */
void gated_begin(struct tutti_comm *comm, struct call_request *request);
/* The call is in the recorder now: notes there that it waits for its gate, if it does. */
void gated_record(struct tutti_comm *comm, const struct call_request *request);
/* The call is over: tells its gate, unless it has been told. */
void gated_end(struct call_gate *gate, bool is_done);
/* Does the same for any call that has failed, whether it has begun or not. */
static inline void gated_give_up(const struct call *call)
{
    if (call_has_gate(call)) gated_end(&call->extra->gate, false);
}

#endif
