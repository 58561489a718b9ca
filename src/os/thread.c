#include "os/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"

enum { SHORT_TURN_NS = 100000 }; /* the least that Linux takes */

/* The application's handlers run in its own threads. But a signal that a thread causes itself must
 * come through: if such a signal is blocked, the kernel kills the process without calling the
 * handler that would have reported the crash. */
static void block_signals_of_others(sigset_t *before)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t others;
    sigfillset(&others);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&others, own[i]);
    pthread_sigmask(SIG_SETMASK, &others, before);
}

enum tutti_status thread_start(pthread_t *thread, void *(*run)(void *context), void *context,
                               const cpu_set_t *cpus, const char *name)
{
    sigset_t before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0) return error_set(TUTTI_SYSTEM, "%s cannot start: %s", name, strerror(error));
    if (cpus != NULL) error = pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
    block_signals_of_others(&before);
    if (error == 0) error = pthread_create(thread, &attributes, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) return TUTTI_OK;
    return error_set(TUTTI_SYSTEM, "%s cannot start: %s", name, strerror(error));
}

/* The kernel's struct sched_attr, which has no header of its own that goes together with
 * <sched.h>. */
struct thread_turns {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void thread_take_short_turns(void)
{
    struct thread_turns now = {.size = sizeof now};
    if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER)
        return;
    now.runtime_ns = SHORT_TURN_NS;
    syscall(SYS_sched_setattr, 0, &now, 0);
}
