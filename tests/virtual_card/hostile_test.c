/* A peer with a simulated network card whose messages are as they should be, and which lies in
 * them: about what it has consumed, say. The wire is a queue in memory, which the test holds up or
 * lets go.
 *
 * ctest: label=notsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/virtual_card/card_remote.h"
#include "tests/virtual_card/queue_wire.h"
#include "transport/card/card.h"

enum { OWED_MAX = 32, STEPS = 100, BYTES = 1000, RECEIVES = 32 };

struct peer {
    struct queue_wire wire;
    struct card_ack owed[OWED_MAX]; /* packets of the rank, not acknowledged yet */
    unsigned owed_count;
    unsigned data_count; /* DATA messages of the rank that left */
    uint32_t number;     /* of the peer's next message */
    struct transport *rank;
    struct link_tx *tx;
};

/* ------------------------------------------------------------------------------------- the peer */

static void packet_left(struct queue_wire *wire, const struct card_packet *packet,
                        const struct card_message *message)
{
    struct peer *const peer = (struct peer *)wire;
    assert_true(peer->owed_count < OWED_MAX);
    peer->owed[peer->owed_count++] =
        (struct card_ack){.op = packet->op, .generation = packet->generation};
    assert_true(message != NULL || packet->kind == CARD_PACKET_WRITE);
    peer->data_count += message != NULL && message->kind == CARD_MESSAGE_DATA;
}

static void put(struct peer *peer, enum card_packet_kind kind, const void *data, size_t bytes)
{
    const struct card_packet packet = queue_wire_packet(kind, bytes);
    assert_true(queue_wire_put(&peer->wire, &packet, data));
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
    const struct virtual_card_options device = {.size = 2, .nonce = QUEUE_WIRE_NONCE, .seed = 1};
    assert_non_null(peer);
    queue_wire_init(&peer->wire, packet_left);
    assert_int_equal(virtual_card_open(&options, &device, &peer->wire.base, &peer->rank), TUTTI_OK);
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

/* ---------------------------------------------------------------------------------------- tests */

/* The card still has to read the memory of a message which its receiver says that it consumed. */
static void memory_is_kept_until_it_is_read_whatever_its_receiver_says(void **state)
{
    (void)state;
    struct peer *const peer = meet(SIZE_MAX);
    char *const source = calloc(1, BYTES);
    assert_non_null(source);
    peer->wire.is_full = true;
    assert_true(peer->tx->ops->post(peer->tx, source, BYTES));
    say(peer, (struct card_message){.kind = CARD_MESSAGE_GRANT, .consumed = 1});
    step(peer);
    assert_false(peer->tx->ops->consumed(peer->tx));
    assert_int_equal(card_offered_regions(peer->rank), 1);
    peer->wire.is_full = false;
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
