#include "transport/tcp/endpoint.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/held.h"
#include "base/status.h"
#include "os/clock.h"
#include "transport/tcp/endpoint_state.h"

enum {
    PASSES_A_LOOK = 64, /* at the port, when nothing is wanted here */
    LOOK_NS = 100000,   /* the same, when passes are rare */
    LOOKS_BESIDE_DATA =
        8, /* passes to one look at connections, while links beside them wait for data */
    ASK_NS = 50000000, /* until a higher rank is asked to connect, and then again */
    REASK_NS = 1000000000,
    DEAD_APART_NS = 100000000, /* a connection not reported as lost is made again so late */
    RECONNECT_NS = 5000000,
    NEED_APART_NS = 10000000 /* between two looks at whether data waits for connections */
};

/* An attempt goes on until the call that waits for it gives up: calls have deadlines of their
 * own. */
static const uint64_t FOR_GOOD = UINT64_MAX / 2;

static_assert(TCP_STREAMS_MAX <= 8, "a bit for each stream of a peer");
static_assert((int)TCP_STREAMS_MAX <= (int)PORT_STREAMS_MAX, "each is let in");
static_assert((int)PORT_TROUBLE_MAX <= (int)CONTROL_TROUBLE_MAX, "what the port says has room");

static struct endpoint *endpoint_of(struct transport *transport)
{
    return (struct endpoint *)transport;
}

static const struct transport *tcp_under(const struct transport *transport)
{
    return ((const struct endpoint *)transport)->tcp;
}

static struct endpoint *endpoint_with(struct control *control)
{
    return (struct endpoint *)((char *)control - offsetof(struct endpoint, control));
}

static const struct endpoint *const_endpoint_with(const struct control *control)
{
    return (const struct endpoint *)((const char *)control - offsetof(struct endpoint, control));
}

/* ---------------------------------------------------------------------------------------- peers */

/* Takes memory for a peer, once. All code that makes a pair of tcp.h comes here first; so if there
 * is a pair, there is this memory. */
static enum tutti_status know(struct endpoint *endpoint, int peer, struct endpoint_peer **known)
{
    *known = endpoint_peer_of(endpoint, peer);
    if (*known != NULL) return TUTTI_OK;
    TRY(rails_know(endpoint->rails, peer));
    struct endpoint_peer *const about = rank_map_get(&endpoint->peers, peer, sizeof *about);
    if (about == NULL) return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    endpoint->locates(endpoint->context, peer, &about->is_at);
    gone_init(&about->gone);
    *known = about;
    return TUTTI_OK;
}

/* ----------------------------------------------------------------------------------- connecting */

static unsigned count_bits(uint8_t bits)
{
    return (unsigned)__builtin_popcount(bits);
}

static bool is_sought(const struct endpoint_peer *about)
{
    return !about->is_forgotten || about->until_ns != 0;
}

static void seek(struct endpoint *endpoint, struct endpoint_peer *about, int peer, uint8_t streams)
{
    if (streams == 0) return;
    about->spared &= (uint8_t)~streams;
    about->wanted |= streams;
    endpoint->any_wanted = true;
    endpoint->missing += count_bits(streams & (uint8_t)~about->awaited);
    about->awaited |= streams;
    if (peer > endpoint->base.rank) about->next_ns = clock_now_ns() + ASK_NS;
}

/* May not call the transport. */
static void want(void *context, int peer, unsigned stream)
{
    struct endpoint *endpoint = context;
    struct endpoint_peer *about = endpoint_peer_of(endpoint, peer);
    assert(about != NULL); /* there is a pair */
    if (rails_want(endpoint->rails, peer, stream)) return;
    const uint8_t bit = (uint8_t)(1 << stream);
    if (is_sought(about))
        seek(endpoint, about, peer, bit);
    else
        about->spared |= bit;
}

/* There is something to say to a peer, or it asks for this rank: if it was forgotten, it is sought
 * again for a while. */
