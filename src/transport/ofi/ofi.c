#include "transport/ofi/ofi.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "transport/card/card.h"
#include "transport/card/card_rails.h"
#include "transport/ofi/device.h"
#include "transport/ofi/doubt.h"
#include "transport/tcp/endpoint.h"

enum {
    SHORT_SLEEP_NS = 200000, /* where the provider has nothing to wait for */
    PASSES_A_LOOK = 8, /* at connections, which takes system calls, while data is waited for */
    HELD_MAX = PEERS_MESSAGES_MAX,
    PATIENCE = 8 /* passes: about as long as an answer takes */
};

/* Behind each control message. */
struct envelope {
    uint64_t after; /* messages over the card: as many had been sent before it */
};

static_assert(sizeof(struct envelope) == PEERS_ENVELOPE_BYTES, "all that an endpoint has room for");

struct greeting_message {
    uint32_t kind, card; /* its number among the rank's cards */
    struct ofi_greeting greeting;
};

static_assert(sizeof(struct greeting_message) <= PEERS_MESSAGE_BYTES_MAX, "a control message");

struct held {
    uint64_t after;
    size_t bytes;
    char message[PEERS_MESSAGE_BYTES_MAX];
};

/* Control messages of a peer that came before their turn. */
struct queue {
    unsigned first, count;
    struct held held[HELD_MAX];
};

/* Messages over the card that a peer has sent and that do not come, and messages to it that it does
 * not take. */
struct gap {
    uint64_t told;  /* so many were sent, as the peer said */
    uint64_t taken; /* so many had come without a gap when it was looked at last */
    struct doubt comes;
    struct {
        uint64_t steps; /* of the messages to the peer, at that time */
        struct doubt doubt;
    } goes[OFI_CARDS_MAX];
};

struct ofi {
    struct transport base;
    struct transport *control, *data;
    struct card_device *device; /* the data's: the only card, or all of them as one */
    struct own_card {
        struct ofi *ofi;
        unsigned number;
        struct card_device *device;
    } cards[OFI_CARDS_MAX];
    unsigned card_count;
    struct remote_options user; /* the creator's */
    struct queue **queues;      /* of each rank; NULL: none was held */
    int both;                   /* an epoll instance of the two descriptors; -1: none yet */
    struct gap *gaps;           /* of each rank */
    bool is_stopped, any_held;
    bool is_drowsy;  /* about to sleep: a look sees everything */
    unsigned passes; /* of progress */
};

static struct ofi *ofi_of(struct transport *transport)
{
    return (struct ofi *)transport;
}

static const struct ofi *const_ofi_of(const struct transport *transport)
{
    return (const struct ofi *)transport;
}

/* ----------------------------------------------------------------------------------- control messages */

static enum tutti_status tell(struct ofi *ofi, int peer, const void *message, size_t bytes,
                              bool is_final)
{
    const struct peer_ops *const peers = ofi->control->peers;
    const struct envelope envelope = {.after = card_sent(ofi->data, peer)};
    char both[PEERS_MESSAGE_BYTES_MAX + PEERS_ENVELOPE_BYTES];
    assert(bytes <= PEERS_MESSAGE_BYTES_MAX);
    memcpy(both, message, bytes);
    memcpy(both + bytes, &envelope, sizeof envelope);
    return (is_final ? peers->tell_final : peers->tell)(ofi->control, peer, both,
                                                        bytes + sizeof envelope);
}

static bool greet(void *context, int peer, const struct ofi_greeting *greeting)
{
    const struct own_card *const own = context;
    const struct greeting_message message = {
        .kind = PEERS_CARRIED_KIND, .card = own->number, .greeting = *greeting};
    return tell(own->ofi, peer, &message, sizeof message, false) == TUTTI_OK;
}

static void hear_greeting(struct ofi *ofi, int peer, const void *message, size_t bytes)
{
    struct greeting_message heard;
    if (bytes == sizeof heard) memcpy(&heard, message, sizeof heard);
    if (bytes == sizeof heard && heard.card < OFI_CARDS_MAX &&
        (heard.card >= ofi->card_count || /* the peer has more cards than this rank */
         ofi_device_greeted(ofi->cards[heard.card].device, peer, &heard.greeting)))
        return;
    log_write(LOG_WARN, "peer %d: what it says of its network card makes no sense", peer);
}

