#include "transport/data_order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/log_limit.h"
#include "base/status.h"
#include "os/clock.h"
#include "transport/doubt.h"
#include "transport/transport.h"

enum { HELD_MAX = CONTROL_MESSAGES_MAX };

/* Behind each control message. */
struct order_envelope {
    uint64_t after; /* messages on links: as many had been sent before it */
};

static_assert(sizeof(struct order_envelope) == CONTROL_ENVELOPE_BYTES,
              "all that control has room for");

struct held {
    uint64_t after;
    size_t bytes;
    char message[CONTROL_MESSAGE_BYTES_MAX];
};

/* Control messages of a peer that came before their turn. */
struct queue {
    unsigned first, count;
    struct held held[HELD_MAX];
};

struct data_order {
    struct data_order_options options;
    struct transport *links; /* or NULL */
    struct control *control;
    struct queue **queues; /* of each rank; NULL: none was held */
    uint64_t *told;        /* by each rank: it has sent so many messages on links */
    bool any_held, is_stopped;
    struct log_limit nonsense;   /* greetings that make none */
    struct log_limit overstated; /* numbers that cannot be true */
};

static bool has_links(const struct data_order *order)
{
    return order->links != NULL && !order->is_stopped;
}

/* ----------------------------------------------------------------------------------- telling */

size_t data_order_seal(const struct data_order *order, int peer, const void *message, size_t bytes,
                       void *sealed)
{
    /* Messages that stopped links have given up never come. */
    const struct order_envelope envelope = {
        .after = has_links(order) ? order->links->ordered->sent(order->links, peer) : 0};
    assert(bytes <= CONTROL_MESSAGE_BYTES_MAX);
    memcpy(sealed, message, bytes);
    memcpy((char *)sealed + bytes, &envelope, sizeof envelope);
    return bytes + sizeof envelope;
}

