#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/printable.h"
#include "os/clock.h"

enum { LOOK_NS = 2000000, REAP_MS = 200 };

void *probe_memory(size_t bytes)
{
    void *const memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

/* ------------------------------------------------------------------------------------ the child */

static void redirect(int said_fd)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0) return;
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(said_fd >= 0 ? said_fd : nowhere, STDERR_FILENO);
}

static void run(const struct probe *probe, pid_t parent)
{
    const struct rlimit no_core = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    setrlimit(RLIMIT_CORE, &no_core);
    redirect(probe->said_fd);
    probe->ask(probe->answer, probe->question);
    _exit(0);
}

void probe_start(struct probe *probe)
{
    const pid_t parent = getpid();
    probe->trouble[0] = probe->said[0] = '\0';
    probe->pid = 0;
    probe->said_fd = memfd_create("tutti-info", MFD_CLOEXEC);
    if (probe->answer != NULL) probe->pid = fork();
    if (probe->pid == 0 && probe->answer != NULL) run(probe, parent);
    if (probe->pid > 0) return;
    snprintf(probe->trouble, sizeof probe->trouble, "it cannot be asked: %s", strerror(errno));
    probe->pid = 0;
}

/* ----------------------------------------------------------------------------------- the parent */

static void note_end(struct probe *probe, int status)
{
    probe->pid = 0;
    if (WIFSIGNALED(status))
        snprintf(probe->trouble, sizeof probe->trouble, "it crashed: %s",
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(probe->trouble, sizeof probe->trouble, "it ended the process with %d",
                 WEXITSTATUS(status));
}

/* The number of those that go on. */
static int reap(struct probe *probes, int count)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        int status;
        if (probes[i].pid == 0) continue;
        if (waitpid(probes[i].pid, &status, WNOHANG) == probes[i].pid)
            note_end(&probes[i], status);
        else
            left++;
    }
    return left;
}

static bool reap_until(struct probe *probes, int count, uint64_t deadline_ns)
{
    while (reap(probes, count) > 0) {
        if (clock_now_ns() >= deadline_ns) return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    return true;
}

static void kill_late(struct probe *probes, int count, double seconds)
{
    for (int i = 0; i < count; i++) {
        if (probes[i].pid == 0) continue;
        kill(probes[i].pid, SIGKILL);
        snprintf(probes[i].trouble, sizeof probes[i].trouble, "no answer within %g s", seconds);
    }
}

/* "tutti[123]: a warning" is "a warning". */
static void read_said(struct probe *probe)
{
    static const char mark[] = "]: ";
    if (probe->said_fd < 0) return;
    const ssize_t got = pread(probe->said_fd, probe->said, sizeof probe->said - 1, 0);
    close(probe->said_fd);
    probe->said[got > 0 ? got : 0] = '\0';
    probe->said[strcspn(probe->said, "\n")] = '\0';
    const char *const marked =
        strncmp(probe->said, "tutti[", 6) == 0 ? strstr(probe->said, mark) : NULL;
    if (marked != NULL)
        memmove(probe->said, marked + strlen(mark), strlen(marked + strlen(mark)) + 1);
    else
        probe->said[0] = '\0'; /* of a library that is not ours */
    printable_make(probe->said);
}

void probes_await(struct probe *probes, int count, double seconds)
{
    if (!reap_until(probes, count, clock_now_ns() + (uint64_t)(seconds * 1e9))) {
        kill_late(probes, count, seconds);
        for (int i = 0; i < count; i++) {
            int status;
            const uint64_t until_ns = clock_now_ns() + UINT64_C(1000000) * REAP_MS;
            while (probes[i].pid != 0 && waitpid(probes[i].pid, &status, WNOHANG) == 0 &&
                   clock_now_ns() < until_ns)
                nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
            probes[i].pid = 0;
        }
    }
    for (int i = 0; i < count; i++) read_said(&probes[i]);
}
