#include "os/tcp_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/mptcp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "os/clock.h"

/* Constants that some C libraries do not define yet. */
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef SOL_MPTCP
#define SOL_MPTCP 284
#endif
#ifndef AF_SMC
#define AF_SMC 43
#endif
enum { SMC_OVER_IPV4, SMC_OVER_IPV6 }; /* the protocols of AF_SMC */

enum {
    SOCKET_TYPE = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
    BACKLOG = 4096,
    ABORTED_MAX = 64 /* connections in a row that were gone before they were accepted */
};

union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* ------------------------------------------------------------------------------------ addresses */

static socklen_t to_socket(const struct net_address *address, union socket_address *to)
{
    memset(to, 0, sizeof *to);
    to->any.sa_family = address->family;
    if (address->family == AF_INET) {
        to->v4.sin_port = htons(address->port);
        memcpy(&to->v4.sin_addr, address->bytes, sizeof to->v4.sin_addr);
        return sizeof to->v4;
    }
    to->v6.sin6_port = htons(address->port);
    to->v6.sin6_scope_id = address->scope;
    memcpy(&to->v6.sin6_addr, address->bytes, sizeof to->v6.sin6_addr);
    return sizeof to->v6;
}

static void from_v6(const struct in6_addr *from, uint32_t scope, struct net_address *address)
{
    if (IN6_IS_ADDR_V4MAPPED(from)) {
        address->family = AF_INET;
        memcpy(address->bytes, from->s6_addr + 12, 4);
        return;
    }
    address->family = AF_INET6;
    memcpy(address->bytes, from, sizeof address->bytes);
    if (net_address_is_link_local(address)) address->scope = scope;
}

