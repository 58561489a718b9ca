/* No order of tutti-run to a host is lost, however many wait and however long the host does not
 * read. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tools/run/orders.c"

static int count_of(const struct orders *orders, int order)
{
    int count = 0;
    for (int i = 0; i < orders->count; i++) count += orders->line[i] == order;
    return count;
}

static void the_last_orders_come_after_any_number_of_others(void **state)
{
    (void)state;
    struct orders orders = {.count = 0};
    for (int i = 0; i < 1000; i++) orders_add(&orders, i % 2 == 0 ? SIGUSR1 : SIGUSR2);
    orders_add(&orders, ORDER_GRACE);
    orders_add(&orders, ORDER_TERMINATE);
    assert_int_equal(orders.count, 4);
    assert_int_equal(orders.line[0], SIGUSR1);
    assert_int_equal(orders.line[1], SIGUSR2);
    assert_int_equal(orders.line[2], ORDER_GRACE);
    assert_int_equal(orders.line[3], ORDER_TERMINATE);
}

static void all_orders_that_there_are_fit(void **state)
{
    (void)state;
    struct orders orders = {.count = 0};
    for (int i = 0; i < 10 * 256; i++) orders_add(&orders, (unsigned char)i);
    assert_int_equal(orders.count, ORDERS_MAX);
    for (int order = 0; order < 256; order++)
        assert_int_equal(count_of(&orders, order), order_ends(order) ? ORDERS_INSIST : 1);
}

/* So that ranks are stopped in the end, or go on, as the user left them. */
static void an_order_that_is_given_again_counts_from_its_last_place(void **state)
{
    (void)state;
    struct orders orders = {.count = 0};
    orders_add(&orders, SIGTSTP);
    orders_add(&orders, SIGCONT);
    orders_add(&orders, SIGTSTP);
    assert_int_equal(orders.count, 2);
    assert_int_equal(orders.line[0], SIGCONT);
    assert_int_equal(orders.line[1], SIGTSTP);
}

static void insisting_counts(void **state)
{
    (void)state;
    struct orders orders = {.count = 0};
    for (int i = 0; i < 2; i++) orders_add(&orders, SIGINT);
    assert_int_equal(count_of(&orders, SIGINT), 2);
    for (int i = 0; i < 20; i++) orders_add(&orders, SIGINT);
    assert_int_equal(count_of(&orders, SIGINT), 3);
}

static void what_was_sent_makes_room(void **state)
{
    (void)state;
    struct orders orders = {.count = 0};
    orders_add(&orders, SIGUSR1);
    orders_add(&orders, SIGUSR2);
    orders_remove(&orders, 1);
    assert_int_equal(orders.count, 1);
    assert_int_equal(orders.line[0], SIGUSR2);
    orders_add(&orders, SIGUSR1);
    orders_remove(&orders, 2);
    assert_int_equal(orders.count, 0);
}

/* Although a signal comes in between, and an address before it is cut off. */
static void an_address_is_read_among_orders(void **state)
{
    (void)state;
    unsigned char address[ADDRESS_BYTES], order[ADDRESS_ORDER_BYTES];
    struct address_reader reader = {.digits = 0};
    for (int i = 0; i < ADDRESS_BYTES; i++) address[i] = (unsigned char)(255 - i);
    address_order_write(address, order);
    for (int i = 0; i < ADDRESS_ORDER_BYTES; i++)
        assert_true(i == 0 ? order[i] == ORDER_ADDRESS : order[i] >= ORDER_DIGIT);
    assert_false(address_reader_take(&reader, order[1])); /* before it has begun */
    for (int i = 0; i < 100; i++) assert_false(address_reader_take(&reader, order[i]));
    for (int i = 0; i < ADDRESS_ORDER_BYTES; i++) {
        assert_false(address_reader_take(&reader, SIGUSR1));
        assert_int_equal(address_reader_take(&reader, order[i]), i == ADDRESS_ORDER_BYTES - 1);
    }
    assert_memory_equal(reader.bytes, address, ADDRESS_BYTES);
    assert_false(address_reader_take(&reader, order[1])); /* nothing comes behind its end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_orders_come_after_any_number_of_others),
        cmocka_unit_test(all_orders_that_there_are_fit),
        cmocka_unit_test(an_order_that_is_given_again_counts_from_its_last_place),
        cmocka_unit_test(insisting_counts),
        cmocka_unit_test(what_was_sent_makes_room),
        cmocka_unit_test(an_address_is_read_among_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