static void seek_again(struct endpoint *endpoint, struct endpoint_peer *about, int peer)
{
    if (!about->is_forgotten || about->gone.presence == PEER_ENDED) return;
    about->until_ns = clock_now_ns() + CONTROL_FORGOTTEN_NS;
    endpoint->any_forgotten = true;
    seek(endpoint, about, peer, about->spared);
}

/* Ends the search for forgotten peers that have been sought for long enough. */
static void give_up_forgotten(struct endpoint *endpoint, uint64_t now)
{
    struct endpoint_peer *about;
    endpoint->any_forgotten = false;
    for (int at = 0; (about = rank_map_next(&endpoint->peers, &at)) != NULL;) {
        if (about->until_ns == 0) continue;
        if (now < about->until_ns) {
            endpoint->any_forgotten = true;
            continue;
        }
        port_give_up(&endpoint->client, at - 1);
        endpoint->missing -= count_bits(about->awaited);
        about->spared |= about->wanted | about->awaited;
        about->wanted = about->awaited = 0;
        about->until_ns = 0;
    }
}

/* If its communicator has just left, a port may accept a connection and then not know what it is
 * for. So this rank does not connect again and again at once. A higher rank comes by itself if it
 * needs this one; if it does not, it has to be told after a while. */
static enum tutti_status go_for(struct endpoint *endpoint, struct endpoint_peer *about, int rank,
                                uint64_t now)
{
    const bool connects = rank < endpoint->base.rank;
    about->next_ns = now + (connects ? RECONNECT_NS : REASK_NS);
    for (unsigned s = 0; s < TCP_STREAMS_MAX; s++) {
        if ((about->wanted & 1 << s) == 0) continue;
        TRY(connects ? port_connect(&endpoint->client, rank, s, &about->is_at.port, FOR_GOOD)
                     : port_request_callback(&endpoint->client, rank, s, &about->is_at.port));
    }
    if (connects) about->wanted = 0; /* the attempt goes on until it is accepted */
    return TUTTI_OK;
}

static enum tutti_status go_for_wanted(struct endpoint *endpoint)
{
    const uint64_t now = clock_now_ns();
    endpoint->any_wanted = false;
    struct endpoint_peer *about;
    for (int at = 0; (about = rank_map_next(&endpoint->peers, &at)) != NULL;) {
        const bool is_due = about->wanted != 0 && now >= about->next_ns;
        const enum tutti_status status = is_due ? go_for(endpoint, about, at - 1, now) : TUTTI_OK;
        if (status != TUTTI_OK) {
            endpoint->any_wanted = true;
            return status;
        }
        endpoint->any_wanted |= about->wanted != 0;
    }
    return TUTTI_OK;
}

static enum tutti_status attach(struct endpoint *endpoint, struct endpoint_peer *about, int peer,
                                unsigned stream, struct byte_stream socket)
{
    const uint8_t bit = (uint8_t)(1 << stream);
    about->wanted &= (uint8_t)~bit; /* it came by itself */
    about->spared &= (uint8_t)~bit;
    endpoint->missing -= (about->awaited & bit) != 0;
    about->awaited &= (uint8_t)~bit;
    TRY(tcp_attach(endpoint->tcp, peer, stream, socket));
    if (stream == 0) rails_meet(endpoint->rails, peer);
    return TUTTI_OK;
}

static enum tutti_status attach_arrived(struct endpoint *endpoint, bool *moved)
{
    int peer;
    unsigned stream;
    struct byte_stream socket;
    while (port_take(&endpoint->client, &peer, &stream, &socket)) {
        *moved = true;
        if (socket.fd == PORT_UNFIT) return TUTTI_INVALID_OPTIONS;
        struct endpoint_peer *about;
        const enum tutti_status status = know(endpoint, peer, &about);
        if (status != TUTTI_OK) {
            byte_stream_close(&socket);
            return status;
        }
        if (stream >=
            endpoint->stream_count) { /* a rank with more cards finds out when it hears of ours */
            byte_stream_close(&socket);
        } else if (rails_take(endpoint->rails, peer, stream, socket.fd)) {
            if (socket.fd >= 0 && tcp_attach(endpoint->tcp, peer, stream, socket) != TUTTI_OK)
                rails_lose(endpoint->rails, peer, stream);
        } else if (socket.fd == PORT_CALLBACK) {
            seek_again(endpoint, about, peer);
            about->wanted |= (uint8_t)(1 << stream);
            endpoint->any_wanted = true;
        } else {
            TRY(attach(endpoint, about, peer, stream, socket));
        }
    }
    return TUTTI_OK;
}

