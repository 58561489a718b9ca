/* call.h - blocking calls. */
#ifndef TUTTI_COMM_CALL_H
#define TUTTI_COMM_CALL_H

#include "comm/request.h"

/* Takes over call->extra, also on failure. */
enum tutti_status comm_call(struct tutti_comm *comm, struct call *call);

#endif
