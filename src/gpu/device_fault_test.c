/* device_fault_test.c - the watch asks about devices whose workers are out for long, and about no
 * others; a thread that waits for a driver waits alone.
 *
 * ctest: waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/status.h"
#include "gpu/gpu.h"

/* A driver that says what a test wants. */
static atomic_uint asked;
static atomic_bool is_broken, is_busy;

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static enum tutti_status check_device(struct gpu_device *device)
{
    (void)device;
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&is_busy)) nap_ms(1);
    return atomic_load(&is_broken) ? error_set(TUTTI_SYSTEM, "broken; mend it") : TUTTI_OK;
}

static const struct gpu_driver driver = {.name = "test", .check = check_device};

/* A fault never goes away: each test has devices of its own. */
static struct gpu_device *make_device(void)
{
    static struct gpu_device made[8];
    static int count;
    struct gpu_device *const device = &made[count];
    *device = (struct gpu_device){.driver = &driver, .number = count++, .name = "paper"};
    gpu_fault_add(device);
    atomic_store(&asked, 0);
    atomic_store(&is_broken, false);
    atomic_store(&is_busy, false);
    return device;
}

static void await_questions(unsigned count)
{
    while (atomic_load(&asked) < count) nap_ms(1);
}

static void await_fault(const struct gpu_device *device)
{
    while (gpu_fault_of(device) == NULL) nap_ms(1);
    assert_non_null(strstr(gpu_fault_of(device), " (paper) has failed: broken; mend it"));
}

static void a_device_without_workers_is_not_asked_about(void **state)
{
    (void)state;
    struct gpu_device *const device = make_device();
    gpu_fault_join_watch();
    nap_ms(200);
    gpu_fault_began(device);
    gpu_fault_ended(device);
    nap_ms(200);
    gpu_fault_leave_watch();
    assert_int_equal(asked, 0);
}

static void a_fault_shows_while_a_worker_is_out(void **state)
{
    (void)state;
    struct gpu_device *const works = make_device(), *const fails = make_device();
    gpu_fault_join_watch();
    nap_ms(200); /* it sleeps, and the worker wakes it */
    gpu_fault_began(fails);
    await_questions(3);
    assert_null(gpu_fault_of(fails));
    atomic_store(&is_broken, true);
    await_fault(fails);
    const char *const text = gpu_fault_of(fails);
    atomic_store(&is_broken, false);
    assert_ptr_equal(gpu_fault_look(fails), text);
    assert_null(gpu_fault_look(works));
    assert_ptr_equal(gpu_fault_look(NULL), text);
    assert_ptr_equal(gpu_fault_of(fails), text);
    gpu_fault_leave_watch();
}

static void each_user_keeps_the_watch(void **state)
{
    (void)state;
    struct gpu_device *const device = make_device();
    gpu_fault_join_watch();
    gpu_fault_join_watch();
    gpu_fault_leave_watch();
    gpu_fault_began(device);
    atomic_store(&is_broken, true);
    await_fault(device);
    gpu_fault_leave_watch();
}

/* A thread that leaves waits for two seconds. A thread that joins after that gets the same
 * watch. */
static void a_driver_that_does_not_answer_holds_up_only_the_watch(void **state)
{
    (void)state;
    struct gpu_device *const device = make_device();
    for (int turn = 0; turn < 2; turn++) {
        gpu_fault_join_watch();
        gpu_fault_began(device);
        atomic_store(&is_busy, true);
        await_questions(1);
        gpu_fault_ended(device);
        gpu_fault_leave_watch();
        /* The second time it ends before anybody joins again. */
        if (turn == 1) atomic_store(&is_busy, false);
    }
    gpu_fault_join_watch();
    gpu_fault_began(device);
    atomic_store(&is_busy, false);
    atomic_store(&is_broken, true);
    await_fault(device);
    gpu_fault_leave_watch();
}

static void to_ask_keeps_the_error_of_the_thread(void **state)
{
    (void)state;
    struct gpu_device *const device = make_device();
    atomic_store(&is_broken, true);
    (void)error_set(TUTTI_TIMEOUT, "of before");
    assert_non_null(gpu_fault_look(device));
    assert_string_equal(tutti_error_message(), "of before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_without_workers_is_not_asked_about),
        cmocka_unit_test(a_fault_shows_while_a_worker_is_out),
        cmocka_unit_test(each_user_keeps_the_watch),
        cmocka_unit_test(a_driver_that_does_not_answer_holds_up_only_the_watch),
        cmocka_unit_test(to_ask_keeps_the_error_of_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
