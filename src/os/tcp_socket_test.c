#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/tcp_socket.h"

static const uint64_t SECOND_NS = 1000000000;

static struct net_address parsed(const char *text)
{
    struct net_address address;
    if (!net_address_parse(text, &address)) fail_msg("%s is no address", text);
    return address;
}

static void addresses_survive_printing_and_parsing(void **state)
{
    (void)state;
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"10.0.0.1:80", "10.0.0.1:80"},
        {"10.0.0.1", "10.0.0.1:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {"[fe80::1%lo]:80", "[fe80::1%lo]:80"},
        {"fe80::1%lo", "[fe80::1%lo]:0"},
        {"[::]:0", "[::]:0"},
        {"::1", "[::1]:0"},
        {"[::1]", "[::1]:0"},
        {"[2001:DB8:0:0:0:0:0:1]:443", "[2001:db8::1]:443"},
        {"[::ffff:10.1.2.3]:7", "10.1.2.3:7"},
        {"[1111:2222:3333:4444:5555:6666:7777:8888]:65535",
         "[1111:2222:3333:4444:5555:6666:7777:8888]:65535"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[NET_ADDRESS_TEXT_MAX];
        const struct net_address address = parsed(cases[i].text);
        net_address_print(&address, text);
        assert_string_equal(text, cases[i].printed);
        const struct net_address again = parsed(text);
        assert_true(net_address_equal(&address, &again));
    }
    char text[NET_ADDRESS_TEXT_MAX];
    net_address_print(&(struct net_address){0}, text);
    assert_string_equal(text, "none");
    /* An interface that nobody has keeps its number. */
    const struct net_address far = {AF_INET6, 1, 4000000000u, {0xfe, 0x80}};
    net_address_print(&far, text);
    assert_string_equal(text, "[fe80::%4000000000]:1");
    const struct net_address again = parsed(text);
    assert_true(net_address_equal(&far, &again));
}

static void nonsense_is_no_address(void **state)
{
    (void)state;
    static const char *const cases[] = {"",
                                        ":",
                                        "80",
                                        "host:80",
                                        "10.0.0:80",
                                        "10.0.0.1:",
                                        "10.0.0.1:65536",
                                        "10.0.0.1: 80",
                                        "10.0.0.1:80 ",
                                        "10.0.0.1:-1",
                                        "10.0.0.256",
                                        "[10.0.0.1]:80",
                                        "[::1",
                                        "[::1]80",
                                        "[::1]:",
                                        "[::1]:99999999999999999999",
                                        "::1]:80",
                                        "[]:80",
                                        "[::g]:1",
                                        "[fe80::1%]:80",
                                        "[fe80::1%no-such-one]:80",
                                        "[fe80::1%0]:80",
                                        "[::1%lo]:80",
                                        "10.0.0.1%lo:80",
                                        "none",
                                        "[0000:0000:0000:0000:0000:0000:0000:0001%"
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa]:1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct net_address address;
        memset(&address, 7, sizeof address);
        if (net_address_parse(cases[i], &address)) fail_msg("%s is an address", cases[i]);
        assert_int_equal(address.family, AF_UNSPEC);
        assert_int_equal(address.port, 0);
    }
}

static void kinds_of_addresses_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_loopback, is_link_local;
    } cases[] = {
        {"127.0.0.1", true, false}, {"127.1.2.3", true, false},    {"::1", true, false},
        {"10.0.0.1", false, false}, {"169.254.1.1", false, true},  {"fe80::1%lo", false, true},
        {"fec0::1", false, false},  {"2001:db8::1", false, false}, {"::", false, false},
        {"febf::1%1", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct net_address address = parsed(cases[i].text);
        assert_int_equal(net_address_is_loopback(&address), cases[i].is_loopback);
        assert_int_equal(net_address_is_link_local(&address), cases[i].is_link_local);
    }
}

