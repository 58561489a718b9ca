#include "transport/card/link.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

enum { ALIGNMENT = 64 };

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a link over a network card: out of memory");
}

/* ------------------------------------------------------------------------------------------ sending */

enum tutti_status card_tx_create(const struct card_shape *shape, const uint64_t *signature,
                                 struct card_tx **created)
{
    struct card_tx *tx = calloc(1, sizeof *tx);
    *created = NULL;
    if (tx == NULL) return out_of_memory();
    tx->shape = *shape;
    tx->signature = signature;
    tx->slots = aligned_alloc(ALIGNMENT, shape->window * shape->piece_bytes);
    if (tx->slots == NULL) {
        card_tx_free(tx);
        return out_of_memory();
    }
    *created = tx;
    return TUTTI_OK;
}

void card_tx_free(struct card_tx *tx)
{
    if (tx == NULL) return;
    free(tx->slots);
    free(tx);
}

static struct card_entry *entry_of(struct card_tx *tx, uint64_t number)
{
    return &tx->entries[number % tx->shape.window];
}

bool card_tx_has_room(const struct card_tx *tx)
{
    return tx->entry_end - tx->entry_first < tx->shape.window;
}

void *card_tx_reserve(struct card_tx *tx, size_t bytes)
{
    assert(bytes <= tx->shape.piece_bytes);
    (void)bytes;
    if (!card_tx_has_room(tx)) return NULL;
    return tx->slots + tx->entry_end % tx->shape.window * tx->shape.piece_bytes;
}

static void add_entry(struct card_tx *tx, const char *data, size_t bytes, uint64_t key)
{
    *entry_of(tx, tx->entry_end++) = (struct card_entry){.data = data,
                                                         .bytes = bytes,
                                                         .key = key,
                                                         .is_posted = key != tx->slots_key,
                                                         .offset = tx->offset,
                                                         .signature = *tx->signature};
    tx->offset += bytes;
}

void card_tx_commit(struct card_tx *tx, size_t bytes)
{
    const char *const data = card_tx_reserve(tx, bytes); /* the same again */
    assert(data != NULL);
    add_entry(tx, data, bytes, tx->slots_key);
}

void card_tx_post(struct card_tx *tx, const void *address, size_t bytes, uint64_t key)
{
    assert(card_tx_has_room(tx));
    add_entry(tx, address, bytes, key);
    tx->has_posted = true;
    tx->posted_signature = *tx->signature;
}

bool card_tx_is_consumed(const struct card_tx *tx)
{
    return tx->entry_first == tx->entry_end;
}

/* Whether the receiver has offered a region for all that is left of it. */
static bool is_offered(const struct card_tx *tx, const struct card_entry *entry)
{
    const struct card_offer *offer = &tx->offer;
    const uint64_t from = entry->offset + entry->done, left = entry->bytes - entry->done;
    return offer->length != 0 && entry->is_posted && entry->key != 0 && left > 0 &&
           entry->signature == offer->signature && from >= offer->from && left <= offer->length &&
           from - offer->from <= offer->length - left;
}

static void describe(const struct card_tx *tx, const struct card_entry *entry, uint64_t sequence,
                     bool is_last, struct card_piece *piece)
{
    const bool is_awaited = tx->has_posted && entry->signature == tx->posted_signature;
    piece->message = (struct card_message){.kind = CARD_MESSAGE_DATA,
                                           .flags = is_last && is_awaited ? CARD_MESSAGE_ANSWER : 0,
                                           .index = (uint16_t)tx->index,
                                           .sequence = sequence,
                                           .offset = entry->offset + entry->done,
                                           .signature = entry->signature};
}

/* Of what was written, and has landed: that it is there. */
static bool next_placed(const struct card_tx *tx, struct card_piece *piece)
{
    for (uint64_t e = tx->entry_first; e < tx->entry_sending; e++) {
        const struct card_entry *entry = &tx->entries[e % tx->shape.window];
        if (entry->way != CARD_HAS_LANDED) continue;
        *piece = (struct card_piece){.entry = e};
        describe(tx, entry, entry->end - 1, true, piece);
        piece->message.kind = CARD_MESSAGE_PLACED;
        piece->message.offset = entry->offset + entry->written_from;
        piece->message.key = entry->offer_key;
        piece->message.length = entry->bytes - entry->written_from;
        return true;
    }
    return false;
}

