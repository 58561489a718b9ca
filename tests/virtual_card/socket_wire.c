#include "tests/virtual_card/socket_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"

enum { AGAIN_NS = 50000, STRAYS_A_LOOK = 16, DESCRIPTORS = 4 };

struct socket_wire {
    struct card_wire base;
    uint64_t key;
    int rank, size;
    int socket_fd, timer_fd, event_fd, epoll_fd;
    bool is_timed; /* the timer runs, or has run out */
    _Atomic bool is_rung;
};

static struct socket_wire *wire_of(struct card_wire *wire)
{
    return (struct socket_wire *)wire;
}

static socklen_t address_of(uint64_t key, int rank, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int bytes = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                               "tutti-card-%016" PRIx64 "-%d", key, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
}

/* -------------------------------------------------------------------------------------- packets */

static enum card_wire_result socket_send(struct card_wire *base, int to, const void *packet,
                                         size_t bytes)
{
    struct socket_wire *wire = wire_of(base);
    struct sockaddr_un address;
    const socklen_t address_bytes = address_of(wire->key, to, &address);
    ssize_t sent;
    do
        sent = sendto(wire->socket_fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                      (const struct sockaddr *)&address, address_bytes);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0) return CARD_WIRE_TOOK;
    const bool is_gone = errno == ECONNREFUSED || errno == ENOENT || errno == EPERM;
    return is_gone ? CARD_WIRE_NOBODY : CARD_WIRE_FULL;
}

/* The rank that has that name; -1: none has. */
static int rank_named(const struct socket_wire *wire, const struct sockaddr_un *name,
                      socklen_t name_bytes)
{
    struct sockaddr_un address;
    for (int rank = 0; rank < wire->size; rank++)
        if (address_of(wire->key, rank, &address) == name_bytes &&
            memcmp(&address, name, name_bytes) == 0)
            return rank;
    return -1;
}

static bool is_of_this_user(struct msghdr *message)
{
    struct ucred credentials;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control != NULL;
         control = CMSG_NXTHDR(message, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_CREDENTIALS) continue;
        memcpy(&credentials, CMSG_DATA(control), sizeof credentials);
        return credentials.uid == geteuid();
    }
    return false;
}

/* Reads one datagram. -1: there is none; 0: a stray, which is dropped. */
static ssize_t receive_one(struct socket_wire *wire, void *packet, int *from)
{
    struct sockaddr_un name;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {packet, CARD_PACKET_BYTES_MAX};
    struct msghdr message = {.msg_name = &name,
                             .msg_namelen = sizeof name,
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const ssize_t bytes = recvmsg(wire->socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0) return errno == EINTR ? 0 : -1;
    *from = rank_named(wire, &name, message.msg_namelen);
    const bool is_whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    return is_whole && *from >= 0 && is_of_this_user(&message) ? bytes : 0;
}

/* The device has looked, so the wake-up is taken. */
static void hush(struct socket_wire *wire)
{
    uint64_t count;
    if (wire->is_timed && read(wire->timer_fd, &count, sizeof count) > 0) wire->is_timed = false;
    if (atomic_exchange_explicit(&wire->is_rung, false, memory_order_acquire))
        (void)!read(wire->event_fd, &count, sizeof count);
}

static size_t socket_receive(struct card_wire *base, void *packet, int *from)
{
    struct socket_wire *wire = wire_of(base);
    for (int tries = 0; tries < STRAYS_A_LOOK; tries++) {
        const ssize_t bytes = receive_one(wire, packet, from);
        if (bytes > 0) return (size_t)bytes;
        if (bytes < 0) break;
    }
    hush(wire);
    return 0;
}

/* ------------------------------------------------------------------------------------- sleeping */

static uint64_t socket_now_ns(const struct card_wire *wire)
{
    (void)wire;
    return clock_now_ns();
}

static void socket_look_again(struct card_wire *base)
{
    struct socket_wire *wire = wire_of(base);
    const struct itimerspec soon = {.it_value = {.tv_nsec = AGAIN_NS}};
    if (wire->is_timed) return;
    wire->is_timed = timerfd_settime(wire->timer_fd, 0, &soon, NULL) == 0;
}

static void socket_sleep(struct card_wire *base, uint64_t timeout_ns)
{
    struct pollfd descriptor = {.fd = wire_of(base)->epoll_fd, .events = POLLIN};
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(&descriptor, 1, &timeout, NULL);
}

static void socket_wake(struct card_wire *base)
{
    struct socket_wire *wire = wire_of(base);
    const uint64_t one = 1;
    atomic_store_explicit(&wire->is_rung, true, memory_order_release); /* pairs with hush */
    (void)!write(wire->event_fd, &one, sizeof one);
}

static int socket_descriptor(struct card_wire *base)
{
    return wire_of(base)->epoll_fd;
}

/* ----------------------------------------------------------------------------------- life cycle */

static void socket_close(struct card_wire *base)
{
    struct socket_wire *wire = wire_of(base);
    const int descriptors[] = {wire->socket_fd, wire->timer_fd, wire->event_fd, wire->epoll_fd};
    for (int i = 0; i < DESCRIPTORS; i++)
        if (descriptors[i] >= 0) close(descriptors[i]);
    free(wire);
}

static const struct card_wire_ops socket_ops = {.send = socket_send,
                                                .receive = socket_receive,
                                                .now_ns = socket_now_ns,
                                                .look_again = socket_look_again,
                                                .sleep = socket_sleep,
                                                .wake = socket_wake,
                                                .descriptor = socket_descriptor,
                                                .close = socket_close};

static enum tutti_status open_socket(struct socket_wire *wire)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = address_of(wire->key, wire->rank, &address);
    const int yes = 1;
    wire->socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (wire->socket_fd < 0) return error_system("a simulated network card: socket");
    if (setsockopt(wire->socket_fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0)
        return error_system("a simulated network card: SO_PASSCRED");
    if (bind(wire->socket_fd, (const struct sockaddr *)&address, address_bytes) == 0)
        return TUTTI_OK;
    if (errno != EADDRINUSE) return error_system("a simulated network card: bind");
    return error_set(TUTTI_IN_PROGRESS, "a simulated network card: rank %d has one already",
                     wire->rank);
}

static enum tutti_status watch(struct socket_wire *wire, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (fd >= 0 && epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return TUTTI_OK;
    return error_system("a simulated network card: epoll");
}

static enum tutti_status open_all(struct socket_wire *wire)
{
    TRY(open_socket(wire));
    wire->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    wire->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    wire->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    TRY(watch(wire, wire->socket_fd));
    TRY(watch(wire, wire->timer_fd));
    return watch(wire, wire->event_fd);
}

enum tutti_status card_socket_wire_open(uint64_t key, int rank, int size, struct card_wire **opened)
{
    struct socket_wire *wire = calloc(1, sizeof *wire);
    *opened = NULL;
    if (wire == NULL) return error_set(TUTTI_NO_MEMORY, "a simulated network card: out of memory");
    wire->base.ops = &socket_ops;
    wire->key = key;
    wire->rank = rank;
    wire->size = size;
    wire->socket_fd = wire->timer_fd = wire->event_fd = wire->epoll_fd = -1;
    const enum tutti_status status = open_all(wire);
    if (status != TUTTI_OK) {
        socket_close(&wire->base);
        return status;
    }
    *opened = &wire->base;
    return TUTTI_OK;
}
