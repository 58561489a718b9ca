/* call.h - blocking calls. */
#ifndef TUTTI_CALL_CALL_H
#define TUTTI_CALL_CALL_H

#include "call/request.h"

/* Takes over call->extra, also on failure. */
enum tutti_status call_run(struct tutti_comm *comm, struct call *call);

#endif
