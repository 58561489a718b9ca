/* network_leave.h - the end of a communicator with a network: no rank leaves before the others have
 * what it sent. */
#ifndef TUTTI_HEALTH_NETWORK_LEAVE_H
#define TUTTI_HEALTH_NETWORK_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

struct health;

enum { NETWORK_FAREWELL_NS = 500000000 }; /* for control messages that no peer waits for */

/* Blocks until all ranks that are still there have received what this rank sent; false at the
 * deadline. Some things are not waited for longer than NETWORK_FAREWELL_NS:
 *   - anything once the communicator has failed, because a rank that died shows no more then;
 *   - messages to a rank that no connection was ever made to, because it may have left before
 *     without hearing of this one (unless there was an agreement, whose outcome these messages may
 *     carry); if that rank is there after all, it may not hear that this one left;
 *   - a new connection for a lost one, when all else has been said.
 * With the domain held. */
bool network_settle(struct health *health, uint64_t deadline_ns);
/* Blocks until the others have received everything, at most so long, and then until they know that
 * this rank leaves, at most NETWORK_FAREWELL_NS. With the domain held. */
void network_leave(struct health *health, uint64_t timeout_ns);
/* For a rank that does not join, because the communicator has failed before it began: rank 0 hears
 * why, and rank 0 tells all hosts. The connections for that are made here. Blocks for
 * NETWORK_FAREWELL_NS at most; a rank that cannot be reached by then finds out by itself that this
 * one does not come. */
void network_give_up(struct health *health);

#endif
