#include "transport/card/card.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "transport/card/pair.h"
#include "transport/card/paths.h"

enum { RECEIVE_COUNT_DEFAULT = 32, COMPLETIONS_A_LOOK = 256, LANDING_BYTES = 1048576 };

struct card {
    struct transport base;
    struct card_shared shared;
    size_t reach_bytes, offer_bytes;
    struct card_pair **pairs; /* by rank; NULL: never used */
    struct card_pair **used;  /* those that are, in the order of ranks: all that a pass looks at */
    int used_count;
    unsigned idle_passes, patience; /* of progress, one after the other; as the options say */
    _Atomic uint32_t asleep;
    void *owner; /* as the options say */
    size_t owner_bytes;
};

static struct card *card_of(struct transport *transport)
{
    return (struct card *)transport;
}

static const struct card_pair *pair_of(const struct transport *transport, int peer)
{
    return ((const struct card *)transport)->pairs[peer];
}

/* The peer's device is gone, or sent something that made no sense. */
static bool is_gone(const struct card_pair *pair)
{
    return pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN;
}

static enum tutti_status find_pair(struct card *card, int peer, struct card_pair **pair)
{
    *pair = card->pairs[peer];
    if (*pair != NULL) return TUTTI_OK;
    TRY(card_pair_create(&card->shared, peer, pair));
    card->pairs[peer] = *pair;
    int place = card->used_count++;
    for (; place > 0 && card->used[place - 1]->rank > peer; place--)
        card->used[place] = card->used[place - 1];
    card->used[place] = *pair;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- sending */

static struct card_tx *tx_of(struct link_tx *link)
{
    return (struct card_tx *)link;
}

static void *card_reserve(struct link_tx *link, size_t bytes)
{
    struct card_tx *tx = tx_of(link);
    return tx->pair->shared->is_stopped ? NULL : card_tx_reserve(tx, bytes);
}

static void card_commit(struct link_tx *link, size_t bytes)
{
    card_tx_commit(tx_of(link), bytes);
    card_pair_send(tx_of(link)->pair, tx_of(link));
}

static enum link_reach card_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address;
    return bytes >= tx_of(link)->reach_bytes ? REACH_READ : REACH_NONE;
}

static bool card_post(struct link_tx *link, const void *address, size_t bytes)
{
    return card_pair_post(tx_of(link)->pair, tx_of(link), address, bytes);
}

static bool card_consumed(struct link_tx *link)
{
    return card_tx_is_consumed(tx_of(link));
}

static bool card_has_room(struct link_tx *link)
{
    return !tx_of(link)->pair->shared->is_stopped && card_tx_has_room(tx_of(link));
}

static const struct link_tx_ops tx_ops = {.reserve = card_reserve,
                                          .commit = card_commit,
                                          .reach = card_reach,
                                          .post = card_post,
                                          .consumed = card_consumed,
                                          .has_room = card_has_room,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = link_no_refer};

/* ------------------------------------------------------------------------------------ receiving */

static struct card_rx *rx_of(struct link_rx *link)
{
    return (struct card_rx *)link;
}

static enum link_state card_peek(struct link_rx *link, struct link_view *view)
{
    struct card_rx *rx = rx_of(link);
    if (rx->pair->is_at_fault) return LINK_FAULT;
    if (rx->pair->shared->is_stopped) return LINK_EMPTY;
    const enum link_state state = card_rx_peek(rx, view);
    if (state == LINK_EMPTY) card_pair_look_for(rx->pair, rx);
    return state;
}

static void card_consume(struct link_rx *link, size_t bytes)
{
    card_pair_consume(rx_of(link)->pair, rx_of(link), bytes);
}

/* An offer would not make small messages come sooner. */
static void card_offer(struct link_rx *link, void *destination, size_t bytes)
{
    if (bytes >= rx_of(link)->offer_bytes)
        card_pair_offer(rx_of(link)->pair, rx_of(link), destination, bytes);
}