/* A connection cannot be made. */
static enum tutti_status check_client(struct port_client *client)
{
    const int status = atomic_load_explicit(&client->status, memory_order_acquire);
    return status == TUTTI_OK ? TUTTI_OK : error_set((enum tutti_status)status, "%s", client->why);
}

/* Whether data waits for a connection. Messages such as heartbeats can wait for better times, but
 * for messages without which no card is reached. */
static bool needs_connections(const struct endpoint *endpoint)
{
    const struct endpoint_peer *about;
    for (int at = 0;
         endpoint->missing > 0 && (about = rank_map_next(&endpoint->peers, &at)) != NULL;)
        if (about->awaited != 0 && !about->is_forgotten &&
            (endpoint->order != NULL || tcp_has_links(endpoint->tcp, at - 1)))
            return true;
    return false;
}

/* Whether this rank has lacked a descriptor or memory for a while for a connection that data waits
 * for. */
static enum tutti_status check_shortage(struct endpoint *endpoint, uint64_t now)
{
    if (now >= endpoint->needs_look_ns) {
        endpoint->needs_look_ns = now + NEED_APART_NS;
        if (!needs_connections(endpoint))
            endpoint->needed_ns = 0;
        else if (endpoint->needed_ns == 0)
            endpoint->needed_ns = now;
    }
    return endpoint->needed_ns != 0 ? port_starves(endpoint->needed_ns, now) : TUTTI_OK;
}

static enum tutti_status connect_wanted(struct endpoint *endpoint, bool *moved)
{
    const uint64_t now = clock_now_ns();
    if (now >= endpoint->dead_ns) {
        endpoint->dead_ns = now + DEAD_APART_NS;
        tcp_give_up_dead(endpoint->tcp);
        if (endpoint->any_forgotten) give_up_forgotten(endpoint, now);
    }
    if (endpoint->any_wanted) TRY(go_for_wanted(endpoint));
    if (++endpoint->passes % PASSES_A_LOOK == 0 || endpoint->missing > 0 ||
        now - endpoint->looked_ns > LOOK_NS) {
        endpoint->looked_ns = now;
        port_progress(now);
    }
    if (endpoint->rails != NULL) rails_progress(endpoint->rails, now);
    TRY(attach_arrived(endpoint, moved));
    TRY(check_client(&endpoint->client));
    return check_shortage(endpoint, now);
}

/* -------------------------------------------------------------------------------------- control */

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct endpoint *endpoint = context;
    uint32_t kind = 0;
    if (bytes >= sizeof kind) memcpy(&kind, message, sizeof kind);
    if (kind == CONTROL_KIND_OWN)
        rails_hear(endpoint->rails, peer, message, bytes);
    else if (endpoint->order != NULL)
        data_order_hear(endpoint->order, peer, message, bytes);
    else if (endpoint->hears != NULL)
        endpoint->hears(endpoint->context, peer, message, bytes);
}

static enum tutti_status tell(struct endpoint *endpoint, int peer, const void *message, size_t bytes,
                              enum tutti_status (*send)(struct transport *transport, int peer,
                                                        const void *message, size_t bytes))
{
    char sealed[CONTROL_MESSAGE_BYTES_MAX + CONTROL_ENVELOPE_BYTES];
    struct endpoint_peer *about;
    TRY(know(endpoint, peer, &about));
    seek_again(endpoint, about, peer);
    if (endpoint->order == NULL) return send(endpoint->tcp, peer, message, bytes);
    return send(endpoint->tcp, peer, sealed,
                data_order_seal(endpoint->order, peer, message, bytes, sealed));
}

static enum tutti_status control_tell(struct control *control, int peer, const void *message,
                                      size_t bytes)
{
    return tell(endpoint_with(control), peer, message, bytes, tcp_tell);
}

