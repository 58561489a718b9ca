/* join.h - the ranks of a new communicator come together. */
#ifndef TUTTI_COMM_JOIN_H
#define TUTTI_COMM_JOIN_H

#include "comm/create.h"

/* Fills in members, transports and health of a communicator of several ranks. Blocks until all ranks have come this far, `look` objects
 * (create.h), or the deadline. On failure, what is there stays for the caller to release. */
enum tutti_status comm_join(struct tutti_comm *comm, const struct creation *creation);

#endif
