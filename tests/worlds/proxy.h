/* proxy.h - somebody between two ends of TCP connections, who sees what goes by, and may change it.
 *
 * A program that has a connect() of its own, in place of the C library's, leads its connections to
 * proxies in its own process: each takes one connection, makes the other half, and ends with it.
 */
#ifndef TUTTI_TESTS_WORLDS_PROXY_H
#define TUTTI_TESTS_WORLDS_PROXY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Of what who has connected sends, or of what is sent back. Called by threads of proxies. */
typedef void proxy_look(char *bytes, size_t count, bool is_answer);

/* *at: where a proxy to that IPv4 address listens. False: there is none. */
bool proxy_start(const struct sockaddr *to, proxy_look *look, struct sockaddr_in *at);

#endif