bool net_address_from_socket(const struct sockaddr *from, struct net_address *address)
{
    union socket_address socket_address;
    memset(address, 0, sizeof *address);
    if (from == NULL) return false;
    if (from->sa_family == AF_INET) {
        memcpy(&socket_address.v4, from, sizeof socket_address.v4);
        address->family = AF_INET;
        address->port = ntohs(socket_address.v4.sin_port);
        memcpy(address->bytes, &socket_address.v4.sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        memcpy(&socket_address.v6, from, sizeof socket_address.v6);
        address->port = ntohs(socket_address.v6.sin6_port);
        from_v6(&socket_address.v6.sin6_addr, socket_address.v6.sin6_scope_id, address);
    }
    return address->family != AF_UNSPEC;
}

bool net_address_same_host(const struct net_address *a, const struct net_address *b)
{
    return a->family == b->family && a->scope == b->scope &&
           memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool net_address_equal(const struct net_address *a, const struct net_address *b)
{
    return net_address_same_host(a, b) && a->port == b->port;
}

bool net_address_is_loopback(const struct net_address *address)
{
    static const unsigned char one[16] = {[15] = 1};
    if (address->family == AF_INET) return address->bytes[0] == 127;
    return address->family == AF_INET6 && memcmp(address->bytes, one, sizeof one) == 0;
}

bool net_address_is_link_local(const struct net_address *address)
{
    if (address->family == AF_INET) return address->bytes[0] == 169 && address->bytes[1] == 254;
    return address->family == AF_INET6 && address->bytes[0] == 0xfe &&
           (address->bytes[1] & 0xc0) == 0x80;
}

static bool read_number(const char *text, uint32_t most, uint32_t *number)
{
    uint64_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && value <= most; c++) value = value * 10 + (uint64_t)(*c - '0');
    *number = (uint32_t)value;
    return c != text && *c == '\0' && value <= most;
}

static bool read_port(const char *text, struct net_address *address)
{
    uint32_t port;
    if (!read_number(text, UINT16_MAX, &port)) return false;
    address->port = (uint16_t)port;
    return true;
}

/* The part behind '%' tells only link-local addresses apart. */
static bool read_v6(char *host, struct net_address *address)
{
    struct in6_addr bytes;
    uint32_t scope = 0;
    char *percent = strchr(host, '%');
    if (percent != NULL) {
        *percent++ = '\0';
        scope = if_nametoindex(percent);
        if (scope == 0 && !(read_number(percent, UINT32_MAX, &scope) && scope != 0)) return false;
    }
    if (inet_pton(AF_INET6, host, &bytes) != 1) return false;
    from_v6(&bytes, scope, address);
    return scope == address->scope;
}

static bool read_address(const char *text, struct net_address *address)
{
    char host[NET_ADDRESS_TEXT_MAX];
    const bool in_brackets = *text == '[';
    const char *end, *port = NULL, *const colon = strchr(text, ':');
    if (in_brackets) {
        end = strchr(++text, ']');
        if (end == NULL || (end[1] != ':' && end[1] != '\0')) return false;
        if (end[1] == ':') port = end + 2;
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        end = colon;
        port = colon + 1;
    } else {
        end = text + strlen(text);
    }
    const size_t bytes = (size_t)(end - text);
    if (bytes >= sizeof host || (port != NULL && !read_port(port, address))) return false;
    memcpy(host, text, bytes);
    host[bytes] = '\0';
    if (memchr(host, ':', bytes) != NULL)
        return (in_brackets || port == NULL) && read_v6(host, address);
    address->family = AF_INET;
    return !in_brackets && inet_pton(AF_INET, host, address->bytes) == 1;
}

bool net_address_parse(const char *text, struct net_address *address)
{
    memset(address, 0, sizeof *address);
    if (read_address(text, address)) return true;
    memset(address, 0, sizeof *address);
    return false;
}

void net_address_print(const struct net_address *address, char text[NET_ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN], interface[IF_NAMESIZE + 1] = "";
    if (address->family != AF_INET && address->family != AF_INET6) {
        snprintf(text, NET_ADDRESS_TEXT_MAX, "none");
        return;
    }
    inet_ntop(address->family, address->bytes, host, sizeof host);
    if (address->family == AF_INET) {
        snprintf(text, NET_ADDRESS_TEXT_MAX, "%s:%u", host, address->port);
        return;
    }
    if (address->scope != 0) {
        interface[0] = '%';
        if (if_indextoname(address->scope, interface + 1) == NULL)
            snprintf(interface + 1, IF_NAMESIZE, "%u", address->scope);
    }
    snprintf(text, NET_ADDRESS_TEXT_MAX, "[%s%s]:%u", host, interface, address->port);
}

void net_address_print_host(const struct net_address *address, char text[NET_ADDRESS_TEXT_MAX])
{
    net_address_print(address, text);
    char *const port = strrchr(text, ':');
    if (port != NULL) *port = '\0';
}

enum tutti_status net_address_resolve(const char *host, uint16_t port, sa_family_t family,
                                      struct net_address *addresses, size_t address_max,
                                      size_t *count)
{
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    *count = 0;
    const int error = getaddrinfo(host, NULL, &hints, &found);
    if (error != 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: no address: %s", host,
                         error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    for (const struct addrinfo *one = found; one != NULL && *count < address_max;
         one = one->ai_next) {
        if (!net_address_from_socket(one->ai_addr, &addresses[*count])) continue;
        addresses[(*count)++].port = port;
    }
    freeaddrinfo(found);
    if (*count == 0)
        return error_set(TUTTI_INVALID_OPTIONS, "%s: has no address of the family", host);
    return TUTTI_OK;
}

static bool own_address(int fd, struct net_address *address)
{
    union socket_address own;
    socklen_t bytes = sizeof own;
    memset(&own, 0, sizeof own);
    return getsockname(fd, &own.any, &bytes) == 0 && net_address_from_socket(&own.any, address);
}

bool net_address_source(const struct net_address *to, struct net_address *source)
{
    union socket_address address;
    struct net_address target = *to;
    memset(source, 0, sizeof *source);
    if (target.port == 0) target.port = 9; /* any: a datagram socket connects without a packet */
    const int fd = socket(to->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const socklen_t bytes = to_socket(&target, &address);
    const bool found = connect(fd, &address.any, bytes) == 0 && own_address(fd, source);
    close(fd);
    source->port = 0;
    return found;
}

/* ------------------------------------------------------------------------------------ protocols */

const char *tcp_protocol_name(enum tcp_protocol protocol)
{
    switch (protocol) {
    case TCP_PROTOCOL_MPTCP: return "MPTCP";
    case TCP_PROTOCOL_SMC: return "SMC";
    case TCP_PROTOCOL_TCP: break;
    }
    return "TCP";
}

/* -1 with errno. */
static int make_socket(enum tcp_protocol protocol, sa_family_t family)
{
    switch (protocol) {
    case TCP_PROTOCOL_MPTCP: return socket(family, SOCKET_TYPE, IPPROTO_MPTCP);
    case TCP_PROTOCOL_SMC:
        return socket(AF_SMC, SOCKET_TYPE, family == AF_INET6 ? SMC_OVER_IPV6 : SMC_OVER_IPV4);
    case TCP_PROTOCOL_TCP: break;
    }
    return socket(family, SOCKET_TYPE, IPPROTO_TCP);
}

/* Whether the error of socket() says that there is no such protocol here, or none for this
 * process. */
static bool is_lacking(int error)
{
    switch (error) {
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
    case ESOCKTNOSUPPORT:
    case ENOPROTOOPT: /* net.mptcp.enabled=0 */
    case EINVAL:
    case EACCES: /* a sandbox knows only the usual protocols */
    case EPERM: return true;
    default: return false;
    }
}

static void tell_of_lack(enum tcp_protocol protocol, int error)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set_explicit(&is_told, memory_order_relaxed)) return;
    const char *const name = tcp_protocol_name(protocol);
    log_write(LOG_WARN, "%s: this system makes no %s sockets (%s), so data goes over TCP; %s",
              option_names.SOCKET_PROTOCOL, name, strerror(error),
              protocol == TCP_PROTOCOL_MPTCP
                  ? "MPTCP needs Linux 5.6 with CONFIG_MPTCP, and `sysctl net.mptcp.enabled` has "
                    "to say 1 (`sysctl -w net.mptcp.enabled=1`)"
                  : "SMC needs the kernel's module smc (`modprobe smc`)");
}

/* Opens a socket of that protocol, or else of TCP; -1 with errno. If TCP fails, too, the cause is
 * not that the system lacks the protocol. */
static int open_socket(enum tcp_protocol protocol, sa_family_t family)
{
    const int fd = make_socket(protocol, family);
    if (fd >= 0 || protocol == TCP_PROTOCOL_TCP || !is_lacking(errno)) return fd;
    const int error = errno, plain = make_socket(TCP_PROTOCOL_TCP, family);
    if (plain >= 0) tell_of_lack(protocol, error);
    return plain;
}

enum tcp_protocol tcp_protocol_of(int fd)
{
    struct mptcp_info info;
    socklen_t bytes = sizeof info;
    int domain = AF_UNSPEC;
    socklen_t domain_bytes = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_bytes) != 0) return TCP_PROTOCOL_TCP;
    if (domain == AF_SMC) return TCP_PROTOCOL_SMC;
    const bool is_mptcp = (domain == AF_INET || domain == AF_INET6) &&
                          getsockopt(fd, SOL_MPTCP, MPTCP_INFO, &info, &bytes) == 0;
    return is_mptcp ? TCP_PROTOCOL_MPTCP : TCP_PROTOCOL_TCP;
}

