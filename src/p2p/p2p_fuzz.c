/* Whatever bytes peers put on the links, in whatever order with this rank's own sends and receives:
 * nothing is written beyond a receive's room, no request is touched after it is done, bounds hold,
 * and a fault is final.
 *
 * The input is a script: an operation (one byte), its arguments, for a message its bytes. */
#include <stdlib.h>
#include <string.h>

#include "encoding/encoding.h"
#include "p2p/p2p.h"
#include "transport/paths.h"

enum { RANKS = 3, OWN = 1, CHANNELS = 3, REQUESTS_MAX = 200, COUNT_MAX = 20, BYTES_MAX = 4000 };

struct fuzz_tx {
    struct link_tx base;
    void *reserved;
    struct script *script;
};

struct piece {
    struct piece *next;
    size_t bytes;
    bool is_remote; /* has to be taken or fetched */
    unsigned char data[];
};

struct fuzz_rx {
    struct link_rx base;
    struct piece *first, **end;
    size_t done;
};

struct script {
    struct transport transport;
    const uint8_t *data;
    size_t left;
    bool is_full, is_consumed;
    struct fuzz_tx tx[RANKS][CHANNELS];
    struct fuzz_rx rx[RANKS][CHANNELS];
    struct p2p *p2p;
    struct p2p_request *requests[REQUESTS_MAX];
    int request_count;
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

/* ---------------------------------------------------------------------------------------- links */

static void *fuzz_reserve(struct link_tx *link, size_t bytes)
{
    struct fuzz_tx *tx = (struct fuzz_tx *)link;
    if (tx->script->is_full) return NULL;
    free(tx->reserved);
    return tx->reserved = must(malloc(bytes + 1));
}

static void fuzz_commit(struct link_tx *link, size_t bytes)
{
    struct fuzz_tx *tx = (struct fuzz_tx *)link;
    if (bytes > 256) abort();
    free(tx->reserved);
    tx->reserved = NULL;
}

static enum link_reach fuzz_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address;
    return bytes % 2 ? REACH_READ : REACH_NONE;
}

static bool fuzz_post(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    return !((struct fuzz_tx *)link)->script->is_full;
}

static bool fuzz_consumed(struct link_tx *link)
{
    return ((struct fuzz_tx *)link)->script->is_consumed;
}

static bool fuzz_refer(struct link_tx *link, const void *address, size_t bytes,
                       struct link_reference *reference)
{
    (void)link, (void)address;
    *reference = (struct link_reference){1, bytes};
    return bytes % 3 == 0;
}

/* The memory to which a peer refers holds the peer's bytes, so anything. */
static enum link_state fuzz_copy(struct link_rx *link, const struct link_reference *reference,
                                 size_t offset, void *destination, size_t bytes)
{
    (void)link, (void)offset;
    if (reference->where % 4 == 0) return LINK_FAULT;
    if (reference->where % 4 == 1) return LINK_EMPTY;
    memset(destination, (int)reference->kind & 0xff, bytes);
    return LINK_READY;
}

static enum link_state fuzz_peek(struct link_rx *link, struct link_view *view)
{
    const struct fuzz_rx *rx = (const struct fuzz_rx *)link;
    if (rx->first == NULL) return LINK_EMPTY;
    const struct piece *piece = rx->first;
    *view = (struct link_view){.data = piece->is_remote ? NULL : piece->data + rx->done,
                               .bytes = piece->bytes - rx->done};
    return LINK_READY;
}

static void fuzz_consume(struct link_rx *link, size_t bytes)
{
    struct fuzz_rx *rx = (struct fuzz_rx *)link;
    struct piece *piece = rx->first;
    if (bytes > piece->bytes - rx->done) abort();
    rx->done += bytes;
    if (rx->done < piece->bytes) return;
    rx->done = 0;
    rx->first = piece->next;
    if (rx->first == NULL) rx->end = &rx->first;
    free(piece);
}

static bool fuzz_take(struct link_rx *link, void *destination, size_t bytes)
{
    const struct fuzz_rx *rx = (const struct fuzz_rx *)link;
    if (!rx->first->is_remote || bytes > rx->first->bytes - rx->done) abort();
    memcpy(destination, rx->first->data + rx->done, bytes);
    return true;
}

