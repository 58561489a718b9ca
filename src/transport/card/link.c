#include "transport/card/link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { ALIGNMENT = 64 };

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a link over a network card: out of memory");
}

/* -------------------------------------------------------------------------------------- sending */

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

static size_t least(uint64_t one, uint64_t other)
{
    return (size_t)(one < other ? one : other);
}

/* The number of an entry's next bytes that can be written at once to where the receiver offered; in
 * a landing, at most a part of it. */
static size_t offered_bytes(const struct card_tx *tx, const struct card_entry *entry,
                            size_t write_bytes)
{
    const struct card_offer *offer = &tx->offer;
    const uint64_t at = entry->offset + entry->done;
    const size_t left = entry->bytes - entry->done;
    if (offer->target.key == 0 || !entry->is_posted || entry->key == 0 || left == 0 ||
        entry->signature != offer->signature || at < offer->from || at >= offer->until)
        return 0;
    const uint64_t open = offer->until - at;
    if (offer->room == 0) return least(least(open, left), write_bytes);
    const uint64_t to_end = offer->room - (at - offer->from) % offer->room,
                   part = (offer->room + CARD_LANDING_PARTS - 1) / CARD_LANDING_PARTS;
    const size_t bytes = least(least(left, least(part, write_bytes)), to_end);
    return open >= bytes ? bytes : 0;
}

/* Whether an entry waits for a place. */
static bool needs_place(const struct card_tx *tx, const struct card_entry *entry)
{
    const uint64_t at = entry->offset + entry->done;
    const bool is_declined = tx->offer.target.key == 0 && entry->signature == tx->offer.signature &&
                             at >= tx->offer.from && at < tx->offer.until;
    return entry->is_posted && entry->key != 0 && entry->bytes >= tx->shape.asked_bytes &&
           !is_declined;
}

static struct card_message describe(const struct card_tx *tx, const struct card_entry *entry,
                                    enum card_message_kind kind, uint64_t number, bool is_last)
{
    const bool is_awaited = tx->has_posted && entry->signature == tx->posted_signature;
    return (struct card_message){.kind = (uint8_t)kind,
                                 .flags = is_last && is_awaited ? CARD_MESSAGE_ANSWER : 0,
                                 .index = (uint16_t)tx->index,
                                 .sequence = number,
                                 .offset = entry->offset + entry->done,
                                 .signature = entry->signature};
}

static struct card_written *written_as(struct card_tx *tx, uint64_t number)
{
    return &tx->written[number % tx->shape.window];
}

/* The message that says that written bytes have landed. */
static bool next_placed(const struct card_tx *tx, struct card_piece *piece)
{
    if (tx->untold == 0) return false;
    for (unsigned w = 0; w < tx->shape.window; w++) {
        const struct card_written *written = &tx->written[w];
        if (!written->has_landed || written->is_told) continue;
        const struct card_entry *entry = &tx->entries[written->entry % tx->shape.window];
        *piece = (struct card_piece){.number = written->number};
        piece->message = describe(tx, entry, CARD_MESSAGE_PLACED, written->number,
                                  written->number + 1 == entry->end);
        piece->message.offset = written->offset;
        piece->message.key = written->key;
        piece->message.length = written->bytes;
        return true;
    }
    return false;
}

/* If the entry that is being sent goes into a landing, the first entry behind it that could do so,
 * too, and for which no place was asked. */
static bool next_to_ask_for(const struct card_tx *tx, uint64_t *number)
{
    const struct card_entry *sending = &tx->entries[tx->entry_sending % tx->shape.window];
    const uint64_t at = sending->offset + sending->done;
    if (tx->offer.room == 0 || !sending->has_asked || at < tx->offer.from || at >= tx->offer.until)
        return false;
    for (uint64_t e = tx->entry_sending + 1; e < tx->entry_end; e++) {
        const struct card_entry *entry = &tx->entries[e % tx->shape.window];
        if (entry->has_asked) continue;
        *number = e;
        return needs_place(tx, entry) && entry->signature == sending->signature &&
               entry->offset - at <= tx->shape.landing_bytes;
    }
    return false;
}

static void ask(const struct card_tx *tx, uint64_t number, struct card_piece *piece)
{
    const struct card_entry *entry = &tx->entries[number % tx->shape.window];
    *piece = (struct card_piece){.number = tx->sent, .entry = number};
    piece->message = describe(tx, entry, CARD_MESSAGE_ASK, tx->sent, false);
    piece->message.length = entry->bytes - entry->done;
}

