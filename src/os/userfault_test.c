/* Exit status 77 where the system has no userfaultfd for us. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/userfault.h"

enum { PAGE = 4096, PAGES = 16 };

static int fd = -1;
static char *memory;

static int open_all(void **state)
{
    (void)state;
    memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fd = userfault_open();
    return fd < 0 || memory == MAP_FAILED ||
                   !userfault_watch(fd, (uintptr_t)memory, (uintptr_t)memory + PAGES * PAGE)
               ? -1
               : 0;
}

static int close_all(void **state)
{
    (void)state;
    close(fd);
    munmap(memory, PAGES * PAGE);
    return 0;
}

/* Reads and writes by the program, and by the kernel for it, before and after a page was there. */
static void watched_memory_behaves_as_ever(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(memory[0], 0);
    memset(memory, 1, PAGE);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], memory, 2), 2);
    assert_int_equal(read(ends[0], memory + 5 * PAGE, 2), 2);
    assert_int_equal(memory[5 * PAGE + 1], 1);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
    assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
    memset(memory, 2, PAGES * PAGE);
    struct userfault_range gone;
    assert_int_equal(userfault_read(fd, &gone, 1), 0);
    assert_false(userfault_is_busy(fd));
}

static void *discard(void *unused)
{
    (void)unused;
    return madvise(memory + 2 * PAGE, PAGE, MADV_DONTNEED) == 0 ? NULL : memory;
}
static void *replace(void *unused)
{
    (void)unused;
    return mmap(memory + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + 3 * PAGE
               ? NULL
               : memory;
}
static void *unmap(void *unused)
{
    (void)unused;
    return munmap(memory + 6 * PAGE, 2 * PAGE) == 0 ? NULL : memory;
}
static void *move(void *unused)
{
    (void)unused;
    return mremap(memory + 10 * PAGE, PAGE, 4 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED ? NULL : memory;
}

/* The thread is busy until its message is read, and only then goes on. */
static void expect_message(void *(*change)(void *), int page, int pages)
{
    pthread_t thread;
    void *failure;
    struct userfault_range gone[4];
    struct pollfd readable = {fd, POLLIN, 0};
    assert_int_equal(pthread_create(&thread, NULL, change, NULL), 0);
    assert_int_equal(poll(&readable, 1, 20000), 1);
    assert_true(userfault_is_busy(fd));
    assert_int_equal(userfault_read(fd, gone, 4), 1);
    assert_int_equal(gone[0].begin, (uintptr_t)memory + (uintptr_t)page * PAGE);
    assert_int_equal(gone[0].end, (uintptr_t)memory + (uintptr_t)(page + pages) * PAGE);
    while (pthread_tryjoin_np(thread, &failure) != 0)
        if (poll(&readable, 1, 10) == 1) userfault_read(fd, gone, 4); /* where it moved from */
    assert_null(failure);
    assert_false(userfault_is_busy(fd));
}

static void memory_that_goes_is_told(void **state)
{
    (void)state;
    memset(memory, 1, PAGES * PAGE);
    expect_message(discard, 2, 1);
    assert_int_equal(memory[2 * PAGE], 0);
    expect_message(replace, 3, 1);
    expect_message(unmap, 6, 2);
    expect_message(move, 10, 1);
}

static void memory_that_is_not_watched_any_more_goes_at_once(void **state)
{
    (void)state;
    struct userfault_range gone;
    assert_true(userfault_unwatch(fd, (uintptr_t)memory, (uintptr_t)memory + PAGES * PAGE));
    assert_int_equal(madvise(memory, PAGE, MADV_DONTNEED), 0);
    assert_int_equal(userfault_read(fd, &gone, 1), 0);
}

static void closing_lets_go_of_who_waits(void **state)
{
    (void)state;
    pthread_t thread;
    void *failure;
    struct pollfd readable = {fd, POLLIN, 0};
    assert_int_equal(pthread_create(&thread, NULL, unmap, NULL), 0);
    assert_int_equal(poll(&readable, 1, 20000), 1);
    close(fd);
    fd = -1;
    assert_int_equal(pthread_join(thread, &failure), 0);
    assert_null(failure);
}

int main(void)
{
    const int tried = userfault_open();
    if (tried < 0) {
        printf("no userfaultfd here: %s\n", strerror(errno));
        return 77;
    }
    close(tried);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(watched_memory_behaves_as_ever, open_all, close_all),
        cmocka_unit_test_setup_teardown(memory_that_goes_is_told, open_all, close_all),
        cmocka_unit_test_setup_teardown(memory_that_is_not_watched_any_more_goes_at_once, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(closing_lets_go_of_who_waits, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
