/* orders_test.c - what a run reads for others (gpu_orders_read): the test plays the worker, and
 * takes its time. */
#include "gpu/orders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 100, ARENA = 1 << 16 };

static struct worker_control control;
static _Alignas(64) char arena[ARENA];
static char source[BYTES], destination[BYTES];
static struct gpu_worker worker;
static struct gpu_orders orders;
static uint32_t done;

static void say(enum worker_state state)
{
    control.said[0] = (uint64_t)state << 32 | done;
}

/* The next order of the ring. */
static void copy_next(void)
{
    struct worker_order order;
    uint32_t words[WORKER_WORDS];
    const struct worker_slot *const slot = &control.rings[0][++done % WORKER_SLOTS];
    for (unsigned w = 0; w < WORKER_WORDS; w++) {
        assert_int_equal(slot->words[w] >> 32, done);
        words[w] = (uint32_t)slot->words[w];
    }
    memcpy(&order, words, sizeof order);
    assert_int_equal(order.reduce.source_count, 1);
    assert_int_equal(order.reduce.destination_count, 1);
    assert_int_equal(order.reduce.count, BYTES);
    memcpy((void *)(uintptr_t)order.pointers[0], (void *)(uintptr_t)order.pointers[1], BYTES);
}

static int begin(void **state)
{
    (void)state;
    memset(&orders, 0, sizeof orders);
    memset(&control, 0, sizeof control);
    worker = (struct gpu_worker){.control = &control};
    done = 0;
    for (int i = 0; i < BYTES; i++) source[i] = (char)(i + 1);
    memset(destination, 0, BYTES);
    if (gpu_orders_init(&orders, 1, arena, ARENA) != TUTTI_OK) return 1;
    gpu_worker_prepare(&worker, 1);
    worker.is_out = true;
    gpu_orders_begin(&orders, &worker);
    return 0;
}

static int end(void **state)
{
    (void)state;
    gpu_orders_end(&orders);
    gpu_orders_release(&orders);
    return 0;
}

static bool is_stored(void)
{
    return memcmp(destination, source, BYTES) == 0;
}

static bool is_untouched(void)
{
    for (int i = 0; i < BYTES; i++)
        if (destination[i] != 0) return false;
    return true;
}

static uint64_t begin_reading(void)
{
    return gpu_orders_read(&orders, destination, source, BYTES);
}

static void a_worker_that_is_not_there_reads_nothing(void **state)
{
    (void)state;
    assert_int_equal(begin_reading(), 0);
    say(WORKER_PRESENT);
    assert_int_not_equal(begin_reading(), 0);
    gpu_orders_end(&orders);
    assert_int_equal(begin_reading(), 0);
    /* The next one does not as long as the worker before it may still store to the arena. */
    static struct worker_control control_of_next;
    static struct gpu_worker next = {.control = &control_of_next};
    gpu_worker_prepare(&next, 1);
    gpu_orders_begin(&orders, &next);
    control_of_next.said[0] = (uint64_t)WORKER_PRESENT << 32;
    assert_int_equal(begin_reading(), 0);
    say(WORKER_LEFT);
    assert_int_not_equal(begin_reading(), 0);
}

static void what_was_read_is_stored_once_it_is_there(void **state)
{
    (void)state;
    say(WORKER_PRESENT);
    const uint64_t reading = begin_reading();
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_READING);
    copy_next();
    assert_true(is_untouched());
    say(WORKER_PRESENT);
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_READ);
    assert_true(is_stored());
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_UNREAD); /* it means nothing now */
}

static void what_ends_with_its_worker_is_unread(void **state)
{
    (void)state;
    say(WORKER_PRESENT);
    const uint64_t reading = begin_reading();
    copy_next();
    gpu_orders_end(&orders);
    say(WORKER_LEFT);
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_UNREAD);
    gpu_worker_prepare(&worker, 1);
    gpu_orders_begin(&orders, &worker);
    say(WORKER_PRESENT);
    assert_int_not_equal(begin_reading(), 0); /* where the other one was */
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_UNREAD);
    assert_true(is_untouched());
}

static void what_was_dropped_stores_nothing(void **state)
{
    (void)state;
    say(WORKER_PRESENT);
    const uint64_t dropped = begin_reading();
    gpu_orders_drop(&orders, dropped);
    copy_next();
    say(WORKER_PRESENT);
    assert_true(gpu_orders_are_taken(&orders));
    assert_true(is_untouched());
    assert_int_equal(gpu_orders_look(&orders, dropped), GPU_UNREAD);
    const uint64_t reading = begin_reading();
    copy_next();
    say(WORKER_PRESENT);
    assert_int_equal(gpu_orders_look(&orders, reading), GPU_READ);
    assert_true(is_stored());
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(a_worker_that_is_not_there_reads_nothing),
                                       TEST(what_was_read_is_stored_once_it_is_there),
                                       TEST(what_ends_with_its_worker_is_unread),
                                       TEST(what_was_dropped_stores_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
