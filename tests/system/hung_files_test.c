/* A file system hangs: dumps of the flight recorder and numbers for Prometheus give up, and hold up
 * neither calls nor the process's monitor.
 *
 * Nothing is mounted: the functions that this program calls hang in a folder of a certain name
 * until the test lets them go.
 *
 * ctest: waits
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "os/clock.h"
#include "os/file.h"
#include "tutti/tutti.h"

enum { PATIENCE_S = 60 };
static const uint64_t SECOND = 1000000000u;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hangs;
static int hung; /* threads that do */
static char folder[64];

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode)
{
    pthread_mutex_lock(&lock);
    hung++;
    while (hangs && strcmp(path, folder) == 0) pthread_cond_wait(&changed, &lock);
    hung--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return __real_mkdir(path, mode);
}

static void let_go(void)
{
    pthread_mutex_lock(&lock);
    hangs = false;
    pthread_cond_broadcast(&changed);
    while (hung > 0) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tutti-hung-XXXXXX");
    alarm(2 * PATIENCE_S); /* whoever hangs ends here */
    hangs = true;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    let_go();
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static bool appears(const char *path)
{
    for (int i = 0; i < 1000 * PATIENCE_S && access(path, F_OK) != 0; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    return access(path, F_OK) == 0;
}

static void a_file_that_hangs_is_left_to_itself_and_comes_later(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/file", folder);
    assert_int_equal(file_replace_within(folder, path, strdup("one"), 3, SECOND / 10), TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "has not answered for 0.1 s"));
    const uint64_t begin_ns = clock_now_ns();
    for (int i = 0; i < 100; i++) /* one at a time hangs, and nobody waits for another */
        assert_int_equal(file_replace_within(folder, path, strdup("two"), 3, SECOND), TUTTI_SYSTEM);
    assert_true(clock_now_ns() - begin_ns < 50 * SECOND);
    let_go();
    assert_true(appears(path));
    enum tutti_status status = TUTTI_SYSTEM;
    for (int i = 0; status != TUTTI_OK && i < 1000 * PATIENCE_S; i++) {
        status = file_replace_within(folder, path, strdup("three"), 5, PATIENCE_S * SECOND);
        if (status != TUTTI_OK) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(status, TUTTI_OK);
}

/* Of a process in another container, say, that has this one's pid. */
static void what_another_process_is_writing_is_left_alone(void **state)
{
    (void)state;
    char path[128], own[160], mark[FILE_MARK_SIZE], again[FILE_MARK_SIZE];
    let_go();
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(own, sizeof own, "%s.%d.new", path, (int)getpid());
    const int fd = open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(file_replace(path, "one", 3), TUTTI_OK);
    assert_int_equal(access(own, F_OK), 0);
    file_make_mark(mark);
    file_make_mark(again);
    assert_string_not_equal(mark, again);
}

static void what_cannot_be_written_says_why(void **state)
{
    (void)state;
    let_go();
    assert_int_equal(file_replace_within("/proc/none", "/proc/none/file", strdup("one"), 3, SECOND),
                     TUTTI_SYSTEM);
    assert_non_null(strstr(tutti_error_message(), "/proc/none/file"));
}

static void a_communicator_lives_and_fails_beside_it(void **state)
{
    (void)state;
    struct tutti_comm *comm;
    struct tutti_comm_options options = TUTTI_COMM_OPTIONS_INIT;
    struct tutti_id id;
    int32_t one = 1;
    setenv("TUTTI_TRACE_DIR", folder, 1);
    setenv("TUTTI_METRICS_DIR", folder, 1);
    setenv("TUTTI_METRICS_INTERVAL", "1", 1);
    assert_int_equal(tutti_id_create(&id), TUTTI_OK);
    options.id = &id;
    options.rank = 0;
    options.size = 1;
    assert_int_equal(tutti_comm_create(&options, &comm), TUTTI_OK);
    nanosleep(&(struct timespec){1, 200000000}, NULL); /* the numbers are being written */
    assert_int_equal(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_OK);
    tutti_comm_abort(comm, "the test is over");
    assert_int_equal(tutti_allreduce(&one, &one, 1, TUTTI_INT32, TUTTI_SUM, comm), TUTTI_ABORTED);
    tutti_comm_free(comm);
    unsetenv("TUTTI_TRACE_DIR");
    unsetenv("TUTTI_METRICS_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_hangs_is_left_to_itself_and_comes_later,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_another_process_is_writing_is_left_alone, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_cannot_be_written_says_why, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_communicator_lives_and_fails_beside_it, make_folder,
                                        remove_folder),
    };
    setenv("TUTTI_LOG", "off", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
