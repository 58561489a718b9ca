#include "os/tcp_path.h"

#include <assert.h>
#include <limits.h>
#include <linux/mptcp.h>
#include <linux/tcp.h> /* has more of tcp_info than netinet/tcp.h */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "os/tcp_socket.h"

#ifndef SOL_MPTCP
#define SOL_MPTCP 284
#endif

enum {
    /* Each twice as long after the one before: 3 s in all where a round trip takes much less than
     * the kernel's 0.2 s. */
    SILENT_ATTEMPTS = 4,
    TCP_ESTABLISHED_STATE =
        1, /* TCP_ESTABLISHED of netinet/tcp.h, which does not go together with linux/tcp.h */
    TCP_CLOSE_STATE = 7, /* the same */
    SUBFLOWS_MAX = 9,    /* of one connection: the kernel makes at most 8 besides the first */
    ROOM_BYTES = 1 << 20,
    ASKED_TIMES = 30 /* in vain, until the kernel gives the connection up */
};

/* The kernel's information on each subflow of a connection. */
struct subflows {
    struct mptcp_subflow_data head;
    struct tcp_info infos[SUBFLOWS_MAX];
};
static_assert(offsetof(struct subflows, infos) == sizeof(struct mptcp_subflow_data),
              "as the kernel");

/* False: it is no connection of MPTCP. */
static bool read_mptcp(int fd, struct subflows *subflows)
{
    socklen_t bytes = sizeof *subflows;
    memset(subflows, 0, sizeof *subflows);
    subflows->head.size_subflow_data = sizeof subflows->head;
    subflows->head.size_user = sizeof *subflows->infos;
    if (getsockopt(fd, SOL_MPTCP, MPTCP_TCPINFO, subflows, &bytes) != 0) return false;
    if (subflows->head.num_subflows > SUBFLOWS_MAX) subflows->head.num_subflows = SUBFLOWS_MAX;
    return true;
}

/* Reads the subflows of a connection; a connection of TCP has a single subflow. False: this is no
 * connection. */
static bool read_subflows(int fd, struct subflows *subflows)
{
    if (read_mptcp(fd, subflows)) return true;
    socklen_t bytes = sizeof *subflows->infos;
    memset(subflows, 0, sizeof *subflows);
    subflows->head.num_subflows = 1;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, subflows->infos, &bytes) == 0;
}

/* Probes are counted where the first packet could not even leave this host: then none is sent
 * again. */
static unsigned attempts(const struct tcp_info *info)
{
    return info->tcpi_retransmits + info->tcpi_probes;
}

bool tcp_path_can_limit(int fd)
{
    return tcp_protocol_of(fd) == TCP_PROTOCOL_TCP;
}

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
    struct subflows subflows;
    if (!read_subflows(fd, &subflows)) return false;
    for (unsigned i = 0; i < subflows.head.num_subflows; i++)
        if (subflows.infos[i].tcpi_state != TCP_CLOSE_STATE &&
            attempts(&subflows.infos[i]) < SILENT_ATTEMPTS)
            return false;
    return true;
}

bool tcp_path_dies_unsaid(int fd)
{
    return tcp_protocol_of(fd) == TCP_PROTOCOL_MPTCP;
}

bool tcp_path_is_dead(int fd, uint64_t unanswered_ns)
{
    struct subflows subflows;
    if (!read_mptcp(fd, &subflows)) return false;
    for (unsigned i = 0; i < subflows.head.num_subflows; i++) {
        const struct tcp_info *const info = &subflows.infos[i];
        const bool is_unanswered =
            attempts(info) > 0 && info->tcpi_last_ack_recv * UINT64_C(1000000) >= unanswered_ns;
        if (info->tcpi_state != TCP_CLOSE_STATE && !is_unanswered) return false;
    }
    return true;
}

bool tcp_path_answered(int fd, uint64_t *ago_ns)
{
    struct subflows subflows;
    const int second = 1;
    if (!read_subflows(fd, &subflows)) return false;
    uint64_t least_ms = UINT64_MAX;
    for (unsigned i = 0; i < subflows.head.num_subflows; i++)
        if (subflows.infos[i].tcpi_state == TCP_ESTABLISHED_STATE &&
            subflows.infos[i].tcpi_last_ack_recv < least_ms)
            least_ms = subflows.infos[i].tcpi_last_ack_recv;
    if (least_ms == UINT64_MAX) return false;
    *ago_ns = least_ms * UINT64_C(1000000);
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

/* If a reader wants that many bytes at once, the kernel makes its buffers that large, and leaves
 * them so. SO_RCVBUF would stop the buffers from growing. */
void tcp_path_make_room(int fd)
{
    const int wanted = ROOM_BYTES, any = 1;
    if (tcp_protocol_of(fd) != TCP_PROTOCOL_MPTCP) return;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof any);
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
