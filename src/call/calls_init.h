/* calls_init.h - the beginning and the end of a communicator's calls, requests, messages and
 * programs. */
#ifndef TUTTI_CALL_CALLS_INIT_H
#define TUTTI_CALL_CALLS_INIT_H

#include <stdbool.h>

#include "tutti/tutti.h"

/* comm is zeroed, but for its team. */
void calls_init(struct tutti_comm *comm);
/* The team is complete: calls may come. */
void calls_open(struct tutti_comm *comm);
/* Blocks until everything that was started is done, whichever thread waits for it. The deadlines of
 * the calls bound this; calls that wait for gates wait no longer than that either. */
void calls_finish(struct tutti_comm *comm);
/* In a child of fork(): whether another thread of the parent was queuing something then. The state
 * that it was changing must stay as it is: nobody can tell how far it came. */
bool calls_were_busy(struct tutti_comm *comm);
void calls_close(struct tutti_comm *comm);
/* Adds what they hold, but for messages that no call has received, and prepared calls. */
void calls_footprint(const struct tutti_comm *comm, struct tutti_footprint *sum);

#endif