static enum tutti_status control_tell_final(struct control *control, int peer, const void *message,
                                            size_t bytes)
{
    return tell(endpoint_with(control), peer, message, bytes, tcp_tell_final);
}

static unsigned control_unheard(const struct control *control, int peer)
{
    return tcp_unheard_control(const_endpoint_with(control)->tcp, peer);
}

static bool control_is_settled(const struct control *control, int peer)
{
    return tcp_is_settled(const_endpoint_with(control)->tcp, peer);
}

static void control_report(const struct control *control, int peer, struct peer_report *report)
{
    const struct endpoint *endpoint = const_endpoint_with(control);
    tcp_report(endpoint->tcp, peer, report);
    if (endpoint->order != NULL) data_order_report(endpoint->order, peer, report);
}

static uint64_t control_answered_ns(const struct control *control, int peer)
{
    return tcp_answered_ns(const_endpoint_with(control)->tcp, peer);
}

static enum peer_presence control_look(struct control *control, int peer, uint64_t now_ns)
{
    struct endpoint *endpoint = endpoint_with(control);
    struct peer_report report;
    const enum peer_presence presence = gone_look(endpoint, peer, now_ns);
    if (presence != PEER_PRESENT || endpoint->order == NULL) return presence;
    tcp_report(endpoint->tcp, peer, &report);
    return data_order_look(endpoint->order, peer, report.heard_ns, now_ns);
}

static bool control_trouble(const struct control *control, int peer, char text[CONTROL_TROUBLE_MAX])
{
    const struct endpoint *endpoint = const_endpoint_with(control);
    text[0] = '\0';
    if (endpoint->order != NULL && data_order_trouble(endpoint->order, peer, text)) return true;
    return port_trouble(&endpoint->client, peer, text);
}

static enum tutti_status control_connect(struct control *control, int peer)
{
    struct endpoint *endpoint = endpoint_with(control);
    struct peer_report report;
    struct endpoint_peer *about;
    tcp_report(endpoint->tcp, peer, &report);
    if (report.state != PEER_UNUSED) return TUTTI_OK;
    TRY(know(endpoint, peer, &about));
    seek_again(endpoint, about, peer);
    if (about->asked_ns == 0) about->asked_ns = clock_now_ns();
    return peer < endpoint->base.rank
               ? port_connect(&endpoint->client, peer, 0, &about->is_at.port, FOR_GOOD)
               : port_request_callback(&endpoint->client, peer, 0, &about->is_at.port);
}

static bool control_is_connecting(const struct control *control)
{
    return const_endpoint_with(control)->missing > 0;
}

static enum tutti_status control_check(const struct control *control)
{
    const struct endpoint *endpoint = const_endpoint_with(control);
    if (endpoint->status != TUTTI_OK) return error_set(endpoint->status, "%s", endpoint->why);
    return endpoint->order != NULL ? data_order_check(endpoint->order) : TUTTI_OK;
}

static void control_forget(struct control *control, int peer)
{
    struct endpoint *endpoint = endpoint_with(control);
    struct endpoint_peer *about;
    char before[ERROR_TEXT_MAX];
    if (endpoint->order != NULL) data_order_forget(endpoint->order, peer);
    error_copy(before, sizeof before);
    /* Nothing may have been done yet to reach it, but may be later. */
    if (know(endpoint, peer, &about) == TUTTI_OK && !about->is_forgotten) {
        const uint64_t for_ns = about->gone.presence == PEER_ENDED ? 0 : CONTROL_FORGOTTEN_NS;
        about->is_forgotten = endpoint->any_forgotten = true;
        about->until_ns = clock_now_ns() + for_ns;
        gone_release(&about->gone); /* nobody looks any more */
    }
    (void)error_unless_ok(TUTTI_OK, before);
}

static const struct control_ops control_ops = {.tell = control_tell,
                                               .tell_final = control_tell_final,
                                               .unheard = control_unheard,
                                               .is_settled = control_is_settled,
                                               .report = control_report,
                                               .answered_ns = control_answered_ns,
                                               .look = control_look,
                                               .trouble = control_trouble,
                                               .connect = control_connect,
                                               .is_connecting = control_is_connecting,
                                               .check = control_check,
                                               .forget = control_forget};

