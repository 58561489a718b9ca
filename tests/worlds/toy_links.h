/* toy_links.h - the smallest links to ranks without common memory: datagrams between sockets of
 * this host. It shows what a new transport has to give (docs/develop/add-a-transport.md), and whole
 * communicators run over it.
 *
 *     link ─┐                                                   ┌─ link: a queue of messages
 *     link ─┴─ peer: a queue ── sendto ──► socket of the peer ──┴─ ...
 *
 * Datagrams between two sockets of a host come once and in order, so a message is a datagram. Each
 * rank greets its peers with the address of its socket. A link has WINDOW messages under way, and
 * hears from its reader how many were consumed. Nothing goes by reference.
 */
#ifndef TUTTI_TESTS_WORLDS_TOY_LINKS_H
#define TUTTI_TESTS_WORLDS_TOY_LINKS_H

#include "transport/open.h"

extern const struct remote_kind toy_remote_kind;

#endif
