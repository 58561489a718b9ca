/* progress.h - what was started moves. */
#ifndef TUTTI_CALL_PROGRESS_H
#define TUTTI_CALL_PROGRESS_H

#include <stdbool.h>

#include "call/request.h"

struct tutti_comm;

/* One pass over everything that was started; domain held. True when something moved. */
bool calls_progress(struct tutti_comm *comm);
/* Starts a request while the domain is held: at once if none is queued before it, else it is
 * queued. */
enum tutti_status calls_start_held(struct tutti_comm *comm, struct call_request *request);
/* Numbers a started call when it is made. One thread at a time. */
void calls_count_started(struct tutti_comm *comm, struct call_request *request);
/* Finds the program of a request and takes a reference to it; a prepared request has one already.
 * Domain held. */
enum tutti_status call_find_program(struct tutti_comm *comm, struct call_request *request);

#endif
