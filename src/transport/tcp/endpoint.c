#include "transport/tcp/endpoint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/held.h"
#include "base/status.h"
#include "os/clock.h"
#include "transport/tcp/endpoint_state.h"

enum {
    PASSES_A_LOOK = 64, /* at the port, when nothing is wanted here */
    LOOK_NS = 100000,   /* the same, when passes are rare */
    ASK_NS = 50000000,  /* until a higher rank is asked to connect, and then again */
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
static_assert((int)PORT_TROUBLE_MAX <= (int)PEERS_TROUBLE_MAX, "what the port says has room");

static struct endpoint *endpoint_of(struct transport *transport)
{
    return (struct endpoint *)transport;
}

static const struct transport *tcp_under(const struct transport *transport)
{
    return ((const struct endpoint *)transport)->tcp;
}

/* ------------------------------------------------------------------------------------------------- peers */

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

/* -------------------------------------------------------------------------------------------- connecting */

/* May not call the transport. */
static void want(void *context, int peer, unsigned stream)
{
    struct endpoint *endpoint = context;
    struct endpoint_peer *about = endpoint_peer_of(endpoint, peer);
    assert(about != NULL); /* there is a pair */
    if (rails_want(endpoint->rails, peer, stream)) return;
    const uint8_t bit = (uint8_t)(1 << stream);
    about->wanted |= bit;
    endpoint->any_wanted = true;
    endpoint->missing += (about->awaited & bit) == 0;
    about->awaited |= bit;
    if (peer > endpoint->base.rank) about->next_ns = clock_now_ns() + ASK_NS;
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
        if (about->wanted != 0 && now >= about->next_ns) TRY(go_for(endpoint, about, at - 1, now));
        endpoint->any_wanted |= about->wanted != 0;
    }
    return TUTTI_OK;
}

static enum tutti_status attach(struct endpoint *endpoint, struct endpoint_peer *about, int peer,
                                unsigned stream, struct byte_stream socket)
{
    const uint8_t bit = (uint8_t)(1 << stream);
    about->wanted &= (uint8_t)~bit; /* it came by itself */
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
            if (socket.fd >= 0) TRY(tcp_attach(endpoint->tcp, peer, stream, socket));
        } else if (socket.fd == PORT_CALLBACK) {
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
    if (endpoint->missing > 0 && endpoint->envelope_bytes > 0) return true;
    const struct endpoint_peer *about;
    for (int at = 0;
         endpoint->missing > 0 && (about = rank_map_next(&endpoint->peers, &at)) != NULL;)
        if (about->awaited != 0 && !about->is_forgotten && tcp_has_links(endpoint->tcp, at - 1))
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

/* ------------------------------------------------------------------------------------------------ peers */

static void hear(void *context, int peer, const void *message, size_t bytes)
{
    struct endpoint *endpoint = context;
    uint32_t kind = 0;
    if (bytes >= sizeof kind) memcpy(&kind, message, sizeof kind);
    if (kind == PEERS_OWN_KIND)
        rails_hear(endpoint->rails, peer, message, bytes);
    else if (endpoint->hears != NULL)
        endpoint->hears(endpoint->context, peer, message, bytes);
}

/* An envelope of zeros says that nothing went over a card before. */
static enum tutti_status tell(struct endpoint *endpoint, int peer, const void *message, size_t bytes,
                              enum tutti_status (*send)(struct transport *transport, int peer,
                                                        const void *message, size_t bytes))
{
    char whole[PEERS_MESSAGE_BYTES_MAX + PEERS_ENVELOPE_BYTES] = {0};
    if (endpoint->envelope_bytes == 0) return send(endpoint->tcp, peer, message, bytes);
    assert(bytes <= PEERS_MESSAGE_BYTES_MAX);
    memcpy(whole, message, bytes);
    return send(endpoint->tcp, peer, whole, bytes + endpoint->envelope_bytes);
}

static enum tutti_status endpoint_tell(struct transport *transport, int peer, const void *message,
                                       size_t bytes)
{
    struct endpoint_peer *about;
    TRY(know(endpoint_of(transport), peer, &about));
    return tell(endpoint_of(transport), peer, message, bytes, tcp_tell);
}

static enum tutti_status endpoint_tell_final(struct transport *transport, int peer,
                                             const void *message, size_t bytes)
{
    struct endpoint_peer *about;
    TRY(know(endpoint_of(transport), peer, &about));
    return tell(endpoint_of(transport), peer, message, bytes, tcp_tell_final);
}

static unsigned endpoint_unheard(const struct transport *transport, int peer)
{
    return tcp_unheard_notes(tcp_under(transport), peer);
}

static void endpoint_report(const struct transport *transport, int peer, struct peer_report *report)
{
    tcp_report(tcp_under(transport), peer, report);
}

static uint64_t endpoint_answered_ns(const struct transport *transport, int peer)
{
    return tcp_answered_ns(tcp_under(transport), peer);
}

static enum peer_presence endpoint_look(struct transport *transport, int peer, uint64_t now_ns)
{
    return gone_look(endpoint_of(transport), peer, now_ns);
}

static bool endpoint_trouble(const struct transport *transport, int peer,
                             char text[PEERS_TROUBLE_MAX])
{
    return port_trouble(&((const struct endpoint *)transport)->client, peer, text);
}

static enum tutti_status endpoint_connect(struct transport *transport, int peer)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct peer_report report;
    struct endpoint_peer *about;
    tcp_report(endpoint->tcp, peer, &report);
    if (report.state != PEER_UNUSED) return TUTTI_OK;
    TRY(know(endpoint, peer, &about));
    if (about->asked_ns == 0) about->asked_ns = clock_now_ns();
    return peer < endpoint->base.rank
               ? port_connect(&endpoint->client, peer, 0, &about->is_at.port, FOR_GOOD)
               : port_request_callback(&endpoint->client, peer, 0, &about->is_at.port);
}

