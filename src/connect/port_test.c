/* One port for all communicators: connections, callback requests, strangers and shortages.
 *
 * ctest: waits */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "connect/listener.h"
#include "connect/port.h"
#include "os/clock.h"
#include "tests/kit/kept_log.h"

enum { SIZE = 3 };
static const uint64_t SOON_NS = 20000000000u;

struct meeting {
    struct port_client clients[2];
    struct net_address port;
};

static void open_meeting(struct meeting *meeting, int first, int second)
{
    memset(meeting, 0, sizeof *meeting);
    assert_int_equal(port_open(NULL, &meeting->port), TUTTI_OK);
    assert_true(meeting->port.port > 0);
    for (int i = 0; i < 2; i++) {
        memset(&meeting->clients[i].identity, 42, sizeof meeting->clients[i].identity);
        meeting->clients[i].rank = i == 0 ? first : second;
        meeting->clients[i].size = SIZE;
        port_enter(&meeting->clients[i]);
    }
}

static void close_meeting(struct meeting *meeting)
{
    for (int i = 0; i < 2; i++) port_leave(&meeting->clients[i]);
    port_close();
}

/* Moves the port until the client gets a connection; false after the time. */
static bool take_within(struct port_client *client, uint64_t time_ns, int *peer, unsigned *stream,
                        int *fd)
{
    const uint64_t until_ns = clock_now_ns() + time_ns;
    do {
        port_progress(clock_now_ns());
        struct byte_stream socket;
        if (port_take(client, peer, stream, &socket)) {
            *fd = socket.fd;
            return true;
        }
        nanosleep(&(struct timespec){0, 100000}, NULL);
    } while (clock_now_ns() < until_ns);
    return false;
}

static void the_higher_rank_connects_and_both_get_the_connection(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 1, 2);
    struct port_client *low = &meeting.clients[0], *high = &meeting.clients[1];
    const uint64_t deadline_ns = clock_now_ns() + SOON_NS;
    assert_int_equal(port_connect(low, 2, 5, &meeting.port, deadline_ns), TUTTI_OK);
    assert_int_equal(port_connect(high, 1, 5, &meeting.port, deadline_ns), TUTTI_OK);
    int peers[2], fds[2];
    unsigned streams[2];
    assert_true(take_within(low, SOON_NS, &peers[0], &streams[0], &fds[0]));
    assert_true(take_within(high, SOON_NS, &peers[1], &streams[1], &fds[1]));
    assert_int_equal(peers[0], 2);
    assert_int_equal(peers[1], 1);
    assert_int_equal(streams[0], 5);
    assert_int_equal(streams[1], 5);
    char byte = 0;
    assert_int_equal(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 20000 && recv(fds[0], &byte, 1, MSG_DONTWAIT) != 1; i++)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    assert_int_equal(byte, 'x');
    assert_false(take_within(low, 50000000, &peers[0], &streams[0], &fds[0])); /* just one */
    close(fds[0]);
    close(fds[1]);
    close_meeting(&meeting);
}

static void who_is_of_another_communicator_is_not_let_in(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 0, 2);
    memset(&meeting.clients[1].identity, 43, sizeof meeting.clients[1].identity);
    assert_int_equal(
        port_connect(&meeting.clients[1], 0, 0, &meeting.port, clock_now_ns() + SOON_NS), TUTTI_OK);
    int peer, fd;
    unsigned stream;
    assert_false(take_within(&meeting.clients[0], 200000000, &peer, &stream, &fd));
    close_meeting(&meeting);
}

static void a_connector_uses_the_address_that_is_said(void **state)
{
    (void)state;
    struct meeting meeting;
    struct net_address from, peer_address;
    open_meeting(&meeting, 0, 1);
    assert_true(net_address_parse("127.0.0.5", &from));
    assert_int_equal(port_connect_from(&meeting.clients[1], 0, 2, &from, &meeting.port,
                                       clock_now_ns() + SOON_NS),
                     TUTTI_OK);
    int peer, fd, own_fd;
    unsigned stream;
    assert_true(take_within(&meeting.clients[0], SOON_NS, &peer, &stream, &fd));
    assert_true(peer == 1 && stream == 2 && fd >= 0);
    struct sockaddr_storage storage;
    socklen_t bytes = sizeof storage;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&storage, &bytes), 0);
    assert_true(net_address_from_socket((struct sockaddr *)&storage, &peer_address));
    assert_true(net_address_same_host(&peer_address, &from));
    assert_true(take_within(&meeting.clients[1], SOON_NS, &peer, &stream, &own_fd));
    close(fd);
    close(own_fd);
    close_meeting(&meeting);
}

