/* network_leave.h - the end of a communicator with a network: nobody leaves before the others have what it sent. */
#ifndef TUTTI_HEALTH_NETWORK_LEAVE_H
#define TUTTI_HEALTH_NETWORK_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

struct health;

enum { NETWORK_FAREWELL_NS = 500000000 }; /* for control messages that no peer waits for */

/* Blocks until all ranks that are still there have received what this rank sent; false at the deadline. Once the communicator has failed
 * it waits for NETWORK_FAREWELL_NS at most: a rank that died shows no more, and would be waited for. With the domain held. */
bool network_settle(struct health *health, uint64_t deadline_ns);
/* Blocks until the others have received everything and know that this rank leaves, at most for the communicator's timeout. With the domain
 * held. */
void network_leave(struct health *health);

#endif
