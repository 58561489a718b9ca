/* call.h - blocking calls. */
#ifndef TUTTI_CALL_CALL_H
#define TUTTI_CALL_CALL_H

#include "call/arguments.h"
#include "call/communicator.h"
#include "call/request.h"

/* Takes over call->extra, also on failure. */
enum tutti_status call_run(struct tutti_comm *comm, struct call *call);
/* Whether it may be worth it to try call_run_again. Any thread. */
static inline bool call_may_come_again(const struct tutti_comm *comm,
                                       const struct arguments *arguments)
{
    return repeat_is_likely(&comm->calls.repeated, arguments->send, arguments->count);
}
/* Makes the call that was made before, if it has these arguments, of an EVEN shape, and can be made again (repeat.h).
 * False: nothing happened, and the caller goes the usual way. comm: known. */
bool call_run_again(struct tutti_comm *comm, const struct arguments *arguments,
                    enum tutti_status *status);

#endif