/* Others can stand in for it. */
static void who_is_not_reached_by_one_way_is_told_and_the_client_goes_on(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 0, 1);
    struct port_client *client = &meeting.clients[1];
    struct net_address closed = meeting.port;
    int listener; /* a port at which nobody listens any more */
    closed.port = 0;
    assert_int_equal(tcp_listen(&closed, 0, &listener, &closed), TUTTI_OK);
    close(listener);
    assert_int_equal(port_connect_from(client, 0, 3, NULL, &closed, clock_now_ns() + 100000000),
                     TUTTI_OK);
    int peer, fd;
    unsigned stream;
    assert_true(take_within(client, SOON_NS, &peer, &stream, &fd));
    assert_true(peer == 0 && stream == 3 && fd == PORT_NOT_REACHED);
    assert_non_null(strstr(tutti_error_message(), "127.0.0.1"));
    assert_int_equal(atomic_load(&client->status), TUTTI_OK);
    close_meeting(&meeting);
}

static void what_nobody_took_is_closed(void **state)
{
    (void)state;
    const int before = dup(0);
    close(before);
    struct meeting meeting;
    open_meeting(&meeting, 0, 1);
    assert_int_equal(
        port_connect(&meeting.clients[1], 0, 0, &meeting.port, clock_now_ns() + SOON_NS), TUTTI_OK);
    int peer, fd;
    unsigned stream;
    assert_true(take_within(&meeting.clients[1], SOON_NS, &peer, &stream, &fd));
    close(fd);
    close_meeting(&meeting);
    const int after = dup(0); /* the lowest number that is free */
    close(after);
    assert_int_equal(after, before);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

/* The peer has the key, and so is accepted each time. */
static void who_comes_without_end_waits_once(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 0, 1);
    struct port_client *low = &meeting.clients[0], *high = &meeting.clients[1];
    int peer, fd, last = -1;
    unsigned stream;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(port_connect(high, 0, 3, &meeting.port, clock_now_ns() + SOON_NS),
                         TUTTI_OK);
        assert_true(take_within(high, SOON_NS, &peer, &stream, &fd));
        if (last >= 0) close(last);
        last = fd;
    }
    assert_int_equal(send(last, "x", 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 2000 && atomic_load(&low->delivered_count) == 0; i++)
        port_progress(clock_now_ns());
    for (int i = 0; i < 200; i++) port_progress(clock_now_ns());
    assert_int_equal(atomic_load(&low->delivered_count), 1);
    char byte = 0; /* and it is the last one */
    assert_true(take_within(low, SOON_NS, &peer, &stream, &fd));
    for (int i = 0; i < 20000 && recv(fd, &byte, 1, MSG_DONTWAIT) != 1; i++)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    assert_int_equal(byte, 'x');
    close(fd);
    close(last);
    close_meeting(&meeting);
}

static void connections_that_nobody_has_a_number_for_are_not_let_in(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 0, 1);
    struct port_client *low = &meeting.clients[0], *high = &meeting.clients[1];
    int peer, fd;
    unsigned stream;
    for (unsigned s = PORT_STREAMS_MAX; s < 256; s += 31) {
        assert_int_equal(port_connect(high, 0, s, &meeting.port, clock_now_ns() + SOON_NS),
                         TUTTI_OK);
        assert_true(take_within(high, SOON_NS, &peer, &stream, &fd));
        close(fd);
    }
    assert_false(take_within(low, 200000000, &peer, &stream, &fd));
    close_meeting(&meeting);
}

