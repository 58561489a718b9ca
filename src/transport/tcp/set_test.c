#include "transport/tcp/set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static int next_of(const bool *members, unsigned from)
{
    for (unsigned i = from; i < TCP_LINK_COUNT; i++)
        if (members[i]) return (int)i;
    return -1;
}

static void expect_equal(const struct tcp_set *set, const bool *members)
{
    assert_int_equal(tcp_set_is_empty(set), next_of(members, 0) < 0);
    for (unsigned i = 0; i < TCP_LINK_COUNT; i++) {
        const int next = next_of(members, i);
        assert_int_equal(tcp_set_has(set, i), members[i]);
        assert_int_equal(tcp_set_next(set, i), next);
        assert_int_equal(tcp_set_turn(set, i), next >= 0 ? next : next_of(members, 0));
    }
    assert_int_equal(tcp_set_next(set, TCP_LINK_COUNT), -1);
}

static unsigned chance(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

static void a_set_has_what_was_added_and_not_removed(void **state)
{
    (void)state;
    struct tcp_set set = {0}, other = {0};
    bool members[TCP_LINK_COUNT] = {0}, others[TCP_LINK_COUNT] = {0};
    uint64_t seed = 1;
    expect_equal(&set, members);
    for (int i = 0; i < 2000; i++) {
        const unsigned index = chance(&seed) % TCP_LINK_COUNT;
        const bool adds =
            chance(&seed) % 1000 < (i / 500 % 2 == 0 ? 800u : 100u); /* fills up, empties */
        if (adds)
            tcp_set_add(&set, index);
        else
            tcp_set_remove(&set, index);
        members[index] = adds;
        if (i % 50 == 0) expect_equal(&set, members);
    }
    for (unsigned i = 0; i < TCP_LINK_COUNT; i += 37) {
        tcp_set_add(&other, i);
        others[i] = true;
    }
    tcp_set_join(&set, &other);
    for (unsigned i = 0; i < TCP_LINK_COUNT; i++) members[i] |= others[i];
    expect_equal(&set, members);
    expect_equal(&other, others);
    for (unsigned i = 0; i < TCP_LINK_COUNT; i++) tcp_set_remove(&set, i);
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
