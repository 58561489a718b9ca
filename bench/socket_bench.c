/* socket_bench - what the kernel's sockets cost, and whether other doors to them are cheaper.
 *
 *     socket_bench
 *
 * One thread sends itself messages over a TCP connection on loopback: a message is one send and
 * what receives it, so the time is that of a processor and has no waiting in it. The ways, in
 * turns, best of many:
 *
 *     calls       sendmsg, epoll_wait, recv: what transport/tcp does
 *     guess       sendmsg, recv: without asking first, as it does for short messages
 *     io_uring    one io_uring_enter for a send and a receive of the message before; nothing is asked
 *     zerocopy    sendmsg with MSG_ZEROCOPY, and its completion from the error queue. (On loopback the kernel copies after
 *                 all when the message is received; so this shows the cost of keeping account
 *                 alone.)
 *
 * Ratios are to `calls`. A way that the kernel does not offer is left out.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "timing.h"

enum { TURNS = 15, ENTRIES = 8, BYTES_MAX = 256 << 10 };

static void check(bool is_well, const char *what)
{
    if (is_well) return;
    perror(what);
    exit(1);
}

/* --------------------------------------------------------------------------------- a connection */

static int out = -1, in = -1, poller = -1;
static char *source, *target;

static void connect_to_oneself(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int one = 1, room = 4 << 20, listener = socket(AF_INET, SOCK_STREAM, 0);
    check(listener >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0, "bind");
    check(listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    out = socket(AF_INET, SOCK_STREAM, 0);
    check(setsockopt(out, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0, "SO_SNDBUF");
    check(connect(out, (struct sockaddr *)&address, bytes) == 0, "connect");
    in = accept(listener, NULL, NULL);
    check(in >= 0, "accept");
    check(setsockopt(in, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) == 0, "SO_RCVBUF");
    check(setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
    close(listener);
    poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    check(poller >= 0 && epoll_ctl(poller, EPOLL_CTL_ADD, in, &event) == 0, "epoll");
}

static void send_all(size_t bytes, int flags)
{
    struct iovec part = {source, bytes};
    while (part.iov_len > 0) {
        const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        const ssize_t sent = sendmsg(out, &message, flags | MSG_NOSIGNAL);
        check(sent > 0, "sendmsg");
        part.iov_base = (char *)part.iov_base + sent;
        part.iov_len -= (size_t)sent;
    }
}

static void receive_all(size_t bytes, bool asks)
{
    for (size_t done = 0; done < bytes;) {
        struct epoll_event event;
        if (asks) check(epoll_wait(poller, &event, 1, -1) == 1, "epoll_wait");
        const ssize_t got = recv(in, target + done, bytes - done, 0);
        check(got > 0, "recv");
        done += (size_t)got;
    }
}

/* ------------------------------------------------------------------------------------- the ways */

static void by_calls(size_t bytes)
{
    send_all(bytes, 0);
    receive_all(bytes, true);
}

static void by_guess(size_t bytes)
{
    send_all(bytes, 0);
    receive_all(bytes, false);
}

static void by_zerocopy(size_t bytes)
{
    send_all(bytes, MSG_ZEROCOPY);
    receive_all(bytes, true);
    char control[128];
    struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
    while (recvmsg(out, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0)
        message.msg_controllen = sizeof control; /* all that are there */
}

/* The queues of the kernel's other door, as much of them as this needs. */
static struct {
    int fd;
    char *rings;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
    _Atomic uint32_t *submit_tail, *complete_head, *complete_tail;
    uint32_t submit_mask, complete_mask;
    uint32_t *submit_order;
} uring = {.fd = -1};

static bool open_uring(void)
{
    struct io_uring_params params = {.flags =
                                         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    uring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (uring.fd < 0 || (params.features & IORING_FEAT_SINGLE_MMAP) == 0) return false;
    const size_t submit_bytes = params.sq_off.array + params.sq_entries * sizeof(uint32_t),
                 complete_bytes =
                     params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                 bytes = submit_bytes > complete_bytes ? submit_bytes : complete_bytes;
    uring.rings = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring.fd,
                       IORING_OFF_SQ_RING);
    void *const entries =
        mmap(NULL, params.sq_entries * sizeof *uring.entries, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_POPULATE, uring.fd, IORING_OFF_SQES);
    if (uring.rings == MAP_FAILED || entries == MAP_FAILED) return false;
    uring.entries = entries;
    uring.completions = (struct io_uring_cqe *)(void *)(uring.rings + params.cq_off.cqes);
    uring.submit_tail = (_Atomic uint32_t *)(void *)(uring.rings + params.sq_off.tail);
    uring.complete_head = (_Atomic uint32_t *)(void *)(uring.rings + params.cq_off.head);
    uring.complete_tail = (_Atomic uint32_t *)(void *)(uring.rings + params.cq_off.tail);
    uring.submit_order = (uint32_t *)(void *)(uring.rings + params.sq_off.array);
    uring.submit_mask = *(uint32_t *)(void *)(uring.rings + params.sq_off.ring_mask);
    uring.complete_mask = *(uint32_t *)(void *)(uring.rings + params.cq_off.ring_mask);
    return true;
}

static void put_entry(uint8_t operation, int fd, void *memory, size_t bytes)
{
    const uint32_t tail = atomic_load_explicit(uring.submit_tail, memory_order_relaxed),
                   at = tail & uring.submit_mask;
    uring.entries[at] = (struct io_uring_sqe){.opcode = operation,
                                              .fd = fd,
                                              .addr = (uintptr_t)memory,
                                              .len = (uint32_t)bytes,
                                              .msg_flags = MSG_NOSIGNAL | MSG_WAITALL};
    uring.submit_order[at] = at;
    atomic_store_explicit(uring.submit_tail, tail + 1, memory_order_release);
}

static void by_uring(size_t bytes)
{
    put_entry(IORING_OP_SEND, out, source, bytes);
    put_entry(IORING_OP_RECV, in, target, bytes);
    check(syscall(SYS_io_uring_enter, uring.fd, 2, 2, IORING_ENTER_GETEVENTS, NULL, 0) == 2,
          "io_uring_enter");
    uint32_t head = atomic_load_explicit(uring.complete_head, memory_order_relaxed);
    const uint32_t tail = atomic_load_explicit(uring.complete_tail, memory_order_acquire);
    for (; head != tail; head++)
        check(uring.completions[head & uring.complete_mask].res == (int)bytes, "io_uring");
    atomic_store_explicit(uring.complete_head, head, memory_order_release);
}

/* --------------------------------------------------------------------------------------- timing */

struct way {
    const char *name;
    void (*pass)(size_t bytes);
    bool is_there;
    double best_us;
};

static void measure(struct way *ways, size_t count, size_t bytes)
{
    const int repeats = bytes < (16 << 10) ? 4000 : 400;
    for (size_t w = 0; w < count; w++) ways[w].best_us = 1e9;
    for (int turn = 0; turn < TURNS; turn++) {
        for (size_t w = 0; w < count; w++) {
            if (!ways[w].is_there) continue;
            const double begin = now_us();
            for (int i = 0; i < repeats; i++) ways[w].pass(bytes);
            const double us = (now_us() - begin) / repeats;
            if (us < ways[w].best_us) ways[w].best_us = us;
        }
    }
    printf("%8zu", bytes);
    for (size_t w = 0; w < count; w++) {
        if (ways[w].is_there)
            printf("  %9.2f %6.2f", ways[w].best_us, ways[w].best_us / ways[0].best_us);
        else
            printf("  %9s %6s", "-", "-");
    }
    printf("\n");
}

int main(void)
{
    source = aligned_alloc(4096, BYTES_MAX);
    target = aligned_alloc(4096, BYTES_MAX);
    check(source != NULL && target != NULL, "memory");
    memset(source, 1, BYTES_MAX);
    memset(target, 2, BYTES_MAX);
    connect_to_oneself();
    const int one = 1;
    struct way ways[] = {{"calls", by_calls, true, 0},
                         {"guess", by_guess, true, 0},
                         {"io_uring", by_uring, open_uring(), 0},
                         {"zerocopy", by_zerocopy,
                          setsockopt(out, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0, 0}};
    enum { WAYS = sizeof ways / sizeof *ways };
    printf(
        "a message over TCP on loopback, sent and received by one thread: us, ratio to calls\n%8s",
        "bytes");
    for (size_t w = 0; w < WAYS; w++) printf("  %16s", ways[w].name);
    printf("\n");
    for (size_t bytes = 64; bytes <= BYTES_MAX; bytes *= 8) measure(ways, WAYS, bytes);
    if (memcmp(source, target, BYTES_MAX) != 0) {
        fprintf(stderr, "socket_bench: not everything came\n");
        return 1;
    }
    return 0;
}