static const struct link_rx_ops rx_ops = {.peek = card_peek,
                                          .take = link_no_take,
                                          .fetch = link_no_fetch,
                                          .consume = card_consume,
                                          .forward = link_no_forward,
                                          .advertise = card_offer,
                                          .place_directly = card_offer,
                                          .copy = link_no_copy};

/* --------------------------------------------------------------------------------------- moving */

/* Answers a peer that has connected; if memory is lacking, the peer waits. */
static void answer_callers(struct card *card)
{
    struct card_pair *pair;
    int peer;
    while ((peer = card->shared.device->ops->caller(card->shared.device)) >= 0)
        if (find_pair(card, peer, &pair) != TUTTI_OK) return;
}

static bool take_completions(struct card *card)
{
    struct card_completion completion;
    int taken = 0;
    while (taken < COMPLETIONS_A_LOOK &&
           card->shared.device->ops->poll(card->shared.device, &completion)) {
        card_pair_complete(card->pairs[completion.peer], &completion);
        taken++;
    }
    return taken > 0;
}

static bool write_all(struct card *card)
{
    bool moved = false;
    for (int u = 0; u < card->used_count; u++) {
        card_pair_look(card->used[u]);
        moved |= card_pair_write(card->used[u]);
    }
    return moved;
}

static void tell_all(struct card *card)
{
    for (int u = 0; u < card->used_count; u++) card_pair_tell_all(card->used[u]);
}

static bool has_untold(const struct card *card)
{
    for (int u = 0; u < card->used_count; u++)
        if (card_pair_has_untold(card->used[u])) return true;
    return false;
}

/* Tells peers news that can wait, when nothing else has moved for a while: mostly an answer goes
 * earlier, and carries it. */
static bool card_progress(struct transport *transport)
{
    struct card *card = card_of(transport);
    bool moved = card->shared.device->ops->progress(card->shared.device);
    if (card->shared.is_stopped) return false;
    answer_callers(card);
    moved |= take_completions(card);
    card->idle_passes = moved ? 0 : card->idle_passes + 1;
    if (card->idle_passes > card->patience)
        tell_all(card);
    else if (has_untold(card))
        card->shared.device->ops->look_again(card->shared.device);
    return write_all(card) || moved;
}

static void card_flush(struct transport *transport)
{
    if (!card_of(transport)->shared.is_stopped) tell_all(card_of(transport));
    (void)card_progress(transport);
}

static bool card_is_awaited(const struct transport *transport)
{
    const struct card *card = (const struct card *)transport;
    if (card->shared.is_stopped) return false;
    for (int u = 0; u < card->used_count; u++)
        if (!is_gone(card->used[u]) && card_pair_has_awaited_output(card->used[u])) return true;
    return card->shared.device->ops->is_busy(card->shared.device);
}

static bool card_is_settled(const struct transport *transport, int peer)
{
    const struct card_pair *pair = pair_of(transport, peer);
    return pair == NULL || is_gone(pair) || card_pair_is_settled(pair);
}

static bool card_stop(struct transport *transport)
{
    struct card *card = card_of(transport);
    card->shared.is_stopped = true;
    for (int u = 0; u < card->used_count; u++) card_pair_stop(card->used[u]);
    return card->shared.device->ops->stop(card->shared.device);
}

static void card_sleep_begin(struct transport *transport)
{
    struct card *card = card_of(transport);
    atomic_store_explicit(&card->asleep, 1, memory_order_seq_cst); /* pairs with card_wake */
    if (card->shared.is_stopped) return;
    tell_all(card);
    (void)write_all(card);
}

static void card_sleep_cancel(struct transport *transport)
{
    atomic_store_explicit(&card_of(transport)->asleep, 0, memory_order_relaxed);
}

static void card_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct card *card = card_of(transport);
    card->shared.device->ops->sleep(card->shared.device, timeout_ns);
    card_sleep_cancel(transport);
}

