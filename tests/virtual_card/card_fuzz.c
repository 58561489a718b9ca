/* Any packets come from a peer's simulated network card, in any order with this rank's own calls.
 * Nothing may be written beyond its place, nothing may be read that was given back, nothing is
 * given back that still has to be read, and a broken peer stays broken.
 *
 * The input is a script: an operation (one byte) and its arguments. The script sees
 * what the transport sends, and can answer it. */
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_card/card_remote.h"
#include "tests/virtual_card/queue_wire.h"
#include "transport/card/card.h"

enum {
    LINKS = 3,
    PIECE_BYTES = 1024,
    PIECES = 2,
    RECEIVES = 8,
    POSTS_MAX = 8,
    SEEN_MAX = 16,
    EXPECTED_BYTES = 255 * 16
};

struct script {
    struct queue_wire wire;
    const uint8_t *data;
    size_t left;
    struct transport *transport;
    struct link_tx *tx[LINKS];
    struct link_rx *rx[LINKS];
    char *posted[LINKS][POSTS_MAX];
    char *expected[LINKS];
    uint64_t sequence[LINKS + 1], offset[LINKS + 1]; /* of the peer's next message, if it behaved */
    uint64_t sent;                                   /* the same of all messages */
    uint64_t taken;                                  /* messages of the transport */
    struct card_ack seen[SEEN_MAX];                  /* packets of the transport */
    unsigned seen_count, acked;
    uint64_t data_taken[LINKS + 1]; /* messages of its links */
    uint64_t key, key_length;       /* that was offered last */
    bool is_stopped;
};

static unsigned next(struct script *script)
{
    if (script->left == 0) return 0;
    script->left--;
    return *script->data++;
}

static void *must(void *memory)
{
    if (memory == NULL) abort();
    return memory;
}

/* -------------------------------------------------------------------------------------- packets */

static void packet_left(struct queue_wire *wire, const struct card_packet *packet,
                        const struct card_message *message)
{
    struct script *script = (struct script *)wire;
    script->seen[script->seen_count++ % SEEN_MAX] =
        (struct card_ack){.op = packet->op, .generation = packet->generation};
    if (message == NULL) return;
    script->taken++;
    wire->now_ns = script->taken * 1000000;
    if (message->kind <= CARD_MESSAGE_ASK)
        script->data_taken[message->index / TRANSPORT_CHANNEL_COUNT]++;
    if (message->kind != CARD_MESSAGE_GRANT || message->key == 0) return;
    script->key = message->key;
    script->key_length = message->length;
}

static void put(struct script *script, const struct card_packet *packet, const void *data)
{
    (void)queue_wire_put(&script->wire, packet, data); /* or it is lost */
}

/* Mostly the right number, or the script would soon be over; otherwise one near it, or a large
 * one. */
static uint64_t draw_number(struct script *script, uint64_t right)
{
    const unsigned byte = next(script);
    if (byte < 220) return right;
    return byte < 250 ? right + byte % 4 - byte / 4 % 2 : UINT64_MAX / (byte - 249);
}

static void put_bytes(struct script *script)
{
    size_t bytes = next(script);
    if (bytes > script->left) bytes = script->left;
    if (bytes > 0) (void)queue_wire_put_bytes(&script->wire, script->data, bytes);
    script->data += bytes;
    script->left -= bytes;
}

static void put_connect(struct script *script)
{
    struct card_packet packet = queue_wire_packet(CARD_PACKET_CONNECT, 0);
    const unsigned byte = next(script);
    if (byte % 4 == 1) packet.to_nonce = 0;
    if (byte % 16 == 2) packet.from_nonce = 3;
    if (byte % 16 == 3) packet.kind = 9;
    put(script, &packet, NULL);
}

static void put_acks(struct script *script)
{
    struct card_ack acks[SEEN_MAX];
    const unsigned byte = next(script), left = script->seen_count - script->acked,
                   count = byte >= 240 ? 1 + byte % 4
                           : left < 4  ? left
                                       : 4;
    if (count == 0) return;
    for (unsigned i = 0; i < count; i++) {
        acks[i] = script->seen[(script->acked + next(script) / 200) % SEEN_MAX];
        script->acked += script->acked < script->seen_count;
        acks[i].is_refused = byte >= 250;
        if (byte == 239) acks[i].op = next(script);
    }
    const struct card_packet packet = queue_wire_packet(CARD_PACKET_ACK, count * sizeof *acks);
    put(script, &packet, acks);
}

