#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bootstrap/interface.h"

static struct interface make(const char *name, const char *address, bool is_up)
{
    struct interface interface = {.is_up = is_up};
    snprintf(interface.name, sizeof interface.name, "%s", name);
    if (!net_address_parse(address, &interface.address)) fail_msg("%s is no address", address);
    interface.is_loopback = strcmp(name, "lo") == 0;
    return interface;
}

struct host {
    struct interface interfaces[16];
    size_t count;
};

static void add(struct host *host, const char *name, const char *address)
{
    host->interfaces[host->count++] = make(name, address, true);
}

/* Two networks, InfiniBand, containers, and interfaces that are down. */
static struct host big_host(void)
{
    struct host host = {.count = 0};
    add(&host, "lo", "127.0.0.1");
    add(&host, "docker0", "172.17.0.1");
    host.interfaces[host.count++] = make("eth9", "10.9.0.5", false);
    add(&host, "eth0", "10.0.0.5");
    add(&host, "eth1", "10.1.0.5");
    add(&host, "ib0", "192.168.7.5");
    add(&host, "virbr0", "192.168.122.1");
    add(&host, "lo", "::1");
    add(&host, "eth0", "fe80::5%1");
    add(&host, "eth0", "2001:db8::5");
    add(&host, "eth10", "2001:db8:1::5");
    return host;
}

static enum tutti_status choose_one(const struct interface *interfaces, size_t count,
                                    const struct interface_wish *wish,
                                    struct interface_choice *choice)
{
    size_t rail_count;
    return interface_choose(interfaces, count, wish, 1, choice, &rail_count);
}

static enum tutti_status find_one(const struct net_address *target, struct interface_choice *choice)
{
    size_t rail_count;
    return interface_find(target, false, 1, choice, &rail_count);
}

static void expect(const struct host *host, const struct interface_wish *wish, const char *name,
                   const char *address, const char *why)
{
    struct interface_choice choice;
    if (choose_one(host->interfaces, host->count, wish, &choice) != TUTTI_OK)
        fail_msg("instead of %s: %s", name, tutti_error_message());
    struct net_address expected;
    assert_true(net_address_parse(address, &expected));
    assert_string_equal(choice.interface.name, name);
    assert_true(net_address_equal(&choice.interface.address, &expected));
    if (strstr(choice.why, why) == NULL) fail_msg("\"%s\" does not say %s", choice.why, why);
    if (strstr(choice.why, name) == NULL) fail_msg("\"%s\" does not say %s", choice.why, name);
}

static struct interface_wish towards(const char *target, const char *source)
{
    struct interface_wish wish = {.family = AF_UNSPEC};
    assert_true(net_address_parse(target, &wish.target));
    assert_true(net_address_parse(source, &wish.source));
    return wish;
}

