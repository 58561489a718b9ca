/* conductor.h - the process that owns the remote shells of a job on several hosts.
 *
 *     shell ── tutti-run (front) ──orders──> conductor ──┬── ssh a ~~~ tutti-run --agent ──orders──> keeper ── ranks 0, 1
 *                                                        └── ssh b ~~~ tutti-run --agent ──orders──> keeper ── ranks 2, 3
 *
 * It takes the place that the keeper has in a job on one host. It reaches the other hosts by a pipe
 * to each remote shell: the message and the orders (message.h) go in, the ranks' lines
 * come out, with reports among them.
 *
 *  1. The job ends if a host is not reached, or does not say in time that its ranks run. It also
 *     ends if a connection is lost; then the ranks of the other hosts have the time of grace, for
 *     errors of their own.
 *     In an elastic job a host that is lost is none of these: see below.
 *  2. The first failure that is reported decides the exit code; all other hosts are told.
 *  3. A host whose ranks do not end when told so is left after a while, by closing its connection:
 *     an agent ends its ranks when its stdin ends. That holds as well when this process, the front
 *     or the remote shell is killed.
 *
 * In an elastic job (elastic.h) a host that is lost, or that gives no sign of life for a while,
 * loses its ranks. They are started again, as processes that join, on hosts that have no ranks; if
 * there are none, on the same host, which is tried again and again, at most as often as a rank may
 * be started again. A lost host whose ranks are elsewhere is one without ranks from then on. The job
 * ends when no host has a rank of the team, or when too few ranks run or may be started.
 *
 * It does not pass on stdin. Ranks on several hosts read /dev/null.
 */
#ifndef TUTTI_TOOLS_RUN_CONDUCTOR_H
#define TUTTI_TOOLS_RUN_CONDUCTOR_H

#include "hosts.h"
#include "message.h"

struct conductor_options {
    struct message common;     /* the same for all hosts; the rest is filled in for each */
    const struct hosts *hosts; /* with their ranks */
    char **remote_shell;       /* words, NULL last; the host and the agent's command follow */
    const char *remote_path;   /* of tutti-run on the other hosts */
    uint64_t start_timeout_ns; /* for a host to say that its ranks run */
};

/* Starts the job, stays until all of it has ended, and returns the exit code. The rest is as for
 * keeper_run(). */
int conductor_run(const struct conductor_options *options, int orders_fd);

#endif
