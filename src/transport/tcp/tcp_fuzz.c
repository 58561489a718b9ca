/* Any bytes come over a peer's connections, in any order with this rank's own calls, and
 * connections are lost at any time. Nothing may be written beyond its place, nothing may be read
 * that was given back, and a broken peer stays broken.
 *
 * The input is a script: an operation (one byte) and its arguments. Frames get the right check, or
 * all would be refused at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/tcp.h"

enum { STREAMS = 2, LINKS = 3, PIECE_BYTES = 1024, PIECES = 2, POSTS_MAX = 8, BYTES_MAX = 5000 };

struct script {
    const uint8_t *data;
    size_t left;
    struct transport *transport;
    int ends[STREAMS]; /* the peer's */
    struct link_tx *tx[LINKS];
    struct link_rx *rx[LINKS];
    char *posted[LINKS][POSTS_MAX];
    char *expected[LINKS];
    uint64_t sent[LINKS];
    uint64_t sequence[LINKS + 1], offset[LINKS + 1]; /* of the peer's next piece, if it behaved */
    uint64_t told, heard;                            /* control messages */
    bool is_checked[STREAMS];                        /* bytes that the peer sends there */
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

static void connect_stream(struct script *script, unsigned stream)
{
    int ends[2];
    if (script->ends[stream] >= 0) close(script->ends[stream]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) abort();
    if (tcp_attach(script->transport, 1, stream, byte_stream_plain(ends[0])) != TUTTI_OK) abort();
    script->ends[stream] = ends[1];
    script->is_checked[stream] = false;
}