static int card_descriptor(struct transport *transport)
{
    struct card *card = card_of(transport);
    return card->shared.device->ops->descriptor(card->shared.device);
}

static void card_wake(struct transport *transport)
{
    struct card *card = card_of(transport);
    /* Either the caller's publishing comes before this load, or the sleeper's last look sees it. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&card->asleep, memory_order_relaxed) != 0)
        card->shared.device->ops->wake(card->shared.device);
}

/* -------------------------------------------------------------------------------------- opening */

static void card_limits(struct transport *transport, size_t *piece_bytes_max,
                        unsigned *piece_count_max)
{
    *piece_bytes_max = card_of(transport)->shared.shape.piece_bytes;
    *piece_count_max = card_of(transport)->shared.shape.window;
}

static unsigned index_of(int slot, int channel)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    return (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel);
}

static enum tutti_status card_open_tx(struct transport *transport, int slot, int channel, int peer,
                                      size_t bytes, struct link_tx **link)
{
    struct card *card = card_of(transport);
    struct card_pair *pair;
    struct card_tx *tx;
    (void)bytes;
    TRY(find_pair(card, peer, &pair));
    TRY(card_pair_open_tx(pair, index_of(slot, channel), &tx));
    tx->base = (struct link_tx){.ops = &tx_ops, .peer = peer};
    tx->reach_bytes = card->reach_bytes;
    *link = &tx->base;
    return TUTTI_OK;
}

static enum tutti_status card_open_rx(struct transport *transport, int slot, int channel, int peer,
                                      struct link_rx **link)
{
    struct card *card = card_of(transport);
    struct card_pair *pair;
    struct card_rx *rx;
    TRY(find_pair(card, peer, &pair));
    TRY(card_pair_open_rx(pair, index_of(slot, channel), &rx));
    rx->base = (struct link_rx){
        .ops = &rx_ops, .peer = peer, .capabilities = LINK_ADVERTISES | LINK_PLACES_DIRECTLY};
    rx->offer_bytes = card->offer_bytes;
    *link = &rx->base;
    return TUTTI_OK;
}

static void card_add_footprint(const struct transport *transport,
                               struct transport_footprint *footprint)
{
    const struct card *card = (const struct card *)transport;
    const struct card_shape *shape = &card->shared.shape;
    struct card_device *const device = card->shared.device;
    footprint->private_bytes += sizeof *card +
                                2 * (size_t)transport->size * sizeof(struct card_pair *) +
                                device->ops->bytes(device) + card->owner_bytes;
    if (device->ops->descriptor(device) >= 0)
        footprint->descriptor_count += 4 * (1 + device->further) + (device->further > 0);
    for (int u = 0; u < card->used_count; u++) {
        const struct card_pair *pair = card->used[u];
        footprint->private_bytes +=
            sizeof *pair + pair->buffer_count * (device->head_room + device->message_bytes);
        for (int i = 0; i < TRANSPORT_LINK_COUNT; i++) {
            footprint->link_count += (pair->tx[i] != NULL) + (pair->rx[i] != NULL);
            if (pair->tx[i] != NULL)
                footprint->private_bytes += sizeof *pair->tx[i] + shape->window * shape->piece_bytes;
            if (pair->rx[i] == NULL) continue;
            footprint->private_bytes +=
                sizeof *pair->rx[i] + (pair->rx[i]->landing != NULL ? shape->landing_bytes : 0);
        }
    }
}

static const struct transport_ops ops = {.limits = card_limits,
                                         .open_tx = card_open_tx,
                                         .open_rx = card_open_rx,
                                         .progress = card_progress,
                                         .flush = card_flush,
                                         .is_awaited = card_is_awaited,
                                         .is_settled = card_is_settled,
                                         .stop = card_stop,
                                         .sleep_begin = card_sleep_begin,
                                         .sleep_cancel = card_sleep_cancel,
                                         .sleep = card_sleep,
                                         .descriptor = card_descriptor,
                                         .wake = card_wake,
                                         .wake_all = card_wake,
                                         .corrupt_rank = transport_no_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = card_add_footprint};

