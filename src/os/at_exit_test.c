/* Whatever of OpenSSL is used first: exit() tells our threads before it lets OpenSSL clean up, and
 * fork() waits for them. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/mac.h"
#include "os/at_exit.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/tls.h"

enum { WAS_TOLD = 3, WAS_NOT_TOLD = 4, HAS_NO_OPENSSL = 5, DID_NOT_CLEAN_UP = 6 };
static const uint64_t PATIENCE_NS = 30000000000;

static void cleans_up(void)
{
    _exit(at_exit_has_begun() ? WAS_TOLD : WAS_NOT_TOLD);
}

static bool use_mac(void)
{
    unsigned char mac[MAC_BYTES];
    return mac_compute("key", 3, "data", 4, mac) == TUTTI_OK;
}

static bool use_tls(void)
{
    struct tls_context *context;
    if (tls_context_create(&context) != TUTTI_OK) return false;
    tls_context_free(context);
    return true;
}

/* In a process that has used nothing of OpenSSL yet. */
static void expect_told(bool (*use)(void))
{
    int fate;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!use()) _exit(HAS_NO_OPENSSL);
        void (*const at_cleanup)(void (*)(void)) =
            (void (*)(void (*)(void)))(uintptr_t)dlsym(RTLD_DEFAULT, "OPENSSL_atexit");
        if (at_cleanup == NULL) _exit(HAS_NO_OPENSSL);
        at_cleanup(cleans_up);
        exit(DID_NOT_CLEAN_UP);
    }
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    assert_true(WIFEXITED(fate));
    if (WEXITSTATUS(fate) == HAS_NO_OPENSSL) skip();
    assert_int_equal(WEXITSTATUS(fate), WAS_TOLD);
}

static void threads_are_told_before_openssl_cleans_up_after_a_mac(void **state)
{
    (void)state;
    expect_told(use_mac);
}

static void and_after_tls(void **state)
{
    (void)state;
    expect_told(use_tls);
}

static bool use_both(void)
{
    return use_mac() && use_tls();
}

static void and_after_both(void **state)
{
    (void)state;
    expect_told(use_both);
}

static struct tls *late;
static struct tls_context *late_context;

static void free_late(void)
{
    tls_free(late);
    tls_context_free(late_context);
    late = NULL;
    late_context = NULL;
}

/* A connection may be lost in the last moment of a process. The address sanitizer's checker of
 * leaks fails a child that forgets memory which it can no longer free. */
static void what_is_freed_after_that_is_kept(void **state)
{
    (void)state;
    int fate;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct tls_options options = {.fd = -1, .is_client = true};
        atexit(free_late); /* runs after what OpenSSL registers from here on */
        if (tls_context_create(&late_context) != TUTTI_OK) _exit(HAS_NO_OPENSSL);
        if (tls_start(late_context, &options, &late) != TUTTI_OK) _exit(WAS_NOT_TOLD);
        exit(0);
    }
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    assert_true(WIFEXITED(fate));
    if (WEXITSTATUS(fate) == HAS_NO_OPENSSL) skip();
    assert_int_equal(WEXITSTATUS(fate), 0);
}

static _Atomic bool is_in, has_left, may_end;

/* Leaves when fork() waits for it. */
static void *use_until_a_fork_waits(void *unused)
{
    const uint64_t begin_ns = clock_now_ns();
    if (!at_exit_enter()) return NULL;
    atomic_store(&is_in, true);
    while (!fork_awaits(FORK_AT_EXIT) && clock_now_ns() - begin_ns < PATIENCE_NS) sched_yield();
    atomic_store(&has_left, true);
    at_exit_leave();
    while (!atomic_load(&may_end)) sched_yield();
    return unused;
}

static void fork_waits_until_nobody_is_in(void **state)
{
    pthread_t thread;
    int fate;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, use_until_a_fork_waits, NULL), 0);
    while (!atomic_load(&is_in)) sched_yield();
    const pid_t pid = fork();
    if (pid == 0) _exit(!atomic_load(&has_left) || !at_exit_enter());
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    atomic_store(&may_end, true);
    pthread_join(thread, NULL);
    assert_int_equal(fate, 0);
    assert_true(at_exit_enter());
    at_exit_leave();
}

/* It does not wait for itself, and leaves in both processes. */
static void who_is_in_may_fork(void **state)
{
    int fate;
    (void)state;
    assert_true(at_exit_enter());
    const pid_t pid = fork();
    at_exit_leave();
    if (pid == 0) {
        const pid_t next = fork();
        if (next == 0) _exit(!at_exit_enter());
        _exit(waitpid(next, &fate, 0) != next || fate != 0);
    }
    assert_int_equal(waitpid(pid, &fate, 0), pid);
    assert_int_equal(fate, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_waits_until_nobody_is_in),
        cmocka_unit_test(who_is_in_may_fork),
        cmocka_unit_test(threads_are_told_before_openssl_cleans_up_after_a_mac),
        cmocka_unit_test(and_after_tls),
        cmocka_unit_test(and_after_both),
        cmocka_unit_test(what_is_freed_after_that_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
