#include "transport/card/pair.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "os/clock.h"

/* The number in a completion. A write has a number behind its link. A message has a number behind
 * the entry of a link from which it is read, if any. */
enum { ALIGNMENT = 64, NUMBER_BITS = 32, ENTRY_BITS = 8 };

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
}

static struct card_device *device_of(const struct card_pair *pair)
{
    return pair->shared->device;
}

static void set_state(struct card_pair *pair, enum card_peer_state state)
{
    if (pair->state == state) return;
    pair->state = state;
    pair->since_ns = clock_now_ns();
}

static void end_pair(struct card_pair *pair)
{
    if (pair->is_at_fault) return;
    pair->is_at_fault = true;
    device_of(pair)->ops->break_pair(device_of(pair), pair->rank);
    set_state(pair, CARD_PEER_BROKEN);
}

static void break_pair(struct card_pair *pair, const char *wrong)
{
    if (!pair->is_at_fault)
        log_write(LOG_WARN, "peer %d: what it sends over its network card makes no sense: %s",
                  pair->rank, wrong);
    end_pair(pair);
}

/* -------------------------------------------------------------------------------------- regions */

static uint64_t register_own(struct card_shared *shared, void *memory, size_t bytes)
{
    const uint64_t key = shared->device->ops->enroll(shared->device, memory, bytes, CARD_ACCESS_OWN);
    shared->own_regions += key != 0;
    return key;
}

static void drop_consumed(struct card_pair *pair, struct card_tx *tx)
{
    uint64_t key;
    while (card_tx_drop(tx, &key))
        if (key != 0) device_of(pair)->ops->deregister(device_of(pair), key);
}

static void drop_offer(struct card_pair *pair, struct card_rx *rx)
{
    const uint64_t key = card_rx_drop_offer(rx);
    if (key != 0) device_of(pair)->ops->deregister(device_of(pair), key);
}

/* ------------------------------------------------------------------------------------- receives */

/* Makes more buffers for messages that come. */
static enum tutti_status add_buffers(struct card_pair *pair, unsigned count)
{
    const struct card_device *const device = device_of(pair);
    const size_t stride = device->head_room + device->message_bytes;
    TRY(device_of(pair)->ops->make_room(device_of(pair), 1));
    struct card_chunk *chunk = calloc(1, sizeof *chunk + count * sizeof *chunk->buffers);
    struct card_buffer **spare =
        realloc(pair->spare, (pair->buffer_count + count) * sizeof(struct card_buffer *));
    if (spare != NULL) pair->spare = spare;
    if (chunk == NULL || spare == NULL) goto free_chunk;
    chunk->memory = aligned_alloc(ALIGNMENT, count * stride);
    if (chunk->memory == NULL) goto free_chunk;
    chunk->key = register_own(pair->shared, chunk->memory, count * stride);
    if (chunk->key == 0) goto free_memory;
    chunk->next = pair->chunks;
    pair->chunks = chunk;
    pair->buffer_count += count;
    for (unsigned i = 0; i < count; i++) {
        chunk->buffers[i] =
            (struct card_buffer){chunk->memory + i * stride + device->head_room, chunk->key};
        pair->spare[pair->spare_count++] = &chunk->buffers[i];
    }
    return TUTTI_OK;
free_memory:
    free(chunk->memory);
free_chunk:
    free(chunk);
    return out_of_memory();
}

static void post_receive(struct card_pair *pair)
{
    assert(pair->spare_count > 0);
    struct card_buffer *buffer = pair->spare[--pair->spare_count];
    if (device_of(pair)->ops->post_receive(device_of(pair), pair->rank, buffer->key, buffer->data,
                                           (uint64_t)(uintptr_t)buffer))
        return;
    pair->spare[pair->spare_count++] = buffer; /* the pair is over */
}

static void give_back(struct card_pair *pair, struct card_buffer *buffer)
{
    if (buffer != NULL) pair->spare[pair->spare_count++] = buffer;
}

/* -------------------------------------------------------------------------------------- sending */

/* The number of receives of which the peer may be told. */
static uint64_t posted_for(const struct card_pair *pair)
{
    return pair->shared->receive_count + pair->taken;
}

static bool owes_credit(const struct card_pair *pair)
{
    return posted_for(pair) - pair->posted_told >= pair->shared->receive_count / 2;
}

