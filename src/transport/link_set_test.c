#include "tests/kit/chance.h"
#include "transport/link_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int next_of(const bool *members, unsigned from)
{
    for (unsigned i = from; i < TRANSPORT_LINK_COUNT; i++)
        if (members[i]) return (int)i;
    return -1;
}

static void expect_equal(const struct link_set *set, const bool *members)
{
    assert_int_equal(link_set_is_empty(set), next_of(members, 0) < 0);
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        const int next = next_of(members, i);
        assert_int_equal(link_set_has(set, i), members[i]);
        assert_int_equal(link_set_next(set, i), next);
        assert_int_equal(link_set_turn(set, i), next >= 0 ? next : next_of(members, 0));
    }
    assert_int_equal(link_set_next(set, TRANSPORT_LINK_COUNT), -1);
}

static unsigned chance(uint64_t *state)
{
    return (unsigned)chance_next(state);
}

static void a_set_has_what_was_added_and_not_removed(void **state)
{
    (void)state;
    struct link_set set = {0}, other = {0};
    bool members[TRANSPORT_LINK_COUNT] = {0}, others[TRANSPORT_LINK_COUNT] = {0};
    uint64_t seed = 1;
    expect_equal(&set, members);
    for (int i = 0; i < 2000; i++) {
        const unsigned index = chance(&seed) % TRANSPORT_LINK_COUNT;
        const bool adds =
            chance(&seed) % 1000 < (i / 500 % 2 == 0 ? 800u : 100u); /* fills up, empties */
        if (adds)
            link_set_add(&set, index);
        else
            link_set_remove(&set, index);
        members[index] = adds;
        if (i % 50 == 0) expect_equal(&set, members);
    }
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i += 37) {
        link_set_add(&other, i);
        others[i] = true;
    }
    link_set_join(&set, &other);
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) members[i] |= others[i];
    expect_equal(&set, members);
    expect_equal(&other, others);
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) link_set_remove(&set, i);
    memset(members, 0, sizeof members);
    expect_equal(&set, members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_what_was_added_and_not_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
