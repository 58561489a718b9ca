/* tcp_world.h - ranks over TCP links in one thread, for their tests: what one rank writes is
 * carried to the other by wires that are slow, cut frames anywhere, and break now and then with all
 * that is in them. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_TCP_WORLD_H
#define TUTTI_TESTS_WORLDS_TCP_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/worlds/link_world.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

enum { TCP_WORLD_RANKS_MAX = 5 };

struct tcp_mood {
    unsigned streams;
    size_t piece_bytes;
    unsigned piece_count;
    bool is_plain;    /* sockets connected to each other: loopback TCP, no wires between */
    size_t gulp;      /* a wire carries at most so many bytes at once */
    unsigned breaks;  /* one of so many steps breaks a wire; 0: none */
    unsigned silence; /* steps, at most, until a wanted connection is there */
    bool checks;      /* as in struct tcp_options */
    size_t flips; /* after so many bytes that a rank sent another one, at least, a bit of them flips; 0: never */
    /* A rank hears a note; or NULL. */
    void (*hears)(void *context, int rank, int peer, const void *note, size_t bytes);
    void *hears_context;
};

struct tcp_world; /* opaque */

struct tcp_world *tcp_world_create(int size, struct tcp_mood mood, uint64_t seed);
void tcp_world_free(struct tcp_world *world);
struct transport *const *tcp_world_transports(const struct tcp_world *world);
struct link_world tcp_world_links(struct tcp_world *world);
/* The same for programs in slot 0: with links to all, made of one to each in another slot. */
struct transport *const *tcp_world_fans(struct tcp_world *world);
uint64_t tcp_world_draw(struct tcp_world *world);
/* A rank moves its links, wires carry, break and are made again. */
void tcp_world_step(void *world);
/* Steps until no rank has anything left to send. */
void tcp_world_settle(struct tcp_world *world);
void tcp_world_set_breaks(struct tcp_world *world, unsigned breaks);
/* Breaks all wires between two ranks at once. */
void tcp_world_break_all(struct tcp_world *world, int a, int b);
/* Bits that flipped so far, and what came right after it had come changed. */
unsigned tcp_world_flipped(const struct tcp_world *world);
uint64_t tcp_world_mended(const struct tcp_world *world);
/* Wires that broke so far. */
unsigned tcp_world_broken(const struct tcp_world *world);

/* Moves a transport, whoever made it, until peers have been told what they may be told later. True:
 * each peer has consumed and heard everything and knows that this rank did, or its connections are
 * lost. */
bool tcp_world_finish(struct transport *tcp);

#endif
