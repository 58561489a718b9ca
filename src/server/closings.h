/* closings.h - communicators that end, each in a thread of its own: the end of one waits until its peer
 * has what was sent, or is known to be gone, and a peer that is stopped keeps it waiting. The thread that
 * answers all workers must not wait for one of them.
 *
 * One thread starts closings, and releases them. */
#ifndef TUTTI_SERVER_CLOSINGS_H
#define TUTTI_SERVER_CLOSINGS_H

#include <stdbool.h>

#include "tutti/tutti.h"

struct closing;

/* Zeroed, it has none. */
struct closings {
    struct closing *first;
};

/* The communicator is the closings'. Does not block, unless there is no memory or no thread for it. */
void closings_start(struct closings *closings, struct tutti_comm *comm);
/* Waits until all have ended; they wait for their peers at the same time. is_of_parent: this is a child of
 * fork(), which has no such threads. */
void closings_release(struct closings *closings, bool is_of_parent);

#endif
