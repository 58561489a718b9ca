/* net.h - a transport in virtual time: the links of all ranks of a communicator, in one thread, over connections that are slow,
 * full, lost and made again.
 *
 *     rank a                        connection: first in, first out                 rank b
 *     tcp_tx ─┐                   ┌── piece ── piece ── credit ──►                ┌─ tcp_rx
 *     tcp_tx ─┴─ end: deals out ──┤                                               └─ tcp_rx
 *                                 └── credit ◄── piece ── ready
 *
 * The ends of links are those of TCP (tcp/link.h): credit, places, pieces in order, what is sent again after a loss. What lies
 * between them is made of events of a queue (sim.h) in place of sockets. So links run here as they do between hosts,
 * and what goes wrong is drawn from a seed.
 *
 *   1. A frame takes as long as a message does (sim_delay_ns) and is never lost alone: what the weather loses comes late, and holds
 *      up what is behind it. Connections, of which a pair has several, overtake each other.
 *   2. A connection that is reset loses what was on its way, both ways, also a piece of which half has come. It is made again after
 *      a while, and starts with what each end has received, as tcp/pair.h says.
 *   3. Nothing passes a cut; it arrives when that is mended (sim_net_mend).
 *   4. A connection takes only so many frames at a time; the rest waits at its sender. A rank that has crashed sends no more of it.
 *   5. The memory of a piece is read when it arrives, not when it is sent: as late as may be.
 *   6. What consumed pieces give back is told at once where the sender needs it, and else some time later.
 *
 * Or all of this is as regular as clockwork (struct sim_wire), to be compared with what a model foretells.
 *
 * There are no multicast links and no shared slots, and nobody sleeps: a rank looks at its links after each event at its node.
 *
 * One thread at a time. Who owns the queue hands events of this net to sim_net_happen. Without memory the process ends. */
#ifndef TUTTI_TRANSPORT_SIM_NET_H
#define TUTTI_TRANSPORT_SIM_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/sim/sim.h"
#include "transport/transport.h"

enum { SIM_STREAMS_MAX = 3 };

/* Instead of weather: nothing is left to chance, and every time can be foretold. A piece occupies its sender's card for so long, begins to
 * occupy its receiver's card a latency later, and has come when it has passed both; each card takes one piece after the other, each way.
 * All other frames take a latency. A receiver tells at once what it has consumed. */
struct sim_wire {
    uint64_t latency_ns, message_ns, byte_ps;
};

struct sim_net_options {
    int size;           /* ranks, at most SIM_NODES_MAX */
    const int *nodes;   /* of each rank; copied */
    int kind;           /* of its events: of no others in the queue */
    unsigned streams;   /* connections of a pair, 1 to SIM_STREAMS_MAX */
    size_t piece_bytes; /* a multiple of 64, more than TCP_SMALL_BYTES */
    unsigned piece_count,
        frame_count;    /* under way: of a link, 1 to 32; of a connection, 2 or more */
    size_t reach_bytes; /* from this size on memory is sent by reference; SIZE_MAX: never */
    bool expects;       /* messages may come where they are expected */
    const struct sim_wire *wire; /* with two streams: for credit, and for pieces; copied. NULL: weather */
};

struct sim_net;

struct sim_net *sim_net_create(struct sim *sim, const struct sim_net_options *options);
void sim_net_free(struct sim_net *net);
/* Of that rank; lives as long as the net. */
struct transport *sim_net_transport(struct sim_net *net, int rank);
void sim_net_happen(struct sim_net *net, const struct sim_event *event);
/* Whether something is on its way over a connection, either way. */
bool sim_net_is_busy(const struct sim_net *net, int one, int other, unsigned stream);
/* That connection is lost now; nothing happens where there is none of that number. */
void sim_net_reset(struct sim_net *net, int one, int other, unsigned stream);
/* These two are no longer cut off from each other. */
void sim_net_mend(struct sim_net *net, int one, int other);
/* The rank gives up its links: none of its memory is touched any more, and nothing is shown to it. */
void sim_net_stop(struct sim_net *net, int rank);

/* What makes no sense, which cannot be; or NULL. */
const char *sim_net_wrong(const struct sim_net *net);
/* Whether everything sent was consumed, and every sender knows. */
bool sim_net_is_settled(const struct sim_net *net);

/* How often what happened. */
struct sim_net_counts {
    unsigned pieces, by_reference, again, halves_lost, expected, held_up;
};
void sim_net_count(const struct sim_net *net, struct sim_net_counts *counts);

#endif