/* ---------------------------------------------------------------------------- listen and accept */

static void close_keeping_errno(int *fd)
{
    const int error = errno;
    close(*fd);
    *fd = -1;
    errno = error;
}

static void set_flag(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof value);
}

/* False with errno. */
static bool listen_at(enum tcp_protocol protocol, const struct net_address *address, int *fd)
{
    union socket_address at;
    const socklen_t bytes = to_socket(address, &at);
    *fd = open_socket(protocol, address->family);
    if (*fd < 0) return false;
    set_flag(*fd, SOL_SOCKET, SO_REUSEADDR,
             1); /* connections of an earlier job may linger at the port */
    if (address->family == AF_INET6) set_flag(*fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (bind(*fd, &at.any, bytes) == 0 && listen(*fd, BACKLOG) == 0) return true;
    close_keeping_errno(fd);
    return false;
}

enum tutti_status tcp_listen(const struct net_address *address, uint16_t port_last, int *fd,
                             struct net_address *bound)
{
    return tcp_listen_with(TCP_PROTOCOL_TCP, address, port_last, fd, bound);
}

enum tutti_status tcp_listen_with(enum tcp_protocol protocol, const struct net_address *address,
                                  uint16_t port_last, int *fd, struct net_address *bound)
{
    const unsigned last = port_last > address->port ? port_last : address->port;
    char text[NET_ADDRESS_TEXT_MAX];
    *bound = *address;
    for (unsigned port = address->port; port <= last; port++) {
        bound->port = (uint16_t)port;
        if (listen_at(protocol, bound, fd)) {
            struct net_address own;
            if (!own_address(*fd, &own)) {
                close_keeping_errno(fd);
                return error_system("reading the port of a socket");
            }
            bound->port = own.port;
            return TUTTI_OK;
        }
        if (errno != EADDRINUSE) {
            net_address_print(bound, text);
            return error_system("listening at %s", text);
        }
        if (port == 0) break;
    }
    net_address_print(address, text);
    return error_set(TUTTI_INVALID_OPTIONS, "listening at %s: every port from %u to %u is taken",
                     text, address->port, last);
}

static bool is_gone_already(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH: return true;
    default: return false;
    }
}