/* ---------------------------------------------------------------------------------------- links */

static void endpoint_limits(struct transport *transport, size_t *piece_bytes_max,
                            unsigned *piece_count_max)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    tcp->ops->limits(tcp, piece_bytes_max, piece_count_max);
}

static enum tutti_status endpoint_open_tx(struct transport *transport, int slot, int channel,
                                          int peer, size_t bytes, struct link_tx **link)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    struct endpoint_peer *about;
    TRY(know(endpoint_of(transport), peer, &about));
    transport_share_slots(tcp, transport); /* a router's, perhaps */
    return tcp->ops->open_tx(tcp, slot, channel, peer, bytes, link);
}

static enum tutti_status endpoint_open_rx(struct transport *transport, int slot, int channel,
                                          int peer, struct link_rx **link)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    struct endpoint_peer *about;
    TRY(know(endpoint_of(transport), peer, &about));
    transport_share_slots(tcp, transport);
    return tcp->ops->open_rx(tcp, slot, channel, peer, link);
}

/* Where control alone goes over connections, looks at them take time from links that wait for
 * data. */
static bool skips_a_look(struct endpoint *endpoint)
{
    return endpoint->order != NULL && !endpoint->is_stopped && !endpoint->is_drowsy &&
           endpoint->missing == 0 && ++endpoint->looks % LOOKS_BESIDE_DATA != 0;
}

static bool endpoint_progress(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    bool moved = false;
    if (!skips_a_look(endpoint)) {
        endpoint->status = connect_wanted(endpoint, &moved);
        /* Bytes that move and control messages that are heard now may cause errors of their own. */
        if (endpoint->status != TUTTI_OK) error_copy(endpoint->why, sizeof endpoint->why);
        moved |= endpoint->tcp->ops->progress(endpoint->tcp);
    }
    if (endpoint->order != NULL) data_order_progress(endpoint->order);
    return moved;
}

static void endpoint_flush(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    endpoint->tcp->ops->flush(endpoint->tcp);
    if (endpoint->order != NULL) data_order_progress(endpoint->order);
}

static bool endpoint_is_awaited(const struct transport *transport)
{
    const struct transport *const tcp = tcp_under(transport);
    return tcp->ops->is_awaited(tcp);
}

static bool endpoint_is_settled(const struct transport *transport, int peer)
{
    const struct transport *const tcp = tcp_under(transport);
    return tcp->ops->is_settled(tcp, peer);
}

static bool endpoint_stop(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    if (endpoint->is_stopped) return true;
    endpoint->is_stopped = true;
    if (endpoint->order != NULL) data_order_stop(endpoint->order);
    return endpoint->tcp->ops->stop(endpoint->tcp);
}

static void endpoint_sleep_begin(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    endpoint->is_drowsy = true;
    endpoint->tcp->ops->sleep_begin(endpoint->tcp);
}

static void endpoint_sleep_cancel(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    endpoint->is_drowsy = false;
    endpoint->tcp->ops->sleep_cancel(endpoint->tcp);
}

static void endpoint_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct endpoint *endpoint = endpoint_of(transport);
    endpoint->tcp->ops->sleep(endpoint->tcp, timeout_ns);
    endpoint->is_drowsy = false;
}

static int endpoint_descriptor(struct transport *transport)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    return tcp->ops->descriptor(tcp);
}

static void endpoint_wake(struct transport *transport)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    tcp->ops->wake(tcp);
}

static int endpoint_corrupt_rank(const struct transport *transport)
{
    const struct transport *const tcp = tcp_under(transport);
    return tcp->ops->corrupt_rank(tcp);
}

