#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/process.h"

/* Its name looks like what comes behind names. */
static void stopped_processes_are_told_from_others(void **state)
{
    (void)state;
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "x) T (y", 0, 0, 0);
        kill(getpid(), SIGSTOP);
        for (;;) pause();
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_true(process_is_stopped(pid));
    kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
    assert_false(process_is_stopped(pid));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(process_is_stopped(pid));
    assert_false(process_is_stopped(getpid()));
}

/* Also with no descriptor to look with, in a child that has as few as it likes. */
static void processes_that_ended_are_told_from_others(void **state)
{
    (void)state;
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    assert_false(process_has_ended(pid));
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_false(process_has_ended(pid));
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(process_has_ended(pid)); /* nobody has waited for it */
    const pid_t poor = fork();
    assert_true(poor >= 0);
    if (poor == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
        _exit(process_has_ended(getppid()) ? 1 : process_has_ended(pid) ? 0 : 2);
    }
    assert_int_equal(waitpid(poor, &status, 0), poor);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(process_has_ended(pid));
    assert_false(process_has_ended(getpid()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_processes_are_told_from_others),
        cmocka_unit_test(processes_that_ended_are_told_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
