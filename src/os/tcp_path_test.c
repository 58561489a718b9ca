/* tcp_path_test.c - two ends on this host, of which one may pretend to be another host: 127.0.0.2.
 * ctest: label=once waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "os/tcp_path.h"

enum {
    BYTES = 4096,
    LIMIT = 20000,
    WINDOW_UNIT = 4096, /* windows are told rounded */
    PASSES_MAX = 2000
};

struct ends {
    int sender, receiver;
};

static struct sockaddr_in at(const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, host, &address.sin_addr), 1);
    return address;
}

static struct ends connect_ends(const char *from, const char *to)
{
    struct sockaddr_in own = at(from), peer = at(to);
    socklen_t bytes = sizeof peer;
    struct ends ends = {.sender = socket(AF_INET, SOCK_STREAM, 0)};
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&peer, sizeof peer), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&peer, &bytes), 0);
    assert_int_equal(bind(ends.sender, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(ends.sender, (struct sockaddr *)&peer, sizeof peer), 0);
    ends.receiver = accept(listener, NULL, NULL);
    assert_true(ends.receiver >= 0);
    close(listener);
    return ends;
}

static void close_ends(struct ends *ends)
{
    close(ends->sender);
    close(ends->receiver);
}

static void pass(struct ends *ends, int messages)
{
    char data[BYTES] = {0};
    for (int i = 0; i < messages; i++) {
        assert_int_equal(send(ends->sender, data, BYTES, 0), BYTES);
        assert_int_equal(recv(ends->receiver, data, BYTES, MSG_WAITALL), BYTES);
    }
}

/* As the receiver told it last; 0: this kernel does not say. */
static size_t room_told_to(int sender)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    assert_int_equal(getsockopt(sender, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    return bytes < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd
               ? 0
               : info.tcpi_snd_wnd;
}

static void what_has_come_is_counted(void **state)
{
    (void)state;
    struct ends ends = connect_ends("127.0.0.1", "127.0.0.2");
    struct tcp_path before, after;
    pass(&ends, 1);
    assert_true(tcp_path_read(ends.receiver, &before));
    pass(&ends, 10);
    assert_true(tcp_path_read(ends.receiver, &after));
    assert_true(after.received_bytes - before.received_bytes == 10 * BYTES);
    assert_true(after.min_rtt_ns < 1000000000);
    assert_true(after.segment_bytes > 0);
    close_ends(&ends);
}

static void who_has_the_same_address_is_here(void **state)
{
    (void)state;
    struct ends same = connect_ends("127.0.0.1", "127.0.0.1"),
                other = connect_ends("127.0.0.1", "127.0.0.2");
    assert_true(tcp_path_is_local(same.sender) && tcp_path_is_local(same.receiver));
    assert_false(tcp_path_is_local(other.sender) || tcp_path_is_local(other.receiver));
    assert_false(tcp_path_is_local(-1));
    close_ends(&same);
    close_ends(&other);
}

static void a_sender_is_told_no_more_room_than_the_limit(void **state)
{
    (void)state;
    struct ends ends = connect_ends("127.0.0.1", "127.0.0.2");
    pass(&ends, 100);
    const size_t before = room_told_to(ends.sender);
    if (before == 0) {
        close_ends(&ends);
        skip();
    }
    assert_true(before > LIMIT + WINDOW_UNIT);
    /* A receiver never takes back room that it has told: that much comes first, more where buffers have grown meanwhile. */
    for (int i = 0; i < PASSES_MAX && room_told_to(ends.sender) > LIMIT + WINDOW_UNIT; i++) {
        tcp_path_limit(ends.receiver, LIMIT); /* again, as buffers grow */
        pass(&ends, 10);
    }
    assert_true(room_told_to(ends.sender) <= LIMIT + WINDOW_UNIT);
    tcp_path_limit(ends.receiver, 10 * LIMIT);
    pass(&ends, 1000);
    assert_true(room_told_to(ends.sender) > LIMIT + WINDOW_UNIT);
    close_ends(&ends);
}

static void what_is_no_connection_tells_nothing(void **state)
{
    (void)state;
    struct tcp_path path;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    assert_false(tcp_path_read(pipe_ends[0], &path));
    tcp_path_limit(pipe_ends[0], LIMIT);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* Its host says so each time that it is asked; the one that answers nothing takes a network: tests/rails_test.sh. */
static void who_only_does_not_read_is_not_silent(void **state)
{
    (void)state;
    struct ends ends = connect_ends("127.0.0.1", "127.0.0.2");
    static char data[1 << 16];
    while (send(ends.sender, data, sizeof data, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    for (int tenths = 0; tenths < 33; tenths++) { /* the fourth question comes after 3 s */
        assert_false(tcp_path_is_silent(ends.sender));
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    assert_false(tcp_path_is_silent(ends.receiver));
    assert_false(tcp_path_is_silent(-1));
    close_ends(&ends);
}

/* What a process does not read its kernel acknowledges, and answers for it when nothing comes. */
static void a_kernel_answers_for_who_does_not_read(void **state)
{
    (void)state;
    struct ends ends = connect_ends("127.0.0.1", "127.0.0.2");
    uint64_t ago_ns;
    assert_int_equal(send(ends.sender, "x", 1, MSG_NOSIGNAL), 1);
    assert_true(tcp_path_answered(ends.sender, &ago_ns));
    uint64_t longest_ns = 0;
    for (int tenths = 0; tenths < 25; tenths++) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        assert_true(tcp_path_answered(ends.sender, &ago_ns));
        if (ago_ns > longest_ns) longest_ns = ago_ns;
    }
    assert_true(longest_ns > 500000000 && longest_ns < 2400000000);
    assert_false(tcp_path_answered(-1, &ago_ns));
    close_ends(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_has_come_is_counted),
        cmocka_unit_test(who_has_the_same_address_is_here),
        cmocka_unit_test(a_sender_is_told_no_more_room_than_the_limit),
        cmocka_unit_test(what_is_no_connection_tells_nothing),
        cmocka_unit_test(who_only_does_not_read_is_not_silent),
        cmocka_unit_test(a_kernel_answers_for_who_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
