#include "transport/tcp/link.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

enum { ALIGNMENT = 64, TELL_PIECES = TCP_WINDOW / 4 };

static_assert(TCP_WINDOW == 64, "a window is a word of bits");
static_assert(TCP_PLACES_MAX <= 64, "so are places");
static_assert(TCP_SMALL_BYTES % ALIGNMENT == 0, "small pieces are aligned");

static inline uint64_t bit_of(uint64_t number)
{
    return UINT64_C(1) << number % 64;
}

/* The bits numbered from a given piece on. */
static inline uint64_t bits_from(uint64_t bits, uint64_t first)
{
    const unsigned turn = first % 64;
    return turn == 0 ? bits : bits >> turn | bits << (64 - turn);
}

static char *allocate(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, bytes);
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a link over TCP: out of memory");
}

/* -------------------------------------------------------------------------------------- sending */

enum tutti_status tcp_tx_create(const struct tcp_shape *shape, const uint64_t *signature,
                                struct tcp_tx **created)
{
    struct tcp_tx *tx = calloc(1, sizeof *tx);
    *created = NULL;
    if (tx == NULL) return out_of_memory();
    tx->shape = *shape;
    tx->signature = signature;
    tx->slot_reserved = -1;
    tx->smalls = allocate(TCP_WINDOW * TCP_SMALL_BYTES);
    if (tx->smalls == NULL) {
        tcp_tx_free(tx);
        return out_of_memory();
    }
    *created = tx;
    return TUTTI_OK;
}

void tcp_tx_free(struct tcp_tx *tx)
{
    if (tx == NULL) return;
    free(tx->smalls);
    free(tx->slots);
    free(tx);
}

enum tutti_status tcp_tx_make_slots(struct tcp_tx *tx)
{
    if (tx->slots == NULL) tx->slots = allocate(tx->shape.place_count * tx->shape.piece_bytes);
    return tx->slots != NULL ? TUTTI_OK : out_of_memory();
}

static uint64_t pieces_of(const struct tcp_tx *tx, size_t bytes)
{
    return bytes == 0 ? 1 : (bytes - 1) / tx->shape.piece_bytes + 1;
}

bool tcp_tx_has_room(const struct tcp_tx *tx)
{
    return tx->entry_end - tx->entry_first < TCP_WINDOW;
}

/* The first place that is free; -1: none. */
static int find_free(const struct tcp_tx *tx, const uint64_t *free_at)
{
    for (unsigned p = 0; p < tx->shape.place_count; p++)
        if (tx->consumed >= free_at[p]) return (int)p;
    return -1;
}

void *tcp_tx_reserve(struct tcp_tx *tx, size_t bytes)
{
    if (!tcp_tx_has_room(tx)) return NULL;
    if (bytes <= TCP_SMALL_BYTES) return tx->smalls + tx->entry_end % TCP_WINDOW * TCP_SMALL_BYTES;
    assert(bytes <= tx->shape.piece_bytes && tx->slots != NULL);
    if (tx->slot_reserved < 0) tx->slot_reserved = find_free(tx, tx->slot_free_at);
    if (tx->slot_reserved < 0) return NULL;
    return tx->slots + (size_t)tx->slot_reserved * tx->shape.piece_bytes;
}

static void add_entry(struct tcp_tx *tx, const char *data, size_t bytes)
{
    tx->entries[tx->entry_end % TCP_WINDOW] = (struct tcp_entry){.data = data,
                                                                 .bytes = bytes,
                                                                 .first = tx->sequence,
                                                                 .offset = tx->offset,
                                                                 .signature = *tx->signature};
    tx->entry_end++;
    tx->sequence += pieces_of(tx, bytes);
    tx->offset += bytes;
}

void tcp_tx_commit(struct tcp_tx *tx, size_t bytes)
{
    const char *const data = tcp_tx_reserve(tx, bytes); /* the same again */
    assert(data != NULL);
    add_entry(tx, data, bytes);
    if (bytes <= TCP_SMALL_BYTES) return;
    tx->slot_free_at[tx->slot_reserved] = tx->sequence;
    tx->slot_reserved = -1;
}

bool tcp_tx_post(struct tcp_tx *tx, const void *address, size_t bytes)
{
    if (!tcp_tx_has_room(tx)) return false;
    tx->has_posted = true;
    tx->posted_signature = *tx->signature;
    add_entry(tx, bytes > 0 ? address : tx->smalls, bytes);
    return true;
}

static void describe(const struct tcp_tx *tx, const struct tcp_entry *entry, uint64_t sequence,
                     struct tcp_piece *piece)
{
    const size_t done = (size_t)(sequence - entry->first) * tx->shape.piece_bytes,
                 left = entry->bytes - done;
    const bool is_last = left <= tx->shape.piece_bytes;
    *piece = (struct tcp_piece){.data = entry->data + done,
                                .bytes = is_last ? left : tx->shape.piece_bytes,
                                .sequence = sequence,
                                .offset = entry->offset + done,
                                .signature = entry->signature,
                                .place = TCP_FRAME_NO_PLACE,
                                .wants_answer = is_last && tx->has_posted &&
                                                entry->signature == tx->posted_signature};
}

