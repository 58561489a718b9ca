#include "os/doorbell.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

enum {
    SOCKET_TYPE = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
    RINGS_MAX =
        1024 /* forgotten at once: more than the kernel keeps, unless somebody goes on ringing */
};

static socklen_t address_of(uint64_t number, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int bytes = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
                               "tutti-doorbell-%016" PRIx64, number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)bytes);
}

enum tutti_status doorbell_open(uint64_t *number, int *fd)
{
    struct sockaddr_un address;
    *fd = -1;
    if (getrandom(number, sizeof *number, 0) != (ssize_t)sizeof *number)
        return error_system("a doorbell: getrandom");
    const int made = socket(AF_UNIX, SOCKET_TYPE, 0);
    if (made < 0) return error_system("a doorbell: socket");
    const socklen_t bytes = address_of(*number, &address);
    if (bind(made, (const struct sockaddr *)&address, bytes) != 0) {
        const enum tutti_status status = error_system("a doorbell: bind");
        close(made);
        return status;
    }
    *fd = made;
    return TUTTI_OK;
}

/* False: there is no room, here or there. */
static bool ring(int fd, const struct sockaddr_un *address, socklen_t address_bytes)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    return sendto(fd, "", 1, flags, (const struct sockaddr *)address, address_bytes) >= 0 ||
           errno != EAGAIN;
}

void doorbell_ring(int own_fd, uint64_t number)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = address_of(number, &address);
    if (own_fd >= 0 && ring(own_fd, &address, address_bytes)) return;
    /* The kernel counts what nobody has hushed yet against the socket that it came from. */
    const int fresh_fd = socket(AF_UNIX, SOCKET_TYPE, 0);
    if (fresh_fd < 0) return;
    (void)ring(fresh_fd, &address, address_bytes); /* no room there: it is ringing */
    close(fresh_fd);
}

void doorbell_hush(int fd)
{
    char byte;
    for (int i = 0; i < RINGS_MAX && recv(fd, &byte, sizeof byte, MSG_DONTWAIT) >= 0; i++) {
    }
}

void doorbell_wait(int fd, uint64_t timeout_ns)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(&entry, 1, &timeout, NULL);
}