static void pass_on(const struct ofi *ofi, int peer, const void *message, size_t bytes)
{
    if (ofi->user.hears != NULL) ofi->user.hears(ofi->user.context, peer, message, bytes);
}

/* The time since which something has failed for that peer on one of the cards; 0: nothing has. */
static uint64_t trouble_with(const struct ofi *ofi, int peer, char text[OFI_TROUBLE_MAX])
{
    uint64_t since_ns = 0;
    text[0] = '\0';
    for (unsigned c = 0; c < ofi->card_count && since_ns == 0; c++)
        since_ns = ofi_device_trouble(ofi->cards[c].device, peer, text);
    return since_ns;
}

/* Whether messages over the card that were sent before a control message may still come. */
static bool must_wait(const struct ofi *ofi, int peer, uint64_t after)
{
    char text[OFI_TROUBLE_MAX];
    return !ofi->is_stopped && card_taken(ofi->data, peer) < after &&
           ofi->device->ops->state(ofi->device, peer) == CARD_PEER_UP &&
           trouble_with(ofi, peer, text) == 0;
}

/* Hears control messages in order: all, or only messages whose turn it is. */
static void hear_held(struct ofi *ofi, int peer, bool is_all)
{
    struct queue *queue = ofi->queues[peer];
    while (queue != NULL && queue->count > 0) {
        const struct held held = queue->held[queue->first];
        if (!is_all && must_wait(ofi, peer, held.after)) return;
        queue->first = (queue->first + 1) % HELD_MAX;
        queue->count--;
        pass_on(ofi, peer, held.message, held.bytes);
    }
}

static void hear_all_held(struct ofi *ofi)
{
    if (!ofi->any_held) return;
    ofi->any_held = false;
    for (int r = 0; r < ofi->base.size; r++) {
        hear_held(ofi, r, false);
        ofi->any_held |= ofi->queues[r] != NULL && ofi->queues[r]->count > 0;
    }
}

/* False: there is no place; then it is heard at once, behind all others. */
static bool hold(struct ofi *ofi, int peer, const void *message, size_t bytes, uint64_t after)
{
    struct queue *queue = ofi->queues[peer];
    if (queue == NULL) queue = ofi->queues[peer] = calloc(1, sizeof *queue);
    if (queue == NULL || queue->count == HELD_MAX) return false;
    struct held *held = &queue->held[(queue->first + queue->count++) % HELD_MAX];
    held->after = after;
    held->bytes = bytes;
    memcpy(held->message, message, bytes);
    ofi->any_held = true;
    return true;
}

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct ofi *ofi = context;
    struct envelope envelope;
    uint32_t kind;
    if (bytes < sizeof envelope + sizeof kind || bytes - sizeof envelope > PEERS_MESSAGE_BYTES_MAX)
        return;
    bytes -= sizeof envelope;
    memcpy(&envelope, (const char *)message + bytes, sizeof envelope);
    memcpy(&kind, message, sizeof kind);
    if (ofi->gaps[peer].told < envelope.after) ofi->gaps[peer].told = envelope.after;
    if (kind == PEERS_CARRIED_KIND) {
        hear_greeting(ofi, peer, message, bytes);
        return;
    }
    const struct queue *queue = ofi->queues[peer];
    const bool is_behind = queue != NULL && queue->count > 0;
    if ((is_behind || must_wait(ofi, peer, envelope.after)) &&
        hold(ofi, peer, message, bytes, envelope.after))
        return;
    hear_held(ofi, peer, true);
    pass_on(ofi, peer, message, bytes);
}

/* ----------------------------------------------------------------------------------------------- links */

static void ofi_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    struct transport *const data = ofi_of(transport)->data;
    data->ops->limits(data, piece_bytes_max, piece_count_max);
}

/* Links keep the address of their signature. */
static struct transport *links_of(struct transport *transport)
{
    struct transport *const data = ofi_of(transport)->data;
    transport_share_slots(data, transport);
    return data;
}

static enum tutti_status ofi_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct transport *const data = links_of(transport);
    return data->ops->open_tx(data, slot, channel, peer, bytes, link);
}

static enum tutti_status ofi_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct transport *const data = links_of(transport);
    return data->ops->open_rx(data, slot, channel, peer, link);
}

/* --------------------------------------------------------------------------------------------- waiting */