static void endpoint_add_footprint(const struct transport *transport,
                                   struct transport_footprint *sum)
{
    const struct endpoint *endpoint = (const struct endpoint *)transport;
    const struct endpoint_peer *about;
    sum->private_bytes +=
        sizeof *endpoint + rank_map_bytes(&endpoint->peers) + rails_bytes(endpoint->rails);
    for (int at = 0; (about = rank_map_next(&endpoint->peers, &at)) != NULL;)
        sum->private_bytes += held(about);
    endpoint->tcp->ops->add_footprint(endpoint->tcp, sum);
}

static const struct transport_ops ops = {.limits = endpoint_limits,
                                         .open_tx = endpoint_open_tx,
                                         .open_rx = endpoint_open_rx,
                                         .progress = endpoint_progress,
                                         .flush = endpoint_flush,
                                         .is_awaited = endpoint_is_awaited,
                                         .is_settled = endpoint_is_settled,
                                         .stop = endpoint_stop,
                                         .sleep_begin = endpoint_sleep_begin,
                                         .sleep_cancel = endpoint_sleep_cancel,
                                         .sleep = endpoint_sleep,
                                         .descriptor = endpoint_descriptor,
                                         .wake = endpoint_wake,
                                         .wake_all = endpoint_wake,
                                         .corrupt_rank = endpoint_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = endpoint_add_footprint};

/* ----------------------------------------------------------------------------------- life cycle */

static void init(struct endpoint *endpoint, const struct remote_options *options,
                 struct data_order *order)
{
    endpoint->order = order;
    endpoint->client.identity = options->identity;
    endpoint->client.rank = options->rank;
    endpoint->client.size = options->size;
    endpoint->client.is_encrypted = options->is_encrypted;
    endpoint->client.carries_data = true;
    endpoint->control =
        (struct control){.ops = &control_ops, .rank = options->rank, .size = options->size};
    endpoint->locates = options->locates;
    endpoint->hears = options->hears;
    endpoint->names = options->names;
    endpoint->context = options->context;
}

static enum tutti_status create_links(struct endpoint *endpoint,
                                      const struct remote_options *options)
{
    struct net_address cards[PORT_RAILS_MAX];
    const unsigned card_count = port_rails(cards);
    TRY(rails_create(endpoint, cards, card_count, &endpoint->rails));
    endpoint->stream_count = rails_stream_count(endpoint->rails);
    const struct tcp_options links = {.rank = options->rank,
                                      .size = options->size,
                                      .streams = endpoint->stream_count,
                                      .checks = options->checks,
                                      .wants = want,
                                      .wants_context = endpoint,
                                      .hears = hear,
                                      .hears_context = endpoint};
    TRY(tcp_create(&links, &endpoint->tcp));
    endpoint->base = (struct transport){.ops = &ops,
                                        .sharing = &transport_shares_nothing,
                                        .rank = options->rank,
                                        .size = options->size,
                                        .paths = endpoint->tcp->paths};
    transport_share_slots(&endpoint->base, endpoint->tcp);
    return TUTTI_OK;
}

enum tutti_status endpoint_open(const struct remote_options *options, struct data_order *order,
                                struct transport **transport)
{
    *transport = NULL;
    struct endpoint *const endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    endpoint->base = (struct transport){.rank = options->rank, .size = options->size};
    enum tutti_status status = TUTTI_OK;
    if (!rank_map_init(&endpoint->peers, options->size))
        status = error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    else
        init(endpoint, options, order);
    if (status == TUTTI_OK) status = create_links(endpoint, options);
    if (status == TUTTI_OK) {
        port_enter(&endpoint->client);
        *transport = &endpoint->base;
        return TUTTI_OK;
    }
    rails_free(endpoint->rails);
    rank_map_release(&endpoint->peers);
    free(endpoint);
    return status;
}

struct control *endpoint_control(struct transport *transport)
{
    return &endpoint_of(transport)->control;
}

void endpoint_close(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    if (endpoint == NULL) return;
    port_leave(&endpoint->client);
    tcp_close(endpoint->tcp);
    struct endpoint_peer *about;
    for (int at = 0; (about = rank_map_next(&endpoint->peers, &at)) != NULL;) {
        gone_release(&about->gone);
        free(about);
    }
    rails_free(endpoint->rails);
    rank_map_release(&endpoint->peers);
    free(endpoint);
}