bool card_tx_next(const struct card_tx *tx, struct card_piece *piece)
{
    if (next_placed(tx, piece)) return true;
    if (!tx->is_granted || tx->entry_sending == tx->entry_end ||
        tx->sent - tx->consumed == tx->shape.window)
        return false;
    const struct card_entry *entry = &tx->entries[tx->entry_sending % tx->shape.window];
    const size_t left = entry->bytes - entry->done;
    const bool is_write = is_offered(tx, entry), is_last = is_write || left <= tx->shape.piece_bytes;
    *piece = (struct card_piece){.is_write = is_write, .entry = tx->entry_sending};
    piece->memory = (struct card_memory){.key = entry->key,
                                         .address = entry->data + entry->done,
                                         .bytes = is_last ? left : tx->shape.piece_bytes};
    if (is_write) {
        piece->target = tx->offer.target;
        piece->at = entry->offset + entry->done - tx->offer.from;
    } else {
        describe(tx, entry, tx->sent, is_last, piece);
    }
    return true;
}

void card_tx_given(struct card_tx *tx, const struct card_piece *piece)
{
    struct card_entry *entry = entry_of(tx, piece->entry);
    if (entry->way == CARD_HAS_LANDED) {
        entry->way = CARD_IS_TOLD;
        return;
    }
    if (piece->is_write) {
        entry->way = CARD_IS_WRITING;
        entry->written_from = entry->done;
        entry->offer_key = piece->target.key;
    }
    entry->done += piece->memory.bytes;
    entry->end = ++tx->sent;
    if (entry->done == entry->bytes) tx->entry_sending++;
}

bool card_tx_is_all_given(const struct card_tx *tx)
{
    if (tx->entry_sending < tx->entry_end) return false;
    for (uint64_t e = tx->entry_first; e < tx->entry_end; e++) {
        const struct card_entry *entry = &tx->entries[e % tx->shape.window];
        if (entry->way == CARD_IS_WRITING || entry->way == CARD_HAS_LANDED) return false;
    }
    return true;
}

bool card_tx_landed(struct card_tx *tx, uint64_t number)
{
    struct card_entry *entry = entry_of(tx, number);
    if (number < tx->entry_first || number >= tx->entry_sending || entry->way != CARD_IS_WRITING)
        return false;
    entry->way = CARD_HAS_LANDED;
    return true;
}

bool card_tx_granted(struct card_tx *tx, const struct card_message *grant)
{
    if (grant->consumed > tx->sent) return false;
    tx->is_granted = true;
    if (tx->consumed < grant->consumed) tx->consumed = grant->consumed;
    /* Grants overtake each other. An offer that begins later was made later; of an earlier one nothing is left. */
    if (grant->length != 0 && (tx->offer.length == 0 || grant->offset > tx->offer.from))
        tx->offer = (struct card_offer){.target = {.key = grant->key, .base = grant->base},
                                        .from = grant->offset,
                                        .length = grant->length,
                                        .signature = grant->signature};
    return true;
}

bool card_tx_give_up(struct card_tx *tx, uint64_t *posted_key)
{
    if (tx->entry_first == tx->entry_end) return false;
    const struct card_entry *entry = entry_of(tx, tx->entry_first++);
    if (tx->entry_sending < tx->entry_first) tx->entry_sending = tx->entry_first;
    *posted_key = entry->is_posted ? entry->key : 0;
    return true;
}

bool card_tx_drop(struct card_tx *tx, uint64_t *posted_key)
{
    const struct card_entry *entry = entry_of(tx, tx->entry_first);
    if (tx->entry_first == tx->entry_sending || entry->end > tx->consumed) return false;
    if (entry->way == CARD_IS_WRITING || entry->way == CARD_HAS_LANDED) return false;
    return card_tx_give_up(tx, posted_key);
}

/* ---------------------------------------------------------------------------------------- receiving */

enum tutti_status card_rx_create(const struct card_shape *shape, const uint64_t *signature,
                                 struct card_rx **created)
{
    struct card_rx *rx = calloc(1, sizeof *rx);
    *created = rx;
    if (rx == NULL) return out_of_memory();
    rx->shape = *shape;
    rx->signature = signature;
    return TUTTI_OK;
}

void card_rx_free(struct card_rx *rx)
{
    free(rx);
}