/* ----------------------------------------------------------------------------------- life cycle */

static enum tutti_status check_options(const struct card_options *options, size_t piece_bytes_max)
{
    const size_t bytes = options->piece_bytes;
    if (options->size < 1 || options->rank < 0 || options->rank >= options->size)
        return error_set(TUTTI_INVALID_OPTIONS, "a card of rank %d of %d", options->rank,
                         options->size);
    if (bytes % 64 != 0 || bytes > piece_bytes_max)
        return error_set(TUTTI_INVALID_OPTIONS, "messages of %zu bytes, not a multiple of 64 to %zu",
                         bytes, piece_bytes_max);
    if (options->piece_count > CARD_WINDOW_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "%u messages of a link under way, at most %d",
                         options->piece_count, CARD_WINDOW_MAX);
    if (options->receive_count != 0 &&
        (options->receive_count < CARD_RECEIVES_MIN || options->receive_count > CARD_RECEIVES_MAX))
        return error_set(TUTTI_INVALID_OPTIONS, "%u receives for a peer, not %d to %d",
                         options->receive_count, CARD_RECEIVES_MIN, CARD_RECEIVES_MAX);
    if (options->landing_bytes % ((size_t)CARD_LANDING_PARTS * 64) != 0 ||
        options->landing_bytes > UINT32_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "landings of %zu bytes", options->landing_bytes);
    return TUTTI_OK;
}

static unsigned given_or(unsigned given, unsigned otherwise)
{
    return given != 0 ? given : otherwise;
}

/* So that a sender which has reached its limit hears that it may send more. */
static size_t answer_bytes_for(size_t flight_bytes)
{
    if (flight_bytes == CARD_FLIGHT_ANY) return SIZE_MAX;
    const size_t part = flight_bytes / 4 + 1;
    return part < CARD_FLIGHT_ANSWER_BYTES ? part : CARD_FLIGHT_ANSWER_BYTES;
}

static enum tutti_status create(const struct card_options *options, struct card_device *device,
                                struct transport **transport)
{
    const size_t piece_bytes_max = device->message_bytes - CARD_MESSAGE_HEAD_BYTES;
    TRY(check_options(options, piece_bytes_max));
    struct card *card = calloc(1, sizeof *card);
    struct card_pair **pairs = calloc((size_t)options->size, sizeof(struct card_pair *));
    struct card_pair **used = calloc((size_t)options->size, sizeof(struct card_pair *));
    if (card == NULL || pairs == NULL || used == NULL) {
        free(card);
        free(pairs);
        free(used);
        return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    }
    card->pairs = pairs;
    card->used = used;
    card->base = (struct transport){.ops = &ops,
                                    .sharing = &transport_shares_nothing,
                                    .ordered = options->ordered != NULL ? options->ordered
                                                                        : &card_data_order_ops,
                                    .rank = options->rank,
                                    .size = options->size};
    card->owner = options->owner;
    card->owner_bytes = options->owner_bytes;
    card->base.paths.tables[0] = options->is_software ? card_software_paths() : card_paths();
    transport_own_slots(&card->base);
    const size_t least = path_least_bytes(card_paths(), PATH_READ); /* worth registering */
    card->reach_bytes = options->reach_bytes != 0 ? options->reach_bytes : least;
    card->patience = options->patience;
    card->offer_bytes = options->offer_bytes != 0 ? options->offer_bytes : least;
    card->shared = (struct card_shared){
        .rank = options->rank,
        .device = device,
        .shape = {.piece_bytes = options->piece_bytes != 0 ? options->piece_bytes : piece_bytes_max,
                  .window = given_or(options->piece_count, CARD_PIECE_COUNT_DEFAULT),
                  .asked_bytes = options->asked_bytes != 0 ? options->asked_bytes : CARD_ASKED_BYTES,
                  .landing_bytes =
                      options->landing_bytes != 0 ? options->landing_bytes : LANDING_BYTES},
        .flight_bytes = options->flight_bytes,
        .answer_bytes = answer_bytes_for(options->flight_bytes),
        .receive_count = given_or(options->receive_count, RECEIVE_COUNT_DEFAULT),
        .signatures = &card->base.signatures};
    *transport = &card->base;
    return TUTTI_OK;
}