static bool ofi_progress(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    bool moved = !ofi->is_stopped && ofi->data->ops->progress(ofi->data);
    if (ofi->is_stopped || ofi->is_drowsy || ++ofi->passes % PASSES_A_LOOK == 0 ||
        ofi->control->peers->is_connecting(ofi->control))
        moved |= ofi->control->ops->progress(ofi->control);
    hear_all_held(ofi);
    return moved;
}

static void ofi_sleep_begin(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    ofi->is_drowsy = true;
    ofi->data->ops->sleep_begin(ofi->data);
    ofi->control->ops->sleep_begin(ofi->control);
}

static void ofi_sleep_cancel(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    ofi->is_drowsy = false;
    ofi->data->ops->sleep_cancel(ofi->data);
    ofi->control->ops->sleep_cancel(ofi->control);
}

static int open_both(const int descriptors[2])
{
    const int both = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; both >= 0 && i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (epoll_ctl(both, EPOLL_CTL_ADD, descriptors[i], &event) == 0) continue;
        close(both);
        return -1;
    }
    return both;
}

/* -1 where the provider has nothing to wait for: then sleeps are short. */
static int ofi_descriptor(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    const int descriptors[2] = {ofi->data->ops->descriptor(ofi->data),
                                ofi->control->ops->descriptor(ofi->control)};
    if (descriptors[0] < 0 || descriptors[1] < 0) return -1;
    if (ofi->both < 0) ofi->both = open_both(descriptors);
    return ofi->both;
}

static void ofi_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct ofi *ofi = ofi_of(transport);
    struct pollfd entries[] = {{.fd = ofi_descriptor(transport), .events = POLLIN},
                               {.fd = ofi->control->ops->descriptor(ofi->control), .events = POLLIN}};
    if (entries[0].fd < 0 && timeout_ns > SHORT_SLEEP_NS) timeout_ns = SHORT_SLEEP_NS;
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(entries, entries[0].fd < 0 ? 2 : 1, &timeout,
                NULL); /* passes over negative descriptors */
    ofi_sleep_cancel(transport);
}

/* There is one sleeper, so one of the two is enough. */
static void ofi_wake(struct transport *transport)
{
    struct transport *const control = ofi_of(transport)->control;
    control->ops->wake(control);
}

static enum tutti_status ofi_shortage(const struct transport *transport, uint64_t now_ns, int *peer)
{
    const struct transport *const control = const_ofi_of(transport)->control;
    return control->ops->shortage(control, now_ns, peer);
}

static void ofi_add_footprint(const struct transport *transport, struct transport_footprint *sum)
{
    const struct ofi *ofi = const_ofi_of(transport);
    sum->private_bytes +=
        sizeof *ofi + (size_t)transport->size * (sizeof(struct queue *) + sizeof(struct gap));
    for (int r = 0; r < transport->size; r++)
        if (ofi->queues[r] != NULL) sum->private_bytes += sizeof(struct queue);
    sum->descriptor_count += ofi->both >= 0;
    ofi->data->ops->add_footprint(ofi->data, sum);
    ofi->control->ops->add_footprint(ofi->control, sum);
}

static const struct transport_ops ops = {.limits = ofi_limits,
                                         .open_tx = ofi_open_tx,
                                         .open_rx = ofi_open_rx,
                                         .open_multicast_tx = transport_no_multicast_tx,
                                         .open_multicast_rx = transport_no_multicast_rx,
                                         .open_shared_slots = transport_no_shared_slots,
                                         .reserve_shared = transport_no_reserve_shared,
                                         .send_shared = transport_no_send_shared,
                                         .progress = ofi_progress,
                                         .sleep_begin = ofi_sleep_begin,
                                         .sleep_cancel = ofi_sleep_cancel,
                                         .sleep = ofi_sleep,
                                         .descriptor = ofi_descriptor,
                                         .wake = ofi_wake,
                                         .wake_all = ofi_wake,
                                         .corrupt_rank = transport_no_corrupt_rank,
                                         .shortage = ofi_shortage,
                                         .add_footprint = ofi_add_footprint};

/* ------------------------------------------------------------------------------- what is known of ranks */

static struct transport *control_of(const struct transport *transport)
{
    return const_ofi_of(transport)->control;
}

static enum tutti_status ofi_tell(struct transport *transport, int peer, const void *message,
                                  size_t bytes)
{
    return tell(ofi_of(transport), peer, message, bytes, false);
}

