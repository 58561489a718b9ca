#include "descendants.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 100, ROUND_MS = 20 };

int descendants_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}

static pid_t parent_of(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    /* "pid (name) state parent ...", and the name may hold anything. */
    const char *after_name = strrchr(text, ')');
    int parent;
    char state;
    return after_name != NULL && sscanf(after_name + 1, " %c %d", &state, &parent) == 2 ? parent
                                                                                        : -1;
}

static int kill_children(void)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL) return 1;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || parent_of(entry->d_name) != getpid())
            continue;
        kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
        ++count;
    }
    closedir(proc);
    return count;
}

int descendants_kill(void)
{
    int count = 0;
    for (int round = 0; round < ROUNDS_MAX; ++round) {
        count = kill_children();
        pid_t reaped;
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (reaped < 0 && errno == ECHILD) return 0;
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = ROUND_MS * 1000000L});
    }
    return count > 0 ? count : 1;
}