static bool fuzz_fetch(struct link_rx *link)
{
    ((struct fuzz_rx *)link)->first->is_remote = false;
    return true;
}

static const struct link_tx_ops tx_ops = {.reserve = fuzz_reserve,
                                          .commit = fuzz_commit,
                                          .reach = fuzz_reach,
                                          .post = fuzz_post,
                                          .consumed = fuzz_consumed,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = fuzz_refer};
static const struct link_rx_ops rx_ops = {.peek = fuzz_peek,
                                          .take = fuzz_take,
                                          .fetch = fuzz_fetch,
                                          .consume = fuzz_consume,
                                          .forward = link_no_forward,
                                          .advertise = link_no_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = fuzz_copy};

static void fuzz_limits(struct transport *transport, size_t *piece_bytes_max,
                        unsigned *piece_count_max)
{
    (void)transport;
    *piece_bytes_max = 256;
    *piece_count_max = 1;
}

static enum tutti_status fuzz_open_tx(struct transport *transport, int slot, int channel, int peer,
                                      size_t bytes, struct link_tx **link)
{
    (void)slot, (void)bytes;
    *link = &((struct script *)transport)->tx[peer][channel].base;
    return TUTTI_OK;
}

static enum tutti_status fuzz_open_rx(struct transport *transport, int slot, int channel, int peer,
                                      struct link_rx **link)
{
    (void)slot;
    *link = &((struct script *)transport)->rx[peer][channel].base;
    return TUTTI_OK;
}

static void nothing(struct transport *transport)
{
    (void)transport;
    abort();
}

static void nothing_long(struct transport *transport, uint64_t timeout_ns)
{
    (void)timeout_ns;
    nothing(transport);
}

static const struct transport_ops ops = {.limits = fuzz_limits,
                                         .open_tx = fuzz_open_tx,
                                         .open_rx = fuzz_open_rx,
                                         .sleep_begin = nothing,
                                         .sleep_cancel = nothing,
                                         .sleep = nothing_long,
                                         .wake = nothing,
                                         .wake_all = nothing,
                                         .progress = transport_no_progress,
                                         .flush = transport_no_flush,
                                         .is_awaited = transport_not_awaited,
                                         .is_settled = transport_owes_nothing,
                                         .stop = transport_stops_nothing,
                                         .descriptor = transport_no_descriptor,
                                         .corrupt_rank = transport_no_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = transport_no_footprint};

/* --------------------------------------------------------------------------------------- script */

static void arrive(struct script *script)
{
    const unsigned where = next(script);
    struct fuzz_rx *rx = &script->rx[where & 1 ? 2 : 0][(where >> 1) % 4 % CHANNELS];
    size_t bytes = next(script);
    if (bytes > script->left) bytes = script->left;
    struct piece *piece = must(malloc(sizeof *piece + bytes));
    *piece = (struct piece){.bytes = bytes, .is_remote = where & 8};
    memcpy(piece->data, script->data, bytes);
    script->data += bytes;
    script->left -= bytes;
    *rx->end = piece;
    rx->end = &piece->next;
}

static void start(struct script *script, bool is_send)
{
    if (script->request_count == REQUESTS_MAX) return;
    struct p2p_request *request = must(calloc(1, sizeof *request));
    request->is_send = is_send;
    request->peer = (int)next(script) % (is_send ? RANKS : RANKS + 1);
    if (request->peer == RANKS) request->peer = TUTTI_ANY_RANK;
    request->tag = (int)next(script) % 4 - (is_send ? 0 : 1);
    const unsigned what = next(script), encoding = what / 2 % (2 * ENCODING_COUNT);
    request->dtype = what % 2 ? TUTTI_UINT8 : TUTTI_FLOAT32;
    request->bytes = (size_t)next(script) * (next(script) % 64);
    if (request->dtype == TUTTI_FLOAT32) request->bytes &= ~(size_t)3;
    if (!is_send)
        request->minds_encoding = encoding % 2;
    else if (request->dtype == TUTTI_FLOAT32 && request->peer != OWN &&
             encoding_is_valid((enum tutti_encoding)encoding))
        request->encoding = encoding_of((enum tutti_encoding)encoding, TUTTI_FLOAT32);
    request->buffer = must(calloc(1, request->bytes + (request->bytes == 0)));
    if (p2p_start(script->p2p, request) != TUTTI_OK) abort();
    script->requests[script->request_count++] = request;
}

