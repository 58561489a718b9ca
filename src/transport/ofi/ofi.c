#include "transport/ofi/ofi.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "transport/card/card.h"
#include "transport/card/card_rails.h"
#include "transport/doubt.h"
#include "transport/ofi/ofi_device.h"

enum { PATIENCE = 8 /* passes: about as long as an answer takes */ };

struct greeting_message {
    uint32_t kind, card; /* its number among the rank's cards */
    struct ofi_greeting greeting;
};

static_assert(sizeof(struct greeting_message) <= CONTROL_MESSAGE_BYTES_MAX, "a control message");

/* Messages over the card that a peer has sent and that do not come, and messages to it that it does
 * not take. */
struct gap {
    uint64_t taken; /* so many had come without a gap when it was looked at last */
    struct doubt comes;
    struct {
        uint64_t steps; /* of the messages to the peer, at that time */
        struct doubt doubt;
    } goes[OFI_CARDS_MAX];
};

/* What a rank has beside the links themselves, which are card.h's. */
struct ofi {
    struct data_order *order;
    struct own_card {
        struct ofi *ofi;
        unsigned number;
        struct card_device *device;
    } cards[OFI_CARDS_MAX];
    unsigned card_count;
    struct gap *gaps; /* of each rank */
};

static struct ofi *ofi_of(const struct transport *transport)
{
    return card_owner(transport);
}

/* ------------------------------------------------------------------------------------ greetings */

static bool greet(void *context, int peer, const struct ofi_greeting *greeting)
{
    const struct own_card *const own = context;
    const struct greeting_message message = {
        .kind = CONTROL_KIND_GREETING, .card = own->number, .greeting = *greeting};
    return data_order_greet(own->ofi->order, peer, &message, sizeof message);
}

static bool ofi_greeted(struct transport *transport, int peer, const void *greeting, size_t bytes)
{
    const struct ofi *ofi = ofi_of(transport);
    struct greeting_message heard;
    if (bytes == sizeof heard) memcpy(&heard, greeting, sizeof heard);
    return bytes == sizeof heard && heard.card < OFI_CARDS_MAX &&
           (heard.card >= ofi->card_count || /* the peer has more cards than this rank */
            ofi_device_greeted(ofi->cards[heard.card].device, peer, &heard.greeting));
}

/* ----------------------------------------------------------------------- what is known of ranks */

static void ofi_report(const struct transport *transport, int peer, struct link_report *report)
{
    const struct ofi *ofi = ofi_of(transport);
    char why[OFI_TROUBLE_MAX];
    card_report(transport, peer, report);
    for (unsigned c = 0; c < ofi->card_count && report->trouble_ns == 0; c++)
        report->trouble_ns = ofi_device_trouble(ofi->cards[c].device, peer, why);
    if (report->trouble_ns != 0)
        snprintf(report->trouble, sizeof report->trouble, "its network card: %s", why);
}

/* A provider may lose messages with a connection that breaks, and report nothing. Later messages,
 * and the peer's control messages, show it. */
static bool has_lost(const struct transport *transport, int peer,
                     const struct link_evidence *evidence)
{
    struct gap *gap = &ofi_of(transport)->gaps[peer];
    const uint64_t taken = card_taken(transport, peer);
    const bool is_missed = evidence->told > taken || card_misses(transport, peer);
    if (taken != gap->taken || !is_missed) gap->comes = (struct doubt){0};
    gap->taken = taken;
    return is_missed && doubt_look(&gap->comes, evidence->heard_ns, evidence->now_ns);
}

/* A card may also keep for ever the messages that it was given. */
static bool is_stuck(struct ofi *ofi, unsigned card, int peer, const struct link_evidence *evidence)
{
    uint64_t steps;
    struct gap *gap = &ofi->gaps[peer];
    const bool is_owed = ofi_device_owes(ofi->cards[card].device, peer, &steps);
    if (steps != gap->goes[card].steps || !is_owed) gap->goes[card].doubt = (struct doubt){0};
    gap->goes[card].steps = steps;
    return is_owed && doubt_look(&gap->goes[card].doubt, evidence->heard_ns, evidence->now_ns);
}

static void ofi_examine(struct transport *transport, int peer, const struct link_evidence *evidence)
{
    struct ofi *ofi = ofi_of(transport);
    const struct gap *gap = &ofi->gaps[peer];
    if (has_lost(transport, peer, evidence))
        ofi_device_fail(ofi->cards[0].device, peer, "a message was lost", gap->comes.since_ns);
    for (unsigned c = 0; c < ofi->card_count; c++)
        if (is_stuck(ofi, c, peer, evidence))
            ofi_device_fail(ofi->cards[c].device, peer, "what it was given does not leave",
                            gap->goes[c].doubt.since_ns);
}

static enum tutti_status ofi_check(const struct transport *transport)
{
    const struct ofi *ofi = ofi_of(transport);
    for (unsigned c = 0; c < ofi->card_count; c++) TRY(ofi_device_check(ofi->cards[c].device));
    return TUTTI_OK;
}

static const struct data_order_ops ordered = {.sent = card_sent,
                                              .taken = card_taken,
                                              .told = card_told,
                                              .greeted = ofi_greeted,
                                              .examine = ofi_examine,
                                              .report = ofi_report,
                                              .check = ofi_check,
                                              .forget = card_forget};

/* ----------------------------------------------------------------------------------- life cycle */

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
                                     const struct ofi_choice *choice, struct card_device **opened)
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
    *opened = devices[0];
    return ofi->card_count == 1 ? TUTTI_OK
                                : card_rails_create(&rails, devices, ofi->card_count, opened);
}

static void ofi_free(struct ofi *ofi)
{
    if (ofi != NULL) free(ofi->gaps);
    free(ofi);
}

static enum tutti_status open_links(struct ofi *ofi, const struct remote_options *options,
                                    struct transport **transport)
{
    const struct ofi_choice *choice;
    struct card_device *device;
    TRY(ofi_choose(&choice));
    const struct card_options card = {.rank = options->rank,
                                      .size = options->size,
                                      .is_software = choice->is_software,
                                      .patience = PATIENCE,
                                      .flight_bytes = CARD_FLIGHT_ADAPTS,
                                      .ordered = &ordered,
                                      .owner = ofi,
                                      .owner_bytes =
                                          sizeof *ofi + (size_t)options->size * sizeof *ofi->gaps};
    TRY(open_device(ofi, options, choice, &device));
    return card_create(&card, device, transport);
}

enum tutti_status ofi_open(const struct remote_options *options, struct data_order *order,
                           struct transport **transport)
{
    struct ofi *ofi = calloc(1, sizeof *ofi);
    *transport = NULL;
    if (ofi != NULL) ofi->gaps = calloc((size_t)options->size, sizeof *ofi->gaps);
    if (ofi == NULL || ofi->gaps == NULL) {
        ofi_free(ofi);
        return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
    }
    ofi->order = order;
    const enum tutti_status status = open_links(ofi, options, transport);
    if (status != TUTTI_OK) ofi_free(ofi);
    return status;
}

void ofi_close(struct transport *transport)
{
    if (transport == NULL) return;
    struct ofi *const ofi = ofi_of(transport);
    card_close(transport);
    ofi_free(ofi);
}