/* Sends a message whose head has so many bytes, with `message` in front. reader: is told when the
 * message has left; 0: nothing is told. False: not now. */
static bool send_headed(struct card_pair *pair, struct card_message *message, size_t head_bytes,
                        const struct card_memory *memory, uint64_t reader)
{
    const bool gives_credit = message->kind == CARD_MESSAGE_CREDIT && owes_credit(pair);
    const unsigned kept = gives_credit ? 0 : CARD_CREDITS_KEPT;
    if (pair->sent + kept >= pair->allowed) return false;
    const uint64_t posted = posted_for(pair);
    message->posted = (uint32_t)posted;
    message->number = (uint32_t)pair->sent;
    const uint64_t id = reader << NUMBER_BITS | (uint32_t)pair->sent;
    if (!device_of(pair)->ops->send(device_of(pair), pair->rank, message, head_bytes, memory, id))
        return false;
    pair->sent++;
    pair->under_way++;
    pair->posted_told = posted;
    if (message->kind != CARD_MESSAGE_CREDIT) pair->said = pair->sent;
    pair->owes_taken_now = false;
    if (pair->taken_beyond == 0) pair->owes_taken = false;
    if (pair->taken_beyond == 0) pair->unanswered_bytes = 0;
    card_flight_give(&pair->flight, memory->bytes);
    card_flight_mark(&pair->flight, pair->sent - 1, clock_now_ns());
    return true;
}

static bool send_message(struct card_pair *pair, struct card_message *message,
                         const struct card_memory *memory)
{
    return send_headed(pair, message, sizeof *message, memory, 0);
}

static bool send_head(struct card_pair *pair, struct card_message *message)
{
    const struct card_memory nothing = {0};
    return send_message(pair, message, &nothing);
}

/* The region's places on further cards go with it as far as there are any. */
static bool send_grant(struct card_pair *pair, struct card_grant *grant)
{
    const struct card_memory nothing = {0};
    unsigned further = CARD_FURTHER_MAX;
    while (further > 0 && grant->further[further - 1].key == 0) further--;
    return send_headed(pair, &grant->message,
                       sizeof grant->message + further * sizeof *grant->further, &nothing, 0);
}

static bool send_grants(struct card_pair *pair)
{
    int index;
    bool moved = false;
    while ((index = link_set_turn(&pair->due, 0)) >= 0) {
        struct card_grant grant;
        card_rx_tell(pair->rx[index], &grant);
        if (!send_grant(pair, &grant)) break;
        card_rx_told(pair->rx[index]);
        link_set_remove(&pair->due, (unsigned)index);
        link_set_remove(&pair->untold, (unsigned)index);
        moved = true;
    }
    return moved;
}

/* The entry from which the device reads a message, so that it is kept until the message has
 * left. */
static uint64_t reader_of(const struct card_tx *tx, const struct card_piece *piece)
{
    if (piece->message.kind != CARD_MESSAGE_DATA) return 0;
    return (tx->index + (uint64_t)1) << ENTRY_BITS | piece->entry % tx->shape.window;
}

static bool give_piece(struct card_pair *pair, struct card_tx *tx, struct card_piece *piece)
{
    if (!piece->is_write)
        return send_headed(pair, &piece->message, sizeof piece->message, &piece->memory,
                           reader_of(tx, piece));
    const uint64_t id = (uint64_t)tx->index << NUMBER_BITS | (uint32_t)piece->number;
    if (!device_of(pair)->ops->write(device_of(pair), pair->rank, &piece->target, piece->at,
                                     &piece->memory, id))
        return false;
    pair->under_way++;
    card_flight_give(&pair->flight, piece->memory.bytes);
    return true;
}

/* One message or write of a link. */
static bool send_piece(struct card_pair *pair, struct card_tx *tx)
{
    struct card_piece piece;
    if (!card_tx_next(tx, card_flight_write_bytes(&pair->flight), &piece)) return false;
    if (piece.memory.bytes > CARD_FLIGHT_SMALL_BYTES &&
        !card_flight_has_room(&pair->flight, piece.memory.bytes))
        return false;
    if (!give_piece(pair, tx, &piece)) return false;
    card_tx_given(tx, &piece);
    if (piece.is_write && device_of(pair)->keeps_order)
        (void)card_tx_landed(tx, (uint32_t)piece.number, false);
    if (card_tx_is_all_given(tx)) link_set_remove(&pair->unsent, tx->index);
    return true;
}

