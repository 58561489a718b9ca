/* engine_net.h - links between ranks in one thread, for tests of the engine and of point to point
 * (p2p_world.h): slow, short of room and moody. Or those of another world. Assertions are
 * cmocka's. */
#ifndef TUTTI_TESTS_WORLDS_ENGINE_NET_H
#define TUTTI_TESTS_WORLDS_ENGINE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/engine/engine_dummy.h"
#include "tests/worlds/link_world.h"
#include "transport/transport.h"

enum { ENGINE_RANKS_MAX = 8 };

struct engine_mood {
    size_t piece_bytes;
    unsigned pieces; /* under way on a link */
    unsigned delay;  /* of so many looks one finds something new; 1: each */
    enum link_reach reach;
    bool in_small_pages; /* all memory, as far as links know */
    bool expects;        /* what is expected may be stored where it is, and now and then is not */
    unsigned shares;     /* shared slots of each rank; 0: it has none */
    /* Of each rank; NULL: all are on one. The ranks of a host are a group, and only links between
     * them share and advertise. */
    const int *host_of;
    const struct path_table *paths; /* within a host; NULL: those of shared memory */
    const struct engine_dummy
        *dummy;       /* in whose memory some ranks have their buffers and their places; or NULL */
    unsigned far;     /* those ranks, a bit each */
    bool reaches_far; /* links reach such memory, too */
    /* Links are those of point to point: in its slot, opened for pieces; they refer to memory, if
     * they reach it and are in the mood. */
    bool for_messages;
    size_t fetch_bytes; /* that one fetch brings at most; 0: many */
};

struct engine_net; /* opaque: the links of all ranks */

struct engine_net *engine_net_create(int size, struct engine_mood mood, uint64_t seed);
/* The same over the transports of another world, which stays its owner's, and is moved before each
 * look. */
struct engine_net *engine_net_over(const struct link_world *world, uint64_t seed);
void engine_net_free(struct engine_net *net);
/* Moves that other world; nothing otherwise. */
void engine_net_step(struct engine_net *net);
struct transport *engine_net_transport(struct engine_net *net, int rank);
uint64_t engine_net_draw(struct engine_net *net);
/* The kind of memory of a rank; NULL: the host's. */
const struct memory_kind *engine_net_kind(const struct engine_net *net, int rank);
/* Sends what the programs did not, on the one link that this rank writes. */
void engine_net_put(struct engine_net *net, int rank, const void *data, size_t bytes);
/* From now on so many more links can be opened; -1: any number, as in the beginning. */
void engine_net_bound_links(struct engine_net *net, int links);
/* Messages so far on the link between two ranks, and the bytes of the last one. */
uint64_t engine_net_sent(const struct engine_net *net, int writer, int reader, int channel);
size_t engine_net_last_bytes(const struct engine_net *net, int writer, int reader, int channel);
/* Messages so far that were stored where they were expected. */
uint64_t engine_net_written(const struct engine_net *net);
/* Messages so far that were changed in place and forwarded. */
uint64_t engine_net_handed_on(const struct engine_net *net);
/* Shared slots that were filled and sent so far, and messages on multicast links. */
uint64_t engine_net_shared(const struct engine_net *net);
uint64_t engine_net_multicast(const struct engine_net *net);
/* Whatever was sent was read, and what was shared came back: the next operation finds its links
 * empty. */
void engine_net_expect_empty(struct engine_net *net);

#endif
