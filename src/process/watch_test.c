#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* From here on, in this process and its children. */
static int forbid_descriptors_of_processes(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int watch_without_descriptors(void)
{
    int fd, status;
    if (forbid_descriptors_of_processes() != 0) return 77;
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    if (pid < 0) return 1;
    const bool is_watched = watch_open(5, pid, &fd) == TUTTI_OK && fd == -1;
    const bool seems_alive = !watch_has_ended(pid);
    siginfo_t info;
    kill(pid, SIGKILL);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0) return 2;
    const bool has_ended = watch_has_ended(pid);
    waitpid(pid, &status, 0);
    watch_close(fd);
    return is_watched && seems_alive && has_ended && watch_has_ended(pid) ? 0 : 3;
}

static void processes_are_watched_where_they_have_no_descriptors(void **state)
{
    (void)state;
    int status;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(watch_without_descriptors());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip(); /* no filters of system calls here */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_has_one_descriptor),
        cmocka_unit_test(who_is_gone_cannot_be_watched),
        cmocka_unit_test(processes_are_watched_where_they_have_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
