/* victim.h - processes that tests kill. */
#ifndef TUTTI_TESTS_KIT_VICTIM_H
#define TUTTI_TESTS_KIT_VICTIM_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* It waits, and does not outlive the test. */
static inline pid_t victim_start(void)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
}

/* It has ended, and nobody has waited for it. */
static inline void victim_kill(pid_t pid)
{
    siginfo_t end;
    kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
}

#endif