static enum tutti_status ofi_tell_final(struct transport *transport, int peer, const void *message,
                                        size_t bytes)
{
    return tell(ofi_of(transport), peer, message, bytes, true);
}

static unsigned ofi_unheard(const struct transport *transport, int peer)
{
    return control_of(transport)->peers->unheard(control_of(transport), peer);
}

static void ofi_report(const struct transport *transport, int peer, struct peer_report *report)
{
    struct transport *const data = const_ofi_of(transport)->data;
    struct peer_report of_card;
    control_of(transport)->peers->report(control_of(transport), peer, report);
    data->peers->report(data, peer, &of_card);
    if (of_card.state == PEER_BROKEN) report->state = PEER_BROKEN;
    if (of_card.heard_ns > report->heard_ns) report->heard_ns = of_card.heard_ns;
}

static uint64_t ofi_answered_ns(const struct transport *transport, int peer)
{
    return control_of(transport)->peers->answered_ns(control_of(transport), peer);
}

static bool is_hopeless(const struct ofi *ofi, int peer, struct doubt *doubt, uint64_t now_ns)
{
    struct peer_report report;
    ofi->control->peers->report(ofi->control, peer, &report);
    return doubt_is_hopeless(doubt, report.heard_ns, now_ns);
}

/* A provider may lose messages with a connection that breaks, and report nothing. Later messages,
 * and the peer's control messages, show it. */
static bool has_lost(struct ofi *ofi, int peer, uint64_t now_ns)
{
    struct gap *gap = &ofi->gaps[peer];
    const uint64_t taken = card_taken(ofi->data, peer);
    const bool is_missed = gap->told > taken || card_misses(ofi->data, peer);
    if (taken != gap->taken || !is_missed) gap->comes = (struct doubt){0};
    gap->taken = taken;
    return is_missed && is_hopeless(ofi, peer, &gap->comes, now_ns);
}

/* A card may also keep for ever the messages that it was given. */
static bool is_stuck(struct ofi *ofi, unsigned card, int peer, uint64_t now_ns)
{
    uint64_t steps;
    struct gap *gap = &ofi->gaps[peer];
    const bool is_owed = ofi_device_owes(ofi->cards[card].device, peer, &steps);
    if (steps != gap->goes[card].steps || !is_owed) gap->goes[card].doubt = (struct doubt){0};
    gap->goes[card].steps = steps;
    return is_owed && is_hopeless(ofi, peer, &gap->goes[card].doubt, now_ns);
}

static void look_for_losses(struct ofi *ofi, int peer, uint64_t now_ns)
{
    const struct gap *gap = &ofi->gaps[peer];
    if (has_lost(ofi, peer, now_ns))
        ofi_device_fail(ofi->cards[0].device, peer, "a message was lost", gap->comes.since_ns);
    for (unsigned c = 0; c < ofi->card_count; c++)
        if (is_stuck(ofi, c, peer, now_ns))
            ofi_device_fail(ofi->cards[c].device, peer, "what it was given does not leave",
                            gap->goes[c].doubt.since_ns);
}

/* Counts the peers with which this rank has trouble now. */
static int count_troubles(const struct ofi *ofi)
{
    char text[OFI_TROUBLE_MAX];
    int count = 0;
    for (int r = 0; r < ofi->base.size; r++) count += trouble_with(ofi, r, text) != 0;
    return count;
}

static enum peer_presence ofi_look(struct transport *transport, int peer, uint64_t now_ns)
{
    struct ofi *ofi = ofi_of(transport);
    char text[OFI_TROUBLE_MAX];
    const enum peer_presence presence = ofi->control->peers->look(ofi->control, peer, now_ns);
    if (presence != PEER_PRESENT) return presence;
    if (!ofi->is_stopped) look_for_losses(ofi, peer, now_ns);
    const uint64_t since_ns = trouble_with(ofi, peer, text);
    const struct trouble trouble = {.rank = ofi->base.rank,
                                    .peer = peer,
                                    .since_ns = since_ns,
                                    .count = since_ns != 0 ? count_troubles(ofi) : 0,
                                    .has_stopped = ofi->is_stopped};
    return trouble_means_gone(&trouble, now_ns) ? PEER_VANISHED : PEER_PRESENT;
}

