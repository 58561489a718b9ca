#include "tests/kit/connections.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { DESCRIPTORS = 512 }; /* tests have fewer */

static bool is_connection(int fd, int family)
{
    int domain = 0, listens = 0;
    socklen_t bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != family)
        return false;
    bytes = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && !listens;
}

bool connections_is_one(int fd)
{
    return is_connection(fd, AF_INET);
}

static unsigned cut(int family)
{
    unsigned count = 0;
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        count += is_connection(fd, family) && shutdown(fd, SHUT_RDWR) == 0;
    return count;
}

unsigned connections_cut(void)
{
    return cut(AF_INET);
}

unsigned connections_cut_all(void)
{
    return cut(AF_INET) + cut(AF_INET6);
}
