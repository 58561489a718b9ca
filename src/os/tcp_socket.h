/* tcp_socket.h - network addresses as values, and TCP sockets that never wait.
 *
 * Every socket is non-blocking and close-on-exec, sends without Nagle's delay and without SIGPIPE;
 * EINTR is dealt with here. An IPv4 address is always one of AF_INET, however the kernel spelled
 * it.
 *
 * A socket can be made for a protocol that is more than TCP, see enum tcp_protocol. It has the same
 * addresses and carries the same byte stream. If this kernel does not have the protocol, the socket
 * is one of TCP, and one line of the log for each process says what is missing. If only one of two
 * ends asks for the protocol, the kernel makes the connection TCP.
 */
#ifndef TUTTI_OS_TCP_SOCKET_H
#define TUTTI_OS_TCP_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "tutti/tutti.h"

enum { NET_ADDRESS_TEXT_MAX = 80 };

/* In the order of the words of TUTTI_SOCKET_PROTOCOL. */
enum tcp_protocol {
    TCP_PROTOCOL_TCP,
    TCP_PROTOCOL_MPTCP, /* TCP over several paths at once (RFC 8684) */
    TCP_PROTOCOL_SMC    /* shared memory or RDMA behind a handshake over TCP (RFC 7609) */
};

/* All zero: no address. */
struct net_address {
    sa_family_t family; /* AF_INET, AF_INET6, or AF_UNSPEC: none */
    uint16_t port;      /* in the host's order */
    uint32_t scope; /* of a link-local address: the interface's index, on this host only; else 0 */
    unsigned char bytes[16]; /* in network order; of IPv4 the first 4; the rest is zero */
};

/* "10.0.0.1:80", "[fe80::1%eth0]:80"; without a port, "10.0.0.1", "[::1]" or "::1", it is 0. Names
 * are not looked up; false, and no address, when it is none. */
bool net_address_parse(const char *text, struct net_address *address);
/* The text that net_address_parse reads, always with the port; "none" for none. */
void net_address_print(const struct net_address *address, char text[NET_ADDRESS_TEXT_MAX]);
/* The same without the port. */
void net_address_print_host(const struct net_address *address, char text[NET_ADDRESS_TEXT_MAX]);
/* False when it is neither IPv4 nor IPv6. */
bool net_address_from_socket(const struct sockaddr *from, struct net_address *address);
bool net_address_equal(const struct net_address *a, const struct net_address *b);
/* The same without their ports. */
bool net_address_same_host(const struct net_address *a, const struct net_address *b);
bool net_address_is_loopback(const struct net_address *address);
bool net_address_is_link_local(const struct net_address *address);
/* Addresses of a name or of numbers, in the resolver's order, with that port; family AF_UNSPEC
 * takes both. Blocks for as long as the resolver does. INVALID_OPTIONS, and *count 0, when there is
 * none. */
enum tutti_status net_address_resolve(const char *host, uint16_t port, sa_family_t family,
                                      struct net_address *addresses, size_t address_max,
                                      size_t *count);
/* The address from which the kernel would send to `to` (port 0), found without sending. False:
 * there is no way. */
bool net_address_source(const struct net_address *to, struct net_address *source);

/* Listens at address->port or, if that is taken, at the first free port up to port_last; port 0: at
 * a port that the kernel picks. The IPv6 address :: takes IPv4 connections, too. *bound is the
 * address with the resulting port. INVALID_OPTIONS: all these ports are taken. */
enum tutti_status tcp_listen(const struct net_address *address, uint16_t port_last, int *fd,
                             struct net_address *bound);
/* The same; accepts connections of that protocol, and of TCP. */
enum tutti_status tcp_listen_with(enum tcp_protocol protocol, const struct net_address *address,
                                  uint16_t port_last, int *fd, struct net_address *bound);
/* IN_PROGRESS: no connection is there now. NO_DESCRIPTORS, NO_MEMORY: a connection that is there
 * stays in the queue. */
enum tutti_status tcp_accept(int listener, int *fd, struct net_address *peer);

/* Begins to connect, from an address of this host where `from` is not NULL; ask tcp_connect_test
 * from then on. PROC_FAILED: nobody can be reached there now; errno says why, here and below. */
enum tutti_status tcp_connect_start(const struct net_address *to, const struct net_address *from,
                                    int *fd);
/* The same with that protocol, or TCP if the other side does not speak it. */
enum tutti_status tcp_connect_start_with(enum tcp_protocol protocol, const struct net_address *to,
                                         const struct net_address *from, int *fd);
/* OK: connected. IN_PROGRESS: not yet. PROC_FAILED: nobody can be reached there now. The descriptor
 * stays open. */
enum tutti_status tcp_connect_test(int fd, const struct net_address *to);
/* Both, waiting until the deadline on the monotonic clock: then INIT_TIMEOUT. */
enum tutti_status tcp_connect(const struct net_address *to, const struct net_address *from,
                              uint64_t deadline_ns, int *fd);

/* The protocol of a connection, once data has gone both ways. A kernel older than Linux 5.16 calls
 * MPTCP TCP; one that leaves SMC only after it was asked for may go on to call it SMC. */
enum tcp_protocol tcp_protocol_of(int fd);
/* "MPTCP". */
const char *tcp_protocol_name(enum tcp_protocol protocol);

/* As much as goes at once, *done bytes; 0 when nothing does now. PROC_FAILED: the other side
 * closed. */
enum tutti_status tcp_read(int fd, void *data, size_t bytes, size_t *done);
enum tutti_status tcp_write(int fd, const void *data, size_t bytes, size_t *done);

#endif
