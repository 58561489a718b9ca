/* probe.h - asks what may never answer (the library of a driver that hangs, a file system that is
 * gone): in child processes, all at once, until one deadline.
 *
 *     parent ── probe_start ──► child: writes its answer into memory that both share, and ends
 *        └──── probes_await ──► all have ended, or the time is over and they are killed
 *
 *  1. An answer counts only where the child ended by itself: `trouble` is empty then. The answer of
 *     a killed child is not looked at.
 *  2. The child's stderr is kept, for warnings of the library; its stdout is not.
 *  3. A child goes with its parent. One that cannot be killed, because it waits in the kernel, is
 *     left behind and not waited for.
 *
 * The parent has no other threads.
 */
#ifndef TUTTI_TOOLS_INFO_PROBE_H
#define TUTTI_TOOLS_INFO_PROBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PROBE_TROUBLE_SIZE = 96, PROBE_SAID_SIZE = 512 };

typedef void probe_function(void *answer, int question);

struct probe {
    probe_function *ask;
    int question;
    void *answer; /* of probe_memory */
    /* The rest is filled in here. */
    pid_t pid;
    int said_fd;
    char trouble[PROBE_TROUBLE_SIZE]; /* why there is no answer; "": there is */
    char said[PROBE_SAID_SIZE]; /* the first line on stderr, without what the log has in front; "": nothing */
};

/* Memory of zeros that children share; NULL: there is none. It stays as long as the process. */
void *probe_memory(size_t bytes);
void probe_start(struct probe *probe);
/* seconds: from now on. */
void probes_await(struct probe *probes, int count, double seconds);

#endif
