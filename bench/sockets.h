/* sockets.h - measures how much communication between two hosts can hide behind computing at most:
 * one connection, and on each side one thread that only sends and one that only receives. */
#ifndef TUTTI_BENCH_SOCKETS_H
#define TUTTI_BENCH_SOCKETS_H

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rank_program.h"

enum { SOCKETS_PORTION = 256 << 10 };

struct sockets {
    int fd;
    char *send, *recv;
    size_t bytes; /* each way */
    pthread_t sender, receiver;
};

static inline void sockets_check(bool is_good, const char *what)
{
    if (is_good) return;
    fprintf(stderr, "sockets: rank %d: %s: %s\n", rank, what, strerror(errno));
    exit(1);
}

static inline size_t sockets_portion(size_t left)
{
    return left < SOCKETS_PORTION ? left : SOCKETS_PORTION;
}

static inline void *sockets_send(void *argument)
{
    const struct sockets *s = argument;
    for (size_t done = 0; done < s->bytes;) {
        const ssize_t n = send(s->fd, s->send + done, sockets_portion(s->bytes - done), 0);
        sockets_check(n > 0, "send");
        done += (size_t)n;
    }
    return NULL;
}

static inline void *sockets_receive(void *argument)
{
    const struct sockets *s = argument;
    for (size_t done = 0; done < s->bytes;) {
        const ssize_t n = recv(s->fd, s->recv + done, sockets_portion(s->bytes - done), 0);
        sockets_check(n > 0, "recv");
        done += (size_t)n;
    }
    return NULL;
}

static inline void sockets_start(struct sockets *s)
{
    sockets_check(pthread_create(&s->sender, NULL, sockets_send, s) == 0, "pthread_create");
    sockets_check(pthread_create(&s->receiver, NULL, sockets_receive, s) == 0, "pthread_create");
}

static inline void sockets_finish(struct sockets *s)
{
    pthread_join(s->sender, NULL);
    pthread_join(s->receiver, NULL);
}

/* The first IPv4 address of this host that is not a loopback address; a loopback address if there
 * is no other. */
static inline struct in_addr sockets_own_address(void)
{
    struct in_addr found = {htonl(INADDR_LOOPBACK)};
    struct ifaddrs *all;
    sockets_check(getifaddrs(&all) == 0, "getifaddrs");
    for (const struct ifaddrs *a = all; a != NULL; a = a->ifa_next) {
        if (a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET) continue;
        if ((a->ifa_flags & IFF_LOOPBACK) != 0 || (a->ifa_flags & IFF_UP) == 0) continue;
        found = ((const struct sockaddr_in *)a->ifa_addr)->sin_addr;
        break;
    }
    freeifaddrs(all);
    return found;
}

/* Ranks 0 and 1 call it; there must be no others. */
static inline int sockets_connect(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = sockets_own_address()};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockets_check(fd >= 0, "socket");
    if (rank == 0) {
        sockets_check(bind(fd, (struct sockaddr *)&address, size) == 0 && listen(fd, 1) == 0 &&
                          getsockname(fd, (struct sockaddr *)&address, &size) == 0,
                      "listen");
    }
    check(tutti_broadcast(&address, &address, sizeof address, TUTTI_UINT8, 0, comm), "address");
    if (rank != 0) {
        sockets_check(connect(fd, (struct sockaddr *)&address, size) == 0, "connect");
        return fd;
    }
    const int accepted = accept(fd, NULL, NULL);
    sockets_check(accepted >= 0, "accept");
    close(fd);
    return accepted;
}

#endif
