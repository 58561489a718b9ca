/* tcp_peer.h - connections of ranks over TCP links, made by hand: to another rank, to nobody, or to
 * the test, which is a peer that writes what it likes. Assertions are cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_TCP_PEER_H
#define TUTTI_TESTS_WORLDS_TCP_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/tcp/frame.h"
#include "transport/transport.h"

/* Connects two ranks. */
void tcp_peer_join(struct transport *a, struct transport *b, unsigned stream);
/* Connects a rank to a peer, whose end is the caller's. */
int tcp_peer_open(struct transport *rank, int peer, unsigned stream);
/* Connects a rank to a peer that has closed its end. */
void tcp_peer_open_closed(struct transport *rank, int peer, unsigned stream);

/* Writes a frame's head at the peer's end. False: the rank has closed its own. */
bool tcp_peer_put_head(int end, struct tcp_frame frame);
/* The READY of rank 1 with these limits. */
struct tcp_frame tcp_peer_ready(size_t piece_bytes, unsigned pieces);
/* Moves a rank so many times, with time in between for what is on its way. */
void tcp_peer_move(struct transport *rank, int times);

#endif
