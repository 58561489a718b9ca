/* deaths.h - which ranks' processes have ended, and what else is known of them: health/processes.h for ranks of a communicator.
 *
 * Threads: any. */
#ifndef TUTTI_COMM_DEATHS_H
#define TUTTI_COMM_DEATHS_H

#include <stdbool.h>

struct tutti_comm;

/* Whether a rank's process is gone, with all its threads, or taken to be. */
bool comm_is_gone(struct tutti_comm *comm, int rank);
/* Whether two ranks are of one process. */
bool comm_share_process(const struct tutti_comm *comm, int rank, int other);
/* Of a rank of this host, else false: whether its process is in another PID namespace, so that its pid means nothing here; whether it is
 * gone because its process went on as another program; whether it is known to be stopped, by a signal or a debugger. */
bool comm_is_hidden(const struct tutti_comm *comm, int rank);
bool comm_has_executed(const struct tutti_comm *comm, int rank);
bool comm_is_stopped(const struct tutti_comm *comm, int rank);

#endif
