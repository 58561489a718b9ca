/* A peer with a simulated network card whose messages are as they should be, and which lies in them: about what it has consumed, say. The
 * wire is two queues in memory, which the test holds up or lets go.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/virtual_card/card_remote.h"
#include "tests/virtual_card/packet.h"
#include "transport/card/card.h"
#include "transport/card/message.h"

enum { NONCE = 1000, PEER_NONCE = 2000, QUEUE_MAX = 32, STEPS = 100, BYTES = 1000, RECEIVES = 32 };

struct packet {
    size_t bytes;
    unsigned char data[CARD_PACKET_BYTES_MAX];
};

struct peer {
    struct card_wire wire;
    bool is_full; /* what the rank sends stays with its card */
    struct packet to_rank[QUEUE_MAX];
    unsigned first, count;
    struct card_ack owed[QUEUE_MAX]; /* packets of the rank, not acknowledged yet */
    unsigned owed_count;
    unsigned data_count; /* DATA messages of the rank that left */
    uint32_t number;     /* of the peer's next message */
    struct transport *rank;
    struct link_tx *tx;
};

/* ------------------------------------------------------------------------------------------------ wire */

static enum card_wire_result wire_send(struct card_wire *wire, int to, const void *bytes,
                                       size_t count)
{
    struct peer *const peer = (struct peer *)wire;
    struct card_packet packet;
    struct card_message message;
    assert_int_equal(to, 1);
    if (peer->is_full) return CARD_WIRE_FULL;
    memcpy(&packet, bytes, sizeof packet);
    if (packet.kind != CARD_PACKET_SEND && packet.kind != CARD_PACKET_WRITE) return CARD_WIRE_TOOK;
    assert_true(peer->owed_count < QUEUE_MAX);
    peer->owed[peer->owed_count++] =
        (struct card_ack){.op = packet.op, .generation = packet.generation};
    if (packet.kind != CARD_PACKET_SEND) return CARD_WIRE_TOOK;
    assert_true(count >= sizeof packet + sizeof message);
    memcpy(&message, (const char *)bytes + sizeof packet, sizeof message);
    peer->data_count += message.kind == CARD_MESSAGE_DATA;
    return CARD_WIRE_TOOK;
}

static size_t wire_receive(struct card_wire *wire, void *packet, int *from)
{
    struct peer *const peer = (struct peer *)wire;
    if (peer->count == 0) return 0;
    const struct packet *const next = &peer->to_rank[peer->first++ % QUEUE_MAX];
    peer->count--;
    *from = 1;
    memcpy(packet, next->data, next->bytes);
    return next->bytes;
}

static uint64_t wire_now_ns(const struct card_wire *wire)
{
    (void)wire;
    return 1;
}

static void wire_nothing(struct card_wire *wire)
{
    (void)wire;
}

static void wire_sleep(struct card_wire *wire, uint64_t timeout_ns)
{
    (void)wire, (void)timeout_ns;
}

static int wire_descriptor(struct card_wire *wire)
{
    (void)wire;
    return -1;
}

static const struct card_wire_ops wire_ops = {.send = wire_send,
                                              .receive = wire_receive,
                                              .now_ns = wire_now_ns,
                                              .look_again = wire_nothing,
                                              .sleep = wire_sleep,
                                              .wake = wire_nothing,
                                              .descriptor = wire_descriptor,
                                              .close = wire_nothing};

/* ---------------------------------------------------------------------------------------------- the peer */

static void put(struct peer *peer, enum card_packet_kind kind, const void *data, size_t bytes)
{
    const struct card_packet head = {.magic = CARD_PACKET_MAGIC,
                                     .kind = kind,
                                     .from = 1,
                                     .bytes = (uint32_t)bytes,
                                     .from_nonce = PEER_NONCE,
                                     .to_nonce = NONCE};
    assert_true(peer->count < QUEUE_MAX);
    struct packet *const packet = &peer->to_rank[(peer->first + peer->count++) % QUEUE_MAX];
    packet->bytes = sizeof head + bytes;
    memcpy(packet->data, &head, sizeof head);
    if (bytes > 0) memcpy(packet->data + sizeof head, data, bytes);
}

static void say(struct peer *peer, struct card_message message)
{
    message.number = peer->number++;
    message.posted = RECEIVES;
    put(peer, CARD_PACKET_SEND, &message, sizeof message);
}

static void acknowledge(struct peer *peer)
{
    put(peer, CARD_PACKET_ACK, peer->owed, peer->owed_count * sizeof *peer->owed);
    peer->owed_count = 0;
}

static void step(struct peer *peer)
{
    for (int i = 0; i < STEPS; i++) (void)peer->rank->ops->progress(peer->rank);
}

static enum card_peer_state state_of(const struct peer *peer)
{
    return card_peer_state(peer->rank, 1);
}

/* A rank that posts memory to the peer; asked_bytes: as the card's options say. */
static struct peer *meet(size_t asked_bytes)
{
    struct peer *const peer = calloc(1, sizeof *peer);
    const struct card_options options = {.size = 2, .reach_bytes = 1, .asked_bytes = asked_bytes};
    const struct virtual_card_options device = {.size = 2, .nonce = NONCE, .seed = 1};
    assert_non_null(peer);
    peer->wire.ops = &wire_ops;
    assert_int_equal(virtual_card_open(&options, &device, &peer->wire, &peer->rank), TUTTI_OK);
    assert_int_equal(peer->rank->ops->open_tx(peer->rank, 0, 0, 1, BYTES, &peer->tx), TUTTI_OK);
    put(peer, CARD_PACKET_CONNECT, NULL, 0);
    say(peer, (struct card_message){.kind = CARD_MESSAGE_GRANT});
    step(peer);
    assert_int_equal(state_of(peer), CARD_PEER_UP);
    return peer;
}

static void leave(struct peer *peer)
{
    card_close(peer->rank);
    free(peer);
}

/* ------------------------------------------------------------------------------------------------- tests */

/* The card still has to read the memory of a message which its receiver says that it consumed. */
static void memory_is_kept_until_it_is_read_whatever_its_receiver_says(void **state)
{
    (void)state;
    struct peer *const peer = meet(SIZE_MAX);
    char *const source = calloc(1, BYTES);
    assert_non_null(source);
    peer->is_full = true;
    assert_true(peer->tx->ops->post(peer->tx, source, BYTES));
    say(peer, (struct card_message){.kind = CARD_MESSAGE_GRANT, .consumed = 1});
    step(peer);
    assert_false(peer->tx->ops->consumed(peer->tx));
    assert_int_equal(card_offered_regions(peer->rank), 1);
    peer->is_full = false;
    step(peer);
    assert_int_equal(peer->data_count, 1);
    assert_false(peer->tx->ops->consumed(peer->tx)); /* its card may have to send it again */
    acknowledge(peer);
    step(peer);
    assert_true(peer->tx->ops->consumed(peer->tx));
    assert_int_equal(card_offered_regions(peer->rank), 0);
    assert_int_equal(state_of(peer), CARD_PEER_UP); /* some other peer may be as quick as that */
    leave(peer);
    free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_kept_until_it_is_read_whatever_its_receiver_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