bool data_order_greet(struct data_order *order, int peer, const void *greeting, size_t bytes)
{
    return order->control->ops->tell(order->control, peer, greeting, bytes) == TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- hearing */

static void pass_on(const struct data_order *order, int peer, const void *message, size_t bytes)
{
    if (order->options.hears != NULL)
        order->options.hears(order->options.context, peer, message, bytes);
}

/* Whether messages on links that were sent before a control message may still come. */
static bool must_wait(const struct data_order *order, int peer, uint64_t after)
{
    struct link_report report;
    if (!has_links(order) || order->links->ordered->taken(order->links, peer) >= after)
        return false;
    order->links->ordered->report(order->links, peer, &report);
    return report.is_up && report.trouble_ns == 0;
}

/* Hears control messages in order: all, or only messages whose turn it is. */
static void hear_held(struct data_order *order, int peer, bool is_all)
{
    struct queue *queue = order->queues[peer];
    while (queue != NULL && queue->count > 0) {
        const struct held held = queue->held[queue->first];
        if (!is_all && must_wait(order, peer, held.after)) return;
        queue->first = (queue->first + 1) % HELD_MAX;
        queue->count--;
        pass_on(order, peer, held.message, held.bytes);
    }
}

void data_order_progress(struct data_order *order)
{
    if (!order->any_held) return;
    order->any_held = false;
    for (int r = 0; r < order->options.size; r++) {
        hear_held(order, r, false);
        order->any_held |= order->queues[r] != NULL && order->queues[r]->count > 0;
    }
}

/* False: there is no place; then it is heard at once, behind all others. */
static bool hold(struct data_order *order, int peer, const void *message, size_t bytes,
                 uint64_t after)
{
    struct queue *queue = order->queues[peer];
    if (queue == NULL) queue = order->queues[peer] = calloc(1, sizeof *queue);
    if (queue == NULL || queue->count == HELD_MAX) return false;
    struct held *held = &queue->held[(queue->first + queue->count++) % HELD_MAX];
    held->after = after;
    held->bytes = bytes;
    memcpy(held->message, message, bytes);
    order->any_held = true;
    return true;
}

static void log_nonsense(struct data_order *order, int peer)
{
    char more[LOG_LIMIT_TEXT_SIZE];
    if (!log_limit_allows(&order->nonsense, clock_now_ns(), more)) return;
    log_write(LOG_WARN, "peer %d: what it says of its links makes no sense%s", peer, more);
}

/* How many messages the peer has sent on links, as it says; 0: it cannot have sent so many. */
static uint64_t believe(struct data_order *order, int peer, uint64_t sent)
{
    char more[LOG_LIMIT_TEXT_SIZE];
    if (!has_links(order) || order->links->ordered->told(order->links, peer, sent)) return sent;
    if (log_limit_allows(&order->overstated, clock_now_ns(), more))
        log_write(LOG_WARN,
                  "peer %d: it says that it sent %" PRIu64
                  " messages on its links, which had no room for so many%s",
                  peer, sent, more);
    return 0;
}

void data_order_hear(struct data_order *order, int peer, const void *sealed, size_t bytes)
{
    struct order_envelope envelope;
    uint32_t kind;
    if (bytes < sizeof envelope + sizeof kind || bytes - sizeof envelope > CONTROL_MESSAGE_BYTES_MAX)
        return;
    bytes -= sizeof envelope;
    memcpy(&envelope, (const char *)sealed + bytes, sizeof envelope);
    memcpy(&kind, sealed, sizeof kind);
    envelope.after = believe(order, peer, envelope.after);
    if (order->told[peer] < envelope.after) order->told[peer] = envelope.after;
    if (kind == CONTROL_KIND_GREETING) {
        if (order->links != NULL &&
            !order->links->ordered->greeted(order->links, peer, sealed, bytes))
            log_nonsense(order, peer);
        return;
    }
    const struct queue *queue = order->queues[peer];
    const bool is_behind = queue != NULL && queue->count > 0;
    if ((is_behind || must_wait(order, peer, envelope.after)) &&
        hold(order, peer, sealed, bytes, envelope.after))
        return;
    hear_held(order, peer, true);
    pass_on(order, peer, sealed, bytes);
}

void data_order_stop(struct data_order *order)
{
    order->is_stopped = true;
}

/* ----------------------------------------------------------------------- what is known of peers */

/* The time since which the links have been in trouble with a peer; 0: they are not. */
static uint64_t trouble_with(const struct data_order *order, int peer,
                             char text[CONTROL_TROUBLE_MAX])
{
    struct link_report report = {0};
    if (order->links != NULL) order->links->ordered->report(order->links, peer, &report);
    memcpy(text, report.trouble, CONTROL_TROUBLE_MAX);
    return report.trouble_ns;
}

/* Counts the peers with which this rank has trouble now. */
static int count_troubles(const struct data_order *order)
{
    char text[CONTROL_TROUBLE_MAX];
    int count = 0;
    for (int r = 0; r < order->options.size; r++) count += trouble_with(order, r, text) != 0;
    return count;
}

enum peer_presence data_order_look(struct data_order *order, int peer, uint64_t heard_ns,
                                   uint64_t now_ns)
{
    char text[CONTROL_TROUBLE_MAX];
    const struct link_evidence evidence = {
        .now_ns = now_ns, .heard_ns = heard_ns, .told = order->told[peer]};
    if (has_links(order)) order->links->ordered->examine(order->links, peer, &evidence);
    const uint64_t since_ns = trouble_with(order, peer, text);
    const struct trouble trouble = {.rank = order->options.rank,
                                    .peer = peer,
                                    .since_ns = since_ns,
                                    .count = since_ns != 0 ? count_troubles(order) : 0,
                                    .has_stopped = order->is_stopped};
    return trouble_means_gone(&trouble, now_ns) ? PEER_VANISHED : PEER_PRESENT;
}

void data_order_report(const struct data_order *order, int peer, struct peer_report *report)
{
    struct link_report of_links;
    if (order->links == NULL) return;
    order->links->ordered->report(order->links, peer, &of_links);
    if (report->state == PEER_UNUSED || report->state == PEER_WANTED) {
        report->streams_up = of_links.is_up;
        if (of_links.is_lost) report->state = PEER_LOST;
    }
    if (of_links.is_broken) report->state = PEER_BROKEN;
    if (of_links.heard_ns > report->heard_ns) report->heard_ns = of_links.heard_ns;
}

bool data_order_trouble(const struct data_order *order, int peer, char text[CONTROL_TROUBLE_MAX])
{
    for (int r = 0; r < order->options.size; r++)
        if ((peer < 0 || peer == r) && trouble_with(order, r, text) != 0) return true;
    return false;
}

enum tutti_status data_order_check(const struct data_order *order)
{
    return has_links(order) ? order->links->ordered->check(order->links) : TUTTI_OK;
}

void data_order_forget(struct data_order *order, int peer)
{
    if (order->links != NULL) order->links->ordered->forget(order->links, peer);
}

/* ----------------------------------------------------------------------------------- life cycle */

enum tutti_status data_order_create(const struct data_order_options *options,
                                    struct data_order **created)
{
    struct data_order *const order = calloc(1, sizeof *order);
    *created = NULL;
    if (order == NULL) return error_set(TUTTI_NO_MEMORY, "control messages: out of memory");
    order->options = *options;
    order->queues = calloc((size_t)options->size, sizeof(struct queue *));
    order->told = calloc((size_t)options->size, sizeof *order->told);
    if (order->queues == NULL || order->told == NULL) {
        data_order_free(order);
        return error_set(TUTTI_NO_MEMORY, "control messages: out of memory");
    }
    *created = order;
    return TUTTI_OK;
}

void data_order_join(struct data_order *order, struct transport *links, struct control *control)
{
    order->links = links;
    order->control = control;
}

void data_order_free(struct data_order *order)
{
    if (order == NULL) return;
    for (int r = 0; order->queues != NULL && r < order->options.size; r++) free(order->queues[r]);
    free(order->queues);
    free(order->told);
    free(order);
}

size_t data_order_bytes(const struct data_order *order)
{
    size_t bytes = sizeof *order +
                   (size_t)order->options.size * (sizeof(struct queue *) + sizeof *order->told);
    for (int r = 0; r < order->options.size; r++)
        if (order->queues[r] != NULL) bytes += sizeof(struct queue);
    return bytes;
}

/* ------------------------------------------------------------------------- for parts of a table */

bool ordered_not_greeted(struct transport *transport, int peer, const void *greeting, size_t bytes)
{
    (void)transport, (void)peer, (void)greeting, (void)bytes;
    return false;
}

void ordered_not_examined(struct transport *transport, int peer,
                          const struct link_evidence *evidence)
{
    (void)transport, (void)peer, (void)evidence;
}

enum tutti_status ordered_is_sound(const struct transport *transport)
{
    (void)transport;
    return TUTTI_OK;
}