enum tutti_status card_create(const struct card_options *options, struct card_device *device,
                              struct transport **transport)
{
    *transport = NULL;
    const enum tutti_status status = create(options, device, transport);
    if (status != TUTTI_OK) device->ops->free(device);
    return status;
}

bool card_is_idle(const struct transport *transport)
{
    const struct card *card = (const struct card *)transport;
    for (int u = 0; u < card->used_count; u++)
        if (!is_gone(card->used[u]) && card_pair_has_output(card->used[u])) return false;
    return !card->shared.device->ops->is_busy(card->shared.device);
}

void card_close(struct transport *transport)
{
    struct card *card = card_of(transport);
    if (card == NULL) return;
    const bool is_untouched = card->shared.device->ops->stop(card->shared.device);
    card->shared.device->ops->free(card->shared.device);
    for (int u = 0; u < card->used_count && is_untouched; u++) card_pair_free(card->used[u]);
    free(card->pairs);
    free(card->used);
    free(card);
}

/* ---------------------------------------------------------------------------- what control asks */

uint64_t card_sent(const struct transport *transport, int peer)
{
    const struct card_pair *pair = pair_of(transport, peer);
    return pair != NULL ? pair->sent : 0;
}

uint64_t card_taken(const struct transport *transport, int peer)
{
    const struct card_pair *pair = pair_of(transport, peer);
    return pair != NULL ? pair->taken : 0;
}

bool card_told(struct transport *transport, int peer, uint64_t sent)
{
    const struct card *card = card_of(transport);
    return card->pairs[peer] != NULL ? card_pair_told(card->pairs[peer], sent)
                                     : sent <= card->shared.receive_count;
}

enum card_peer_state card_peer_state(const struct transport *transport, int peer)
{
    const struct card_pair *pair = pair_of(transport, peer);
    return pair != NULL ? pair->state : CARD_PEER_UNUSED;
}

void card_report(const struct transport *transport, int peer, struct link_report *report)
{
    const struct card_pair *pair = pair_of(transport, peer);
    struct card_device *const device = card_device_of(transport);
    const enum card_peer_state state = device->ops->state(device, peer);
    *report =
        (struct link_report){.is_up = state == CARD_PEER_UP, .is_lost = state == CARD_PEER_LOST};
    if (pair == NULL) return;
    report->is_broken = pair->state == CARD_PEER_BROKEN;
    report->heard_ns = pair->heard_ns;
}

void card_forget(struct transport *transport, int peer)
{
    struct card_device *const device = card_device_of(transport);
    device->ops->forget(device, peer);
}

const struct data_order_ops card_data_order_ops = {.sent = card_sent,
                                                   .taken = card_taken,
                                                   .told = card_told,
                                                   .greeted = ordered_not_greeted,
                                                   .examine = ordered_not_examined,
                                                   .report = card_report,
                                                   .check = ordered_is_sound,
                                                   .forget = card_forget};

void *card_owner(const struct transport *transport)
{
    return ((const struct card *)transport)->owner;
}

bool card_misses(const struct transport *transport, int peer)
{
    const struct card_pair *pair = pair_of(transport, peer);
    return pair != NULL && pair->taken_beyond != 0;
}

struct card_device *card_device_of(const struct transport *transport)
{
    return ((const struct card *)transport)->shared.device;
}

unsigned card_offered_regions(const struct transport *transport)
{
    const struct card_shared *shared = &((const struct card *)transport)->shared;
    return shared->device->ops->regions(shared->device) - shared->own_regions;
}
