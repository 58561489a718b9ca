#include "tests/virtual_card/virtual_net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Looks in vain come at longer and longer intervals. */
enum { LOOK_NS_MAX = 20000, LOOK_DOUBLINGS = 10, FLIGHT_NONE = -1 };

/* A packet on its way. */
struct flight {
    struct flight *next; /* that has come to the same rank */
    int from, to, card;
    bool is_held; /* it came to a cut */
    size_t bytes;
    unsigned char packet[CARD_PACKET_BYTES_MAX];
};

struct virtual_wire {
    struct card_wire base;
    struct virtual_net *net;
    int rank, node, card;
    struct card_device *device;
    bool is_looked_at; /* an event for that is in the queue */
    unsigned looks_in_vain;
    bool is_stopped;
    struct flight *first, **last;      /* come */
    unsigned under_way[SIM_NODES_MAX]; /* packets to others */
    struct transport *transport;       /* the rank's */
};

struct virtual_net {
    struct sim *sim;
    struct virtual_net_options options;
    struct virtual_wire *
        wires[CARD_RAILS_MAX * SIM_NODES_MAX]; /* of the first card of each rank, then of the others */
    struct flight **flights;                   /* by the tags of their events; NULL: free */
    int flight_count;
    unsigned held_up;
    const char *wrong;
};

static void *must(void *memory)
{
    if (memory == NULL) abort();
    return memory;
}

static struct virtual_wire *wire_of(struct card_wire *wire)
{
    return (struct virtual_wire *)wire;
}

static int index_of(const struct virtual_net *net, int card, int rank)
{
    return card * net->options.size + rank;
}

/* -------------------------------------------------------------------------------------- flights */

static int find_tag(struct virtual_net *net)
{
    int tag = 0;
    while (tag < net->flight_count && net->flights[tag] != NULL) tag++;
    if (tag < net->flight_count) return tag;
    const int count = net->flight_count == 0 ? 64 : 2 * net->flight_count;
    net->flights = must(realloc(net->flights, (size_t)count * sizeof(struct flight *)));
    for (int i = net->flight_count; i < count; i++) net->flights[i] = NULL;
    net->flight_count = count;
    return tag;
}

static void fly(struct virtual_net *net, int tag, uint64_t delay_ns)
{
    const struct flight *flight = net->flights[tag];
    const int number = index_of(net, flight->card, flight->to);
    sim_at(net->sim, sim_now_ns(net->sim) + delay_ns, net->options.kind, net->wires[number]->node,
           number, tag);
}

static enum card_wire_result virtual_send(struct card_wire *base, int to, const void *packet,
                                          size_t bytes)
{
    struct virtual_wire *wire = wire_of(base);
    struct virtual_net *net = wire->net;
    const int node = wire->node, other = net->wires[to]->node;
    if (wire->under_way[to] == net->options.packets) return CARD_WIRE_FULL;
    if (!sim_says(net->sim, node)) return CARD_WIRE_TOOK; /* it is lost with its rank */
    struct flight *flight = must(malloc(sizeof *flight));
    const int tag = find_tag(net);
    flight->from = wire->rank;
    flight->to = to;
    flight->card = wire->card;
    flight->is_held = false;
    flight->bytes = bytes;
    memcpy(flight->packet, packet, bytes);
    net->flights[tag] = flight;
    wire->under_way[to]++;
    wire->looks_in_vain = 0;
    const uint64_t again_ns = sim_loses(net->sim, node, other) ? sim_again_ns(net->sim) : 0;
    fly(net, tag, sim_delay_ns(net->sim, node, other) + again_ns);
    return CARD_WIRE_TOOK;
}

static size_t virtual_receive(struct card_wire *base, void *packet, int *from)
{
    struct virtual_wire *wire = wire_of(base);
    struct flight *flight = wire->first;
    if (flight == NULL) return 0;
    const size_t bytes = flight->bytes;
    wire->first = flight->next;
    if (wire->first == NULL) wire->last = &wire->first;
    memcpy(packet, flight->packet, bytes);
    *from = flight->from;
    free(flight);
    return bytes;
}

static uint64_t virtual_now_ns(const struct card_wire *wire)
{
    return sim_now_ns(((const struct virtual_wire *)wire)->net->sim);
}