static bool next_again(const struct tcp_tx *tx, struct tcp_piece *piece)
{
    const uint64_t sequence =
        tx->consumed + (unsigned)__builtin_ctzll(bits_from(tx->again, tx->consumed));
    uint64_t e = tx->entry_first;
    const struct tcp_entry *entry = &tx->entries[e % TCP_WINDOW];
    while (sequence >= entry->first + pieces_of(tx, entry->bytes))
        entry = &tx->entries[++e % TCP_WINDOW];
    describe(tx, entry, sequence, piece);
    piece->place = tx->places[sequence % TCP_WINDOW];
    return true;
}

bool tcp_tx_next(const struct tcp_tx *tx, struct tcp_piece *piece)
{
    if (tx->again != 0) return next_again(tx, piece);
    if (!tx->is_granted || tx->sent == tx->sequence || tx->sent - tx->consumed == TCP_WINDOW)
        return false;
    describe(tx, &tx->entries[tx->entry_sending % TCP_WINDOW], tx->sent, piece);
    if (piece->bytes <= TCP_SMALL_BYTES) return true;
    if (piece->signature == tx->expected_signature &&
        piece->offset + piece->bytes <= tx->expected_until) {
        piece->place = TCP_FRAME_EXPECTED;
        return true;
    }
    const int place = find_free(tx, tx->place_free_at);
    piece->place = (uint32_t)place;
    return place >= 0;
}

bool tcp_tx_is_all_sent(const struct tcp_tx *tx)
{
    return tx->sent == tx->sequence && tx->again == 0;
}

void tcp_tx_sent(struct tcp_tx *tx, const struct tcp_piece *piece, unsigned stream)
{
    const uint64_t at = piece->sequence % TCP_WINDOW;
    tx->streams[at] = (uint8_t)stream;
    if (piece->sequence < tx->sent) {
        tx->again &= ~bit_of(piece->sequence);
        return;
    }
    tx->places[at] = piece->place;
    tx->sent++;
    if (piece->place < tx->shape.place_count) tx->place_free_at[piece->place] = tx->sent;
    const struct tcp_entry *entry = &tx->entries[tx->entry_sending % TCP_WINDOW];
    if (tx->sent == entry->first + pieces_of(tx, entry->bytes)) tx->entry_sending++;
}

void tcp_tx_expected(struct tcp_tx *tx, uint64_t until, uint64_t signature)
{
    tx->expected_until = until;
    tx->expected_signature = signature;
}

bool tcp_tx_credit(struct tcp_tx *tx, uint64_t consumed)
{
    if (consumed > tx->sent) return false;
    for (; tx->consumed < consumed; tx->consumed++) tx->again &= ~bit_of(tx->consumed);
    for (; tx->entry_first < tx->entry_sending; tx->entry_first++) {
        const struct tcp_entry *entry = &tx->entries[tx->entry_first % TCP_WINDOW];
        if (entry->first + pieces_of(tx, entry->bytes) > tx->consumed) break;
    }
    return true;
}

bool tcp_tx_resume(struct tcp_tx *tx, unsigned stream, uint64_t consumed, uint64_t received)
{
    if (!tcp_tx_credit(tx, consumed)) return false;
    for (uint64_t s = tx->consumed; s < tx->sent; s++) {
        /* Pieces beyond these bits were sent with a later credit, into a connection that was no
         * longer read. */
        const uint64_t behind = s - consumed;
        const bool has_come = behind < TCP_WINDOW && (received >> behind & 1) != 0;
        if (tx->streams[s % TCP_WINDOW] == stream && !has_come) tx->again |= bit_of(s);
    }
    return true;
}

/* ------------------------------------------------------------------------------------ receiving */

enum tutti_status tcp_rx_create(const struct tcp_shape *shape, const uint64_t *signature,
                                struct tcp_rx **created)
{
    struct tcp_rx *rx = calloc(1, sizeof *rx);
    *created = NULL;
    if (rx == NULL) return out_of_memory();
    rx->shape = *shape;
    rx->signature = signature;
    rx->smalls = allocate(TCP_WINDOW * TCP_SMALL_BYTES);
    rx->slots = allocate(shape->place_count * shape->piece_bytes);
    if (rx->smalls == NULL || rx->slots == NULL) {
        tcp_rx_free(rx);
        return out_of_memory();
    }
    *created = rx;
    return TUTTI_OK;
}

void tcp_rx_free(struct tcp_rx *rx)
{
    if (rx == NULL) return;
    free(rx->smalls);
    free(rx->slots);
    free(rx);
}

/* Only bytes of the operation that runs now count. */
static char *expected_place(const struct tcp_rx *rx, const struct tcp_frame *frame)
{
    if (rx->expected_bytes < frame->bytes || frame->bytes == 0 ||
        frame->signature != *rx->signature || frame->offset < rx->expected_from)
        return NULL;
    const uint64_t behind = frame->offset - rx->expected_from;
    return behind <= rx->expected_bytes - frame->bytes ? rx->expected + behind : NULL;
}