static void names_are_resolved(void **state)
{
    (void)state;
    struct net_address found[4];
    size_t count;
    assert_int_equal(net_address_resolve("127.0.0.1", 80, AF_UNSPEC, found, 4, &count), TUTTI_OK);
    assert_int_equal(count, 1);
    const struct net_address expected = parsed("127.0.0.1:80");
    assert_true(net_address_equal(&found[0], &expected));
    assert_int_equal(net_address_resolve("not an address", 80, AF_INET, found, 4, &count),
                     TUTTI_INVALID_OPTIONS);
    assert_int_equal(count, 0);
    assert_non_null(strstr(tutti_error_message(), "not an address"));
}

static void the_way_to_loopback_starts_there(void **state)
{
    (void)state;
    struct net_address source;
    const struct net_address to = parsed("127.0.0.1:80");
    assert_true(net_address_source(&to, &source));
    assert_true(net_address_is_loopback(&source));
    assert_int_equal(source.port, 0);
}

static void expect_good_manners(int fd)
{
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void wait_for(int fd, short events)
{
    struct pollfd entry = {fd, events, 0};
    assert_int_equal(poll(&entry, 1, 5000), 1);
}

/* A connection over address; false: this machine has no such address. */
static bool connect_pair(const char *text, int *client, int *server)
{
    struct net_address bound, peer, own = parsed(text);
    int listener;
    if (tcp_listen(&own, 0, &listener, &bound) != TUTTI_OK) return false;
    expect_good_manners(listener);
    assert_true(bound.port != 0);
    assert_int_equal(tcp_accept(listener, server, &peer), TUTTI_IN_PROGRESS);
    assert_int_equal(tcp_connect(&bound, &own, clock_now_ns() + 5 * SECOND_NS, client), TUTTI_OK);
    wait_for(listener, POLLIN);
    assert_int_equal(tcp_accept(listener, server, &peer), TUTTI_OK);
    expect_good_manners(*client);
    expect_good_manners(*server);
    assert_true(net_address_same_host(&peer, &own));
    assert_true(peer.port != 0);
    close(listener);
    return true;
}

static void bytes_travel_and_the_end_is_told(int client, int server)
{
    char text[8];
    size_t done = 7;
    int protocol = 0;
    socklen_t bytes = sizeof protocol;
    assert_int_equal(getsockopt(client, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes), 0);
    /* A closed socket of MPTCP takes written bytes for a minute, also where it fell back. */
    const bool is_told = protocol != 262;
    assert_int_equal(tcp_read(server, text, sizeof text, &done), TUTTI_OK);
    assert_int_equal(done, 0);
    assert_int_equal(tcp_write(client, "tutti", 5, &done), TUTTI_OK);
    assert_int_equal(done, 5);
    wait_for(server, POLLIN);
    assert_int_equal(tcp_read(server, text, sizeof text, &done), TUTTI_OK);
    assert_int_equal(done, 5);
    assert_memory_equal(text, "tutti", 5);
    close(client);
    wait_for(server, POLLIN);
    assert_int_equal(tcp_read(server, text, sizeof text, &done), TUTTI_PROC_FAILED);
    assert_int_equal(done, 0);
    /* The first write finds out that nobody is there; no signal tells. */
    enum tutti_status status = TUTTI_OK;
    for (int i = 0; is_told && i < 1000 && status == TUTTI_OK; i++) {
        status = tcp_write(server, "tutti", 5, &done);
        poll(NULL, 0, 1);
    }
    if (is_told) assert_int_equal(status, TUTTI_PROC_FAILED);
    close(server);
}

static void ipv4_connects(void **state)
{
    (void)state;
    int client, server;
    assert_true(connect_pair("127.0.0.1", &client, &server));
    bytes_travel_and_the_end_is_told(client, server);
}

static void ipv6_connects(void **state)
{
    (void)state;
    int client, server;
    if (!connect_pair("::1", &client, &server)) {
        print_message("there is no IPv6 loopback: %s\n", tutti_error_message());
        skip();
    }
    bytes_travel_and_the_end_is_told(client, server);
}

static void the_ipv6_wildcard_takes_ipv4_too(void **state)
{
    (void)state;
    struct net_address bound, peer, any = parsed("[::]:0"), to = parsed("127.0.0.1");
    int listener, client, server;
    if (tcp_listen(&any, 0, &listener, &bound) != TUTTI_OK) {
        print_message("there is no IPv6: %s\n", tutti_error_message());
        skip();
    }
    to.port = bound.port;
    assert_int_equal(tcp_connect(&to, NULL, clock_now_ns() + 5 * SECOND_NS, &client), TUTTI_OK);
    wait_for(listener, POLLIN);
    assert_int_equal(tcp_accept(listener, &server, &peer), TUTTI_OK);
    assert_int_equal(peer.family, AF_INET);
    close(server);
    close(client);
    close(listener);
}

/* Finds a free port, which others may take; so a few are tried. */
static void the_first_free_port_of_a_range_is_taken(void **state)
{
    (void)state;
    for (int attempt = 0; attempt < 20; attempt++) {
        struct net_address first, second, third, any = parsed("127.0.0.1:0");
        int one, two, three;
        assert_int_equal(tcp_listen(&any, 0, &one, &first), TUTTI_OK);
        if (first.port < UINT16_MAX - 1 &&
            tcp_listen(&first, (uint16_t)(first.port + 1), &two, &second) == TUTTI_OK) {
            assert_int_equal(second.port, first.port + 1);
            assert_int_equal(tcp_listen(&first, second.port, &three, &third), TUTTI_INVALID_OPTIONS);
            close(two);
            close(one);
            return;
        }
        close(one);
    }
    fail_msg("no two free ports beside each other");
}

static void nobody_there_is_told_at_once(void **state)
{
    (void)state;
    struct net_address bound, any = parsed("127.0.0.1:0");
    int listener, fd;
    assert_int_equal(tcp_listen(&any, 0, &listener, &bound), TUTTI_OK);
    close(listener);
    const uint64_t began = clock_now_ns();
    assert_int_equal(tcp_connect(&bound, NULL, began + 30 * SECOND_NS, &fd), TUTTI_PROC_FAILED);
    assert_int_equal(fd, -1);
    assert_true(clock_now_ns() - began < 10 * SECOND_NS);
}

static void a_port_that_calls_itself_is_nobody(void **state)
{
    (void)state;
    struct net_address bound, any = parsed("127.0.0.1:0");
    int listener, fd;
    assert_int_equal(tcp_listen(&any, 0, &listener, &bound), TUTTI_OK);
    close(listener);
    assert_int_equal(tcp_connect(&bound, &bound, clock_now_ns() + 5 * SECOND_NS, &fd),
                     TUTTI_PROC_FAILED);
}

/* A listener with a full queue drops new connections: the kernel says neither yes nor no. */
static void a_connect_ends_at_its_deadline(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int fds[16], count = 0;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    struct net_address to;
    assert_true(net_address_from_socket((struct sockaddr *)&at, &to));
    enum tutti_status status = TUTTI_OK;
    uint64_t began = 0;
    while (count < 16 && status == TUTTI_OK) {
        began = clock_now_ns();
        status = tcp_connect(&to, NULL, began + SECOND_NS / 5, &fds[count]);
        if (status == TUTTI_OK) count++;
    }
    assert_int_equal(status, TUTTI_INIT_TIMEOUT);
    assert_true(clock_now_ns() - began >= SECOND_NS / 5);
    while (count > 0) close(fds[--count]);
    close(listener);
}

/* ------------------------------------------------------------------------------------ protocols */

enum { LISTENS, CONNECTS, ENDS };

/* Two ends at 127.0.0.1 that have heard each other, each made for its protocol. False: a call
 * failed. */
static bool meet(const enum tcp_protocol protocols[ENDS], int *client, int *server)
{
    struct net_address bound, peer, own = parsed("127.0.0.1:0");
    int listener;
    char byte;
    size_t done = 0;
    if (tcp_listen_with(protocols[LISTENS], &own, 0, &listener, &bound) != TUTTI_OK) return false;
    enum tutti_status status = tcp_connect_start_with(protocols[CONNECTS], &bound, NULL, client);
    if (status == TUTTI_OK) status = TUTTI_IN_PROGRESS;
    for (int ms = 0; ms < 5000 && status == TUTTI_IN_PROGRESS; ms++) {
        status = tcp_connect_test(*client, &bound);
        poll(NULL, 0, 1);
    }
    struct pollfd entry = {listener, POLLIN, 0};
    const bool came = status == TUTTI_OK && poll(&entry, 1, 5000) == 1 &&
                      tcp_accept(listener, server, &peer) == TUTTI_OK;
    close(listener);
    for (int turn = 0; came && turn < 2; turn++) {
        const int from = turn == 0 ? *client : *server, to = turn == 0 ? *server : *client;
        entry = (struct pollfd){to, POLLIN, 0};
        if (tcp_write(from, "x", 1, &done) != TUTTI_OK || poll(&entry, 1, 5000) != 1 ||
            tcp_read(to, &byte, 1, &done) != TUTTI_OK || done != 1)
            return false;
    }
    return came;
}

/* Whether the kernel has it, as far as socket() tells. */
static bool is_here(enum tcp_protocol protocol)
{
    const int fd = protocol == TCP_PROTOCOL_MPTCP ? socket(AF_INET, SOCK_STREAM, 262)
                                                  : socket(43 /* AF_SMC */, SOCK_STREAM, 0);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void a_connection_is_what_both_ends_speak(void **state)
{
    (void)state;
    static const struct {
        enum tcp_protocol ends[ENDS];
    } cases[] = {
        {{TCP_PROTOCOL_TCP, TCP_PROTOCOL_TCP}},   {{TCP_PROTOCOL_MPTCP, TCP_PROTOCOL_TCP}},
        {{TCP_PROTOCOL_TCP, TCP_PROTOCOL_MPTCP}}, {{TCP_PROTOCOL_MPTCP, TCP_PROTOCOL_MPTCP}},
        {{TCP_PROTOCOL_SMC, TCP_PROTOCOL_TCP}},   {{TCP_PROTOCOL_TCP, TCP_PROTOCOL_SMC}},
        {{TCP_PROTOCOL_MPTCP, TCP_PROTOCOL_SMC}}, {{TCP_PROTOCOL_SMC, TCP_PROTOCOL_SMC}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const enum tcp_protocol *const ends = cases[i].ends;
        int client = -1, server = -1;
        assert_true(meet(ends, &client, &server));
        expect_good_manners(client);
        expect_good_manners(server);
        const bool is_mptcp = ends[LISTENS] == TCP_PROTOCOL_MPTCP &&
                              ends[CONNECTS] == TCP_PROTOCOL_MPTCP && is_here(TCP_PROTOCOL_MPTCP);
        /* Two ends of SMC on one host are SMC where the kernel has a device for that. */
        const bool may_be_smc = ends[LISTENS] == TCP_PROTOCOL_SMC &&
                                ends[CONNECTS] == TCP_PROTOCOL_SMC && is_here(TCP_PROTOCOL_SMC);
        const enum tcp_protocol expected = is_mptcp ? TCP_PROTOCOL_MPTCP : TCP_PROTOCOL_TCP;
        if (!may_be_smc) assert_int_equal(tcp_protocol_of(client), expected);
        if (!may_be_smc) assert_int_equal(tcp_protocol_of(server), expected);
        bytes_travel_and_the_end_is_told(client, server);
    }
    assert_int_equal(tcp_protocol_of(-1), TCP_PROTOCOL_TCP);
}

static void nobody_there_is_told_by_every_protocol(void **state)
{
    (void)state;
    for (int p = TCP_PROTOCOL_TCP; p <= TCP_PROTOCOL_SMC; p++) {
        struct net_address bound, any = parsed("127.0.0.1:0");
        int listener, fd = -1;
        assert_int_equal(tcp_listen_with((enum tcp_protocol)p, &any, 0, &listener, &bound),
                         TUTTI_OK);
        close(listener);
        enum tutti_status status = tcp_connect_start_with((enum tcp_protocol)p, &bound, NULL, &fd);
        if (status == TUTTI_OK) status = TUTTI_IN_PROGRESS;
        for (int ms = 0; ms < 5000 && status == TUTTI_IN_PROGRESS; ms++) {
            status = tcp_connect_test(fd, &bound);
            poll(NULL, 0, 1);
        }
        assert_int_equal(status, TUTTI_PROC_FAILED);
        if (fd >= 0) close(fd);
    }
}

/* A network of this process's own with loopback alone and without MPTCP. False: it cannot be
 * had. */
static bool leave_mptcp(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    const int file = open("/proc/sys/net/mptcp/enabled", O_WRONLY | O_CLOEXEC),
              any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_off = file >= 0 && write(file, "0", 1) == 1;
    const bool is_up = any >= 0 && ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
    if (file >= 0) close(file);
    if (any >= 0) close(any);
    return is_off && is_up;
}

enum { ALL_RIGHT, WRONG, NOT_HERE };

static int connect_without_mptcp(void)
{
    static const enum tcp_protocol ends[ENDS] = {TCP_PROTOCOL_MPTCP, TCP_PROTOCOL_MPTCP};
    if (!leave_mptcp()) return NOT_HERE;
    for (int i = 0; i < 3; i++) {
        int client = -1, server = -1;
        if (!meet(ends, &client, &server) || tcp_protocol_of(client) != TCP_PROTOCOL_TCP ||
            tcp_protocol_of(server) != TCP_PROTOCOL_TCP)
            return WRONG;
        close(client);
        close(server);
    }
    return ALL_RIGHT;
}

static void a_kernel_without_mptcp_uses_tcp_and_it_is_said_once(void **state)
{
    (void)state;
    int ends[2], how;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(connect_without_mptcp());
    }
    close(ends[1]);
    char log[4096] = "";
    size_t bytes = 0;
    ssize_t got;
    while ((got = read(ends[0], log + bytes, sizeof log - 1 - bytes)) > 0) bytes += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == NOT_HERE) skip();
    assert_int_equal(WEXITSTATUS(how), ALL_RIGHT);
    const char *const line = strstr(log, "TUTTI_SOCKET_PROTOCOL: ");
    assert_non_null(line);
    assert_non_null(strstr(line, "sysctl -w net.mptcp.enabled=1"));
    assert_null(strstr(line + 1, "TUTTI_SOCKET_PROTOCOL"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_kernel_without_mptcp_uses_tcp_and_it_is_said_once), /* before others say it */
        cmocka_unit_test(addresses_survive_printing_and_parsing),
        cmocka_unit_test(nonsense_is_no_address),
        cmocka_unit_test(kinds_of_addresses_are_told_apart),
        cmocka_unit_test(names_are_resolved),
        cmocka_unit_test(the_way_to_loopback_starts_there),
        cmocka_unit_test(ipv4_connects),
        cmocka_unit_test(ipv6_connects),
        cmocka_unit_test(the_ipv6_wildcard_takes_ipv4_too),
        cmocka_unit_test(the_first_free_port_of_a_range_is_taken),
        cmocka_unit_test(nobody_there_is_told_at_once),
        cmocka_unit_test(a_port_that_calls_itself_is_nobody),
        cmocka_unit_test(a_connect_ends_at_its_deadline),
        cmocka_unit_test(a_connection_is_what_both_ends_speak),
        cmocka_unit_test(nobody_there_is_told_by_every_protocol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
