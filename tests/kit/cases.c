#include "tests/kit/cases.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Which cases run. Of a run for one case it is this mark, which is in no name, and the number. */
static const char variable[] = "TUTTI_TEST_FILTER";
enum { MARK = '#' };

/* A case on its way: its process, and the file to which it prints. */
struct running {
    size_t number;
    pid_t pid; /* 0: none */
    int output;
};

static void must(bool is_good, const char *what)
{
    if (is_good) return;
    perror(what);
    abort();
}

static void become_case(size_t number, int output, pid_t parent)
{
    char text[24], name[] = "/proc/self/exe", *const arguments[] = {program_invocation_name, NULL};
    snprintf(text, sizeof text, "%c%zu", MARK, number);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && setenv(variable, text, 1) == 0 && dup2(output, 1) == 1 &&
        dup2(output, 2) == 2)
        execv(name, arguments);
    _exit(127);
}

static struct running start(size_t number)
{
    struct running r = {number, 0, memfd_create("case", MFD_CLOEXEC)};
    const pid_t parent = getpid();
    must(r.output >= 0, "memory for what a case prints");
    fflush(NULL);
    r.pid = fork();
    must(r.pid >= 0, "a process for a case");
    if (r.pid == 0) become_case(number, r.output, parent);
    return r;
}

static void print_output(int output)
{
    char buffer[4096];
    ssize_t got;
    must(lseek(output, 0, SEEK_SET) == 0, "what a case printed");
    while ((got = read(output, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, (size_t)got, stdout);
    close(output);
}

/* Whether the case was good. */
static bool end(struct running *r, const char *name, int how)
{
    print_output(r->output);
    r->pid = 0;
    if (WIFSIGNALED(how)) printf("%s: died of signal %d\n", name, WTERMSIG(how));
    fflush(stdout);
    return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

/* Waits for any case, and returns how many failed. */
static int await_one(struct running *running, size_t most, const struct CMUnitTest *cases)
{
    int how;
    const pid_t pid = waitpid(-1, &how, 0);
    must(pid > 0 || errno == EINTR, "waiting for cases");
    for (size_t i = 0; pid > 0 && i < most; i++)
        if (running[i].pid == pid) return !end(&running[i], cases[running[i].number].name, how);
    return 0;
}

static struct running *find_free(struct running *running, size_t most)
{
    for (size_t i = 0; i < most; i++)
        if (running[i].pid == 0) return &running[i];
    return NULL;
}

static int run_all(const struct CMUnitTest *cases, size_t count, size_t most)
{
    struct running *const running = calloc(most, sizeof *running);
    int failed = 0;
    must(running != NULL && count > 0, "cases");
    for (size_t started = 0; started < count;) {
        struct running *const place = find_free(running, most);
        if (place != NULL)
            *place = start(started++);
        else
            failed += await_one(running, most, cases);
    }
    for (size_t i = 0; i < most; i++)
        while (running[i].pid != 0) failed += await_one(running, most, cases);
    free(running);
    printf("%zu cases, %d failed\n", count, failed);
    return failed;
}

static int run_here(const struct CMUnitTest *a_case)
{
    const struct CMUnitTest tests[] = {*a_case};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int cases_run_at_once(const struct CMUnitTest *cases, size_t count, size_t most)
{
    const char *const filter = getenv(variable);
    if (filter != NULL && filter[0] == MARK) {
        const size_t number = strtoul(filter + 1, NULL, 10);
        must(number < count && unsetenv(variable) == 0, "the number of a case");
        return run_here(&cases[number]);
    }
    if (filter != NULL) {
        int failed = 0;
        cmocka_set_test_filter(filter);
        for (size_t i = 0; i < count; i++) failed += run_here(&cases[i]);
        return failed;
    }
    return run_all(cases, count, most);
}