static void put_write(struct script *script)
{
    static const char data[CARD_PACKET_DATA_MAX] = {5};
    struct card_packet packet = queue_wire_packet(CARD_PACKET_WRITE, next(script) * 16);
    packet.key = next(script) % 8 == 0 ? draw_number(script, script->key) : script->key;
    packet.offset = next(script) % 8 == 0 ? draw_number(script, 0) : next(script) * 16;
    put(script, &packet, data);
}

static void put_message(struct script *script)
{
    static unsigned char data[VIRTUAL_CARD_MESSAGE_BYTES] = {1, 2, 3};
    const unsigned shape = next(script), link = next(script) % (LINKS + 1);
    struct card_message message = {.kind = (uint8_t)(shape % 8),
                                   .flags = shape >> 6 & 1,
                                   .index = (uint16_t)(link * TRANSPORT_CHANNEL_COUNT),
                                   .number = (uint32_t)draw_number(script, script->sent),
                                   .sequence = draw_number(script, script->sequence[link]),
                                   .offset = draw_number(script, script->offset[link]),
                                   .consumed = draw_number(script, 0),
                                   .posted =
                                       (uint32_t)(RECEIVES + draw_number(script, script->taken))};
    size_t bytes = message.kind == CARD_MESSAGE_DATA ? next(script) * 4 : 0;
    switch (message.kind) {
    case CARD_MESSAGE_DATA: script->offset[link] += bytes; break;
    case CARD_MESSAGE_PLACED:
        message.key = script->key;
        message.length = draw_number(script, next(script));
        script->offset[link] += message.length;
        break;
    case CARD_MESSAGE_ASK: message.length = draw_number(script, next(script) * 20); break;
    case CARD_MESSAGE_GRANT:
        message.key = next(script) % 4;
        message.room = next(script) * 8;
        message.consumed =
            next(script) % 8; /* mostly what has come, or the script would soon be over */
        if (message.consumed > script->data_taken[link] + (shape >> 3) % 4) message.consumed = 0;
        message.offset = draw_number(script, 0);
        message.length = next(script) * 100;
        break;
    default: break;
    }
    if (message.kind <= CARD_MESSAGE_ASK) script->sequence[link]++;
    memcpy(data, &message, sizeof message);
    if (shape >> 7 && bytes == 0) bytes = next(script);
    script->sent++;
    const struct card_packet packet = queue_wire_packet(CARD_PACKET_SEND, sizeof message + bytes);
    put(script, &packet, data);
}

/* ----------------------------------------------------------------------------------- own doings */

static void commit(struct script *script, unsigned link)
{
    struct link_tx *tx = script->tx[link];
    const size_t bytes = next(script) * 4;
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return;
    memset(place, 7, bytes);
    tx->ops->commit(tx, bytes);
}

static void release_posted(struct script *script, unsigned link)
{
    for (unsigned p = 0; p < POSTS_MAX; p++) {
        free(script->posted[link][p]);
        script->posted[link][p] = NULL;
    }
}

static void post(struct script *script, unsigned link)
{
    struct link_tx *tx = script->tx[link];
    unsigned p = 0;
    while (p < POSTS_MAX && script->posted[link][p] != NULL) p++;
    if (p == POSTS_MAX || !tx->ops->has_room(tx)) return;
    const size_t bytes = 1 + next(script) * 20;
    script->posted[link][p] = must(calloc(1, bytes));
    if (!tx->ops->post(tx, script->posted[link][p], bytes)) abort();
}

static void consume(struct script *script, unsigned link)
{
    struct link_rx *rx = script->rx[link];
    struct link_view view;
    if (rx->ops->peek(rx, &view) != LINK_READY) return;
    const unsigned char *data = view.data;
    size_t sum = 0;
    for (size_t i = 0; i < view.bytes; i++) sum += data[i];
    if (sum > 255 * view.bytes) abort();
    const size_t part = next(script) * 4;
    rx->ops->consume(rx, part < view.bytes ? part : view.bytes);
}

