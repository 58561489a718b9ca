/* synth_watch_test.c - tutti-synth ends when its time is over, whatever it is at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tools/synth/watch.c"

/* A child that never looks at the time: its exit status, and what it says. */
static int end_of_child(bool is_stopped, char *said, size_t said_bytes)
{
    int pipe_ends[2], status;
    assert_int_equal(pipe(pipe_ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        watch_start(1000000);
        if (is_stopped) {
            watch_stop();
            _exit(77);
        }
        for (;;) pause();
    }
    close(pipe_ends[1]);
    size_t count = 0;
    for (ssize_t more; (more = read(pipe_ends[0], said + count, said_bytes - 1 - count)) > 0;)
        count += (size_t)more;
    said[count] = '\0';
    close(pipe_ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void work_that_never_ends_is_ended(void **state)
{
    char said[200];
    (void)state;
    assert_int_equal(end_of_child(false, said, sizeof said), EXIT_UNDECIDED);
    assert_non_null(strstr(said, "the time is over"));
}

static void a_watch_that_was_stopped_ends_nothing(void **state)
{
    char said[200];
    (void)state;
    assert_int_equal(end_of_child(true, said, sizeof said), 77);
    assert_string_equal(said, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_that_never_ends_is_ended),
        cmocka_unit_test(a_watch_that_was_stopped_ends_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