/* Sends from the links in turn, as much as goes. */
static bool send_links(struct card_pair *pair)
{
    unsigned in_vain = 0;
    bool moved = false;
    while (in_vain < TRANSPORT_LINK_COUNT) {
        const int index = link_set_turn(&pair->unsent, pair->turn);
        if (index < 0) break;
        in_vain += ((unsigned)index + TRANSPORT_LINK_COUNT - pair->turn) % TRANSPORT_LINK_COUNT + 1;
        pair->turn = ((unsigned)index + 1) % TRANSPORT_LINK_COUNT;
        if (!send_piece(pair, pair->tx[index])) continue;
        in_vain = 0;
        moved = true;
    }
    return moved;
}

/* Whether the peer should be told that its bytes have come, since it may wait for that. */
static bool owes_answer(const struct card_pair *pair)
{
    return pair->unanswered_bytes >= pair->shared->answer_bytes && pair->taken_beyond == 0;
}

static bool send_credit(struct card_pair *pair)
{
    struct card_message message = {.kind = CARD_MESSAGE_CREDIT};
    return (owes_credit(pair) || pair->owes_taken_now || owes_answer(pair)) &&
           send_head(pair, &message);
}

bool card_pair_write(struct card_pair *pair)
{
    if (pair->state != CARD_PEER_UP) return false;
    bool moved = send_grants(pair);
    if (!pair->is_refused) moved |= send_links(pair);
    return send_credit(pair) || moved;
}

void card_pair_send(struct card_pair *pair, struct card_tx *tx)
{
    link_set_add(&pair->unsent, tx->index);
    (void)card_pair_write(pair);
}

bool card_pair_post(struct card_pair *pair, struct card_tx *tx, const void *address, size_t bytes)
{
    if (pair->shared->is_stopped || !card_tx_has_room(tx)) return false;
    const uint64_t key = device_of(pair)->ops->enroll(device_of(pair), (void *)(uintptr_t)address,
                                                      bytes, CARD_ACCESS_SOURCE);
    card_tx_post(tx, address, bytes, key);
    card_pair_send(pair, tx);
    return true;
}

/* ------------------------------------------------------------------------------------ receiving */

static void tell_sender(struct card_pair *pair, struct card_rx *rx)
{
    if (card_rx_is_told(rx) || pair->shared->is_stopped) return;
    link_set_add(&pair->untold, rx->index);
    device_of(pair)->ops->look_again(device_of(pair));
    if (!card_rx_should_tell(rx)) return;
    link_set_add(&pair->due, rx->index);
    (void)card_pair_write(pair);
}

void card_pair_consume(struct card_pair *pair, struct card_rx *rx, size_t bytes)
{
    give_back(pair, card_rx_consume(rx, bytes));
    drop_offer(pair, rx);
    tell_sender(pair, rx);
}

/* Makes an offer, unless there is no room for it. */
void card_pair_offer(struct card_pair *pair, struct card_rx *rx, void *destination, size_t bytes)
{
    if (bytes == 0 || pair->shared->is_stopped) return;
    if (rx->offer.room > 0) card_rx_wish(rx, bytes);
    if (!card_rx_may_offer(rx)) return;
    struct card_device *const device = device_of(pair);
    const uint64_t key = device->ops->enroll(device, destination, bytes, CARD_ACCESS_WRITTEN);
    if (key == 0) return; /* it comes by messages */
    const struct card_target target = device->ops->target(device, key);
    card_rx_offer(rx, destination, bytes, key, &target);
    tell_sender(pair, rx);
}

/* Makes a landing, for the life of the link. Without its memory or a region for it, bytes come by
 * messages. */
static void make_landing(struct card_pair *pair, struct card_rx *rx)
{
    struct card_device *const device = device_of(pair);
    const size_t bytes = rx->shape.landing_bytes;
    if (rx->landing != NULL || device->ops->make_room(device, 1) != TUTTI_OK) return;
    char *const landing = aligned_alloc(ALIGNMENT, bytes);
    if (landing == NULL) return;
    const uint64_t key = device->ops->enroll(device, landing, bytes, CARD_ACCESS_WRITTEN);
    if (key == 0) {
        free(landing);
        return;
    }
    pair->shared->own_regions++;
    rx->landing = landing;
    rx->landing_target = device->ops->target(device, key);
}

