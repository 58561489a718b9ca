#include "child.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "keeper.h"

void child_describe_end(int status, char *text, size_t size)
{
    if (WIFEXITED(status)) {
        snprintf(text, size, "exited with code %d", WEXITSTATUS(status));
        return;
    }
    const char *name = sigabbrev_np(WTERMSIG(status));
    const char *core = WCOREDUMP(status) ? " (core dumped)" : "";
    if (name != NULL)
        snprintf(text, size, "was killed by SIG%s%s", name, core);
    else
        snprintf(text, size, "was killed by signal %d%s", WTERMSIG(status), core);
}

int child_exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : RUN_SIGNALLED + WTERMSIG(status);
}