static void put(struct script *script, unsigned stream, const void *data, size_t bytes)
{
    if (script->ends[stream] >= 0)
        (void)!send(script->ends[stream], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void put_bytes(struct script *script, unsigned stream)
{
    size_t bytes = next(script);
    if (bytes > script->left) bytes = script->left;
    put(script, stream, script->data, bytes);
    script->data += bytes;
    script->left -= bytes;
}

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct script *script = context;
    const unsigned char *data = message;
    if (peer != 1 || bytes == 0 || bytes > TCP_FRAME_CONTROL_BYTES_MAX) abort();
    size_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += data[i];
    if (sum > 255 * bytes) abort(); /* all of it is there to be read */
    script->heard++;
    if (sum % 2 == 0 && tcp_tell(script->transport, peer, message, bytes) == TUTTI_OK)
        script->told++;
}

static void put_ready(struct script *script, unsigned stream)
{
    const unsigned byte = next(script);
    const struct tcp_frame frame = {.kind = TCP_FRAME_READY,
                                    .flags = byte & 64 ? TCP_FRAME_CHECKED : 0,
                                    .sequence = 1,
                                    .offset = PIECE_BYTES,
                                    .signature = TCP_FRAME_VERSION,
                                    .consumed = byte % 8 == 0 ? script->told : 0,
                                    .place = 2 * PIECES};
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    tcp_frame_write(&frame, head);
    put(script, stream, head, sizeof head);
    script->is_checked[stream] = byte & 64;
}

/* Numbers near the right numbers, so that some are right. */
static uint64_t draw_number(struct script *script, uint64_t right)
{
    const unsigned byte = next(script);
    return byte < 250 ? right + byte % 4 - byte / 64 % 2 : UINT64_MAX / (byte - 249);
}

static void put_frame(struct script *script, unsigned stream)
{
    static const char payload[TCP_FRAME_BYTES_MAX] = {1, 2, 3};
    const unsigned shape = next(script), link_byte = next(script), link = link_byte % (LINKS + 1);
    struct tcp_frame frame = {.kind = (uint8_t)(shape % 6),
                              .flags = (uint8_t)(shape / 6 % 4),
                              .slot = (uint8_t)link,
                              .signature = shape & 128 ? 1 : 0,
                              .place = TCP_FRAME_NO_PLACE};
    frame.sequence = draw_number(script, script->sequence[link]);
    frame.consumed = draw_number(script, link < LINKS ? script->sent[link] : 0);
    if (frame.kind == TCP_FRAME_DATA) {
        frame.bytes = next(script) * 5 % (PIECE_BYTES + 2);
        frame.offset = draw_number(script, script->offset[link]);
        if (frame.bytes > 256) frame.place = next(script) % (2 * PIECES + 2);
        if (frame.place == 2 * PIECES + 1) frame.place = TCP_FRAME_EXPECTED;
        script->sequence[link] = frame.sequence + 1;
        script->offset[link] = frame.offset + frame.bytes;
    }
    if (frame.kind == TCP_FRAME_CONTROL) {
        frame.bytes = next(script) * 5 % (TCP_FRAME_CONTROL_BYTES_MAX + 2);
        frame.sequence = draw_number(script, script->heard);
    }
    if (frame.kind == TCP_FRAME_HEARD) frame.consumed = draw_number(script, script->told);
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    tcp_frame_write(&frame, head);
    if (link_byte == 255) head[5] ^= 1; /* now it is changed */
    put(script, stream, head, sizeof head);
    if (script->is_checked[stream] && frame.bytes > 0) {
        unsigned char check[TCP_FRAME_CHECK_BYTES];
        tcp_frame_write_check(crc32c(0, payload, frame.bytes) ^ (link_byte >> 7), check);
        put(script, stream, check, sizeof check);
    }
    put(script, stream, payload, shape & 64 ? frame.bytes / 2 : frame.bytes);
}

static void commit(struct script *script, unsigned link)
{
    struct link_tx *tx = script->tx[link];
    const size_t bytes = next(script) * 4;
    void *place = tx->ops->reserve(tx, bytes);
    if (place == NULL) return;
    memset(place, 7, bytes);
    tx->ops->commit(tx, bytes);
    script->sent[link]++;
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
    script->sent[link] += (bytes - 1) / PIECE_BYTES + 1;
}

static void consume(struct script *script, unsigned link)
{
    struct link_rx *rx = script->rx[link];
    struct link_view view;
    if (rx->ops->peek(rx, &view) != LINK_READY) return;
    if (view.bytes > PIECE_BYTES) abort();
    const unsigned char *data = view.data;
    size_t sum = 0;
    for (size_t i = 0; i < view.bytes; i++) sum += data[i];
    if (sum > 255 * view.bytes) abort(); /* all of it is there to be read */
    const size_t part = next(script) * 4;
    rx->ops->consume(rx, part < view.bytes ? part : view.bytes);
}

static void tell(struct script *script)
{
    char message[TCP_FRAME_CONTROL_BYTES_MAX] = {9};
    const size_t bytes = 1 + next(script) * 2;
    if (tcp_tell(script->transport, 1, message, bytes) == TUTTI_OK) script->told++;
}

/* A rank that gives up its links gives its memory away. */
static void stop(struct script *script)
{
    (void)script->transport->ops->stop(script->transport);
    script->is_stopped = true;
    for (unsigned l = 0; l < LINKS; l++) {
        release_posted(script, l);
        free(script->expected[l]);
        script->expected[l] = NULL;
    }
}

static void expect(struct script *script, unsigned link)
{
    struct link_rx *rx = script->rx[link];
    struct link_view view;
    if (rx->ops->peek(rx, &view) == LINK_READY) return; /* it may lie there */
    const size_t bytes = 1 + next(script) * 16;
    rx->ops->advertise(rx, NULL, 0);
    /* A piece may be coming to the old place: the piece is given up with its connection. */
    for (unsigned s = 0; s < STREAMS && script->expected[link] != NULL; s++)
        connect_stream(script, s);
    if (script->expected[link] == NULL) script->expected[link] = must(calloc(1, 1 + 255 * 16));
    rx->ops->advertise(rx, script->expected[link], bytes);
}

static enum peer_state state_of(const struct script *script)
{
    struct peer_report report;
    tcp_report(script->transport, 1, &report);
    return report.state;
}

static void progress(struct script *script)
{
    const bool was_broken = state_of(script) == PEER_BROKEN;
    const bool was_corrupt = script->transport->ops->corrupt_rank(script->transport) == 1;
    struct transport *transport = script->transport;
    transport->ops->sleep_begin(transport); /* so that it looks */
    transport->ops->progress(transport);
    transport->ops->sleep_cancel(transport);
    for (unsigned l = 0; l < LINKS; l++) {
        struct link_view view;
        if ((was_broken || was_corrupt) &&
            script->rx[l]->ops->peek(script->rx[l], &view) != LINK_FAULT)
            abort();
        if (script->tx[l]->ops->consumed(script->tx[l])) release_posted(script, l);
    }
    if (was_broken && state_of(script) != PEER_BROKEN) abort();
    if (was_corrupt && script->transport->ops->corrupt_rank(script->transport) != 1) abort();
}

static void drain(struct script *script, unsigned stream)
{
    char bytes[BYTES_MAX];
    if (script->ends[stream] >= 0)
        (void)!recv(script->ends[stream], bytes, 1 + next(script) * 16, MSG_DONTWAIT);
}

static void lose(struct script *script, unsigned stream)
{
    if (script->ends[stream] >= 0) close(script->ends[stream]);
    script->ends[stream] = -1;
}

static void play(struct script *script)
{
    while (script->left > 0) {
        const unsigned byte = next(script), stream = byte >> 4 & 1, link = (byte >> 4) % LINKS;
        const bool moves_links = byte % 14 >= 6 && byte % 14 <= 9;
        if (script->is_stopped && moves_links) continue;
        switch (byte % 14) {
        case 0: put_bytes(script, stream); break;
        case 1: put_ready(script, stream); break;
        case 2:
        case 3: put_frame(script, stream); break;
        case 4: connect_stream(script, stream); break;
        case 5: lose(script, stream); break;
        case 6: commit(script, link); break;
        case 7: post(script, link); break;
        case 8: consume(script, link); break;
        case 9: expect(script, link); break;
        case 10: drain(script, stream); break;
        case 11: tell(script); break;
        case 12:
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
    struct script script = {.data = data, .left = size, .ends = {-1, -1}};
    const struct tcp_options options = {.size = 3,
                                        .streams = STREAMS,
                                        .piece_bytes = PIECE_BYTES,
                                        .piece_count = PIECES,
                                        .checks = size % 2 == 1,
                                        .hears = hear,
                                        .hears_context = &script};
    setenv("TUTTI_LOG", "off", 1);
    if (tcp_create(&options, &script.transport) != TUTTI_OK) abort();
    struct transport *transport = script.transport;
    for (int l = 0; l < LINKS; l++) {
        if (transport->ops->open_tx(transport, l, 0, 1, PIECE_BYTES, &script.tx[l]) != TUTTI_OK ||
            transport->ops->open_rx(transport, l, 0, 1, &script.rx[l]) != TUTTI_OK)
            abort();
    }
    for (unsigned s = 0; s < STREAMS; s++) connect_stream(&script, s);
    play(&script);
    tcp_close(transport);
    for (unsigned s = 0; s < STREAMS; s++) lose(&script, s);
    for (unsigned l = 0; l < LINKS; l++) {
        release_posted(&script, l);
        free(script.expected[l]);
    }
    return 0;
}