bool card_tx_next(const struct card_tx *tx, size_t write_bytes, struct card_piece *piece)
{
    if (next_placed(tx, piece)) return true;
    if (!tx->is_granted || tx->entry_sending == tx->entry_end ||
        tx->sent - tx->consumed == tx->shape.window ||
        tx->written[tx->sent % tx->shape.window].is_used)
        return false;
    uint64_t behind_it;
    if (next_to_ask_for(tx, &behind_it)) {
        ask(tx, behind_it, piece);
        return true;
    }
    const struct card_entry *entry = &tx->entries[tx->entry_sending % tx->shape.window];
    const size_t left = entry->bytes - entry->done, offered = offered_bytes(tx, entry, write_bytes);
    *piece =
        (struct card_piece){.is_write = offered > 0, .number = tx->sent, .entry = tx->entry_sending};
    piece->memory = (struct card_memory){.key = entry->key, .address = entry->data + entry->done};
    if (offered > 0) {
        const uint64_t behind = entry->offset + entry->done - tx->offer.from;
        piece->memory.bytes = offered;
        piece->target = tx->offer.target;
        piece->at = tx->offer.room == 0 ? behind : behind % tx->offer.room;
    } else if (needs_place(tx, entry)) {
        if (entry->has_asked) return false;
        ask(tx, tx->entry_sending, piece);
    } else {
        const bool is_last = left <= tx->shape.piece_bytes;
        piece->memory.bytes = is_last ? left : tx->shape.piece_bytes;
        piece->message = describe(tx, entry, CARD_MESSAGE_DATA, tx->sent, is_last);
    }
    return true;
}

static void end_write(struct card_tx *tx, struct card_written *written)
{
    if (!written->is_told || !written->is_done) return;
    entry_of(tx, written->entry)->writing--;
    written->is_used = written->has_landed = false;
}

void card_tx_given(struct card_tx *tx, const struct card_piece *piece)
{
    struct card_written *written = written_as(tx, piece->number);
    if (written->is_used) {
        written->is_told = true;
        tx->untold--;
        end_write(tx, written);
        return;
    }
    struct card_entry *entry = entry_of(tx, piece->entry);
    if (piece->is_write) {
        *written = (struct card_written){.is_used = true,
                                         .number = piece->number,
                                         .entry = piece->entry,
                                         .offset = entry->offset + entry->done,
                                         .key = piece->target.key,
                                         .bytes = piece->memory.bytes};
        entry->writing++;
    }
    entry->has_asked |= piece->message.kind == CARD_MESSAGE_ASK;
    entry->sending += piece->message.kind == CARD_MESSAGE_DATA;
    entry->done += piece->memory.bytes;
    entry->end = ++tx->sent;
    if (entry->done == entry->bytes && piece->message.kind != CARD_MESSAGE_ASK) tx->entry_sending++;
}

void card_tx_left(struct card_tx *tx, unsigned entry)
{
    assert(entry_of(tx, entry)->sending > 0);
    entry_of(tx, entry)->sending--;
}

bool card_tx_is_all_given(const struct card_tx *tx)
{
    if (tx->entry_sending < tx->entry_end) return false;
    for (uint64_t e = tx->entry_first; e < tx->entry_end; e++)
        if (tx->entries[e % tx->shape.window].writing > 0) return false;
    return true;
}

bool card_tx_landed(struct card_tx *tx, uint32_t number, bool is_done)
{
    for (unsigned w = 0; w < tx->shape.window; w++) {
        struct card_written *written = &tx->written[w];
        if (!written->is_used || written->is_done || (uint32_t)written->number != number) continue;
        tx->untold += !written->has_landed;
        written->has_landed = true;
        written->is_done = is_done;
        end_write(tx, written);
        return true;
    }
    return false;
}

/* Grants overtake each other. If there are two offers, the offer that begins later, or reaches
 * further, was made later; nothing is left of the earlier offer. */
static bool is_newer(const struct card_offer *offer, const struct card_message *grant)
{
    if (grant->length == 0 || grant->offset + grant->length < grant->offset) return false;
    return offer->until == offer->from || grant->offset > offer->from ||
           (grant->offset == offer->from && grant->offset + grant->length > offer->until);
}