/* As towards a peer that sends callback requests and does not accept the connections. */
static void one_connector_at_a_time_goes_to_a_peer(void **state)
{
    (void)state;
    struct meeting meeting;
    struct net_address silent;
    int listener;
    open_meeting(&meeting, 0, 1);
    struct port_client *low = &meeting.clients[0], *high = &meeting.clients[1];
    assert_true(net_address_parse("127.0.0.1", &silent));
    assert_int_equal(tcp_listen(&silent, 0, &listener, &silent), TUTTI_OK);
    const int before = open_descriptors();
    for (int i = 0; i < 40; i++) {
        assert_int_equal(port_connect(high, 0, 1, &silent, clock_now_ns() + SOON_NS), TUTTI_OK);
        assert_int_equal(port_request_callback(low, 1, 1, &silent), TUTTI_OK);
        port_progress(clock_now_ns());
    }
    assert_true(open_descriptors() <= before + 2);
    close_meeting(&meeting);
    close(listener);
}

/* From now on this process can open no descriptor. */
/* The rank of that address has ended, and a process of somebody else has its port. */
static void answers_of_strangers_to_callback_requests_count_in_a_row(void **state)
{
    (void)state;
    enum { MANY = 30 }; /* more than one request can get */
    static const char words[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    struct meeting meeting;
    struct net_address stranger;
    int listener;
    open_meeting(&meeting, 0, 1);
    struct port_client *low = &meeting.clients[0];
    assert_true(net_address_parse("127.0.0.1", &stranger));
    assert_int_equal(tcp_listen(&stranger, 0, &listener, &stranger), TUTTI_OK);
    const uint64_t until_ns = clock_now_ns() + 3 * SOON_NS;
    while (port_foreign_answers(low, 1) < MANY) {
        assert_true(clock_now_ns() < until_ns);
        assert_int_equal(port_request_callback(low, 1, 0, &stranger), TUTTI_OK);
        port_progress(clock_now_ns());
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            nanosleep(&(struct timespec){0, 1000000}, NULL);
            continue;
        }
        (void)send(fd, words, sizeof words - 1, MSG_NOSIGNAL);
        close(fd);
    }
    assert_int_equal(port_foreign_answers(low, 2), 0);
    close_meeting(&meeting);
    close(listener);
}

/* Another version of the library, which has the job's key, connects again and again. */
static void who_does_not_fit_fills_no_log(void **state)
{
    (void)state;
    enum { CALLS = 20 };
    struct meeting meeting;
    struct listener_options options = {.address = {.family = AF_UNSPEC}};
    struct listener *caller;
    struct secret_key key;
    struct kept_log log;
    open_meeting(&meeting, 0, 1);
    assert_int_equal(secret_read("tutti", &key), TUTTI_OK);
    hello_self_init(&options.self, &key, 1);
    options.self.version_min = HELLO_VERSION(7, 0);
    options.self.version_max = HELLO_VERSION(7, 3);
    assert_int_equal(listener_open(&options, &caller), TUTTI_OK);
    kept_log_begin(&log);
    for (int call = 0; call < CALLS; call++) {
        const struct connector_options to = {.address = meeting.port,
                                             .hello = {HELLO_ANY_RANK, 1, "hello", 5},
                                             .deadline_ns = clock_now_ns() + SOON_NS};
        struct accepted_connection accepted;
        struct connector *connector;
        enum tutti_status status;
        assert_int_equal(listener_connect(caller, &to, &connector), TUTTI_OK);
        while ((status = connector_test(connector, &accepted)) == TUTTI_IN_PROGRESS) {
            port_progress(clock_now_ns());
            listener_progress(caller, clock_now_ns());
        }
        assert_int_equal(status, TUTTI_VERSION);
        connector_free(connector);
        for (int i = 0; i < 50; i++) { /* the port hears of it, too */
            port_progress(clock_now_ns());
            nanosleep(&(struct timespec){0, 100000}, NULL);
        }
    }
    assert_int_equal(kept_log_end(&log, "rank 1", "7.0 to 7.3"), 1);
    listener_close(caller);
    close_meeting(&meeting);
}

