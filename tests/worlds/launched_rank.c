#include "tests/worlds/launched_rank.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

void launched_rank_become(const struct launched_rank *self)
{
    const int host = self->rank % self->hosts;
    set_number("RANK", self->rank);
    set_number("WORLD_SIZE", self->size);
    set_number("LOCAL_RANK", self->rank / self->hosts);
    set_number("LOCAL_WORLD_SIZE", (self->size + self->hosts - 1 - host) / self->hosts);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", self->port);
    if (self->hosts == 1) return;
    set_number("TUTTI_HOSTID", host);
    /* Loopback is no network, and each communicator would measure it. */
    setenv("TUTTI_PROBE", "0", 0);
}

static bool is_free(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const bool is = bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return is;
}

/* Whether these ports are this process's, among processes that ask here: then they are until it ends. */
static bool claim(int block)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int length =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "tutti-ports-%d", block);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    const bool is_claimed = fd >= 0 && bind(fd, (const struct sockaddr *)&name, bytes) == 0;
    if (fd >= 0 && !is_claimed) close(fd);
    return is_claimed;
}

int launched_rank_find_ports(int count)
{
    enum { FIRST = 20000, BLOCKS = 370, BLOCK_PORTS = LAUNCHED_RANK_PORTS_MAX };
    for (int i = 0; i < BLOCKS; i++) {
        const int block = (getpid() + i) % BLOCKS, port = FIRST + block * BLOCK_PORTS;
        int free_count = 0;
        if (!claim(block)) continue;
        while (free_count < count && is_free(port + free_count)) free_count++;
        if (free_count == count) return port;
    }
    return -1;
}
