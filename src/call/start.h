/* start.h - started and prepared calls. */
#ifndef TUTTI_CALL_START_H
#define TUTTI_CALL_START_H

#include <stdbool.h>

#include "call/request.h"

/* Each takes over call->extra, also on failure. */

/* is_grouped: nothing moves it but this thread, which will wait for it, see group.c. */
enum tutti_status call_start(struct tutti_comm *comm, struct call *call, bool is_grouped,
                             struct tutti_request **request);
/* A call that no thread waits for: returns at once. One in the order of a stream (on_device.h),
 * whose failure, if any, is the communicator's; or one that this rank refuses (refuse.h). The
 * status of a call that is over already, else OK. */
enum tutti_status call_unattended(struct tutti_comm *comm, struct call *call);
enum tutti_status call_prepare(struct tutti_comm *comm, struct call *call,
                               struct tutti_prepared **prepared);
/* Starts a prepared request of either kind. */
enum tutti_status request_start(struct tutti_comm *comm, struct call_request *request);

#endif