bool card_tx_granted(struct card_tx *tx, const struct card_grant *grant)
{
    const struct card_message *const message = &grant->message;
    if (message->consumed > tx->sent) return false;
    tx->is_granted = true;
    if (tx->consumed < message->consumed) tx->consumed = message->consumed;
    if (!is_newer(&tx->offer, message)) return true;
    tx->offer = (struct card_offer){.target = {.key = message->key, .base = message->base},
                                    .from = message->offset,
                                    .until = message->offset + message->length,
                                    .room = message->room,
                                    .signature = message->signature};
    memcpy(tx->offer.target.further, grant->further, sizeof grant->further);
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
    if (tx->entry_first == tx->entry_sending || entry->end > tx->consumed || entry->writing > 0 ||
        entry->sending > 0)
        return false;
    return card_tx_give_up(tx, posted_key);
}

/* ------------------------------------------------------------------------------------ receiving */

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
    if (rx == NULL) return;
    free(rx->landing);
    free(rx);
}

/* The place of written bytes; NULL: they cannot have been written. */
static const char *placed_at(const struct card_rx *rx, const struct card_message *message)
{
    const struct card_offer *offer = &rx->offer;
    if (offer->destination == NULL || message->key != offer->target.key ||
        message->signature != offer->signature || message->length == 0 ||
        message->offset < offer->from || message->offset >= offer->until ||
        message->length > offer->until - message->offset)
        return NULL;
    const uint64_t behind = message->offset - offer->from;
    if (offer->room == 0) return offer->destination + behind;
    const uint64_t at = behind % offer->room;
    return message->length <= offer->room - at ? offer->destination + at : NULL;
}

static bool is_offering(const struct card_rx *rx)
{
    return rx->offer.until != rx->offer.from;
}

static bool is_asked_for_place(const struct card_rx *rx)
{
    return rx->asked_until > rx->position;
}

/* A sender that fills a landing asks for the bytes behind its entry. True: the question was
 * heard. */
static bool hear_ahead(struct card_rx *rx, const struct card_arrival *question)
{
    if (!is_asked_for_place(rx) || question->offset != rx->asked_until ||
        question->signature != rx->asked_signature)
        return false;
    const uint64_t until = question->offset + question->bytes;
    const bool is_users = rx->wished_until != 0 && until > rx->wished_until;
    if (rx->offer.room > 0 && rx->offer.until == rx->asked_until && !is_users) {
        rx->offer.until = until;
        rx->owes_offer |= question->offset - rx->position < rx->offer.room;
    }
    rx->asked_until = until;
    return true;
}

/* Takes a question for the next bytes. If an offer stands, it is sent again, since it may have come
 * before the sender had opened its end. */
static bool hear_now(struct card_rx *rx, const struct card_arrival *question)
{
    if (question->offset != rx->position) return false;
    rx->asked_until = rx->position + question->bytes;
    rx->asked_signature = question->signature;
    rx->was_looked_for = false;
    rx->owes_offer |= is_offering(rx);
    return true;
}

/* Takes the questions at the front of the window. */
static void hear_questions(struct card_rx *rx)
{
    struct card_arrival *arrival;
    while ((arrival = &rx->arrivals[rx->consumed % rx->shape.window])->has_come &&
           arrival->is_question &&
           (arrival->is_heard || hear_now(rx, arrival) || hear_ahead(rx, arrival))) {
        arrival->has_come = false;
        rx->consumed++;
    }
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
                                .is_question = message->kind == CARD_MESSAGE_ASK,
                                .bytes = buffer != NULL ? bytes : message->length,
                                .offset = message->offset,
                                .signature = message->signature,
                                .wants_answer = (message->flags & CARD_MESSAGE_ANSWER) != 0};
    if (made.is_question) {
        if (message->offset + message->length <= message->offset)
            return "a place is asked for nothing";
        made.is_heard = hear_ahead(rx, &made);
    } else if (buffer != NULL) {
        made.buffer = buffer;
        made.data = buffer->data + CARD_MESSAGE_HEAD_BYTES;
    } else {
        made.data = placed_at(rx, message);
        if (made.data == NULL) return "a message was placed where none is expected";
    }
    *arrival = made;
    hear_questions(rx);
    return NULL;
}

enum link_state card_rx_peek(const struct card_rx *rx, struct link_view *view)
{
    const struct card_arrival *arrival = &rx->arrivals[rx->consumed % rx->shape.window];
    if (!arrival->has_come)
        return is_asked_for_place(rx) && rx->asked_signature != *rx->signature ? LINK_FAULT
                                                                               : LINK_EMPTY;
    if (arrival->signature != *rx->signature || arrival->offset != rx->position ||
        arrival->is_question)
        return LINK_FAULT;
    *view = (struct link_view){.data = arrival->data + rx->done, .bytes = arrival->bytes - rx->done};
    return LINK_READY;
}

