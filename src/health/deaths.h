/* deaths.h - which ranks' processes have ended, and what else is known of them: health/processes.h for ranks of a communicator.
 *
 * Threads: any. */
#ifndef TUTTI_HEALTH_DEATHS_H
#define TUTTI_HEALTH_DEATHS_H

#include <stdbool.h>

struct health;

/* Whether a rank's process is gone, with all its threads, or taken to be. */
bool health_is_gone(struct health *health, int rank);
/* Whether two ranks are of one process. */
bool health_share_process(const struct health *health, int rank, int other);
/* Of a rank of this host, else false: whether its process is in another PID namespace, so that its pid means nothing here; whether it is
 * gone because its process went on as another program; whether it is known to be stopped, by a signal or a debugger. */
bool health_is_hidden(const struct health *health, int rank);
bool health_has_executed(const struct health *health, int rank);
bool health_is_stopped(const struct health *health, int rank);

#endif
