/* p2p_world.h - ranks with point to point in one process, for its tests: over links that are slow, short of room and
 * moody, or over the local transport; and requests for them. Assertions are cmocka's.
 */
#ifndef TUTTI_TESTS_WORLDS_P2P_WORLD_H
#define TUTTI_TESTS_WORLDS_P2P_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p2p/p2p.h"
#include "transport/transport.h"

enum { RANKS_MAX = 5, DEPTH_MAX = 16, SLOT = TRANSPORT_SLOT_MESSAGES };

/* A number; advances *random. */
uint64_t draw(uint64_t *random);

/* ------------------------------------------------------------------------------- links of one thread */

struct mood {
    size_t piece_bytes;
    unsigned pieces; /* under way on a link */
    unsigned delay;  /* of so many looks one finds something new; 1: each */
    enum link_reach reach;
};

struct message {
    char *copy; /* of what was committed, in memory that a sanitizer can watch; NULL: posted */
    const char *data;
    size_t bytes;
    bool remote; /* has to be taken or fetched */
};

struct wire {
    struct link_tx tx;
    struct link_rx rx;
    struct net *net;
    struct message messages[DEPTH_MAX];
    uint64_t sent, read;
    size_t done, fetched; /* of the message that is read */
    char *near;           /* what was fetched */
    bool seen;
    void *reserved;
    size_t reserved_bytes;
};

struct net {
    struct mood mood;
    int size;
    int opens_left; /* before there is no room for more links; -1: always */
    uint64_t random;
    struct wire *wires[RANKS_MAX][RANKS_MAX][TRANSPORT_CHANNEL_COUNT]; /* writer, reader */
    struct endpoint {
        struct transport base;
        struct net *net;
    } endpoints[RANKS_MAX];
};

struct net *net_create(int size, struct mood mood, uint64_t seed);
void net_free(struct net *net);
struct wire *wire_of(struct net *net, int writer, int reader, int channel);
/* Puts a message on it, as its writer could; false: no room now. */
bool wire_put(struct wire *wire, const void *data, size_t bytes);
bool wire_put_reference(struct wire *wire, const void *data, size_t bytes);

/* -------------------------------------------------------------------------------------------- worlds */

enum kind {
    ROOMY,
    TIGHT,
    READABLE,
    COPYABLE,
    LOCAL_THREADS,
    LOCAL_SLOTS,
    LOCAL_COPIES,
    LOCAL_CHECKED,
    KIND_COUNT
};

struct world {
    enum kind kind;
    int size;
    uint64_t random;
    struct net *net; /* or NULL: local */
    struct transport *transports[RANKS_MAX];
    struct p2p *ranks[RANKS_MAX];
};

struct world world_open(enum kind kind, int size, struct p2p_options options, uint64_t seed);
void world_close(struct world *world);
/* Ranks move in any order, until nothing does. */
void settle(struct world *world);
/* Starts a request of which only what is wanted is set: the rest of it is whatever it is. */
void start(struct world *world, int rank, struct p2p_request *request);

/* Of bytes (TUTTI_UINT8). */
struct p2p_request send_request(const void *buffer, size_t bytes, int peer, int tag);
struct p2p_request recv_request(void *buffer, size_t bytes, int peer, int tag);

/* TUTTI_TEST_SEED, or a fresh one; printed. */
uint64_t test_seed(void);

#endif
