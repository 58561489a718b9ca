#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "os/thread.h"

static void *read_mask(void *mask)
{
    pthread_sigmask(SIG_SETMASK, NULL, mask);
    return NULL;
}

static void only_what_a_thread_does_to_itself_is_not_blocked(void **state)
{
    (void)state;
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    static const int others[] = {SIGTERM, SIGINT, SIGCHLD, SIGALRM, SIGUSR1, SIGPIPE};
    pthread_t thread;
    sigset_t mask, before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&thread, read_mask, &mask, NULL, "a thread"), TUTTI_OK);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_int_equal(sigismember(&mask, own[i]), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(sigismember(&mask, others[i]), 1);
    for (int i = 1; i <= SIGRTMAX; i++) /* glibc keeps two to itself, for which it says -1 */
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
}

enum { PAGE_BYTES = 4096 };
static char *page;
static atomic_int caught;

/* The access is tried again after this. */
static void catch (int number, siginfo_t *what, void *context)
{
    (void)what, (void)context;
    atomic_store(&caught, number);
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

static void *write_to_page(void *unused)
{
    *(volatile char *)page = 1;
    return unused;
}

static void a_crash_reaches_the_applications_handler(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    pthread_t thread;
    page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    sigaction(SIGSEGV, &action, &before);
    assert_int_equal(thread_start(&thread, write_to_page, NULL, NULL, "a thread"), TUTTI_OK);
    pthread_join(thread, NULL);
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(atomic_load(&caught), SIGSEGV);
    assert_int_equal(page[0], 1);
    munmap(page, PAGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_a_thread_does_to_itself_is_not_blocked),
        cmocka_unit_test(a_crash_reaches_the_applications_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
