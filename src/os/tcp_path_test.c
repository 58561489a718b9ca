/* tcp_path_test.c - two ends on this host, of which one may pretend to be another host: 127.0.0.2.
 * ctest: label=once waits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/tcp_path.h"
#include "tests/kit/cases.h"

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

static struct ends connect_by(int protocol, const char *from, const char *to)
{
    struct sockaddr_in own = at(from), peer = at(to);
    socklen_t bytes = sizeof peer;
    struct ends ends = {.sender = socket(AF_INET, SOCK_STREAM, protocol)};
    const int listener = socket(AF_INET, SOCK_STREAM, protocol);
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

static struct ends connect_ends(const char *from, const char *to)
{
    return connect_by(IPPROTO_TCP, from, to);
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
    /* A receiver never takes back room that it has told. So that many bytes come first, and more if
     * buffers have grown meanwhile. */
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

/* The host of a process that does not read says so each time that it is asked. A host that answers
 * nothing takes a network: tests/hosts/rails_test.sh. */
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

/* The kernel acknowledges bytes that a process does not read, and answers for the process when
 * nothing comes. */
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

/* ----------------------------------------------------------------------------- several subflows */

enum { MPTCP = 262, SECOND_MS = 1000, GIVEN_MS = 20000 };

static bool has_mptcp(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM, MPTCP);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void what_is_asked_of_a_connection_is_asked_of_its_ways(void **state)
{
    (void)state;
    if (!has_mptcp()) skip();
    struct ends several = connect_by(MPTCP, "127.0.0.1", "127.0.0.2"),
                one = connect_ends("127.0.0.1", "127.0.0.2");
    uint64_t ago_ns = UINT64_MAX;
    pass(&several, 10);
    assert_true(tcp_path_dies_unsaid(several.sender) && tcp_path_dies_unsaid(several.receiver));
    assert_false(tcp_path_dies_unsaid(one.sender) || tcp_path_dies_unsaid(-1));
    assert_true(tcp_path_can_limit(one.receiver));
    assert_false(tcp_path_can_limit(several.receiver));
    assert_true(tcp_path_answered(several.sender, &ago_ns));
    assert_true(ago_ns < UINT64_C(60000000000));
    assert_false(tcp_path_is_silent(several.sender) || tcp_path_is_silent(several.receiver));
    assert_false(tcp_path_is_dead(several.sender, 0) || tcp_path_is_dead(several.receiver, 0));
    assert_false(tcp_path_is_dead(one.sender, 0) || tcp_path_is_dead(-1, 0));
    tcp_path_limit(several.receiver, LIMIT); /* changes nothing */
    pass(&several, 10);
    close_ends(&several);
    close_ends(&one);
}

static int value_of(int fd, int option)
{
    int value = -1;
    socklen_t bytes = sizeof value;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, option, &value, &bytes), 0);
    return value;
}

static void more_room_is_made_for_several_subflows_alone(void **state)
{
    (void)state;
    struct ends one = connect_ends("127.0.0.1", "127.0.0.2");
    const int before = value_of(one.receiver, SO_RCVBUF);
    tcp_path_make_room(one.receiver);
    assert_int_equal(value_of(one.receiver, SO_RCVBUF), before);
    close_ends(&one);
    tcp_path_make_room(-1);
    if (!has_mptcp()) skip();
    struct ends several = connect_by(MPTCP, "127.0.0.1", "127.0.0.2");
    const int small = value_of(several.receiver, SO_RCVBUF);
    tcp_path_make_room(several.receiver);
    assert_true(value_of(several.receiver, SO_RCVBUF) >= small); /* older kernels leave it */
    assert_int_equal(value_of(several.receiver, SO_RCVLOWAT), 1);
    pass(&several, 10);
    close_ends(&several);
}

static bool set_loopback(bool is_up)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = is_up ? IFF_UP : 0};
    const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool is_set = any >= 0 && ioctl(any, SIOCSIFFLAGS, &loopback) == 0;
    close(any);
    return is_set;
}

enum { ALL_RIGHT, NOT_HERE, DIES_AT_ONCE, NEVER_DIES, IS_HEARD };

/* In a network of this process's own, whose loopback goes down. Nobody tells the socket. */
static int lose_the_subflow(void)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return NOT_HERE;
    if (!set_loopback(true)) return NOT_HERE;
    struct ends ends = connect_by(MPTCP, "127.0.0.1", "127.0.0.2");
    pass(&ends, 10);
    const uint64_t unanswered_ns = SECOND_MS * UINT64_C(1000000);
    if (!set_loopback(false) || send(ends.sender, "x", 1, MSG_NOSIGNAL) != 1) return NOT_HERE;
    if (tcp_path_is_dead(ends.sender, unanswered_ns)) return DIES_AT_ONCE;
    int ms = 0;
    while (!tcp_path_is_dead(ends.sender, unanswered_ns) && ms++ < GIVEN_MS)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (ms > GIVEN_MS) return NEVER_DIES;
    char byte;
    const bool is_told = recv(ends.sender, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    return is_told ? IS_HEARD : ALL_RIGHT;
}

static void a_connection_whose_subflows_are_all_lost_is_dead(void **state)
{
    (void)state;
    if (!has_mptcp()) skip();
    int how;
    const pid_t child = fork();
    if (child == 0) _exit(lose_the_subflow());
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    if (WEXITSTATUS(how) == NOT_HERE) skip();
    assert_int_equal(WEXITSTATUS(how), ALL_RIGHT);
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
        cmocka_unit_test(what_is_asked_of_a_connection_is_asked_of_its_ways),
        cmocka_unit_test(more_room_is_made_for_several_subflows_alone),
        cmocka_unit_test(a_connection_whose_subflows_are_all_lost_is_dead),
    };
    return CASES_RUN_AT_ONCE(tests, 4);
}
