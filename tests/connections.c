#include "connections.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { DESCRIPTORS = 512 }; /* tests have fewer */

bool connections_is_one(int fd)
{
    int domain = 0, listens = 0;
    socklen_t bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_INET)
        return false;
    bytes = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && !listens;
}

unsigned connections_cut(void)
{
    unsigned cut = 0;
    for (int fd = 3; fd < DESCRIPTORS; fd++)
        cut += connections_is_one(fd) && shutdown(fd, SHUT_RDWR) == 0;
    return cut;
}