struct card_buffer *card_rx_consume(struct card_rx *rx, size_t bytes)
{
    struct card_arrival *arrival = &rx->arrivals[rx->consumed % rx->shape.window];
    assert(arrival->has_come && bytes <= arrival->bytes - rx->done);
    struct card_buffer *const buffer = arrival->buffer;
    rx->done += bytes;
    if (rx->done < arrival->bytes) return NULL;
    rx->done = 0;
    rx->consumed++;
    rx->position += arrival->bytes;
    rx->owes_answer |= arrival->wants_answer;
    arrival->has_come = false;
    hear_questions(rx);
    return buffer;
}

bool card_rx_may_offer(const struct card_rx *rx)
{
    return !is_offering(rx) && rx->done == 0;
}

void card_rx_wish(struct card_rx *rx, size_t bytes)
{
    if (bytes <= UINT64_MAX - rx->position) rx->wished_until = rx->position + bytes;
}

void card_rx_offer(struct card_rx *rx, void *destination, size_t bytes, uint64_t key,
                   const struct card_target *target)
{
    assert(card_rx_may_offer(rx));
    rx->wished_until = 0;
    rx->offer = (struct card_offer){.target = *target,
                                    .key = key,
                                    .from = rx->position,
                                    .until = rx->position + bytes,
                                    .signature = *rx->signature,
                                    .destination = destination};
    rx->owes_offer = true;
}

bool card_rx_ask_landing(struct card_rx *rx)
{
    if (!is_asked_for_place(rx) || !card_rx_may_offer(rx)) return false;
    const bool is_second = rx->was_looked_for;
    rx->was_looked_for = true;
    return is_second;
}

void card_rx_land(struct card_rx *rx)
{
    assert(card_rx_may_offer(rx));
    rx->offer = (struct card_offer){.target = rx->landing_target,
                                    .from = rx->position,
                                    .until = rx->asked_until,
                                    .room = rx->landing != NULL ? rx->shape.landing_bytes : 0,
                                    .signature = rx->asked_signature,
                                    .destination = rx->landing};
    rx->owes_offer = true;
    rx->told_until = rx->position;
    if (rx->wished_until <= rx->position) rx->wished_until = 0; /* the user has not said it again */
}

uint64_t card_rx_drop_offer(struct card_rx *rx)
{
    const uint64_t key = rx->offer.key;
    if (!is_offering(rx) || rx->position < rx->offer.until) return 0;
    rx->offer = (struct card_offer){0};
    rx->owes_offer = rx->was_looked_for = false;
    return key;
}

/* The offset up to which bytes of the range may be written, and of which the sender may be told. */
static uint64_t open_until(const struct card_rx *rx)
{
    const struct card_offer *offer = &rx->offer;
    if (offer->room == 0 || offer->until - rx->position <= offer->room) return offer->until;
    return rx->position + offer->room;
}

/* A part of the landing is free again. */
static bool has_landing_to_tell(const struct card_rx *rx)
{
    const struct card_offer *offer = &rx->offer;
    if (offer->room == 0 || rx->told_until == offer->until) return false;
    const uint64_t open = open_until(rx);
    return open == offer->until || open - rx->told_until >= offer->room / CARD_LANDING_PARTS;
}

bool card_rx_should_tell(const struct card_rx *rx)
{
    return rx->owes_answer || rx->owes_offer || rx->consumed - rx->told > rx->shape.window / 2 ||
           has_landing_to_tell(rx);
}

bool card_rx_is_told(const struct card_rx *rx)
{
    return rx->told == rx->consumed && !rx->owes_offer;
}

void card_rx_tell(const struct card_rx *rx, struct card_grant *grant)
{
    const struct card_offer *const offer = &rx->offer;
    grant->message = (struct card_message){.kind = CARD_MESSAGE_GRANT,
                                           .index = (uint16_t)rx->index,
                                           .consumed = rx->consumed,
                                           .key = offer->target.key,
                                           .base = offer->target.base,
                                           .offset = offer->from,
                                           .length = open_until(rx) - offer->from,
                                           .room = (uint32_t)offer->room,
                                           .signature = offer->signature};
    memcpy(grant->further, offer->target.further, sizeof grant->further);
}

void card_rx_told(struct card_rx *rx)
{
    rx->told = rx->consumed;
    rx->told_until = open_until(rx);
    rx->owes_answer = rx->owes_offer = false;
}
