/* refuse.h - calls that this rank cannot make although their arguments are right: the file of the
 * plan that they name is wrong here.
 *
 * Files may differ between hosts, so other ranks may be able to make the call, and would wait for
 * this one. A bad argument is the same mistake on all ranks, and takes no number. A refused call
 * takes its number and its slot, and is over at once: it moves nothing.
 *
 *     all ranks refuse it     each gets its own status, and the next call is the same one on all ranks: the communicator goes on
 *     some ranks make it      they find on the board that another rank has refused it (diagnose.c): MISMATCH, which names that rank
 *
 * A prepared call is refused when it is prepared: it has no number yet.
 */
#ifndef TUTTI_CALL_REFUSE_H
#define TUTTI_CALL_REFUSE_H

#include <stdbool.h>

#include "call/request.h"

/* Refuses a checked call with call->refused, of which this thread's error is. is_started: it is one
 * of the started ones (in a group or a stream, too); these do not block, and a blocking one waits
 * only for the communicator. Takes over call->extra. Returns call->refused and keeps the error; or
 * TIMEOUT, or the status of a communicator that has failed. */
enum tutti_status call_refuse(struct tutti_comm *comm, struct call *call, bool is_started);

#endif
