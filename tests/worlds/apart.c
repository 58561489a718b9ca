#include "tests/worlds/apart.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/sanitized.h"

enum { SECONDS_MAX = 60, OUTPUT_BYTES = 4096 };

const char apart_is_part[] = "part of another case";

static size_t read_all(int fd, char *text, size_t bytes)
{
    size_t length = 0;
    char rest[256];
    for (;;) {
        const size_t room = bytes - 1 - length;
        const ssize_t count = room > 0 ? read(fd, text + length, room) : read(fd, rest, sizeof rest);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        if (room > 0) length += (size_t)count;
    }
    text[length] = '\0';
    return length;
}

int apart_run(const char *name, const char *argument, char *output, size_t output_bytes)
{
    int ends[2], fate = -1;
    assert(pipe(ends) == 0);
    const pid_t pid = fork();
    assert(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(SECONDS_MAX);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        execl("/proc/self/exe", "apart", name, argument, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    read_all(ends[0], output, output_bytes);
    close(ends[0]);
    while (waitpid(pid, &fate, 0) < 0 && errno == EINTR) {
    }
    return fate;
}

static void run_as_test(void **state)
{
    const struct apart_case *const one = *state;
    char output[OUTPUT_BYTES];
    const int fate = apart_run(one->name, NULL, output, sizeof output);
    const int is_good = WIFEXITED(fate) && WEXITSTATUS(fate) == 0;
    if (one->dies_with != NULL && (is_good || strstr(output, one->dies_with) == NULL)) {
        fail_msg("%s is to die with \"%s\"; wait status %#x, and it wrote:\n%s", one->name,
                 one->dies_with, (unsigned)fate, output);
    } else if (one->dies_with == NULL && !is_good) {
        fail_msg("%s: wait status %#x, and it wrote:\n%s", one->name, (unsigned)fate, output);
    }
}

/* How a case dies asks nothing of threads. */
static int is_part_of_the_run(const struct apart_case *one)
{
    if (one->dies_with == apart_is_part) return 0;
    return one->dies_with == NULL || !IS_THREAD_SANITIZED || getenv("TUTTI_LONG") != NULL;
}

int apart_main(int argc, char **argv, const struct apart_case *cases, size_t case_count)
{
    if (argc > 1) {
        for (size_t c = 0; c < case_count; c++)
            if (strcmp(cases[c].name, argv[1]) == 0) {
                cases[c].run(argc > 2 ? argv[2] : NULL);
                return 0;
            }
        fprintf(stderr, "no case is called %s\n", argv[1]);
        return 2;
    }
    struct CMUnitTest *const tests = calloc(case_count, sizeof *tests);
    size_t count = 0;
    assert(tests != NULL);
    for (size_t c = 0; c < case_count; c++)
        if (is_part_of_the_run(&cases[c]))
            tests[count++] = (struct CMUnitTest){.name = cases[c].name,
                                                 .test_func = run_as_test,
                                                 .initial_state = (void *)(uintptr_t)&cases[c]};
    const int failed = _cmocka_run_group_tests("apart", tests, count, NULL, NULL);
    free(tests);
    return failed;
}
