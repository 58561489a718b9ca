/* The choice that a sender makes by the times of its own stores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transport/local/slot_owner.h"

enum { BYTES = 64 << 10 };

/* A trial in which 4 KiB take so many ticks, and one message in four ten times as long. */
static bool tries(struct slot_owner *owner, uint64_t without, uint64_t with)
{
    for (unsigned i = 0; i < 2 * SLOT_OWNER_PHASE; i++) {
        assert_int_equal(owner->asks, i >= SLOT_OWNER_PHASE);
        const uint64_t ticks = owner->asks ? with : without;
        slot_owner_note(owner, BYTES, ticks * (BYTES >> 12) * (i % 4 == 3 ? 10 : 1));
    }
    return owner->asks;
}

static void a_reader_is_asked_where_that_is_clearly_faster(void **state)
{
    (void)state;
    static const struct {
        uint64_t without, with;
        bool asks;
    } cases[] = {{900, 100, true},  {160, 100, true},   {140, 100, false},
                 {100, 100, false}, {100, 5000, false}, {UINT64_C(1) << 50, 100, true}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct slot_owner owner = {0};
        assert_int_equal(tries(&owner, cases[c].without, cases[c].with), cases[c].asks);
    }
}

static void a_sender_holds_what_it_found_and_tries_again(void **state)
{
    (void)state;
    struct slot_owner owner = {0};
    for (int trial = 0; trial < 4; trial++) {
        const bool asks = trial % 2 == 0;
        assert_int_equal(tries(&owner, asks ? 900 : 100, 100), asks);
        for (int i = 2 * SLOT_OWNER_PHASE; i < SLOT_OWNER_HOLDS; i++) {
            assert_int_equal(owner.asks, asks);
            slot_owner_note(&owner, BYTES, 1);
        }
    }
}

static void small_messages_go_the_way_that_large_ones_found(void **state)
{
    (void)state;
    struct slot_owner owner = {0};
    assert_true(tries(&owner, 900, 100));
    const uint32_t messages = owner.messages;
    slot_owner_begin(&owner, SLOT_OWNER_BYTES_MIN - 1);
    assert_int_equal(owner.begun, 0);
    assert_true(slot_owner_end(&owner, SLOT_OWNER_BYTES_MIN - 1));
    assert_int_equal(owner.messages, messages);
    slot_owner_begin(&owner, SLOT_OWNER_BYTES_MIN);
    assert_true(slot_owner_end(&owner, SLOT_OWNER_BYTES_MIN));
    assert_int_equal(owner.messages, messages + 1);
}

static void each_line_is_stored_to(void **state)
{
    (void)state;
    char slot[1000];
    memset(slot, 7, sizeof slot);
    slot_owner_take(slot, 900);
    for (int i = 0; i < (int)sizeof slot; i++)
        assert_int_equal(slot[i], i < 900 && i % 64 == 0 ? 0 : 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_is_asked_where_that_is_clearly_faster),
        cmocka_unit_test(a_sender_holds_what_it_found_and_tries_again),
        cmocka_unit_test(small_messages_go_the_way_that_large_ones_found),
        cmocka_unit_test(each_line_is_stored_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