static void names_follow_the_users_word(void **state)
{
    (void)state;
    const struct host host = big_host();
    static const struct {
        const char *names, *name, *address;
    } cases[] = {
        {"eth", "eth0", "10.0.0.5"},          {"ib", "ib0", "192.168.7.5"},
        {"eth1", "eth1", "10.1.0.5"},         {"=eth1", "eth1", "10.1.0.5"},
        {"ib,eth", "ib0", "192.168.7.5"},     {"eth,ib", "eth0", "10.0.0.5"},
        {"=eth,ib0", "ib0", "192.168.7.5"},   {"nothing,,eth1", "eth1", "10.1.0.5"},
        {"=lo", "lo", "127.0.0.1"},           {"docker", "docker0", "172.17.0.1"},
        {"=eth10", "eth10", "2001:db8:1::5"}, {",ib0", "ib0", "192.168.7.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct interface_wish wish = {.names = cases[i].names, .family = AF_UNSPEC};
        expect(&host, &wish, cases[i].name, cases[i].address, "TUTTI_SOCKET_IFNAME");
    }
}

static void excluded_names_are_not_taken(void **state)
{
    (void)state;
    const struct host host = big_host();
    static const struct {
        const char *names, *name, *address;
    } cases[] = {
        {"^eth", "ib0", "192.168.7.5"},
        {"^=eth0", "eth1", "10.1.0.5"},
        {"^docker,lo", "eth0", "10.0.0.5"},
        {"^eth,ib", "docker0", "172.17.0.1"},
        {"^eth,ib,docker,virbr", "lo", "127.0.0.1"},
        {"^", "eth0", "10.0.0.5"},
        {"=", "eth0", "10.0.0.5"},
        {"", "eth0", "10.0.0.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct interface_wish wish = {.names = cases[i].names, .family = AF_UNSPEC};
        expect(&host, &wish, cases[i].name, cases[i].address, "");
    }
}

static void the_kernels_way_to_the_peer_decides(void **state)
{
    (void)state;
    const struct host host = big_host();
    struct interface_wish wish = towards("10.1.0.1:29500", "10.1.0.5");
    expect(&host, &wish, "eth1", "10.1.0.5", "the way to 10.1.0.1 starts here");
    wish.is_beyond_host = true;
    expect(&host, &wish, "eth1", "10.1.0.5", "the way to");
    wish = towards("[2001:db8:1::1]:1", "2001:db8:1::5");
    expect(&host, &wish, "eth10", "2001:db8:1::5", "the way to");
    /* Even a bridge, if that is where the peer is. */
    wish = towards("172.17.0.2", "172.17.0.1");
    expect(&host, &wish, "docker0", "172.17.0.1", "the way to");
    /* The interface is the same where the family is another one. */
    wish = towards("10.0.0.1", "10.0.0.5");
    wish.family = AF_INET6;
    expect(&host, &wish, "eth0", "2001:db8::5", "the way to");
    /* Names come first. */
    wish.family = AF_UNSPEC;
    wish.names = "ib";
    expect(&host, &wish, "ib0", "192.168.7.5", "TUTTI_SOCKET_IFNAME");
    wish.names = "^eth0";
    expect(&host, &wish, "eth1", "10.1.0.5", "the first");
}

static void loopback_is_for_peers_on_loopback_or_when_there_is_nothing_else(void **state)
{
    (void)state;
    const struct host host = big_host();
    struct interface_wish wish = towards("127.0.0.1:29500", "127.0.0.1");
    expect(&host, &wish, "lo", "127.0.0.1", "the way to 127.0.0.1");
    wish = towards("[::1]:29500", "::1");
    expect(&host, &wish, "lo", "::1", "the way to [::1]");
    /* A host whose own name is an address of loopback: the others do not reach it there. */
    wish = towards("127.0.1.1:29500", "127.0.0.1");
    wish.is_beyond_host = true;
    expect(&host, &wish, "eth0", "10.0.0.5", "the first");

    struct host alone = {.count = 0};
    add(&alone, "lo", "127.0.0.1");
    wish = (struct interface_wish){.family = AF_UNSPEC};
    expect(&alone, &wish, "lo", "127.0.0.1", "nothing else");
    struct interface_choice choice;
    wish.is_beyond_host = true;
    assert_int_equal(choose_one(alone.interfaces, 1, &wish, &choice), TUTTI_INVALID_OPTIONS);
    wish.names = "lo";
    expect(&alone, &wish, "lo", "127.0.0.1", "TUTTI_SOCKET_IFNAME");
}

static void real_cards_and_routable_addresses_are_preferred(void **state)
{
    (void)state;
    const struct interface_wish any = {.family = AF_UNSPEC};
    struct interface_wish six = {.family = AF_INET6};
    struct host host = big_host();
    expect(&host, &any, "eth0", "10.0.0.5", "the first");
    expect(&host, &six, "eth0", "2001:db8::5", "the first");

    host.count = 0;
    add(&host, "lo", "::1");
    add(&host, "eth0", "fe80::5%1");
    expect(&host, &six, "eth0", "fe80::5%1", "the first");
    add(&host, "virbr0", "192.168.122.1");
    expect(&host, &any, "eth0", "fe80::5%1", "the first");
    add(&host, "eth1", "2001:db8::7");
    expect(&host, &any, "eth1", "2001:db8::7", "the first");

    host.count = 0;
    add(&host, "veth12", "10.8.0.1");
    add(&host, "lo", "127.0.0.1");
    expect(&host, &any, "veth12", "10.8.0.1", "bridge");
}

static void what_does_not_fit_is_an_error_that_lists_what_there_is(void **state)
{
    (void)state;
    const struct host host = big_host();
    struct interface_choice choice;
    static const struct interface_wish wishes[] = {
        {.names = "wlan"},
        {.names = "=et"},
        {.names = "eth9"},
        {.names = "^lo,docker,eth,ib,virbr"},
        {.names = "ib", .family = AF_INET6},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        assert_int_equal(choose_one(host.interfaces, host.count, &wishes[i], &choice),
                         TUTTI_INVALID_OPTIONS);
        assert_non_null(strstr(tutti_error_message(), wishes[i].names));
        assert_non_null(strstr(tutti_error_message(), "eth0 10.0.0.5"));
        assert_non_null(strstr(tutti_error_message(), "eth9 10.9.0.5 (down)"));
    }
    assert_int_equal(choose_one(NULL, 0, &(struct interface_wish){.names = NULL}, &choice),
                     TUTTI_INVALID_OPTIONS);
}

/* Many interfaces with long names: the message is cut, not the memory. */
static void a_long_list_is_cut(void **state)
{
    (void)state;
    static struct interface many[INTERFACES_MAX];
    struct interface_choice choice;
    for (size_t i = 0; i < INTERFACES_MAX; i++)
        many[i] = make("abcdefghijklmno", "1111:2222:3333:4444:5555:6666:7777:8888", false);
    assert_int_equal(choose_one(many, INTERFACES_MAX, &(struct interface_wish){.family = 0}, &choice),
                     TUTTI_INVALID_OPTIONS);
}

/* Names with commas between them. */
static void expect_rails(const struct host *host, const struct interface_wish *wish,
                         size_t rail_max, const char *names)
{
    struct interface_choice choices[INTERFACE_RAILS_MAX], first;
    size_t rail_count;
    char chosen[INTERFACE_RAILS_MAX * (INTERFACE_NAME_MAX + 1)] = "";
    assert_int_equal(choose_one(host->interfaces, host->count, wish, &first), TUTTI_OK);
    assert_int_equal(
        interface_choose(host->interfaces, host->count, wish, rail_max, choices, &rail_count),
        TUTTI_OK);
    assert_in_range(rail_count, 1, rail_max);
    assert_memory_equal(&choices[0], &first, sizeof first);
    for (size_t i = 0; i < rail_count; i++) {
        if (i > 0) strcat(chosen, ",");
        strcat(chosen, choices[i].interface.name);
        assert_int_equal(choices[i].interface.address.family, first.interface.address.family);
    }
    assert_string_equal(chosen, names);
}

static void further_rails_are_other_cards_of_the_same_family(void **state)
{
    (void)state;
    const struct host host = big_host();
    struct interface_wish wish = {.family = AF_UNSPEC, .is_beyond_host = true};
    expect_rails(&host, &wish, 1, "eth0");
    expect_rails(&host, &wish, 2, "eth0,eth1");
    expect_rails(&host, &wish, 4, "eth0,eth1,ib0"); /* no bridges, no interfaces that are down */
    wish.family = AF_INET6;
    expect_rails(&host, &wish, 4, "eth0,eth10"); /* eth0 once, and not its link-local address */
    wish = towards("10.1.0.1:29500", "10.1.0.5");
    expect_rails(&host, &wish, 4, "eth1,eth0,ib0");
    wish = towards("127.0.0.1:29500", "127.0.0.1");
    expect_rails(&host, &wish, 2, "lo");
}

static void the_users_names_decide_on_further_rails_too(void **state)
{
    (void)state;
    const struct host host = big_host();
    static const struct {
        const char *names, *rails;
    } cases[] = {
        {"=eth1,ib0", "eth1,ib0"}, {"ib,eth", "ib0,eth0,eth1"},         {"^eth1", "eth0,ib0"},
        {"=ib0", "ib0"},           {"eth,docker", "eth0,eth1,docker0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct interface_wish wish = {
            .names = cases[i].names, .family = AF_UNSPEC, .is_beyond_host = true};
        expect_rails(&host, &wish, INTERFACE_RAILS_MAX, cases[i].rails);
    }
}

/* Two interfaces with one address are one way. */
static void an_address_is_one_rail(void **state)
{
    (void)state;
    struct host host = {.count = 0};
    const struct interface_wish wish = {.family = AF_UNSPEC, .is_beyond_host = true};
    add(&host, "eth0", "10.0.0.5");
    add(&host, "eth1", "10.0.0.5");
    add(&host, "eth2", "10.0.2.5");
    expect_rails(&host, &wish, INTERFACE_RAILS_MAX, "eth0,eth2");
}

static int clear_environment(void **state)
{
    (void)state;
    unsetenv("TUTTI_RAILS");
    unsetenv("TUTTI_SOCKET_IFNAME");
    unsetenv("TUTTI_SOCKET_FAMILY");
    return 0;
}

static void the_environment_is_read(void **state)
{
    (void)state;
    struct interface_wish wish;
    static const struct {
        const char *text;
        sa_family_t family;
    } cases[] = {{"4", AF_INET}, {"6", AF_INET6}, {"AF_INET6", AF_INET6}, {"", AF_UNSPEC}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TUTTI_SOCKET_FAMILY", cases[i].text, 1);
        assert_int_equal(interface_wish_read(&wish), TUTTI_OK);
        assert_int_equal(wish.family, cases[i].family);
        assert_null(wish.names);
    }
    setenv("TUTTI_SOCKET_IFNAME", "^lo", 1);
    assert_int_equal(interface_wish_read(&wish), TUTTI_OK);
    assert_string_equal(wish.names, "^lo");
    setenv("TUTTI_SOCKET_FAMILY", "5", 1);
    assert_int_equal(interface_wish_read(&wish), TUTTI_INVALID_OPTIONS);
    assert_non_null(strstr(tutti_error_message(), "TUTTI_SOCKET_FAMILY"));
}

static void the_number_of_rails_is_1_to_4(void **state)
{
    (void)state;
    unsigned rail_max;
    assert_int_equal(interface_rails_read(&rail_max), TUTTI_OK);
    assert_int_equal(rail_max, 1);
    static const struct {
        const char *text;
        unsigned rail_max; /* 0: nonsense */
    } cases[] = {{"", 1},   {"1", 1},  {"2", 2},  {"4", 4},  {"0", 0},    {"5", 0},
                 {"-1", 0}, {"2x", 0}, {" 2", 0}, {"2 ", 0}, {"eth0", 0}, {"04", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TUTTI_RAILS", cases[i].text, 1);
        const enum tutti_status status = interface_rails_read(&rail_max);
        assert_int_equal(status, cases[i].rail_max > 0 ? TUTTI_OK : TUTTI_INVALID_OPTIONS);
        if (status == TUTTI_OK)
            assert_int_equal(rail_max, cases[i].rail_max);
        else
            assert_non_null(strstr(tutti_error_message(), "TUTTI_RAILS"));
    }
}

/* Loopback is where every machine has it. */
static void this_host_has_interfaces(void **state)
{
    (void)state;
    struct interface *interfaces = calloc(INTERFACES_MAX, sizeof *interfaces);
    struct interface_choice choice;
    struct net_address target = {0};
    size_t count, loopback_count = 0;
    assert_non_null(interfaces);
    assert_int_equal(interface_list(interfaces, INTERFACES_MAX, &count), TUTTI_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(interfaces[i].name) > 0);
        loopback_count += interfaces[i].is_loopback;
    }
    assert_true(loopback_count > 0);
    assert_int_equal(interface_list(interfaces, 1, &count), TUTTI_OK);
    assert_int_equal(count, 1);
    free(interfaces);
    assert_int_equal(find_one(&target, &choice), TUTTI_OK);
    assert_true(net_address_parse("127.0.0.1:80", &target));
    assert_int_equal(find_one(&target, &choice), TUTTI_OK);
    assert_true(net_address_is_loopback(&choice.interface.address));
    setenv("TUTTI_SOCKET_IFNAME", "=no-such-one", 1);
    assert_int_equal(find_one(&target, &choice), TUTTI_INVALID_OPTIONS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_users_word),
        cmocka_unit_test(excluded_names_are_not_taken),
        cmocka_unit_test(the_kernels_way_to_the_peer_decides),
        cmocka_unit_test(loopback_is_for_peers_on_loopback_or_when_there_is_nothing_else),
        cmocka_unit_test(real_cards_and_routable_addresses_are_preferred),
        cmocka_unit_test(what_does_not_fit_is_an_error_that_lists_what_there_is),
        cmocka_unit_test(a_long_list_is_cut),
        cmocka_unit_test(further_rails_are_other_cards_of_the_same_family),
        cmocka_unit_test(the_users_names_decide_on_further_rails_too),
        cmocka_unit_test(an_address_is_one_rail),
        cmocka_unit_test_setup_teardown(the_number_of_rails_is_1_to_4, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(the_environment_is_read, clear_environment,
                                        clear_environment),
        cmocka_unit_test_setup_teardown(this_host_has_interfaces, clear_environment,
                                        clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