static void leave_no_descriptors(struct rlimit *before)
{
    const int first_free = dup(0);
    close(first_free);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
    const struct rlimit none = {(rlim_t)first_free, before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Others may have used them up, for a moment. */
static void a_shortage_of_descriptors_that_ends_harms_no_connection(void **state)
{
    (void)state;
    struct meeting meeting;
    struct rlimit before;
    open_meeting(&meeting, 0, 1);
    struct port_client *low = &meeting.clients[0], *high = &meeting.clients[1];
    int peer, fds[2];
    unsigned stream;
    leave_no_descriptors(&before);
    assert_int_equal(port_connect(high, 0, 0, &meeting.port, clock_now_ns() + SOON_NS), TUTTI_OK);
    assert_false(take_within(low, 20000000, &peer, &stream, &fds[0]));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(take_within(low, SOON_NS, &peer, &stream, &fds[0]));
    assert_true(take_within(high, SOON_NS, &peer, &stream, &fds[1]));
    assert_int_equal(high->status, TUTTI_OK);
    for (int i = 0; i < 2; i++) close(fds[i]);
    close_meeting(&meeting);
}

static void one_that_lasts_is_told_to_who_asks(void **state)
{
    (void)state;
    struct meeting meeting;
    struct rlimit before;
    for (int asks = 0; asks < 2; asks++) {
        open_meeting(&meeting, 0, 1);
        const uint64_t begin_ns = clock_now_ns();
        enum tutti_status status = TUTTI_OK;
        leave_no_descriptors(&before);
        assert_int_equal(asks ? port_request_callback(&meeting.clients[0], 1, 0, &meeting.port)
                              : port_connect(&meeting.clients[1], 0, 0, &meeting.port, UINT64_MAX),
                         TUTTI_OK);
        while (status == TUTTI_OK && clock_now_ns() < begin_ns + SOON_NS) {
            port_progress(clock_now_ns());
            status = port_starves(begin_ns, clock_now_ns());
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_int_equal(status, TUTTI_NO_DESCRIPTORS);
        assert_non_null(strstr(tutti_error_message(), "connecting to"));
        assert_non_null(strstr(tutti_error_message(), "Too many open files"));
        assert_int_equal(port_starves(clock_now_ns(), clock_now_ns()), TUTTI_OK);
        for (int i = 0; i < 2; i++) assert_int_equal(meeting.clients[i].status, TUTTI_OK);
        close_meeting(&meeting);
    }
}

/* A thread that moves the port does so for others: a failure there is not its own failure. */
static void a_connection_that_breaks_leaves_no_message(void **state)
{
    (void)state;
    struct meeting meeting;
    open_meeting(&meeting, 0, 1);
    error_set(TUTTI_SYSTEM, "%s", "");
    for (int i = 0; i < 20; i++) {
        int stray;
        const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
        assert_int_equal(tcp_connect(&meeting.port, NULL, clock_now_ns() + SOON_NS, &stray),
                         TUTTI_OK);
        for (int look = 0; look < 10; look++) port_progress(clock_now_ns());
        assert_int_equal(setsockopt(stray, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        close(stray); /* with RST */
        for (int look = 0; look < 10; look++) port_progress(clock_now_ns());
        assert_string_equal(tutti_error_message(), "");
    }
    close_meeting(&meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_rank_connects_and_both_get_the_connection),
        cmocka_unit_test(who_is_of_another_communicator_is_not_let_in),
        cmocka_unit_test(a_connector_uses_the_address_that_is_said),
        cmocka_unit_test(who_is_not_reached_by_one_way_is_told_and_the_client_goes_on),
        cmocka_unit_test(what_nobody_took_is_closed),
        cmocka_unit_test(who_comes_without_end_waits_once),
        cmocka_unit_test(connections_that_nobody_has_a_number_for_are_not_let_in),
        cmocka_unit_test(one_connector_at_a_time_goes_to_a_peer),
        cmocka_unit_test(answers_of_strangers_to_callback_requests_count_in_a_row),
        cmocka_unit_test(who_does_not_fit_fills_no_log),
        cmocka_unit_test(a_shortage_of_descriptors_that_ends_harms_no_connection),
        cmocka_unit_test(one_that_lasts_is_told_to_who_asks),
        cmocka_unit_test(a_connection_that_breaks_leaves_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
