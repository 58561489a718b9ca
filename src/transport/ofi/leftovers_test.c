/* Files as provider shm names them: those of processes that have ended are removed, also before the
 * process has been waited for. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/ofi/leftovers.h"
#include "victim.h"

enum { NUMBER = 7134 }; /* no endpoint has it */

static const char *name_of(pid_t pid, char name[64])
{
    snprintf(name, 64, "/%d:%u:%d", (int)pid, (unsigned)getuid(), NUMBER);
    return name;
}

static void make_file(pid_t pid)
{
    char name[64];
    const int fd = shm_open(name_of(pid, name), O_CREAT | O_EXCL | O_RDWR, 0600);
    assert_true(fd >= 0);
    close(fd);
}

/* Removes the file; true if it was there. */
static bool take_file(pid_t pid)
{
    char name[64];
    return shm_unlink(name_of(pid, name)) == 0;
}

static void files_of_the_dead_are_removed_and_no_others(void **state)
{
    (void)state;
    const pid_t living = victim_start(), dead = victim_start(), stranger = victim_start();
    const pid_t pids[] = {0, living, dead};
    make_file(living);
    make_file(dead);
    make_file(stranger);
    victim_kill(dead);
    victim_kill(stranger);
    ofi_leftovers_remove(pids, 3);
    const bool is_left[] = {take_file(living), take_file(dead), take_file(stranger)};
    victim_kill(living);
    while (wait(NULL) > 0) continue;
    assert_true(is_left[0]);
    assert_false(is_left[1]);
    assert_true(is_left[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_the_dead_are_removed_and_no_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
