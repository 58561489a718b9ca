#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/process.h"

/* Two processes on one processor: while one computes, the other one has to wait. */
static void a_thread_that_waits_for_a_processor_says_how_long(void **state)
{
    (void)state;
    cpu_set_t before, one;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(cpu, &before)) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    const uint64_t first_ns = process_waited_ns(getpid(), getpid());
    if (first_ns == 0) skip(); /* the kernel was built without it */
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) continue;
    }
    const uint64_t deadline_ns = clock_now_ns() + 60000000000u;
    bool has_waited = false, other_has = false;
    while (!(has_waited && other_has) && clock_now_ns() < deadline_ns) {
        has_waited = process_waited_ns(getpid(), getpid()) >= first_ns + 10000000u;
        other_has = process_waited_ns(pid, pid) > 0;
    }
    assert_true(has_waited && other_has);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(process_waited_ns(pid, pid), 0);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* The name of this process looks like the text behind names. */
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

/* A child that executes a program, which is here already, when it is told to; *go: the end of a
 * pipe by which to tell it. */
static pid_t start_executor(const char *program, int *go)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        if (read(ends[0], &byte, 1) == 1) execl(program, program, "60", (char *)NULL);
        _exit(1);
    }
    close(ends[0]);
    *go = ends[1];
    return pid;
}

static void a_process_that_executes_a_program_is_told_from_what_it_was(void **state)
{
    (void)state;
    int go, status;
    const pid_t pid = start_executor("/bin/sleep", &go);
    const uint64_t before = process_program(pid);
    if (before == 0) {
        close(go);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        print_message("/proc does not tell where memory lies here\n");
        skip();
    }
    assert_true(process_program(pid) == before);
    assert_true(process_program(getpid()) != 0);
    assert_int_equal(write(go, "x", 1), 1);
    close(go);
    uint64_t after = before;
    for (int i = 0; i < 20000 && (after == before || after == 0); i++) {
        usleep(1000);
        after = process_program(pid);
    }
    assert_true(after != before && after != 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_true(process_program(pid) == 0);
}

/* The child has the number, and a pipe that it never reads. */
static void a_descriptor_is_copied_from_who_has_the_number(void **state)
{
    (void)state;
    static const uint64_t proof = 0x1234567890abcdef;
    int ends[2];
    char letter = '\0';
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    close(ends[1]);
    const uint64_t place = (uintptr_t)&proof;
    assert_int_equal(process_copy_descriptor(pid, ends[1], place, proof + 1), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(process_copy_descriptor(pid, ends[1], 8, proof), -1); /* nothing is there */
    assert_int_equal(process_copy_descriptor(pid, 999, place, proof), -1);
    assert_int_equal(errno, EBADF);
    const int copy = process_copy_descriptor(pid, ends[1], place, proof);
    assert_true(copy >= 0);
    assert_int_equal(write(copy, "x", 1), 1);
    assert_int_equal(read(ends[0], &letter, 1), 1);
    assert_int_equal(letter, 'x');
    close(copy);
    close(ends[0]);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(process_copy_descriptor(pid, 0, place, proof), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_processes_are_told_from_others),
        cmocka_unit_test(a_thread_that_waits_for_a_processor_says_how_long),
        cmocka_unit_test(processes_that_ended_are_told_from_others),
        cmocka_unit_test(a_process_that_executes_a_program_is_told_from_what_it_was),
        cmocka_unit_test(a_descriptor_is_copied_from_who_has_the_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