static void expect(struct script *script, unsigned link)
{
    if (script->expected[link] == NULL) script->expected[link] = must(calloc(1, EXPECTED_BYTES));
    script->rx[link]->ops->advertise(script->rx[link], script->expected[link],
                                     1 + next(script) * 15);
}

/* The memory goes with the links. */
static void stop(struct script *script)
{
    if (!script->transport->ops->stop(script->transport)) abort();
    if (card_offered_regions(script->transport) > 0) abort();
    script->is_stopped = true;
    for (unsigned l = 0; l < LINKS; l++) {
        release_posted(script, l);
        free(script->expected[l]);
        script->expected[l] = NULL;
    }
}

static bool has_broken(const struct script *script)
{
    return card_peer_state(script->transport, 1) == CARD_PEER_BROKEN;
}

/* Memory that the user gets back was read before. */
static void expect_read(const struct script *script)
{
    struct virtual_card_counts counts;
    virtual_card_count(card_device_of(script->transport), &counts);
    if (counts.unread > 0 && !script->is_stopped) abort();
}

static void progress(struct script *script)
{
    const bool was_broken = has_broken(script);
    struct transport *transport = script->transport;
    transport->ops->progress(transport);
    for (unsigned l = 0; l < LINKS; l++) {
        struct link_view view;
        if (was_broken && script->rx[l]->ops->peek(script->rx[l], &view) != LINK_FAULT) abort();
        if (script->tx[l]->ops->consumed(script->tx[l])) release_posted(script, l);
    }
    if (was_broken && !has_broken(script)) abort();
    if (was_broken && !transport->ops->is_settled(transport, 1)) abort();
    if (card_is_idle(transport) && transport->ops->is_awaited(transport)) abort();
    expect_read(script);
}

static void play(struct script *script)
{
    while (script->left > 0) {
        const unsigned byte = next(script), link = (byte >> 4) % LINKS;
        const bool moves_links = byte % 16 >= 7 && byte % 16 <= 10;
        if (script->is_stopped && moves_links) continue;
        switch (byte % 16) {
        case 0: put_bytes(script); break;
        case 1: put_connect(script); break;
        case 2:
        case 3: put_message(script); break;
        case 4: put_write(script); break;
        case 5:
        case 6: put_acks(script); break;
        case 7: commit(script, link); break;
        case 8: post(script, link); break;
        case 9: consume(script, link); break;
        case 10: expect(script, link); break;
        case 11: script->transport->ops->flush(script->transport); break;
        case 12: script->wire.is_full = !script->wire.is_full; break;
        case 13:
            if (next(script) % 8 == 0) stop(script);
            break;
        default: progress(script); break;
        }
    }
    progress(script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script *script = must(calloc(1, sizeof *script));
    queue_wire_init(&script->wire, packet_left);
    script->data = data;
    script->left = size;
    const struct card_options options = {.size = 3,
                                         .piece_bytes = PIECE_BYTES,
                                         .piece_count = PIECES,
                                         .receive_count = RECEIVES,
                                         .reach_bytes = 1,
                                         .offer_bytes = 1,
                                         .asked_bytes = 2000,
                                         .landing_bytes = 1024};
    const struct virtual_card_options device = {.size = 3, .nonce = QUEUE_WIRE_NONCE, .seed = size};
    setenv("TUTTI_LOG", "off", 1);
    if (virtual_card_open(&options, &device, &script->wire.base, &script->transport) != TUTTI_OK)
        abort();
    struct transport *transport = script->transport;
    for (int l = 0; l < LINKS; l++) {
        if (transport->ops->open_tx(transport, l, 0, 1, PIECE_BYTES, &script->tx[l]) != TUTTI_OK ||
            transport->ops->open_rx(transport, l, 0, 1, &script->rx[l]) != TUTTI_OK)
            abort();
    }
    const struct card_packet connect = queue_wire_packet(CARD_PACKET_CONNECT, 0);
    put(script, &connect, NULL);
    play(script);
    card_close(transport);
    for (unsigned l = 0; l < LINKS; l++) {
        release_posted(script, l);
        free(script->expected[l]);
    }
    free(script);
    return 0;
}
