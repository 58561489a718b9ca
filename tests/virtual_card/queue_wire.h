/* queue_wire.h - a wire in memory between a simulated network card, of rank 0, and a peer that a
 * test plays, rank 1: it sees which packets the card sends, and puts before it what it likes. */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_QUEUE_WIRE_H
#define TUTTI_TESTS_VIRTUAL_CARD_QUEUE_WIRE_H

#include <stdbool.h>

#include "tests/virtual_card/packet.h"
#include "transport/card/message.h"

enum { QUEUE_WIRE_PACKETS = 32, QUEUE_WIRE_NONCE = 1000, QUEUE_WIRE_PEER_NONCE = 2000 };

struct queue_wire {
    struct card_wire base;
    bool is_full; /* what the card sends stays with it */
    uint64_t now_ns;
    /* A packet left that its receiver has to acknowledge; message: of a SEND, NULL: it has none. */
    void (*left)(struct queue_wire *wire, const struct card_packet *packet,
                 const struct card_message *message);
    struct {
        size_t bytes;
        unsigned char packet[CARD_PACKET_BYTES_MAX];
    } queue[QUEUE_WIRE_PACKETS]; /* to the card */
    unsigned first, count;
};

void queue_wire_init(struct queue_wire *wire,
                     void (*left)(struct queue_wire *wire, const struct card_packet *packet,
                                  const struct card_message *message));

/* The head of a packet of the peer with so many bytes behind it. */
struct card_packet queue_wire_packet(enum card_packet_kind kind, size_t bytes);
/* False: there is no room. */
bool queue_wire_put(struct queue_wire *wire, const struct card_packet *packet, const void *data);
/* The same for any bytes, at most CARD_PACKET_BYTES_MAX. */
bool queue_wire_put_bytes(struct queue_wire *wire, const void *bytes, size_t count);

#endif