static bool ofi_trouble(const struct transport *transport, int peer, char text[PEERS_TROUBLE_MAX])
{
    const struct ofi *ofi = const_ofi_of(transport);
    char why[OFI_TROUBLE_MAX];
    for (int r = 0; r < transport->size; r++)
        if ((peer < 0 || peer == r) && trouble_with(ofi, r, why) != 0) {
            snprintf(text, PEERS_TROUBLE_MAX, "its network card: %s", why);
            return true;
        }
    return ofi->control->peers->trouble(ofi->control, peer, text);
}

static enum tutti_status ofi_connect(struct transport *transport, int peer)
{
    struct transport *const control = control_of(transport);
    return control->peers->connect(control, peer);
}

static bool ofi_is_connecting(const struct transport *transport)
{
    return control_of(transport)->peers->is_connecting(control_of(transport));
}

static enum tutti_status ofi_check(const struct transport *transport)
{
    const struct ofi *ofi = const_ofi_of(transport);
    TRY(ofi->control->peers->check(ofi->control));
    for (unsigned c = 0; c < ofi->card_count && !ofi->is_stopped; c++)
        TRY(ofi_device_check(ofi->cards[c].device));
    return TUTTI_OK;
}

static void ofi_forget(struct transport *transport, int peer)
{
    struct ofi *ofi = ofi_of(transport);
    for (unsigned c = 0; c < ofi->card_count; c++) ofi_device_lost(ofi->cards[c].device, peer);
    ofi->control->peers->forget(ofi->control, peer);
}

static bool ofi_is_awaited(const struct transport *transport)
{
    const struct ofi *ofi = const_ofi_of(transport);
    return (!ofi->is_stopped && ofi->data->peers->is_awaited(ofi->data)) ||
           ofi->control->peers->is_awaited(ofi->control);
}

static bool data_is_settled(const struct ofi *ofi, int peer)
{
    return ofi->is_stopped || ofi->data->peers->is_settled(ofi->data, peer);
}

static bool ofi_finish(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    const bool is_done = ofi->is_stopped || ofi->data->peers->finish(ofi->data);
    const bool is_told = ofi->control->peers->finish(ofi->control);
    hear_all_held(ofi);
    return is_done && is_told;
}

static bool ofi_is_settled(const struct transport *transport, int peer)
{
    const struct ofi *ofi = const_ofi_of(transport);
    return data_is_settled(ofi, peer) && ofi->control->peers->is_settled(ofi->control, peer);
}

static bool ofi_is_owed_data(const struct transport *transport, int peer)
{
    const struct ofi *ofi = const_ofi_of(transport);
    return !ofi->is_stopped && ofi->data->peers->is_owed_data(ofi->data, peer);
}

static bool ofi_stop(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    const bool is_untouched = ofi->data->peers->stop(ofi->data);
    ofi->is_stopped = true;
    return ofi->control->peers->stop(ofi->control) && is_untouched;
}

static const struct peer_ops peers = {.tell = ofi_tell,
                                      .tell_final = ofi_tell_final,
                                      .unheard = ofi_unheard,
                                      .report = ofi_report,
                                      .answered_ns = ofi_answered_ns,
                                      .look = ofi_look,
                                      .trouble = ofi_trouble,
                                      .connect = ofi_connect,
                                      .is_connecting = ofi_is_connecting,
                                      .check = ofi_check,
                                      .forget = ofi_forget,
                                      .is_awaited = ofi_is_awaited,
                                      .finish = ofi_finish,
                                      .is_settled = ofi_is_settled,
                                      .is_owed_data = ofi_is_owed_data,
                                      .stop = ofi_stop};

/* ------------------------------------------------------------------------------------------- life cycle */

/* Ranks of this host, this one included. */
static unsigned count_local(const struct remote_options *options)
{
    unsigned count = 1;
    for (int r = 0; r < options->size; r++) {
        struct remote_location location;
        if (r == options->rank) continue;
        options->locates(options->context, r, &location);
        count += !location.is_remote;
    }
    return count;
}

