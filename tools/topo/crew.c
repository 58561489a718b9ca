#include "crew.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"

static const uint64_t limit_ns = 20000000000, kill_ns = 2000000000;

void *crew_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

void crew_free(void *memory, size_t bytes)
{
    if (memory != NULL) munmap(memory, bytes);
}

int crew_cpus(int cpus[CREW_CPUS_MAX])
{
    cpu_set_t allowed;
    int count = 0;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
    for (int cpu = 0; cpu < CREW_CPUS_MAX && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &allowed)) cpus[count++] = cpu;
    return count;
}

/* The child is gone as soon as its parent is. */
static void run_child(pid_t parent, int cpu, int index, crew_work *work, void *context)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)cpu, &own);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (sched_setaffinity(0, sizeof own, &own) != 0) _exit(1);
    _exit(work(index, context) ? 0 : 1);
}

/* It ends by itself; if somebody stops it, it is killed, and left to init if not even that
 * helps. */
static bool wait_for(pid_t pid, uint64_t until_ns)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int status;
    bool is_killed = false;
    for (;;) {
        const pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (ended < 0 && errno != EINTR) return false;
        if (clock_now_ns() > until_ns) {
            if (is_killed) return false;
            kill(pid, SIGKILL);
            is_killed = true;
            until_ns += kill_ns;
        }
        nanosleep(&moment, NULL);
    }
}

enum tutti_status crew_run(const int *cpus, int count, crew_work *work, crew_lead *lead,
                           void *context)
{
    pid_t *const pids = calloc((size_t)count, sizeof *pids);
    const pid_t parent = getpid();
    int started = 0, failed = 0;
    if (pids == NULL) return error_set(TUTTI_NO_MEMORY, "out of memory");
    /* If SIGCHLD is ignored, children leave nothing to wait for. */
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigaction(SIGCHLD, &usual, &before);
    for (; started < count; started++) {
        pids[started] = fork();
        if (pids[started] == 0) run_child(parent, cpus[started], started, work, context);
        if (pids[started] < 0) break;
    }
    const int error = errno;
    if (started < count)
        for (int i = 0; i < started; i++) kill(pids[i], SIGKILL);
    else if (lead != NULL)
        lead(context);
    const uint64_t until_ns = clock_now_ns() + limit_ns;
    for (int i = 0; i < started; i++) failed += !wait_for(pids[i], until_ns);
    sigaction(SIGCHLD, &before, NULL);
    free(pids);
    errno = error;
    if (started < count) return error_system("starting a process that measures");
    if (failed > 0)
        return error_set(TUTTI_UNSUPPORTED,
                         "%d of %d processes that measure could not be bound, or took too long",
                         failed, count);
    return TUTTI_OK;
}
