/* join.h - the ranks of a new communicator come together. */
#ifndef TUTTI_COMM_JOIN_H
#define TUTTI_COMM_JOIN_H

#include "comm/create.h"

/* Finds a rank's paths to the others before it meets them: the wishes of its environment, its
 * card. */
enum tutti_status comm_find_paths(struct tutti_comm *comm, const struct creation *creation);
/* Fills in members, transports and health of a communicator of several ranks. Blocks until the
 * ranks of this host have met, `look` objects (create.h), or the deadline. With creation->trouble:
 * only until this rank has the board of its host, on which it can tell the others. On failure, what
 * is there stays for the caller to release. */
enum tutti_status comm_join(struct tutti_comm *comm, const struct creation *creation);
/* Blocks until all ranks of all hosts have come here, `look` objects, or the deadline: whatever may
 * fail on one rank comes before it, so that it fails on all. */
enum tutti_status comm_join_all(struct tutti_comm *comm, const struct creation *creation);

#endif
