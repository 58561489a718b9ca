/* withdrawn.h - which meeting for a new communicator a rank of this one has given up, and why.
 *
 * A rank that cannot join tells the others in the meeting, if it gets that far. It may not: without
 * a descriptor it cannot even be found. So it says so here, too, where all members can hear it: on
 * the board of its host, and by control messages to other hosts. Members that wait look there now
 * and then. They give the meeting up, too, and say nothing of their own, so that all name the same
 * rank. Of each rank the last meeting that it gave up is remembered. No two meetings have the same
 * number.
 */
#ifndef TUTTI_HEALTH_WITHDRAWN_H
#define TUTTI_HEALTH_WITHDRAWN_H

#include <stdint.h>

#include "tutti/tutti.h"

struct health;

/* Tells those ranks that this one does not come to that meeting. Keeps this thread's error. Waits a
 * moment for the domain at most: a rank of another host that is not told finds out at the meeting's
 * deadline. */
void withdrawn_tell(struct health *health, const int *ranks, int count, uint64_t meeting,
                    enum tutti_status why);
/* Why that rank does not come to that meeting; OK: it may come. With the domain held. */
enum tutti_status withdrawn_status(const struct health *health, int rank, uint64_t meeting);

#endif