static void virtual_look_again(struct card_wire *base)
{
    struct virtual_wire *wire = wire_of(base);
    struct sim *sim = wire->net->sim;
    if (wire->is_looked_at) return;
    wire->is_looked_at = true;
    const uint64_t most_ns = (uint64_t)LOOK_NS_MAX << wire->looks_in_vain;
    if (wire->looks_in_vain < LOOK_DOUBLINGS) wire->looks_in_vain++;
    sim_at(sim, sim_now_ns(sim) + sim_between(sim, 1, most_ns), wire->net->options.kind, wire->node,
           index_of(wire->net, wire->card, wire->rank), FLIGHT_NONE);
}

/* A rank looks after each event at its node. */
static void virtual_sleep(struct card_wire *wire, uint64_t timeout_ns)
{
    (void)wire, (void)timeout_ns;
}

static void virtual_wake(struct card_wire *wire)
{
    (void)wire;
}

static int virtual_descriptor(struct card_wire *wire)
{
    (void)wire;
    return -1;
}

static void virtual_close(struct card_wire *base)
{
    struct virtual_wire *wire = wire_of(base);
    unsigned char packet[CARD_PACKET_BYTES_MAX];
    int from;
    while (virtual_receive(base, packet, &from) > 0) {
    }
    free(wire);
}

static const struct card_wire_ops wire_ops = {.send = virtual_send,
                                              .receive = virtual_receive,
                                              .now_ns = virtual_now_ns,
                                              .look_again = virtual_look_again,
                                              .sleep = virtual_sleep,
                                              .wake = virtual_wake,
                                              .descriptor = virtual_descriptor,
                                              .close = virtual_close};

/* ------------------------------------------------------------------------------------- arriving */

static void arrive(struct virtual_net *net, struct virtual_wire *wire, int tag)
{
    struct flight *flight = net->flights[tag];
    struct virtual_wire *sender = net->wires[index_of(net, flight->card, flight->from)];
    if (sim_is_cut(net->sim, sender->node, wire->node)) {
        flight->is_held = true;
        net->held_up++;
        return;
    }
    net->flights[tag] = NULL;
    sender->under_way[wire->rank]--;
    wire->looks_in_vain = 0;
    flight->next = NULL;
    *wire->last = flight;
    wire->last = &flight->next;
}

static const char *what_is_wrong(const struct virtual_wire *wire)
{
    struct virtual_card_counts counts;
    virtual_card_count(wire->device, &counts);
    if (wire->card > 0 && counts.sends > 0) return "a message went over a further card";
    if (counts.overruns > 0) return "a message found no receive";
    if (counts.strays > 0) return "a packet came from nobody";
    if (wire->is_stopped && card_offered_regions(wire->transport) > 0)
        return "a rank has stopped, and its memory is still registered";
    if (!wire->is_stopped && counts.refused > 0) return "a remote write was refused";
    for (int peer = 0; peer < wire->net->options.size; peer++) {
        if (card_peer_state(wire->transport, peer) == CARD_PEER_BROKEN)
            return "a rank sent what makes no sense";
    }
    return NULL;
}

static void look_for_wrong(const struct virtual_wire *wire)
{
    if (wire->net->wrong == NULL) wire->net->wrong = what_is_wrong(wire);
}

void virtual_net_happen(struct virtual_net *net, const struct sim_event *event)
{
    struct virtual_wire *wire = net->wires[event->number];
    if (event->tag == FLIGHT_NONE)
        wire->is_looked_at = false;
    else
        arrive(net, wire, event->tag);
    (void)wire->transport->ops->progress(wire->transport);
    look_for_wrong(wire);
}

void virtual_net_mend(struct virtual_net *net, int one, int other)
{
    for (int tag = 0; tag < net->flight_count; tag++) {
        struct flight *flight = net->flights[tag];
        if (flight == NULL || !flight->is_held) continue;
        if ((flight->from != one || flight->to != other) &&
            (flight->from != other || flight->to != one))
            continue;
        flight->is_held = false;
        fly(net, tag, sim_again_ns(net->sim));
    }
}

