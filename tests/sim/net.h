/* net.h - a transport in virtual time: the links of all ranks of a communicator, in one thread,
 * over connections that are slow, full, lost and made again.
 *
 *     rank a                        connection: first in, first out                 rank b
 *     tcp_tx ─┐                   ┌── piece ── piece ── credit ──►                ┌─ tcp_rx
 *     tcp_tx ─┴─ end: deals out ──┤                                               └─ tcp_rx
 *                                 └── credit ◄── piece ── ready
 *
 * The ends of links are those of TCP (tcp/link.h), with credit, places, pieces in order, and pieces
 * that are sent again after a loss. The connections between them are made of events of a queue
 * (sim.h) instead of sockets. So links run here as they do between hosts, and faults are drawn from
 * a seed.
 *
 *   1. A frame takes as long as a message does (sim_delay_ns) and is never lost alone: a frame that
 *      the weather loses comes late, and holds up the frames behind it. Connections, of which a
 *      pair has several, overtake each other.
 *   2. A connection that is reset loses all frames on their way, both ways, even a piece of which
 *      half has come. It is made again after a while, and begins by saying what each end has
 *      received, as tcp/pair.h says.
 *   3. Nothing passes a cut; frames arrive when the cut is mended (sim_net_mend).
 *   4. A connection takes only so many frames at a time; the rest wait at their sender, and are
 *      never sent if that rank crashes.
 *   5. The memory of a piece is read when the piece arrives, not when it is sent: as late as
 *      allowed.
 *   6. A receiver returns the credit of consumed pieces at once if the sender needs it, and
 *      otherwise some time later.
 *
 * Alternatively nothing is left to chance (struct sim_wire), so that times can be compared with
 * those that a model predicts.
 *
 * There are no multicast links and no shared slots, and no rank sleeps: a rank looks at its links
 * after each event at its node.
 *
 * One thread at a time. The owner of the queue hands events of this net to sim_net_happen. If
 * memory is lacking, the process ends. */
#ifndef TUTTI_TESTS_SIM_NET_H
#define TUTTI_TESTS_SIM_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/sim/sim.h"
#include "transport/transport.h"

enum { SIM_STREAMS_MAX = 3 };

/* Instead of weather: nothing is left to chance, and every time can be predicted. A piece occupies
 * its sender's card for a time that depends on its size, begins to occupy its receiver's card a
 * latency later, and has come when it has passed both. Each card takes one piece after the other,
 * each way. All other frames take one latency. A receiver says at once what it has consumed. */
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
/* The transport of that rank; it lives as long as the net. */
struct transport *sim_net_transport(struct sim_net *net, int rank);
void sim_net_happen(struct sim_net *net, const struct sim_event *event);
/* Whether something is on its way over a connection, either way. */
bool sim_net_is_busy(const struct sim_net *net, int one, int other, unsigned stream);
/* That connection is lost now; no effect if there is none of that number. */
void sim_net_reset(struct sim_net *net, int one, int other, unsigned stream);
/* These two are no longer cut off from each other. */
void sim_net_mend(struct sim_net *net, int one, int other);
/* The rank gives up its links: from now on none of its memory is touched, and nothing is shown to
 * it. */
void sim_net_stop(struct sim_net *net, int rank);

/* The first thing that made no sense, which must not happen; or NULL. */
const char *sim_net_wrong(const struct sim_net *net);
/* Whether all that was sent was consumed, and every sender knows it. */
bool sim_net_is_settled(const struct sim_net *net);

/* The number of times that each of these happened. */
struct sim_net_counts {
    unsigned pieces, by_reference, again, halves_lost, expected, held_up;
};
void sim_net_count(const struct sim_net *net, struct sim_net_counts *counts);

#endif
