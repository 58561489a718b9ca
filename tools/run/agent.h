/* agent.h - the part of tutti-run that runs on another host: `tutti-run --agent`.
 *
 * It is started by a remote shell and told everything through its stdin (message.h). From
 * then on it is a front like any other, except that its orders come from stdin; the keeper below it
 * does not know the difference. When stdin ends, the ranks end.
 */
#ifndef TUTTI_TOOLS_RUN_AGENT_H
#define TUTTI_TOOLS_RUN_AGENT_H

#include <limits.h>

#include "message.h"

struct agent_task {
    struct message message; /* owns the lists that options points to; the texts stay for good */
    char program[PATH_MAX];
};

/* Waits for the message, enters the folder, sets the environment and looks for the program. Returns
 * -1 and a task to run, whose stdin_fd is /dev/null; or the exit code, after the error was printed
 * and reported. */
int agent_prepare(struct agent_task *task);

/* Sends a report from here rather than from the keeper. */
void agent_report(const char *token, enum report_kind kind, int code);

#endif
