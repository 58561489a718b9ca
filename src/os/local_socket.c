#include "os/local_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"

/* Sequenced packets: a message arrives whole with its descriptors or not at all. */
enum { SOCKET_TYPE = SOCK_SEQPACKET | SOCK_CLOEXEC, BACKLOG = 1024 };

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    const size_t bytes = strnlen(name, sizeof address->sun_path - 1);
    memcpy(address->sun_path + 1, name, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

/* Waits until the socket is ready; false when the deadline passed. */
static bool wait_ready(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd entry = {fd, events, 0};
        if (poll(&entry, 1, clock_poll_ms(deadline_ns)) > 0) return true;
        if (clock_now_ns() >= deadline_ns) return false;
    }
}

enum tutti_status local_socket_listen(const char *name, int *fd)
{
    *fd = socket(AF_UNIX, SOCKET_TYPE | SOCK_NONBLOCK, 0);
    if (*fd < 0) return error_system("socket for %s", name);
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    if (bind(*fd, (struct sockaddr *)&address, bytes) == 0 && listen(*fd, BACKLOG) == 0)
        return TUTTI_OK;
    const enum tutti_status status =
        errno == EADDRINUSE ? TUTTI_IN_PROGRESS : error_system("listening as %s", name);
    close(*fd);
    *fd = -1;
    return status;
}

enum tutti_status local_socket_connect(const char *name, uint64_t deadline_ns, int *fd)
{
    struct sockaddr_un address;
    const socklen_t bytes = address_of(name, &address);
    *fd = socket(AF_UNIX, SOCKET_TYPE | SOCK_NONBLOCK, 0);
    if (*fd < 0) return error_system("socket for %s", name);
    long pause_ns = 100000;
    while (connect(*fd, (struct sockaddr *)&address, bytes) != 0) {
        const int error = errno;
        const bool nobody_yet = error == ECONNREFUSED || error == EAGAIN || error == EINTR ||
                                error == EPROTOTYPE; /* the process with that name is none of us */
        if (!nobody_yet || clock_now_ns() >= deadline_ns) {
            const enum tutti_status status =
                nobody_yet ? error_set(TUTTI_INIT_TIMEOUT, "nobody answered as %s", name)
                           : error_system("connecting to %s", name);
            close(*fd);
            *fd = -1;
            errno = error;
            return status;
        }
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        if (pause_ns < 10000000) pause_ns += pause_ns / 2;
    }
    return TUTTI_OK;
}

enum tutti_status local_socket_send(int fd, const void *data, size_t bytes, const int *descriptors,
                                    int descriptor_count, uint64_t deadline_ns)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * LOCAL_SOCKET_DESCRIPTORS_MAX)];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {(void *)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor_count > 0) {
        const size_t payload = sizeof(int) * (size_t)descriptor_count;
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(payload);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(payload);
        memcpy(CMSG_DATA(&control.header), descriptors, payload);
    }
    for (;;) {
        if (sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)bytes) return TUTTI_OK;
        if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
            return error_set(TUTTI_PROC_FAILED, "the other side closed during start-up");
        if (errno != EAGAIN && errno != EINTR) return error_system("sending during start-up");
        if (!wait_ready(fd, POLLOUT, deadline_ns))
            return error_set(TUTTI_INIT_TIMEOUT, "a peer does not read during start-up");
    }
}

static void take_descriptors(struct msghdr *message, int *descriptors, int descriptor_max,
                             int *count)
{
    *count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const size_t received = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < received; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (*count < descriptor_max)
                descriptors[(*count)++] = fd;
            else
                close(fd);
        }
    }
}

enum tutti_status local_socket_receive(int fd, void *data, size_t bytes, int *descriptors,
                                       int descriptor_max, int *descriptor_count,
                                       uint64_t deadline_ns)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * LOCAL_SOCKET_DESCRIPTORS_MAX)];
    } control;
    bool is_closed = false;
    for (;;) {
        struct iovec part = {data, bytes};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        const ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        /* Its last word can lie behind both: a reset when it left something unread, an end when it
         * sent and closed between the kernel's look at the queue and at the connection. */
        const bool may_be_closed =
            received == 0 ? message.msg_controllen == 0 : received < 0 && errno == ECONNRESET;
        if (may_be_closed && !is_closed) {
            is_closed = true;
            continue;
        }
        if (received >= 0) {
            take_descriptors(&message, descriptors, descriptor_max, descriptor_count);
            if (received == (ssize_t)bytes && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
                return TUTTI_OK;
            for (int i = 0; i < *descriptor_count; i++) {
                close(descriptors[i]);
                descriptors[i] = -1;
            }
            *descriptor_count = 0;
            if (received == 0)
                return error_set(TUTTI_PROC_FAILED, "the other side closed during start-up");
            if (message.msg_flags & MSG_CTRUNC)
                return error_set(TUTTI_NO_DESCRIPTORS,
                                 "start-up: no descriptor is left for one that another rank sent");
            return error_set(TUTTI_AUTH_FAILED,
                             "a start-up message of %zd bytes where %zu were expected", received,
                             bytes);
        }
        *descriptor_count = 0;
        if (errno == ECONNRESET)
            return error_set(TUTTI_PROC_FAILED, "the other side closed during start-up");
        if (errno != EAGAIN && errno != EINTR) return error_system("receiving during start-up");
        if (deadline_ns == 0) return TUTTI_IN_PROGRESS;
        if (!wait_ready(fd, POLLIN, deadline_ns))
            return error_set(TUTTI_INIT_TIMEOUT, "no answer during start-up");
    }
}

enum tutti_status local_socket_peer(int fd, pid_t *pid, uid_t *uid)
{
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
        return error_system("asking which process is at the other end of a socket");
    *pid = credentials.pid;
    *uid = credentials.uid;
    return TUTTI_OK;
}
