/* complete.h - the end of a started operation. */
#ifndef TUTTI_CALL_COMPLETE_H
#define TUTTI_CALL_COMPLETE_H

#include "call/request.h"

/* The end of a request that is done, for its waiter: its status and text; *request is NULL then. */
enum tutti_status call_collect(struct tutti_request **request);

#endif