void card_pair_look_for(struct card_pair *pair, struct card_rx *rx)
{
    if (pair->shared->is_stopped || !card_rx_ask_landing(rx)) return;
    make_landing(pair, rx);
    card_rx_land(rx);
    tell_sender(pair, rx);
}

static const char *take_data(struct card_pair *pair, const struct card_message *message,
                             struct card_buffer *buffer, size_t bytes)
{
    struct card_rx *rx = message->index < TRANSPORT_LINK_COUNT ? pair->rx[message->index] : NULL;
    const char *const wrong = rx == NULL ? "a message came on a link that is not open"
                                         : card_rx_arrive(rx, message, buffer, bytes);
    if (wrong != NULL)
        give_back(pair, buffer);
    else if (message->kind == CARD_MESSAGE_ASK)
        tell_sender(pair, rx);
    return wrong;
}

static const char *take_grant(struct card_pair *pair, const struct card_message *message,
                              const char *behind, size_t bytes)
{
    struct card_grant grant = {.message = *message};
    if (message->index >= TRANSPORT_LINK_COUNT) return "there is no such link";
    if (bytes > sizeof grant.further || bytes % sizeof *grant.further != 0)
        return "a region lies on a part of a card";
    memcpy(grant.further, behind, bytes);
    link_set_add(&pair->granted, message->index);
    struct card_tx *tx = pair->tx[message->index];
    if (tx == NULL) return NULL;
    if (!card_tx_granted(tx, &grant)) return "it consumed what was not sent";
    drop_consumed(pair, tx);
    return NULL;
}

/* Returns a text that says what is wrong, or NULL. The buffer is a link's then, or spare again. */
static const char *take(struct card_pair *pair, const struct card_message *message,
                        struct card_buffer *buffer, size_t bytes)
{
    const char *wrong = NULL;
    if (message->kind == CARD_MESSAGE_DATA) return take_data(pair, message, buffer, bytes);
    if (bytes > 0 && message->kind != CARD_MESSAGE_GRANT)
        wrong = "a message of that kind has nothing behind its head";
    else if (message->kind == CARD_MESSAGE_PLACED || message->kind == CARD_MESSAGE_ASK)
        wrong = take_data(pair, message, NULL, 0);
    else if (message->kind == CARD_MESSAGE_GRANT)
        wrong = take_grant(pair, message, buffer->data + sizeof *message, bytes);
    else if (message->kind != CARD_MESSAGE_CREDIT)
        wrong = "a message of no known kind";
    give_back(pair, buffer);
    return wrong;
}

/* Counts a message by its number; false: the peer cannot have sent it, or it came before. */
static bool take_number(struct card_pair *pair, uint32_t low)
{
    const uint32_t ahead = low - (uint32_t)pair->taken;
    if (ahead >= pair->shared->receive_count || (pair->taken_beyond >> ahead & 1) != 0)
        return false;
    pair->taken_beyond |= UINT64_C(1) << ahead;
    return true;
}

static void close_gaps(struct card_pair *pair)
{
    for (; (pair->taken_beyond & 1) != 0; pair->taken_beyond >>= 1) pair->taken++;
}

static const char *take_credit(struct card_pair *pair, const struct card_message *message)
{
    const int32_t more = (int32_t)(message->posted - (uint32_t)pair->allowed);
    if (more <= 0) return NULL; /* said before a message that overtook it */
    if (pair->allowed + (uint32_t)more > pair->sent + pair->shared->receive_count)
        return "it posted more receives than it may";
    pair->allowed += (uint32_t)more;
    card_flight_take(&pair->flight, pair->allowed - pair->shared->receive_count, pair->heard_ns);
    return NULL;
}