static bool endpoint_is_connecting(const struct transport *transport)
{
    return ((const struct endpoint *)transport)->missing > 0;
}

static enum tutti_status endpoint_check(const struct transport *transport)
{
    const struct endpoint *endpoint = (const struct endpoint *)transport;
    return endpoint->status == TUTTI_OK ? TUTTI_OK
                                        : error_set(endpoint->status, "%s", endpoint->why);
}

static void endpoint_forget(struct transport *transport, int peer)
{
    struct endpoint_peer *about = endpoint_peer_of(endpoint_of(transport), peer);
    if (about != NULL) about->is_forgotten = true; /* else nothing is done to reach it */
}

static bool endpoint_is_awaited(const struct transport *transport)
{
    return tcp_is_awaited(tcp_under(transport));
}

static bool endpoint_finish(struct transport *transport)
{
    return tcp_finish(endpoint_of(transport)->tcp);
}

static bool endpoint_is_settled(const struct transport *transport, int peer)
{
    return tcp_is_settled(tcp_under(transport), peer);
}

static bool endpoint_is_owed_data(const struct transport *transport, int peer)
{
    return tcp_is_owed_data(tcp_under(transport), peer);
}

static bool endpoint_stop(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    if (endpoint->is_stopped) return true;
    endpoint->is_stopped = true;
    return tcp_stop(endpoint->tcp);
}

static const struct peer_ops peers = {.tell = endpoint_tell,
                                      .tell_final = endpoint_tell_final,
                                      .unheard = endpoint_unheard,
                                      .report = endpoint_report,
                                      .answered_ns = endpoint_answered_ns,
                                      .look = endpoint_look,
                                      .trouble = endpoint_trouble,
                                      .connect = endpoint_connect,
                                      .is_connecting = endpoint_is_connecting,
                                      .check = endpoint_check,
                                      .forget = endpoint_forget,
                                      .is_awaited = endpoint_is_awaited,
                                      .finish = endpoint_finish,
                                      .is_settled = endpoint_is_settled,
                                      .is_owed_data = endpoint_is_owed_data,
                                      .stop = endpoint_stop};

/* ------------------------------------------------------------------------------------------------ links */

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

static bool endpoint_progress(struct transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    bool moved = false;
    endpoint->status = connect_wanted(endpoint, &moved);
    /* Bytes that move and notes that are heard now may cause errors of their own. */
    if (endpoint->status != TUTTI_OK) error_copy(endpoint->why, sizeof endpoint->why);
    return endpoint->tcp->ops->progress(endpoint->tcp) || moved;
}

static void endpoint_sleep_begin(struct transport *transport)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    tcp->ops->sleep_begin(tcp);
}

static void endpoint_sleep_cancel(struct transport *transport)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    tcp->ops->sleep_cancel(tcp);
}

static void endpoint_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct transport *const tcp = endpoint_of(transport)->tcp;
    tcp->ops->sleep(tcp, timeout_ns);
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
                                         .open_multicast_tx = transport_no_multicast_tx,
                                         .open_multicast_rx = transport_no_multicast_rx,
                                         .open_shared_slots = transport_no_shared_slots,
                                         .reserve_shared = transport_no_reserve_shared,
                                         .send_shared = transport_no_send_shared,
                                         .progress = endpoint_progress,
                                         .sleep_begin = endpoint_sleep_begin,
                                         .sleep_cancel = endpoint_sleep_cancel,
                                         .sleep = endpoint_sleep,
                                         .descriptor = endpoint_descriptor,
                                         .wake = endpoint_wake,
                                         .wake_all = endpoint_wake,
                                         .corrupt_rank = endpoint_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = endpoint_add_footprint};

/* --------------------------------------------------------------------------------------------- life cycle */

static void init(struct endpoint *endpoint, const struct remote_options *options)
{
    endpoint->client.identity = options->identity;
    endpoint->client.rank = options->rank;
    endpoint->client.size = options->size;
    endpoint->client.is_encrypted = options->is_encrypted;
    endpoint->client.carries_data = true;
    endpoint->envelope_bytes = options->uses_card && options->only_tells ? PEERS_ENVELOPE_BYTES : 0;
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
                                        .peers = &peers,
                                        .rank = options->rank,
                                        .size = options->size,
                                        .paths = endpoint->tcp->paths};
    transport_share_slots(&endpoint->base, endpoint->tcp);
    return TUTTI_OK;
}

enum tutti_status endpoint_open(const struct remote_options *options, struct transport **transport)
{
    *transport = NULL;
    struct endpoint *const endpoint = calloc(1, sizeof *endpoint);
    if (endpoint == NULL) return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    endpoint->base = (struct transport){.rank = options->rank, .size = options->size};
    enum tutti_status status = TUTTI_OK;
    if (!rank_map_init(&endpoint->peers, options->size))
        status = error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    else
        init(endpoint, options);
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