/* Where what was written is; NULL: it cannot have been written. */
static const char *placed_at(const struct card_rx *rx, const struct card_message *message)
{
    const struct card_offer *offer = &rx->offer;
    if (offer->length == 0 || message->key != offer->target.key ||
        message->signature != offer->signature || message->length == 0 ||
        message->offset < offer->from || message->length > offer->length ||
        message->offset - offer->from > offer->length - message->length)
        return NULL;
    return offer->destination + (message->offset - offer->from);
}

const char *card_rx_arrive(struct card_rx *rx, const struct card_message *message,
                           struct card_buffer *buffer, size_t bytes)
{
    const uint64_t ahead = message->sequence - rx->consumed;
    if (message->sequence < rx->consumed || ahead >= rx->shape.window)
        return "a message has a number that nobody waits for";
    struct card_arrival *arrival = &rx->arrivals[message->sequence % rx->shape.window];
    if (arrival->has_come) return "a message came twice";
    if (bytes > rx->shape.piece_bytes) return "a message is too long";
    struct card_arrival made = {.has_come = true,
                                .bytes = bytes,
                                .offset = message->offset,
                                .signature = message->signature,
                                .wants_answer = (message->flags & CARD_MESSAGE_ANSWER) != 0};
    if (buffer != NULL) {
        made.buffer = buffer;
        made.data = buffer->data + CARD_MESSAGE_HEAD_BYTES;
    } else {
        made.data = placed_at(rx, message);
        made.bytes = message->length;
        if (made.data == NULL) return "a message was placed where none is expected";
    }
    *arrival = made;
    return NULL;
}

enum link_state card_rx_peek(const struct card_rx *rx, struct link_view *view)
{
    const struct card_arrival *arrival = &rx->arrivals[rx->consumed % rx->shape.window];
    if (!arrival->has_come) return LINK_EMPTY;
    if (arrival->signature != *rx->signature || arrival->offset != rx->position) return LINK_FAULT;
    *view = (struct link_view){.data = arrival->data + rx->done, .bytes = arrival->bytes - rx->done};
    return LINK_READY;
}

struct card_buffer *card_rx_consume(struct card_rx *rx, size_t bytes)
{
    struct card_arrival *arrival = &rx->arrivals[rx->consumed % rx->shape.window];
    assert(arrival->has_come && bytes <= arrival->bytes - rx->done);
    rx->done += bytes;
    if (rx->done < arrival->bytes) return NULL;
    rx->done = 0;
    rx->consumed++;
    rx->position += arrival->bytes;
    rx->owes_answer |= arrival->wants_answer;
    arrival->has_come = false;
    return arrival->buffer;
}

bool card_rx_may_offer(const struct card_rx *rx)
{
    return rx->offer.length == 0 && rx->done == 0;
}

void card_rx_offer(struct card_rx *rx, void *destination, size_t bytes, uint64_t key,
                   const struct card_target *target)
{
    assert(card_rx_may_offer(rx));
    rx->offer = (struct card_offer){.target = *target,
                                    .key = key,
                                    .from = rx->position,
                                    .length = bytes,
                                    .signature = *rx->signature,
                                    .destination = destination};
    rx->owes_offer = true;
}

uint64_t card_rx_drop_offer(struct card_rx *rx)
{
    const uint64_t key = rx->offer.key;
    if (key == 0 || rx->position - rx->offer.from < rx->offer.length) return 0;
    rx->offer = (struct card_offer){0};
    rx->owes_offer = false;
    return key;
}

bool card_rx_should_tell(const struct card_rx *rx)
{
    return rx->owes_answer || rx->owes_offer || rx->consumed - rx->told > rx->shape.window / 2;
}

bool card_rx_is_told(const struct card_rx *rx)
{
    return rx->told == rx->consumed && !rx->owes_offer;
}

void card_rx_tell(const struct card_rx *rx, struct card_message *grant)
{
    *grant = (struct card_message){.kind = CARD_MESSAGE_GRANT,
                                   .index = (uint16_t)rx->index,
                                   .consumed = rx->consumed,
                                   .key = rx->offer.target.key,
                                   .base = rx->offer.target.base,
                                   .offset = rx->offer.from,
                                   .length = rx->offer.length,
                                   .signature = rx->offer.signature};
}

void card_rx_told(struct card_rx *rx)
{
    rx->told = rx->consumed;
    rx->owes_answer = rx->owes_offer = false;
}