const char *tcp_rx_begin(struct tcp_rx *rx, const struct tcp_frame *frame, char **target)
{
    const uint64_t bit = bit_of(frame->sequence);
    const bool is_small = frame->bytes <= TCP_SMALL_BYTES;
    if (frame->sequence < rx->consumed || frame->sequence - rx->consumed >= TCP_WINDOW)
        return "a piece has a number that nobody waits for";
    if (((rx->received | rx->coming) & bit) != 0) return "a piece came twice";
    if (frame->bytes > rx->shape.piece_bytes) return "a piece is too long";
    if (is_small != (frame->place == TCP_FRAME_NO_PLACE)) return "a piece has no place";
    char *const expected = expected_place(rx, frame);
    char *data = rx->smalls + frame->sequence % TCP_WINDOW * TCP_SMALL_BYTES;
    if (frame->place == TCP_FRAME_EXPECTED) {
        if (expected == NULL) return "a piece is not expected";
    } else if (!is_small) {
        if (frame->place >= rx->shape.place_count || (rx->places_used & bit_of(frame->place)) != 0)
            return "a piece's place is not free";
        rx->places_used |= bit_of(frame->place);
        data = rx->slots + frame->place * rx->shape.piece_bytes;
    }
    if (expected != NULL) data = expected;
    rx->coming |= bit;
    rx->arrivals[frame->sequence % TCP_WINDOW] =
        (struct tcp_arrival){.data = data,
                             .offset = frame->offset,
                             .signature = frame->signature,
                             .bytes = frame->bytes,
                             .place = frame->place,
                             .wants_answer = (frame->flags & TCP_FRAME_ANSWER) != 0};
    *target = data;
    return NULL;
}

bool tcp_rx_end(struct tcp_rx *rx, uint64_t sequence)
{
    const uint64_t bit = bit_of(sequence), changed = rx->changed & bit;
    rx->coming &= ~bit;
    rx->received |= bit;
    rx->changed ^= changed;
    return changed != 0;
}

bool tcp_rx_came_changed(struct tcp_rx *rx, uint64_t sequence)
{
    const bool did_before = (rx->changed & bit_of(sequence)) != 0;
    rx->changed |= bit_of(sequence);
    return did_before;
}

void tcp_rx_abandon(struct tcp_rx *rx, uint64_t sequence)
{
    const uint32_t place = rx->arrivals[sequence % TCP_WINDOW].place;
    rx->coming &= ~bit_of(sequence);
    if (place < rx->shape.place_count) rx->places_used &= ~bit_of(place);
}

enum link_state tcp_rx_peek(const struct tcp_rx *rx, struct link_view *view)
{
    if ((rx->received & bit_of(rx->consumed)) == 0) return LINK_EMPTY;
    const struct tcp_arrival *arrival = &rx->arrivals[rx->consumed % TCP_WINDOW];
    if (arrival->signature != *rx->signature || arrival->offset != rx->position) return LINK_FAULT;
    *view = (struct link_view){.data = arrival->data + rx->done, .bytes = arrival->bytes - rx->done};
    return LINK_READY;
}

void tcp_rx_consume(struct tcp_rx *rx, size_t bytes)
{
    const struct tcp_arrival *arrival = &rx->arrivals[rx->consumed % TCP_WINDOW];
    assert((rx->received & bit_of(rx->consumed)) != 0 && bytes <= arrival->bytes - rx->done);
    rx->done += bytes;
    if (rx->done < arrival->bytes) return;
    rx->done = 0;
    rx->received &= ~bit_of(rx->consumed);
    rx->consumed++;
    rx->position += arrival->bytes;
    rx->owes_answer |= arrival->wants_answer;
    if (arrival->place < rx->shape.place_count) {
        rx->places_used &= ~bit_of(arrival->place);
        rx->places_untold++;
    }
    if (rx->expected_bytes > 0 && rx->position - rx->expected_from >= rx->expected_bytes)
        rx->expected_bytes = 0;
}

void tcp_rx_advertise(struct tcp_rx *rx, void *destination, size_t bytes)
{
    rx->expected_bytes = 0;
    if (rx->done > 0) return; /* not at the beginning of a message */
    rx->expected = destination;
    rx->expected_from = rx->position;
    rx->expected_bytes = bytes;
    /* If it fits into half of the places, to say so would gain nothing. */
    rx->owes_expected = bytes > rx->shape.place_count / 2 * rx->shape.piece_bytes;
}

uint64_t tcp_rx_expected_until(const struct tcp_rx *rx)
{
    return rx->expected_bytes > 0 ? rx->expected_from + rx->expected_bytes : 0;
}

bool tcp_rx_should_tell(const struct tcp_rx *rx)
{
    return rx->owes_answer || rx->owes_expected || rx->consumed - rx->told >= TELL_PIECES ||
           rx->places_untold >= rx->shape.spare;
}

void tcp_rx_told(struct tcp_rx *rx)
{
    rx->told = rx->consumed;
    rx->places_untold = 0;
    rx->owes_answer = rx->owes_expected = false;
}

uint64_t tcp_rx_received(const struct tcp_rx *rx)
{
    return bits_from(rx->received, rx->consumed);
}
