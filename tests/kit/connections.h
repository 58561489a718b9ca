/* connections.h - the TCP connections of this process, to be cut by a test. */
#ifndef TUTTI_TESTS_KIT_CONNECTIONS_H
#define TUTTI_TESTS_KIT_CONNECTIONS_H

#include <stdbool.h>

/* Whether a descriptor is an IPv4 connection, and not a socket that listens. */
bool connections_is_one(int fd);
/* Shuts all of them down, in both directions, and returns how many. Any thread. */
unsigned connections_cut(void);
/* The same of IPv6 ones, too: a listener at all addresses accepts nothing else, whoever
 * connects. */
unsigned connections_cut_all(void);

#endif