enum tutti_status tcp_accept(int listener, int *fd, struct net_address *peer)
{
    for (int i = 0; i < ABORTED_MAX; i++) {
        union socket_address from;
        socklen_t bytes = sizeof from;
        memset(&from, 0, sizeof from);
        *fd = accept4(listener, &from.any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (*fd >= 0) {
            set_flag(*fd, IPPROTO_TCP, TCP_NODELAY, 1);
            net_address_from_socket(&from.any, peer);
            return TUTTI_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK) return TUTTI_IN_PROGRESS;
        if (!is_gone_already(errno)) return error_system("accepting a connection");
    }
    return TUTTI_IN_PROGRESS;
}

/* -------------------------------------------------------------------------------------- connect */

/* PROC_FAILED: the next attempt may succeed, even a moment later. */
static enum tutti_status connect_error(const struct net_address *to, int error)
{
    char text[NET_ADDRESS_TEXT_MAX];
    net_address_print(to, text);
    switch (error) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL: /* no port of this host is free now */
    case EAGAIN:
    case EACCES: /* these are what anybody on the way may send (ICMP), or a firewall that is being set up */
    case EPERM:
    case EPROTO:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENONET:
        (void)error_set(TUTTI_PROC_FAILED, "connecting to %s: %s", text, strerror(error));
        errno = error;
        return TUTTI_PROC_FAILED;
    default: errno = error; return error_system("connecting to %s", text);
    }
}

enum tutti_status tcp_connect_start(const struct net_address *to, const struct net_address *from,
                                    int *fd)
{
    return tcp_connect_start_with(TCP_PROTOCOL_TCP, to, from, fd);
}

enum tutti_status tcp_connect_start_with(enum tcp_protocol protocol, const struct net_address *to,
                                         const struct net_address *from, int *fd)
{
    union socket_address address;
    socklen_t bytes;
    *fd = open_socket(protocol, to->family);
    if (*fd < 0) return connect_error(to, errno);
    set_flag(*fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (from != NULL) {
        set_flag(*fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
        bytes = to_socket(from, &address);
        if (bind(*fd, &address.any, bytes) != 0) goto close_socket;
    }
    bytes = to_socket(to, &address);
    /* An interrupted connect goes on by itself, as one of a non-blocking socket does. */
    if (connect(*fd, &address.any, bytes) == 0 || errno == EINPROGRESS || errno == EINTR)
        return TUTTI_OK;
close_socket:
    close_keeping_errno(fd);
    return connect_error(to, errno);
}

/* The kernel may have picked the very port that is called: then the two ends are the same
 * socket. */
static bool is_connected_to_itself(int fd, const struct net_address *to)
{
    struct net_address own;
    return own_address(fd, &own) && net_address_equal(&own, to);
}

enum tutti_status tcp_connect_test(int fd, const struct net_address *to)
{
    struct pollfd entry = {fd, POLLOUT, 0};
    int error = 0;
    socklen_t bytes = sizeof error;
    if (poll(&entry, 1, 0) <= 0) return TUTTI_IN_PROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) { /* a sandbox denies it */
        char text[NET_ADDRESS_TEXT_MAX];
        net_address_print(to, text);
        return error_system("asking whether the connection to %s is made", text);
    }
    if (error == 0 && is_connected_to_itself(fd, to)) error = ECONNREFUSED;
    return error == 0 ? TUTTI_OK : connect_error(to, error);
}

enum tutti_status tcp_connect(const struct net_address *to, const struct net_address *from,
                              uint64_t deadline_ns, int *fd)
{
    TRY(tcp_connect_start(to, from, fd));
    enum tutti_status status;
    while ((status = tcp_connect_test(*fd, to)) == TUTTI_IN_PROGRESS) {
        if (clock_now_ns() >= deadline_ns) {
            char text[NET_ADDRESS_TEXT_MAX];
            net_address_print(to, text);
            status = error_set(TUTTI_INIT_TIMEOUT, "connecting to %s: no answer", text);
            break;
        }
        struct pollfd entry = {*fd, POLLOUT, 0};
        poll(&entry, 1, clock_poll_ms(deadline_ns));
    }
    if (status == TUTTI_OK) return TUTTI_OK;
    close_keeping_errno(fd);
    return status;
}

/* ------------------------------------------------------------------------------- read and write */

static enum tutti_status stream_error(const char *what)
{
    switch (errno) {
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
        return error_set(TUTTI_PROC_FAILED, "%s: the connection is lost: %s", what, strerror(errno));
    default: return error_system("%s", what);
    }
}

enum tutti_status tcp_read(int fd, void *data, size_t bytes, size_t *done)
{
    *done = 0;
    if (bytes == 0) return TUTTI_OK;
    ssize_t count;
    do count = recv(fd, data, bytes, MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count == 0) return error_set(TUTTI_PROC_FAILED, "reading: the other side closed");
    if (count < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? TUTTI_OK : stream_error("reading");
    *done = (size_t)count;
    return TUTTI_OK;
}

enum tutti_status tcp_write(int fd, const void *data, size_t bytes, size_t *done)
{
    *done = 0;
    if (bytes == 0) return TUTTI_OK;
    ssize_t count;
    do count = send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? TUTTI_OK : stream_error("writing");
    *done = (size_t)count;
    return TUTTI_OK;
}
