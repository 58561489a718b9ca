#include "os/tcp_path.h"

#include <limits.h>
#include <linux/tcp.h> /* has more of tcp_info than netinet/tcp.h */
#include <netinet/in.h>
#include <sys/socket.h>

#include "os/tcp_socket.h"

enum {
    /* Each twice as long after the one before: 3 s in all where a round trip takes much less than the kernel's 0.2 s. */
    SILENT_ATTEMPTS = 4,
    TCP_ESTABLISHED_STATE =
        1, /* TCP_ESTABLISHED of netinet/tcp.h, which does not go together with linux/tcp.h */
    ASKED_TIMES = 30 /* in vain, until the kernel gives the connection up */
};

bool tcp_path_read(int fd, struct tcp_path *path)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    *path = (struct tcp_path){0};
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
    if (bytes < offsetof(struct tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt) return false;
    *path = (struct tcp_path){.received_bytes = info.tcpi_bytes_received,
                              .min_rtt_ns = info.tcpi_min_rtt * UINT64_C(1000),
                              .segment_bytes = info.tcpi_rcv_mss};
    return info.tcpi_min_rtt != UINT32_MAX; /* no round trip was seen */
}

bool tcp_path_is_silent(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
    /* Probes are counted where the first packet could not even leave this host: then none is sent again. */
    return info.tcpi_retransmits + info.tcpi_probes >= SILENT_ATTEMPTS;
}

bool tcp_path_answered(int fd, uint64_t *ago_ns)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    const int second = 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        info.tcpi_state != TCP_ESTABLISHED_STATE)
        return false;
    *ago_ns = info.tcpi_last_ack_recv * UINT64_C(1000000);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ASKED_TIMES}, sizeof(int));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &second, sizeof second);
    return true;
}

void tcp_path_limit(int fd, size_t bytes)
{
    const int clamp = bytes < INT_MAX ? (int)bytes : INT_MAX;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof clamp);
}

typedef int name_of(int fd, struct sockaddr *address, socklen_t *bytes);

static bool read_address(name_of *read, int fd, struct net_address *address)
{
    struct sockaddr_storage storage = {0};
    socklen_t bytes = sizeof storage;
    return read(fd, (struct sockaddr *)&storage, &bytes) == 0 &&
           net_address_from_socket((struct sockaddr *)&storage, address);
}

bool tcp_path_is_local(int fd)
{
    struct net_address own, peer;
    return read_address(getsockname, fd, &own) && read_address(getpeername, fd, &peer) &&
           net_address_same_host(&own, &peer);
}
