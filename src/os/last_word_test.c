/* Words of processes that end in different ways.
 *
 * ctest: label=notsan
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/last_word.h"

enum { WORDS = 8 };
static struct last_word *words; /* shared with children */

static int prepare(void **state)
{
    (void)state;
    for (int i = 0; i < WORDS; i++) words[i] = (struct last_word){0};
    return 0;
}

/* A moment may pass between the end of a child and the news of it. */
static bool is_spoken_soon(int i)
{
    for (int look = 0; look < 10000 && !last_word_is_spoken(&words[i]); look++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return last_word_is_spoken(&words[i]);
}

/* A child that gives the words first to last, takes one of them back (-1: none), says that it has,
 * and waits. */
static pid_t start_giver(int first, int last, int taken_back, void (*end)(void))
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct last_word_giver *givers[WORDS];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = first; i <= last; i++)
            if (last_word_give(&words[i], &givers[i]) != TUTTI_OK) _exit(1);
        if (taken_back >= 0) last_word_take_back(givers[taken_back]);
        if (write(ready[1], "", 1) != 1) _exit(1);
        if (end != NULL) end();
        for (;;) pause();
    }
    assert_true(pid > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void wait_for(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void a_process_that_is_killed_has_spoken(void **state)
{
    (void)state;
    const pid_t pid = start_giver(0, 4, 2, NULL);
    for (int i = 0; i < WORDS; i++) assert_false(last_word_is_spoken(&words[i]));
    kill(pid, SIGKILL);
    for (int i = 0; i < 5; i++)
        if (i != 2) assert_true(is_spoken_soon(i));
    wait_for(pid);
    assert_false(last_word_is_spoken(&words[2])); /* taken back */
    assert_false(last_word_is_spoken(&words[5])); /* not given */
}

static void leave(void)
{
    exit(0);
}

static void become_another(void)
{
    execlp("sleep", "sleep", "1000", NULL);
    _exit(1);
}

static void a_process_that_ends_by_itself_or_becomes_another_has_spoken(void **state)
{
    (void)state;
    wait_for(start_giver(0, 0, -1, leave));
    assert_true(is_spoken_soon(0));
    wait_for(start_giver(1, 1, -1, abort));
    assert_true(is_spoken_soon(1));
    const pid_t pid = start_giver(2, 2, -1, become_another);
    assert_true(is_spoken_soon(2));
    kill(pid, SIGKILL);
    wait_for(pid);
}

static int life[2]; /* a pipe of the child's child, which ends with the test */

static void leave_a_child(void)
{
    char byte;
    close(life[1]);
    if (fork() != 0) _exit(0);
    _exit(read(life[0], &byte, 1) == 0 ? 0 : 1);
}

/* A child keeps alive neither its parent's word nor a word that it takes back. */
static void a_child_keeps_no_word_alive(void **state)
{
    (void)state;
    assert_int_equal(pipe(life), 0);
    wait_for(start_giver(0, 0, -1, leave_a_child));
    assert_true(is_spoken_soon(0));
    close(life[0]);
    close(life[1]);
    struct last_word_giver *giver, *another;
    int status;
    assert_int_equal(last_word_give(&words[1], &giver), TUTTI_OK);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        last_word_take_back(giver);
        const bool is_given = atomic_load(&words[1].word) != 0;
        _exit(is_given && last_word_give(&words[2], &another) == TUTTI_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(is_spoken_soon(2));
    assert_false(last_word_is_spoken(&words[1]));
    last_word_take_back(giver);
    last_word_take_back(NULL);
    assert_int_equal(atomic_load(&words[1].word), 0);
}

static void words_are_given_and_taken_back_in_any_order(void **state)
{
    (void)state;
    struct last_word_giver *givers[WORDS];
    static const int order[] = {3, 0, 7, 4, 5, 1, 6, 2};
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < WORDS; i++)
            assert_int_equal(last_word_give(&words[i], &givers[i]), TUTTI_OK);
        for (int i = 0; i < WORDS; i++) {
            const int w = order[(i + round) % WORDS];
            assert_int_not_equal(atomic_load(&words[w].word), 0);
            last_word_take_back(givers[w]);
            assert_int_equal(atomic_load(&words[w].word), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_process_that_is_killed_has_spoken, prepare),
        cmocka_unit_test_setup(a_process_that_ends_by_itself_or_becomes_another_has_spoken, prepare),
        cmocka_unit_test_setup(a_child_keeps_no_word_alive, prepare),
        cmocka_unit_test_setup(words_are_given_and_taken_back_in_any_order, prepare),
    };
    words = mmap(NULL, WORDS * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    if (words == MAP_FAILED) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
