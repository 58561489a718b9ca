#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stopped_processes_are_told_from_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