/* Opens the first card, and as many further cards as possible. */
static enum tutti_status open_cards(struct ofi *ofi, const struct ofi_device_options *device,
                                    const unsigned *numbers, unsigned count)
{
    char before[ERROR_TEXT_MAX], why[ERROR_TEXT_MAX];
    for (unsigned c = 0; c < count; c++) {
        struct own_card *const own = &ofi->cards[c];
        struct ofi_device_options of_card = *device;
        *own = (struct own_card){.ofi = ofi, .number = c};
        of_card.card = numbers[c];
        of_card.is_of_several = count > 1;
        of_card.is_further = c > 0;
        of_card.context = own;
        error_copy(before, sizeof before);
        const enum tutti_status status = ofi_device_create(&of_card, &own->device);
        if (status != TUTTI_OK && c == 0) return status;
        if (status != TUTTI_OK) {
            error_copy(why, sizeof why);
            log_write(
                LOG_WARN,
                "fabric: card %s does not open, so data goes over %u instead of %u cards (%s)",
                device->choice->cards[numbers[c]].domain, c, count, why);
            return error_unless_ok(TUTTI_OK, before);
        }
        ofi->card_count = c + 1;
    }
    return TUTTI_OK;
}

static enum tutti_status open_device(struct ofi *ofi, const struct remote_options *options,
                                     const struct ofi_choice *choice)
{
    const struct ofi_device_options device = {
        .rank = options->rank, .size = options->size, .choice = choice, .greets = greet};
    const struct card_rails_options rails = {.size = options->size};
    struct card_device *devices[OFI_CARDS_MAX];
    unsigned numbers[OFI_CARDS_MAX];
    const unsigned rank_count = choice->card_count > 1 ? count_local(options) : 1,
                   count = ofi_card_share(choice, rank_count, numbers);
    if (count < choice->card_count)
        log_write(LOG_INFO, "fabric: %u of these cards, as %u ranks share the %u of this host",
                  count, rank_count, choice->host_card_count);
    TRY(open_cards(ofi, &device, numbers, count));
    for (unsigned c = 0; c < ofi->card_count; c++) devices[c] = ofi->cards[c].device;
    ofi->device = devices[0];
    return ofi->card_count == 1 ? TUTTI_OK
                                : card_rails_create(&rails, devices, ofi->card_count, &ofi->device);
}

static enum tutti_status open_data(struct ofi *ofi, const struct remote_options *options)
{
    const struct ofi_choice *choice;
    TRY(ofi_choose(&choice));
    const struct card_options card = {.rank = options->rank,
                                      .size = options->size,
                                      .is_software = choice->is_software,
                                      .patience = PATIENCE,
                                      .flight_bytes = CARD_FLIGHT_ADAPTS};
    TRY(open_device(ofi, options, choice));
    return card_create(&card, ofi->device, &ofi->data);
}

static void locate(void *context, int rank, struct remote_location *location)
{
    const struct ofi *ofi = context;
    ofi->user.locates(ofi->user.context, rank, location);
}

static void name(void *context, int rank, char *text, size_t size)
{
    const struct ofi *ofi = context;
    ofi->user.names(ofi->user.context, rank, text, size);
}

static enum tutti_status open_control(struct ofi *ofi, const struct remote_options *options)
{
    struct remote_options own = *options;
    own.locates = locate;
    own.hears = hear;
    own.names = name;
    own.context = ofi;
    return endpoint_open(&own, &ofi->control);
}

enum tutti_status ofi_open(const struct remote_options *options, struct transport **transport)
{
    struct ofi *ofi = calloc(1, sizeof *ofi);
    *transport = NULL;
    if (ofi == NULL) return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    ofi->user = *options;
    ofi->both = -1;
    ofi->queues = calloc((size_t)options->size, sizeof(struct queue *));
    ofi->gaps = calloc((size_t)options->size, sizeof *ofi->gaps);
    ofi->base = (struct transport){
        .ops = &ops, .peers = &peers, .rank = options->rank, .size = options->size};
    transport_own_slots(&ofi->base);
    enum tutti_status status = TUTTI_OK;
    if (ofi->queues == NULL || ofi->gaps == NULL)
        status = error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    if (status == TUTTI_OK) status = open_data(ofi, options);
    if (status == TUTTI_OK) status = open_control(ofi, options);
    if (status != TUTTI_OK) {
        ofi_close(&ofi->base);
        return status;
    }
    ofi->base.paths = ofi->data->paths;
    *transport = &ofi->base;
    return TUTTI_OK;
}

void ofi_close(struct transport *transport)
{
    struct ofi *ofi = ofi_of(transport);
    if (ofi == NULL) return;
    if (ofi->both >= 0) close(ofi->both);
    card_close(ofi->data);
    endpoint_close(ofi->control);
    for (int r = 0; ofi->queues != NULL && r < transport->size; r++) free(ofi->queues[r]);
    free(ofi->queues);
    free(ofi->gaps);
    free(ofi);
}
