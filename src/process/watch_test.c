#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/watch.h"

static pid_t start_sleeper(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        for (;;) pause();
    }
    assert_true(pid > 0);
    return pid;
}

static void end_sleeper(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static int is_over(int fd, int wait_ms)
{
    struct pollfd entry = {fd, POLLIN, 0};
    return poll(&entry, 1, wait_ms);
}

static void one_process_has_one_descriptor(void **state)
{
    (void)state;
    const pid_t pid = start_sleeper();
    int first, second, other;
    assert_int_equal(watch_open(5, pid, &first), TUTTI_OK);
    assert_int_equal(watch_open(5, pid, &second), TUTTI_OK);
    assert_int_equal(watch_open(6, getpid(), &other), TUTTI_OK);
    assert_int_equal(first, second);
    assert_int_not_equal(first, other);
    watch_close(first);
    assert_int_equal(is_over(second, 0), 0);
    end_sleeper(pid);
    assert_int_equal(is_over(second, 5000), 1);
    assert_int_equal(is_over(other, 0), 0);
    watch_close(second);
    assert_int_equal(close(second), -1); /* closed with its last user */
    watch_close(other);
    assert_int_equal(close(other), -1);
}

static void who_is_gone_cannot_be_watched(void **state)
{
    (void)state;
    int fd;
    const pid_t pid = start_sleeper();
    assert_false(watch_has_ended(pid));
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(watch_has_ended(pid)); /* a zombie */
    end_sleeper(pid);
    assert_true(watch_has_ended(pid));
    assert_int_equal(watch_open(5, pid, &fd), TUTTI_SYSTEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_has_one_descriptor),
        cmocka_unit_test(who_is_gone_cannot_be_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