static void request_free(struct p2p_request *request)
{
    free(request->buffer);
    free(request);
}

/* Some do: all of int8, and messages of one half of all tags. */
static bool agrees(const struct p2p_request *receive)
{
    return (receive->encoding != NULL && receive->encoding->unit_elements == 128) ||
           receive->message_tag % 2;
}

static void collect(struct script *script)
{
    for (int i = 0; i < script->request_count; i++) {
        struct p2p_request *request = script->requests[i];
        if (!request->done) continue;
        const bool is_lost = request->status == TUTTI_TRUNCATED || request->status == TUTTI_MISMATCH;
        if (request->status != TUTTI_OK && (!is_lost || request->is_send)) abort();
        if (!request->is_send && (request->received_bytes > request->bytes || request->source < 0 ||
                                  request->source >= RANKS || request->message_tag < 0))
            abort();
        request_free(request);
        script->requests[i--] = script->requests[--script->request_count];
    }
    if (p2p_is_busy(script->p2p) != (script->request_count > 0)) abort();
}

static void progress(struct script *script)
{
    const int fault = p2p_fault(script->p2p);
    const bool moved = p2p_progress(script->p2p);
    if (fault >= 0 && (moved || p2p_fault(script->p2p) != fault)) abort();
    if (p2p_fault(script->p2p) == OWN || p2p_status(script->p2p) != TUTTI_OK) abort();
    const int held = p2p_held_back(script->p2p, TUTTI_ANY_RANK);
    if (held != -1 && p2p_held_back(script->p2p, held) != held) abort();
    char text[20];
    p2p_describe_unexpected(script->p2p, text, sizeof text);
    collect(script);
}

static void play(struct script *script)
{
    while (script->left > 0) {
        switch (next(script) % 8) {
        case 0:
        case 1:
        case 2: arrive(script); break;
        case 3: start(script, false); break;
        case 4: start(script, true); break;
        case 5: script->is_full = next(script) % 2; break;
        case 6: script->is_consumed = next(script) % 2; break;
        default: progress(script); break;
        }
    }
    for (int i = 0; i < 10; i++) progress(script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {.transport = {.ops = &ops,
                                          .sharing = &transport_shares_nothing,
                                          .rank = OWN,
                                          .size = RANKS,
                                          .paths.tables = {transport_paths("local")}},
                            .data = data,
                            .left = size};
    for (int r = 0; r < RANKS; r++) {
        for (int c = 0; c < CHANNELS; c++) {
            script.tx[r][c] =
                (struct fuzz_tx){.base = {.ops = &tx_ops, .peer = r, .capabilities = LINK_REFERS},
                                 .script = &script};
            script.rx[r][c] =
                (struct fuzz_rx){.base = {.ops = &rx_ops, .peer = r, .capabilities = LINK_REFERS}};
            script.rx[r][c].end = &script.rx[r][c].first;
        }
    }
    const struct p2p_options options = {.eager_bytes_max = 100,
                                        .unexpected_bytes_max = BYTES_MAX,
                                        .unexpected_count_max = COUNT_MAX,
                                        .agrees = agrees};
    transport_own_slots(&script.transport);
    if (p2p_create(&script.transport, 0, &options, &script.p2p) != TUTTI_OK) abort();
    play(&script);
    p2p_free(script.p2p);
    for (int i = 0; i < script.request_count; i++) request_free(script.requests[i]);
    for (int r = 0; r < RANKS; r++) {
        for (int c = 0; c < CHANNELS; c++) {
            free(script.tx[r][c].reserved);
            while (script.rx[r][c].first != NULL) {
                struct piece *piece = script.rx[r][c].first;
                script.rx[r][c].first = piece->next;
                free(piece);
            }
        }
    }
    return 0;
}