/* ----------------------------------------------------------------------------------- life cycle */

static struct card_device *create_card(struct virtual_net *net, int card, int rank, int node)
{
    const int number = index_of(net, card, rank);
    struct virtual_wire *wire = must(calloc(1, sizeof *wire));
    wire->base.ops = &wire_ops;
    wire->net = net;
    wire->rank = rank;
    wire->node = node;
    wire->card = card;
    wire->last = &wire->first;
    net->wires[number] = wire;
    const struct virtual_card_options options = {.rank = rank,
                                                 .size = net->options.size,
                                                 .nonce = 1 + (uint64_t)number,
                                                 .seed = sim_random(net->sim)};
    if (virtual_card_create(&options, &wire->base, &wire->device) != TUTTI_OK) abort();
    return wire->device;
}

static void create_rank(struct virtual_net *net, int rank, int node)
{
    struct card_options options = net->options.card;
    const struct card_rails_options rails = {.size = net->options.size,
                                             .least_bytes = net->options.rails_bytes};
    const unsigned count = net->options.cards;
    struct card_device *devices[CARD_RAILS_MAX] = {NULL}, *all;
    for (unsigned c = 0; c < count; c++) devices[c] = create_card(net, (int)c, rank, node);
    all = devices[0];
    if (count > 1 && card_rails_create(&rails, devices, count, &all) != TUTTI_OK) abort();
    struct virtual_wire *const first = net->wires[rank];
    options.rank = rank;
    options.size = net->options.size;
    if (card_create(&options, all, &first->transport) != TUTTI_OK) abort();
    for (unsigned c = 1; c < count; c++)
        net->wires[index_of(net, (int)c, rank)]->transport = first->transport;
}

struct virtual_net *virtual_net_create(struct sim *sim, const struct virtual_net_options *options)
{
    assert(options->size >= 1 && options->size <= SIM_NODES_MAX && options->packets >= 1);
    struct virtual_net *net = must(calloc(1, sizeof *net));
    net->sim = sim;
    net->options = *options;
    net->options.nodes = NULL;
    if (options->cards == 0) net->options.cards = 1;
    for (int rank = 0; rank < options->size; rank++) create_rank(net, rank, options->nodes[rank]);
    return net;
}

void virtual_net_free(struct virtual_net *net)
{
    for (int rank = 0; rank < net->options.size; rank++) card_close(net->wires[rank]->transport);
    for (int tag = 0; tag < net->flight_count; tag++) free(net->flights[tag]);
    free(net->flights);
    free(net);
}

struct transport *virtual_net_transport(struct virtual_net *net, int rank)
{
    return net->wires[rank]->transport;
}

void virtual_net_stop(struct virtual_net *net, int rank)
{
    for (unsigned c = 0; c < net->options.cards; c++)
        net->wires[index_of(net, (int)c, rank)]->is_stopped = true;
    struct transport *transport = net->wires[rank]->transport;
    (void)transport->ops->stop(transport);
    look_for_wrong(net->wires[rank]);
}

const char *virtual_net_wrong(const struct virtual_net *net)
{
    return net->wrong;
}

bool virtual_net_is_settled(const struct virtual_net *net)
{
    for (int rank = 0; rank < net->options.size; rank++) {
        const struct transport *transport = net->wires[rank]->transport;
        if (card_offered_regions(transport) > 0) return false;
        for (int peer = 0; peer < net->options.size; peer++)
            if (!transport->ops->is_settled(transport, peer)) return false;
    }
    return true;
}

void virtual_net_count(const struct virtual_net *net, struct virtual_net_counts *counts)
{
    *counts = (struct virtual_net_counts){.held_up = net->held_up};
    for (int w = 0; w < (int)net->options.cards * net->options.size; w++) {
        struct virtual_card_counts own;
        virtual_card_count(net->wires[w]->device, &own);
        if (net->wires[w]->card > 0) counts->further += own.writes;
        counts->device.overruns += own.overruns;
        counts->device.refused += own.refused;
        counts->device.refused_by_peers += own.refused_by_peers;
        counts->device.strays += own.strays;
        counts->device.writes += own.writes;
        counts->device.sends += own.sends;
        counts->device.turned += own.turned;
    }
}