/* Returns a text that says what is wrong, or NULL; the buffer is used in any case. */
static const char *take_message(struct card_pair *pair, struct card_buffer *buffer, size_t bytes)
{
    struct card_message message;
    const char *wrong = NULL;
    if (bytes >= sizeof message)
        memcpy(&message, buffer->data, sizeof message);
    else
        wrong = "a message has no head";
    if (wrong == NULL) wrong = take_credit(pair, &message);
    if (wrong == NULL && !take_number(pair, message.number))
        wrong = "a message has a number that it cannot have";
    if (wrong == NULL) pair->owes_taken |= message.kind != CARD_MESSAGE_CREDIT;
    if (wrong == NULL)
        pair->unanswered_bytes += message.kind == CARD_MESSAGE_PLACED ? message.length : bytes;
    if (wrong == NULL) return take(pair, &message, buffer, bytes - sizeof message);
    give_back(pair, buffer);
    return wrong;
}

static void receive(struct card_pair *pair, struct card_buffer *buffer, size_t bytes)
{
    if (pair->is_at_fault) {
        give_back(pair, buffer);
        return;
    }
    const char *const wrong = take_message(pair, buffer, bytes);
    if (wrong != NULL) {
        break_pair(pair, wrong);
        return;
    }
    post_receive(pair);
    close_gaps(pair);
}

/* ---------------------------------------------------------------------------------- completions */

static void land(struct card_pair *pair, const struct card_completion *completion)
{
    struct card_tx *tx = pair->tx[completion->id >> NUMBER_BITS];
    if (completion->result == CARD_REFUSED) pair->is_refused = true;
    if (completion->result != CARD_DONE) return;
    if (card_tx_landed(tx, (uint32_t)completion->id, true)) link_set_add(&pair->unsent, tx->index);
    drop_consumed(pair, tx);
}

/* A peer may have said that it consumed the message before it has left. */
static void leave(struct card_pair *pair, const struct card_completion *completion)
{
    const uint64_t reader = completion->id >> NUMBER_BITS;
    if (reader == 0) return;
    struct card_tx *const tx = pair->tx[(reader >> ENTRY_BITS) - 1];
    card_tx_left(tx, (unsigned)(reader % (1u << ENTRY_BITS)));
    drop_consumed(pair, tx);
}

void card_pair_complete(struct card_pair *pair, const struct card_completion *completion)
{
    if (completion->work == CARD_RECEIVED) {
        struct card_buffer *const buffer = (struct card_buffer *)(uintptr_t)completion->id;
        *buffer = (struct card_buffer){completion->data, completion->key};
        pair->heard_ns = clock_now_ns();
        receive(pair, buffer, completion->bytes);
        return;
    }
    assert(pair->under_way > 0);
    pair->under_way--;
    if (completion->work == CARD_WRITTEN)
        land(pair, completion);
    else
        leave(pair, completion);
}

bool card_pair_told(struct card_pair *pair, uint64_t sent)
{
    if (sent <= posted_for(pair)) return true;
    end_pair(pair);
    return false;
}

void card_pair_look(struct card_pair *pair)
{
    const enum card_peer_state state = device_of(pair)->ops->state(device_of(pair), pair->rank);
    if (state == pair->state) return;
    if (state == CARD_PEER_BROKEN)
        break_pair(pair, "its packets");
    else
        set_state(pair, state);
}

/* -------------------------------------------------------------------------------------- telling */

bool card_pair_has_untold(const struct card_pair *pair)
{
    return link_set_turn(&pair->untold, 0) >= 0 || pair->owes_taken;
}

void card_pair_tell_all(struct card_pair *pair)
{
    link_set_join(&pair->due, &pair->untold);
    pair->owes_taken_now = pair->owes_taken && pair->taken_beyond == 0;
}

bool card_pair_has_awaited_output(const struct card_pair *pair)
{
    const bool has_data = link_set_turn(&pair->unsent, 0) >= 0 && !pair->is_refused;
    return has_data || link_set_turn(&pair->due, 0) >= 0 || owes_credit(pair) || owes_answer(pair);
}

bool card_pair_has_output(const struct card_pair *pair)
{
    return card_pair_has_awaited_output(pair) || card_pair_has_untold(pair);
}

static bool links_are_settled(const struct card_pair *pair)
{
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        if (pair->tx[i] != NULL && !pair->is_refused && !card_tx_is_consumed(pair->tx[i]))
            return false;
        if (pair->rx[i] != NULL && !card_rx_is_told(pair->rx[i])) return false;
    }
    return true;
}

