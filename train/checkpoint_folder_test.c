/* checkpoint_folder_test.c - cleaning removes old checkpoints and nothing else, and fails no save;
 * the lock is that of one process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "checkpoint_folder.h"
#include "tests/kit/scratch.h"

/* `run` is where checkpoints are written; `archive` is a folder of the user's. */
static char scratch[SCRATCH_BYTES], run[SCRATCH_BYTES + 8], archive[SCRATCH_BYTES + 8];
static struct folder folder;

static const char *path_in(const char *where, const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", where, name);
    return path;
}

static bool is_there(const char *where, const char *name)
{
    struct stat about;
    return lstat(path_in(where, name), &about) == 0;
}

static void make_file(const char *where, const char *name)
{
    const int fd = open(path_in(where, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void make_step(const char *name, bool is_complete)
{
    char own[PATH_MAX];
    snprintf(own, sizeof own, "%s", path_in(run, name));
    assert_int_equal(mkdir(own, 0777), 0);
    make_file(own, "shard-00000");
    if (is_complete) make_file(own, "manifest");
}

static int set_up(void **state)
{
    (void)state;
    scratch_make(scratch);
    snprintf(run, sizeof run, "%s/run", scratch);
    snprintf(archive, sizeof archive, "%s/archive", scratch);
    if (mkdir(archive, 0777) != 0) return 1;
    make_file(archive, "shard-00000");
    return folder_make(&folder, run, 0) == TUTTI_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    folder_unlock(&folder);
    scratch_remove(scratch);
    return 0;
}

static void the_folder_behind_a_link_is_not_emptied(void **state)
{
    (void)state;
    assert_int_equal(symlink(archive, path_in(run, "step-000000000001")), 0);
    assert_int_equal(folder_begin(&folder, 5), TUTTI_OK); /* unfinished, as it seems */
    assert_true(is_there(archive, "shard-00000"));
    make_file(archive, "manifest");
    make_step("step-000000000002", true);
    make_step("step-000000000003", true);
    folder_keep(&folder, 3, 1); /* complete, and old */
    assert_true(is_there(archive, "manifest") && is_there(archive, "shard-00000"));
    assert_true(is_there(run, "step-000000000001") && is_there(run, "step-000000000003"));
    assert_false(is_there(run, "step-000000000002"));
    uint64_t *steps;
    size_t count;
    assert_int_equal(folder_list(&folder, &steps, &count), TUTTI_OK);
    assert_int_equal(count, 2); /* the one behind the link can be loaded */
    free(steps);
}

static void nothing_is_written_or_removed_through_a_link_of_that_step(void **state)
{
    (void)state;
    assert_int_equal(symlink(archive, path_in(run, "step-000000000001")), 0);
    assert_int_equal(folder_begin(&folder, 1), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "step-000000000001: File exists"));
    assert_int_equal(folder_remove(&folder, 1), TUTTI_SYSTEM);
    assert_true(is_there(archive, "shard-00000"));
}

static void what_is_no_folder_fails_no_save(void **state)
{
    (void)state;
    make_file(run, "step-000000000001");
    assert_int_equal(symlink("nowhere", path_in(run, "step-000000000002")), 0);
    make_step("step-000000000003", false);
    assert_int_equal(folder_begin(&folder, 4), TUTTI_OK);
    assert_true(is_there(run, "step-000000000001") && is_there(run, "step-000000000002"));
    assert_false(is_there(run, "step-000000000003"));
    assert_true(is_there(run, "step-000000000004"));
}

/* A folder where a file should be cannot be removed as one. */
static void what_cannot_be_cleaned_fails_no_save(void **state)
{
    (void)state;
    make_step("step-000000000001", false);
    assert_int_equal(mkdir(path_in(run, "step-000000000001/shard-00007"), 0777), 0);
    make_step("step-000000000002", false);
    assert_int_equal(folder_begin(&folder, 4), TUTTI_OK);
    assert_true(is_there(run, "step-000000000001"));
    assert_false(is_there(run, "step-000000000002"));
    assert_true(is_there(run, "step-000000000004"));
}

/* Such as a worker that loads data: it may outlive the run. */
static void a_child_of_fork_does_not_keep_the_lock(void **state)
{
    (void)state;
    struct folder next;
    int ends[2], told[2], fate;
    char byte;
    assert_int_equal(folder_find(&next, run, 0), TUTTI_OK);
    assert_int_equal(folder_lock(&folder), TUTTI_OK);
    assert_int_equal(folder_lock(&next), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "another run writes checkpoints there"));
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(told), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        close(ends[1]);
        const bool was_kept = folder.lock >= 0, is_told = write(told[1], "", 1) == 1;
        _exit(read(ends[0], &byte, 1) != 0 || was_kept || !is_told);
    }
    assert_true(child > 0);
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(folder_lock(&next), TUTTI_SYSTEM); /* the child did not let go of it, either */
    folder_unlock(&folder);
    const enum tutti_status status = folder_lock(&next);
    close(ends[1]);
    close(ends[0]);
    close(told[0]);
    close(told[1]);
    folder_unlock(&next);
    assert_int_equal(waitpid(child, &fate, 0), child);
    assert_int_equal(status, TUTTI_OK);
    assert_int_equal(fate, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_folder_behind_a_link_is_not_emptied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_written_or_removed_through_a_link_of_that_step,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_folder_fails_no_save, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_cleaned_fails_no_save, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_child_of_fork_does_not_keep_the_lock, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
