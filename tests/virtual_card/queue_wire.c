#include "tests/virtual_card/queue_wire.h"

#include <stdlib.h>
#include <string.h>

static enum card_wire_result queue_send(struct card_wire *base, int to, const void *bytes,
                                        size_t count)
{
    struct queue_wire *const wire = (struct queue_wire *)base;
    struct card_packet packet;
    struct card_message message;
    if (to != 1 || count < sizeof packet || count > CARD_PACKET_BYTES_MAX) abort();
    if (wire->is_full) return CARD_WIRE_FULL;
    memcpy(&packet, bytes, sizeof packet);
    if (packet.kind != CARD_PACKET_SEND && packet.kind != CARD_PACKET_WRITE) return CARD_WIRE_TOOK;
    const bool has_message = packet.kind == CARD_PACKET_SEND && packet.bytes >= sizeof message;
    if (has_message) memcpy(&message, (const char *)bytes + sizeof packet, sizeof message);
    wire->left(wire, &packet, has_message ? &message : NULL);
    return CARD_WIRE_TOOK;
}

static size_t queue_receive(struct card_wire *base, void *packet, int *from)
{
    struct queue_wire *const wire = (struct queue_wire *)base;
    if (wire->count == 0) return 0;
    const unsigned first = wire->first++ % QUEUE_WIRE_PACKETS;
    wire->count--;
    *from = 1;
    memcpy(packet, wire->queue[first].packet, wire->queue[first].bytes);
    return wire->queue[first].bytes;
}

static uint64_t queue_now_ns(const struct card_wire *base)
{
    return ((const struct queue_wire *)base)->now_ns;
}

static void queue_nothing(struct card_wire *base)
{
    (void)base;
}

static void queue_sleep(struct card_wire *base, uint64_t timeout_ns)
{
    (void)base, (void)timeout_ns;
}

static int queue_descriptor(struct card_wire *base)
{
    (void)base;
    return -1;
}

static const struct card_wire_ops queue_ops = {.send = queue_send,
                                               .receive = queue_receive,
                                               .now_ns = queue_now_ns,
                                               .look_again = queue_nothing,
                                               .sleep = queue_sleep,
                                               .wake = queue_nothing,
                                               .descriptor = queue_descriptor,
                                               .close = queue_nothing};

void queue_wire_init(struct queue_wire *wire,
                     void (*left)(struct queue_wire *wire, const struct card_packet *packet,
                                  const struct card_message *message))
{
    wire->base.ops = &queue_ops;
    wire->left = left;
    wire->is_full = false;
    wire->now_ns = 0;
    wire->first = wire->count = 0;
}

struct card_packet queue_wire_packet(enum card_packet_kind kind, size_t bytes)
{
    return (struct card_packet){.magic = CARD_PACKET_MAGIC,
                                .kind = kind,
                                .from = 1,
                                .bytes = (uint32_t)bytes,
                                .from_nonce = QUEUE_WIRE_PEER_NONCE,
                                .to_nonce = QUEUE_WIRE_NONCE};
}

bool queue_wire_put(struct queue_wire *wire, const struct card_packet *packet, const void *data)
{
    unsigned char bytes[CARD_PACKET_BYTES_MAX];
    memcpy(bytes, packet, sizeof *packet);
    if (packet->bytes > 0) memcpy(bytes + sizeof *packet, data, packet->bytes);
    return queue_wire_put_bytes(wire, bytes, sizeof *packet + packet->bytes);
}

bool queue_wire_put_bytes(struct queue_wire *wire, const void *bytes, size_t count)
{
    if (wire->count == QUEUE_WIRE_PACKETS) return false;
    const unsigned last = (wire->first + wire->count++) % QUEUE_WIRE_PACKETS;
    memcpy(wire->queue[last].packet, bytes, count);
    wire->queue[last].bytes = count;
    return true;
}