bool card_pair_is_settled(const struct card_pair *pair)
{
    const uint64_t peer_took = pair->allowed - pair->shared->receive_count;
    return pair->shared->is_stopped || (links_are_settled(pair) && !pair->owes_taken &&
                                        peer_took >= pair->said && pair->under_way == 0);
}

/* ----------------------------------------------------------------------------------- life cycle */

enum tutti_status card_pair_create(struct card_shared *shared, int rank, struct card_pair **created)
{
    struct card_pair *pair = calloc(1, sizeof *pair);
    *created = NULL;
    if (pair == NULL) return out_of_memory();
    pair->shared = shared;
    pair->rank = rank;
    pair->allowed = shared->receive_count;
    card_flight_init(&pair->flight, shared->flight_bytes);
    enum tutti_status status = add_buffers(pair, shared->receive_count);
    if (status == TUTTI_OK) status = shared->device->ops->prepare(shared->device, rank);
    if (status != TUTTI_OK) {
        if (pair->chunks != NULL) {
            shared->device->ops->deregister(shared->device, pair->chunks->key);
            shared->own_regions--;
        }
        card_pair_free(pair);
        return status;
    }
    for (unsigned i = 0; i < shared->receive_count; i++) post_receive(pair);
    pair->posted_told = posted_for(pair);
    shared->device->ops->connect(shared->device, rank);
    pair->since_ns = clock_now_ns();
    pair->state = shared->device->ops->state(shared->device, rank);
    *created = pair;
    return TUTTI_OK;
}

void card_pair_free(struct card_pair *pair)
{
    if (pair == NULL) return;
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        card_tx_free(pair->tx[i]);
        card_rx_free(pair->rx[i]);
    }
    while (pair->chunks != NULL) {
        struct card_chunk *next = pair->chunks->next;
        free(pair->chunks->memory);
        free(pair->chunks);
        pair->chunks = next;
    }
    free(pair->spare);
    free(pair);
}

enum tutti_status card_pair_open_tx(struct card_pair *pair, unsigned index, struct card_tx **found)
{
    struct card_shared *shared = pair->shared;
    struct card_tx *tx = pair->tx[index];
    *found = tx;
    if (tx != NULL) return TUTTI_OK;
    TRY(shared->device->ops->make_room(shared->device, shared->shape.window + 1));
    TRY(card_tx_create(&shared->shape, &(*shared->signatures)[index / TRANSPORT_CHANNEL_COUNT], &tx));
    tx->pair = pair;
    tx->index = index;
    tx->is_granted = link_set_has(&pair->granted, index);
    tx->slots_key =
        register_own(shared, tx->slots, shared->shape.window * shared->shape.piece_bytes);
    *found = pair->tx[index] = tx;
    return TUTTI_OK;
}

enum tutti_status card_pair_open_rx(struct card_pair *pair, unsigned index, struct card_rx **found)
{
    struct card_shared *shared = pair->shared;
    struct card_rx *rx = pair->rx[index];
    *found = rx;
    if (rx != NULL) return TUTTI_OK;
    TRY(shared->device->ops->make_room(shared->device, 1));
    TRY(add_buffers(pair, shared->shape.window));
    TRY(card_rx_create(&shared->shape, &(*shared->signatures)[index / TRANSPORT_CHANNEL_COUNT], &rx));
    rx->pair = pair;
    rx->index = index;
    *found = pair->rx[index] = rx;
    link_set_add(&pair->due, index);
    (void)card_pair_write(pair);
    return TUTTI_OK;
}

static void stop_tx(struct card_pair *pair, struct card_tx *tx)
{
    uint64_t key;
    while (card_tx_give_up(tx, &key))
        if (key != 0) device_of(pair)->ops->deregister(device_of(pair), key);
}

void card_pair_stop(struct card_pair *pair)
{
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        if (pair->tx[i] != NULL) stop_tx(pair, pair->tx[i]);
        if (pair->rx[i] == NULL || pair->rx[i]->offer.key == 0) continue;
        device_of(pair)->ops->deregister(device_of(pair), pair->rx[i]->offer.key);
        pair->rx[i]->offer = (struct card_offer){0};
    }
    pair->due = pair->untold = pair->unsent = (struct link_set){0};
}
