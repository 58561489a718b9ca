/* deaths.h - whether a rank is dead, on any host, and what else is known of its process: asks
 * processes.h about ranks of this host, and remote_rank.h about ranks of other hosts.
 *
 * Threads: any. */
#ifndef TUTTI_HEALTH_DEATHS_H
#define TUTTI_HEALTH_DEATHS_H

#include <stdbool.h>

struct health;

/* Looks at some of the other processes of this host; returns whether any is known to have ended.
 * health_next_ended: the first rank of the next process that has ended, from *at (0 at first) on;
 * -1: there are no more. */
bool health_look_at_processes(struct health *health);
int health_next_ended(const struct health *health, int *at);
/* Whether a rank's process is gone, with all its threads, or taken to be. */
bool health_is_dead(struct health *health, int rank);
/* The pid of any rank, on its host; 0: not known. */
int health_pid_of(const struct health *health, int rank);
/* Whether two ranks are of one process. */
bool health_share_process(const struct health *health, int rank, int other);
/* Whether the process of a rank of this host is in another PID namespace, so that its pid means
 * nothing here; is gone because it went on as another program; is known to be stopped, by a signal
 * or a debugger. False for a rank of another host. */
bool health_is_hidden(const struct health *health, int rank);
bool health_has_executed(const struct health *health, int rank);
bool health_is_stopped(const struct health *health, int rank);

#endif
