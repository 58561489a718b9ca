/* virtual_net.h - simulated network cards of all ranks of a communicator in virtual time, in one
 * thread: the wires between them are made of events of a queue (tests/sim/sim.h).
 *
 *   1. A packet takes as long as a message does (sim_delay_ns), and packets overtake each other. A
 *      packet that the weather loses comes late, since real cards send it again.
 *   2. Nothing passes a cut; packets arrive when the cut is mended (virtual_net_mend).
 *   3. A wire takes only so many packets from one card to another at a time; the rest wait in the
 *      device. A rank that has crashed sends no more.
 *   4. A device is looked at when a packet comes, and some time after it has asked to be looked at.
 *
 * One thread at a time. The owner of the queue hands events of this net to virtual_net_happen. If
 * memory is lacking, the process ends. */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_VIRTUAL_NET_H
#define TUTTI_TESTS_VIRTUAL_CARD_VIRTUAL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/sim.h"
#include "tests/virtual_card/device.h"
#include "transport/card/card.h"
#include "transport/card/card_rails.h"

struct virtual_net_options {
    int size;                 /* ranks, at most SIM_NODES_MAX */
    const int *nodes;         /* of each rank; copied */
    int kind;                 /* of its events: of no others in the queue */
    unsigned packets;         /* under way from one card to another, 1 or more */
    unsigned cards;           /* of each rank, up to CARD_RAILS_MAX (card/card_rails.h); 0: 1 */
    size_t rails_bytes;       /* as struct card_rails_options says */
    struct card_options card; /* of all ranks; rank and size are set here */
};

struct virtual_net;

struct virtual_net *virtual_net_create(struct sim *sim, const struct virtual_net_options *options);
void virtual_net_free(struct virtual_net *net);
/* The transport of that rank; it lives as long as the net. */
struct transport *virtual_net_transport(struct virtual_net *net, int rank);
void virtual_net_happen(struct virtual_net *net, const struct sim_event *event);
/* These two ranks are no longer cut off from each other. */
void virtual_net_mend(struct virtual_net *net, int one, int other);
/* The rank gives up its links. */
void virtual_net_stop(struct virtual_net *net, int rank);

/* The first thing that must not happen: an overrun, a peer that makes no sense, a remote write that
 * was refused by a rank that has not stopped; or NULL. */
const char *virtual_net_wrong(const struct virtual_net *net);
/* Whether all that was sent was consumed, every sender knows it, and no memory is registered any
 * more. */
bool virtual_net_is_settled(const struct virtual_net *net);

/* The number of times that each of these happened, on all ranks and cards. */
struct virtual_net_counts {
    struct virtual_card_counts device;
    unsigned held_up;
    unsigned further; /* packets of writes that further cards stored */
};
void virtual_net_count(const struct virtual_net *net, struct virtual_net_counts *counts);

#endif
