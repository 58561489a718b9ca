/* wait_loop.h - how a thread waits for a blocking call, how it waits for a started one, and the
 * progress thread's pass. */
#ifndef TUTTI_CALL_WAIT_LOOP_H
#define TUTTI_CALL_WAIT_LOOP_H

#include "call/request.h"
#include "process/progress.h"

/* Waits, with the domain held, until the request of slot 0 is done; returns its status. */
enum tutti_status call_await_blocking(struct tutti_comm *comm, struct call_request *request);
/* Waits for a started request, moving everything while no other thread does. */
void call_await_started(struct tutti_comm *comm, struct tutti_request *request);
/* One pass for the progress thread, which also looks at deadlines. */
enum progress_result calls_client_progress(struct progress_client *client);

#endif
