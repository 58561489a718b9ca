/* message_call.h - send and recv, blocking, started and prepared. */
#ifndef TUTTI_CALL_MESSAGE_CALL_H
#define TUTTI_CALL_MESSAGE_CALL_H

#include <stdbool.h>

#include "call/request.h"

/* All three copy the call, which has no staging memory yet (staged.h). */
enum tutti_status message_call_run(struct tutti_comm *comm, struct message_call *call);
/* is_grouped: as for call_start. */
enum tutti_status message_call_start(struct tutti_comm *comm, struct message_call *call,
                                     bool is_grouped, struct tutti_request **request);
enum tutti_status message_call_prepare(struct tutti_comm *comm, struct message_call *call,
                                       struct tutti_prepared **prepared);

#endif
