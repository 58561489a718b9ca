#include "tests/sim/net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/link_set.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/link.h"
#include "transport/tcp/paths.h"

enum {
    IDLE_NS_MAX = 1000000,   /* until credit is told although no sender needs it */
    CONNECT_NS_MAX = 5000000 /* until a connection is there again */
};

/* On its way. */
struct flight {
    struct tcp_frame frame;
    uint64_t left_ns; /* with a wire: when all of it has left its sender, and a latency */
    const char *data; /* of a piece, where its sender keeps it until it is consumed */
    char *target;     /* where it comes to, when half of it has come */
    struct flight *next;
};

/* One direction of a connection, at its sender. */
struct stream {
    struct flight *first, *last;
    unsigned count;
    unsigned generation;     /* of the connection; events of earlier ones mean nothing */
    unsigned held_up;        /* arrivals, by a cut */
    uint64_t last_ns;        /* arrival of the last frame */
    bool has_greeted, is_up; /* this side has said what it received; the other one has */
    bool owes_greeting;      /* a cut is in the way */
    bool is_full;            /* something waits for room */
};

/* A rank's end of the links and connections to one peer. */
struct end {
    struct sim_net *net;
    struct endpoint *own;
    int peer;
    struct sim_tx *tx[TRANSPORT_LINK_COUNT];
    struct sim_rx *rx[TRANSPORT_LINK_COUNT];
    struct link_set granted, unsent, due, untold;
    unsigned turn;
    bool is_idle_due; /* an event will tell what is untold */
    struct stream streams[SIM_STREAMS_MAX];
};

struct sim_tx {
    struct link_tx base;
    struct end *end;
    struct tcp_tx *link;
};

struct sim_rx {
    struct link_rx base;
    struct end *end;
    struct tcp_rx *link;
};

struct endpoint {
    struct transport base;
    struct sim_net *net;
    int node;
    bool is_stopped;
    uint64_t out_free_ns,
        in_free_ns; /* when its card has passed on what has come so far, with a wire */
    struct end *ends[SIM_NODES_MAX]; /* by peer */
};

enum { RULES_MAX = 8, REFERENCE_BYTES_MIN = 8 << 10 };

struct sim_net {
    struct path_table paths;
    struct path_rule rules[RULES_MAX];
    struct sim *sim;
    struct sim_net_options options;
    struct sim_wire wire;
    struct tcp_shape shape;
    const char *wrong;
    struct sim_net_counts counts;
    struct endpoint endpoints[SIM_NODES_MAX];
};

static void *allocate(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL) abort();
    return memory;
}

static void find_wrong(struct sim_net *net, const char *wrong)
{
    if (net->wrong == NULL) net->wrong = wrong;
}

/* --------------------------------------------------------------------------------------- events */

enum token { ARRIVE, CONNECT, ROOM, IDLE, BEGIN };
enum { TOKEN_BITS = 3, STREAM_BITS = 2, CREDIT_STREAM = 0, PIECE_STREAM = 1 };

/* Adds an event at the node of `at`, about its end towards `peer`. */
static void schedule(struct sim_net *net, uint64_t at_ns, enum token token, int at, int peer,
                     unsigned stream, unsigned generation)
{
    sim_at(net->sim, at_ns, net->options.kind, net->endpoints[at].node,
           at * net->options.size + peer,
           (int)((generation << STREAM_BITS | stream) << TOKEN_BITS | token));
}

static uint64_t soon(struct sim_net *net, uint64_t span_ns)
{
    if (net->options.wire != NULL) return sim_now_ns(net->sim);
    return sim_now_ns(net->sim) + sim_between(net->sim, 0, span_ns);
}

static bool is_cut(const struct end *end)
{
    const struct sim_net *net = end->net;
    return sim_is_cut(net->sim, end->own->node, net->endpoints[end->peer].node);
}

static struct end *other_end(const struct end *end)
{
    return end->net->endpoints[end->peer].ends[end->own->base.rank];
}

/* -------------------------------------------------------------------------------------- sending */

static bool has_room(struct end *end, struct stream *stream)
{
    if (stream->count < end->net->options.frame_count) return true;
    stream->is_full = true;
    return false;
}

static uint64_t service_ns(const struct sim_net *net, size_t bytes)
{
    return net->wire.message_ns + (net->wire.byte_ps * bytes + 500) / 1000;
}

/* Occupies a card from `now` on, or from when it is free; returns until when. */
static uint64_t occupy(uint64_t *free_ns, uint64_t now_ns, uint64_t for_ns)
{
    *free_ns = (*free_ns > now_ns ? *free_ns : now_ns) + for_ns;
    return *free_ns;
}

static void send_by_wire(struct end *end, unsigned s, struct flight *flight)
{
    struct sim_net *net = end->net;
    const uint64_t now_ns = sim_now_ns(net->sim), latency_ns = net->wire.latency_ns;
    const unsigned generation = end->streams[s].generation;
    if (flight->frame.kind != TCP_FRAME_DATA) {
        schedule(net, now_ns + latency_ns, ARRIVE, end->peer, end->own->base.rank, s, generation);
        return;
    }
    const uint64_t for_ns = service_ns(net, flight->frame.bytes),
                   until_ns = occupy(&end->own->out_free_ns, now_ns, for_ns);
    flight->left_ns = until_ns + latency_ns;
    schedule(net, until_ns - for_ns + latency_ns, BEGIN, end->peer, end->own->base.rank, s,
             generation);
}

static void send_frame(struct end *end, unsigned s, const struct tcp_frame *frame, const char *data)
{
    struct sim_net *net = end->net;
    struct stream *stream = &end->streams[s];
    const int from = end->own->node, to = net->endpoints[end->peer].node;
    if (!sim_says(net->sim, from)) return;
    struct flight *flight = allocate(sizeof *flight);
    flight->frame = *frame;
    flight->data = data;
    if (stream->last != NULL)
        stream->last->next = flight;
    else
        stream->first = flight;
    stream->last = flight;
    stream->count++;
    if (net->options.wire != NULL) {
        send_by_wire(end, s, flight);
        return;
    }
    uint64_t at_ns = sim_now_ns(net->sim) + sim_delay_ns(net->sim, from, to);
    if (sim_loses(net->sim, from, to)) at_ns += sim_again_ns(net->sim);
    if (at_ns < stream->last_ns) at_ns = stream->last_ns;
    stream->last_ns = at_ns;
    schedule(net, at_ns, ARRIVE, end->peer, end->own->base.rank, s, stream->generation);
}

static struct tcp_frame frame_of(enum tcp_frame_kind kind, unsigned index)
{
    return (struct tcp_frame){.kind = (uint8_t)kind,
                              .slot = (uint8_t)(index / TRANSPORT_CHANNEL_COUNT),
                              .channel = (uint8_t)(index % TRANSPORT_CHANNEL_COUNT),
                              .place = TCP_FRAME_NO_PLACE};
}

static void told(struct end *end, unsigned index)
{
    link_set_remove(&end->due, index);
    link_set_remove(&end->untold, index);
    tcp_rx_told(end->rx[index]->link);
}

static void send_credit(struct end *end, unsigned s, unsigned index, bool resumes)
{
    const struct tcp_rx *rx = end->rx[index]->link;
    struct tcp_frame frame = frame_of(TCP_FRAME_CREDIT, index);
    frame.flags = resumes ? TCP_FRAME_RESUME : 0;
    frame.sequence = resumes ? tcp_rx_received(rx) : 0;
    frame.offset = tcp_rx_expected_until(rx);
    frame.signature = *rx->signature;
    frame.consumed = rx->consumed;
    send_frame(end, s, &frame, NULL);
    told(end, index);
}

static void send_piece(struct end *end, unsigned s, unsigned index, const struct tcp_piece *piece)
{
    struct tcp_tx *tx = end->tx[index]->link;
    const struct tcp_rx *back = end->rx[index] != NULL ? end->rx[index]->link : NULL;
    struct tcp_frame frame = frame_of(TCP_FRAME_DATA, index);
    frame.flags = piece->wants_answer ? TCP_FRAME_ANSWER : 0;
    frame.bytes = (uint32_t)piece->bytes;
    frame.sequence = piece->sequence;
    frame.offset = piece->offset;
    frame.signature = piece->signature;
    frame.consumed = back != NULL ? back->consumed : 0;
    frame.place = piece->place;
    end->net->counts.pieces++;
    end->net->counts.again += piece->sequence < tx->sent;
    end->net->counts.expected += piece->place == TCP_FRAME_EXPECTED;
    send_frame(end, s, &frame, piece->data);
    tcp_tx_sent(tx, piece, s);
    if (back != NULL && back->consumed > 0 && !back->owes_expected) told(end, index);
}

/* A connection that takes pieces now, any of them; -1: none. */
static int pick_stream(struct end *end)
{
    if (end->net->options.wire != NULL)
        return end->streams[PIECE_STREAM].is_up && end->streams[PIECE_STREAM].has_greeted
                   ? PIECE_STREAM
                   : -1;
    const unsigned count = end->net->options.streams, first = sim_below(end->net->sim, count);
    for (unsigned i = 0; i < count; i++) {
        struct stream *stream = &end->streams[(first + i) % count];
        if (stream->is_up && stream->has_greeted && has_room(end, stream))
            return (int)((first + i) % count);
    }
    return -1;
}

static void send_credits(struct end *end)
{
    const unsigned count =
        end->net->options.wire != NULL ? CREDIT_STREAM + 1 : end->net->options.streams;
    for (unsigned s = 0; s < count; s++) {
        int index = 0;
        while (end->streams[s].has_greeted && (index = link_set_next(&end->due, 0)) >= 0 &&
               has_room(end, &end->streams[s]))
            send_credit(end, s, (unsigned)index, false);
    }
}

/* Sends one piece of the next link that has something to send and may send it. False: there is
 * none. */
static bool send_next(struct end *end, unsigned s)
{
    struct tcp_piece piece;
    unsigned index = end->turn;
    for (unsigned looks = 0; looks < TRANSPORT_LINK_COUNT; looks++) {
        const int next = link_set_turn(&end->unsent, index);
        if (next < 0) return false;
        index = (unsigned)next;
        if (tcp_tx_is_all_sent(end->tx[index]->link)) {
            link_set_remove(&end->unsent, index);
        } else if (tcp_tx_next(end->tx[index]->link, &piece)) {
            send_piece(end, s, index, &piece);
            end->turn = (index + 1) % TRANSPORT_LINK_COUNT;
            return true;
        }
        index = (index + 1) % TRANSPORT_LINK_COUNT;
    }
    return false;
}

static void send_all(struct end *end)
{
    int s;
    if (end->own->is_stopped) return;
    send_credits(end);
    while (!link_set_is_empty(&end->unsent) && (s = pick_stream(end)) >= 0)
        if (!send_next(end, (unsigned)s)) return;
}

/* ---------------------------------------------------------------------------------- connections */

static void connect_soon(struct end *end, unsigned s)
{
    schedule(end->net, soon(end->net, CONNECT_NS_MAX), CONNECT, end->own->base.rank, end->peer, s,
             end->streams[s].generation);
}

/* Sends the frames with which a new connection starts. */
static void greet(struct end *end, unsigned s)
{
    struct stream *stream = &end->streams[s];
    stream->owes_greeting = is_cut(end);
    if (stream->owes_greeting || stream->has_greeted || end->own->is_stopped) return;
    for (unsigned index = 0; index < TRANSPORT_LINK_COUNT; index++)
        if (end->rx[index] != NULL) send_credit(end, s, index, true);
    const struct tcp_frame ready = frame_of(TCP_FRAME_READY, 0);
    send_frame(end, s, &ready, NULL);
    stream->has_greeted = true;
    send_all(end);
}

static unsigned index_of(const struct tcp_frame *frame)
{
    return frame->slot * TRANSPORT_CHANNEL_COUNT + (unsigned)frame->channel;
}

static void drop_first(struct stream *stream)
{
    struct flight *flight = stream->first;
    stream->first = flight->next;
    if (stream->first == NULL) stream->last = NULL;
    stream->count--;
    free(flight);
}

/* All frames on their way from that end are lost. */
static void lose(struct end *end, unsigned s)
{
    struct stream *stream = &end->streams[s];
    const struct flight *first = stream->first;
    if (first != NULL && first->target != NULL && !end->net->endpoints[end->peer].is_stopped) {
        tcp_rx_abandon(other_end(end)->rx[index_of(&first->frame)]->link, first->frame.sequence);
        end->net->counts.halves_lost++;
    }
    while (stream->first != NULL) drop_first(stream);
    *stream = (struct stream){.generation = stream->generation + 1};
    connect_soon(end, s);
}

bool sim_net_is_busy(const struct sim_net *net, int one, int other, unsigned stream)
{
    const struct end *end = net->endpoints[one].ends[other];
    return end != NULL &&
           (end->streams[stream].first != NULL || other_end(end)->streams[stream].first != NULL);
}

void sim_net_reset(struct sim_net *net, int one, int other, unsigned stream)
{
    struct end *const end = net->endpoints[one].ends[other];
    if (end == NULL || stream >= net->options.streams) return;
    lose(end, stream);
    lose(other_end(end), stream);
}

static struct end *create_end(struct sim_net *net, int rank, int peer)
{
    struct end *end = allocate(sizeof *end);
    end->net = net;
    end->own = &net->endpoints[rank];
    end->peer = peer;
    end->own->ends[peer] = end;
    return end;
}

/* Both ends, and connections to be made, when the first of them is wanted. */
static struct end *find_end(struct sim_net *net, int rank, int peer)
{
    if (net->endpoints[rank].ends[peer] == NULL) {
        struct end *const ends[] = {create_end(net, rank, peer), create_end(net, peer, rank)};
        for (unsigned s = 0; s < net->options.streams; s++)
            for (int i = 0; i < 2; i++) connect_soon(ends[i], s);
    }
    return net->endpoints[rank].ends[peer];
}

static void mend_end(struct end *end)
{
    struct sim_net *net = end->net;
    for (unsigned s = 0; s < net->options.streams; s++) {
        struct stream *stream = &end->streams[s];
        if (stream->owes_greeting) connect_soon(end, s);
        for (; stream->held_up > 0; stream->held_up--)
            schedule(net, soon(net, CONNECT_NS_MAX), ARRIVE, end->peer, end->own->base.rank, s,
                     stream->generation);
    }
}

void sim_net_mend(struct sim_net *net, int one, int other)
{
    struct end *const end = net->endpoints[one].ends[other];
    if (end == NULL) return;
    mend_end(end);
    mend_end(other_end(end));
}

/* ------------------------------------------------------------------------------------- arriving */

static void take_credit(struct end *end, unsigned s, const struct tcp_frame *frame)
{
    const unsigned index = index_of(frame);
    if (frame->kind == TCP_FRAME_CREDIT) link_set_add(&end->granted, index);
    if (end->tx[index] == NULL) return;
    struct tcp_tx *tx = end->tx[index]->link;
    const bool resumes = (frame->flags & TCP_FRAME_RESUME) != 0;
    if (frame->kind == TCP_FRAME_CREDIT) tx->is_granted = true;
    if (!(resumes ? tcp_tx_resume(tx, s, frame->consumed, frame->sequence)
                  : tcp_tx_credit(tx, frame->consumed)))
        find_wrong(end->net, "it consumed what was not sent");
    if (frame->kind == TCP_FRAME_CREDIT) tcp_tx_expected(tx, frame->offset, frame->signature);
    if (!tcp_tx_is_all_sent(tx)) link_set_add(&end->unsent, index);
}

/* True: all of it has come. A larger one may come in two halves. */
static bool take_piece(struct end *end, unsigned s, struct flight *flight)
{
    const struct tcp_frame *frame = &flight->frame;
    const unsigned index = index_of(frame);
    if (end->rx[index] == NULL) {
        find_wrong(end->net, "a piece came on a link that is not open");
        return true;
    }
    struct tcp_rx *rx = end->rx[index]->link;
    const size_t half = frame->bytes / 2;
    if (flight->target == NULL) {
        if (frame->consumed > 0) take_credit(end, s, frame);
        const char *const wrong = tcp_rx_begin(rx, frame, &flight->target);
        if (wrong != NULL) {
            find_wrong(end->net, wrong);
            return true;
        }
        memcpy(flight->target, flight->data, half);
        struct stream *stream = &other_end(end)->streams[s];
        if (frame->bytes > TCP_SMALL_BYTES && end->net->options.wire == NULL &&
            sim_chance(end->net->sim, 300)) {
            const uint64_t at_ns = soon(end->net, IDLE_NS_MAX);
            if (at_ns > stream->last_ns) stream->last_ns = at_ns;
            schedule(end->net, at_ns, ARRIVE, end->own->base.rank, end->peer, s, stream->generation);
            return false;
        }
    }
    memcpy(flight->target + half, flight->data + half, frame->bytes - half);
    tcp_rx_end(rx, frame->sequence);
    return true;
}

/* True: the frame is done with. */
static bool take(struct end *end, unsigned s, struct flight *flight)
{
    if (end->own->is_stopped || end->net->endpoints[end->peer].is_stopped) return true;
    switch (flight->frame.kind) {
    case TCP_FRAME_DATA: return take_piece(end, s, flight);
    case TCP_FRAME_CREDIT: take_credit(end, s, &flight->frame); break;
    default: end->streams[s].is_up = true; break;
    }
    return true;
}

static void arrive(struct end *end, unsigned s)
{
    struct sim_net *net = end->net;
    struct end *const sender = other_end(end);
    struct stream *stream = &sender->streams[s];
    if (is_cut(end)) {
        stream->held_up++;
        net->counts.held_up++;
        return;
    }
    if (stream->first == NULL || !take(end, s, stream->first)) return;
    drop_first(stream);
    if (stream->is_full) {
        stream->is_full = false;
        schedule(net, soon(net, IDLE_NS_MAX), ROOM, sender->own->base.rank, sender->peer, s,
                 stream->generation);
    }
    send_all(end);
}

static void tell_untold(struct end *end)
{
    end->is_idle_due = false;
    link_set_join(&end->due, &end->untold);
    send_all(end);
}

/* The first byte of a piece has reached its receiver's card: that of the first piece of the stream
 * that had not arrived there yet. */
static void begin_by_wire(struct end *end, unsigned s)
{
    struct sim_net *net = end->net;
    const struct end *const sender = other_end(end);
    struct flight *flight = sender->streams[s].first;
    while (flight != NULL && flight->left_ns == 0) flight = flight->next;
    assert(flight != NULL);
    const uint64_t until_ns =
        occupy(&end->own->in_free_ns, sim_now_ns(net->sim), service_ns(net, flight->frame.bytes));
    const uint64_t at_ns = until_ns > flight->left_ns ? until_ns : flight->left_ns;
    flight->left_ns = 0;
    schedule(net, at_ns, ARRIVE, end->own->base.rank, end->peer, s, sender->streams[s].generation);
}

void sim_net_happen(struct sim_net *net, const struct sim_event *event)
{
    const unsigned tag = (unsigned)event->tag, s = tag >> TOKEN_BITS & ((1u << STREAM_BITS) - 1);
    struct end *const end =
        net->endpoints[event->number / net->options.size].ends[event->number % net->options.size];
    const enum token token = (enum token)(tag & ((1u << TOKEN_BITS) - 1));
    if (token != IDLE && end->streams[s].generation != tag >> (TOKEN_BITS + STREAM_BITS)) return;
    switch (token) {
    case ARRIVE: arrive(end, s); break;
    case CONNECT: greet(end, s); break;
    case ROOM: send_all(end); break;
    case IDLE: tell_untold(end); break;
    case BEGIN: begin_by_wire(end, s); break;
    }
}

/* ---------------------------------------------------------------------------------------- links */

static void send_more(struct sim_tx *tx)
{
    link_set_add(&tx->end->unsent, tx->link->index);
    send_all(tx->end);
}

static void *sim_reserve(struct link_tx *link, size_t bytes)
{
    return tcp_tx_reserve(((struct sim_tx *)link)->link, bytes);
}

static void sim_commit(struct link_tx *link, size_t bytes)
{
    struct sim_tx *tx = (struct sim_tx *)link;
    tcp_tx_commit(tx->link, bytes);
    send_more(tx);
}

static enum link_reach sim_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address;
    return bytes >= ((struct sim_tx *)link)->end->net->options.reach_bytes ? REACH_READ : REACH_NONE;
}

static bool sim_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct sim_tx *tx = (struct sim_tx *)link;
    if (!tcp_tx_post(tx->link, address, bytes)) return false;
    tx->end->net->counts.by_reference++;
    send_more(tx);
    return true;
}

static bool sim_consumed(struct link_tx *link)
{
    const struct tcp_tx *tx = ((struct sim_tx *)link)->link;
    return tx->consumed == tx->sequence;
}

static bool sim_has_room(struct link_tx *link)
{
    return tcp_tx_has_room(((struct sim_tx *)link)->link);
}

static enum link_state sim_peek(struct link_rx *link, struct link_view *view)
{
    const struct sim_rx *rx = (struct sim_rx *)link;
    return rx->end->own->is_stopped ? LINK_EMPTY : tcp_rx_peek(rx->link, view);
}

/* Bytes of a link were consumed, or are expected. */
static void tell_sender(struct sim_rx *rx)
{
    struct end *end = rx->end;
    const unsigned index = rx->link->index;
    if (rx->link->consumed == rx->link->told && !rx->link->owes_expected) return;
    link_set_add(&end->untold, index);
    if (tcp_rx_should_tell(rx->link) || end->net->options.wire != NULL) {
        link_set_add(&end->due, index);
        send_all(end);
    } else if (!end->is_idle_due) {
        end->is_idle_due = true;
        schedule(end->net, soon(end->net, IDLE_NS_MAX), IDLE, end->own->base.rank, end->peer, 0,
                 end->streams[0].generation);
    }
}

static void sim_consume(struct link_rx *link, size_t bytes)
{
    struct sim_rx *rx = (struct sim_rx *)link;
    tcp_rx_consume(rx->link, bytes);
    tell_sender(rx);
}

static void sim_advertise(struct link_rx *link, void *destination, size_t bytes)
{
    struct sim_rx *rx = (struct sim_rx *)link;
    tcp_rx_advertise(rx->link, destination, bytes);
    tell_sender(rx);
}

static const struct link_tx_ops tx_ops = {.reserve = sim_reserve,
                                          .commit = sim_commit,
                                          .reach = sim_reach,
                                          .post = sim_post,
                                          .consumed = sim_consumed,
                                          .has_room = sim_has_room,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = link_no_refer};
static const struct link_rx_ops rx_ops = {.peek = sim_peek,
                                          .take = link_no_take,
                                          .fetch = link_no_fetch,
                                          .consume = sim_consume,
                                          .forward = link_no_forward,
                                          .advertise = sim_advertise,
                                          .place_directly = sim_advertise,
                                          .copy = link_no_copy};

static void sim_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    const struct sim_net *net = ((struct endpoint *)transport)->net;
    *piece_bytes_max = net->options.piece_bytes;
    *piece_count_max = net->options.piece_count;
}

static enum tutti_status sim_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct sim_net *net = ((struct endpoint *)transport)->net;
    const unsigned index = (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel);
    assert(peer >= 0 && peer < net->options.size && channel < TRANSPORT_CHANNEL_COUNT);
    struct end *end = find_end(net, transport->rank, peer);
    struct sim_tx *tx = end->tx[index];
    if (tx == NULL) {
        tx = end->tx[index] = allocate(sizeof *tx);
        TRY(tcp_tx_create(&net->shape, &transport->signatures[slot], &tx->link));
        tx->base = (struct link_tx){.ops = &tx_ops, .peer = peer};
        tx->end = end;
        tx->link->index = index;
        tx->link->is_granted = link_set_has(&end->granted, index);
    }
    *link = &tx->base;
    return bytes > TCP_SMALL_BYTES ? tcp_tx_make_slots(tx->link) : TUTTI_OK;
}

static enum tutti_status sim_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct sim_net *net = ((struct endpoint *)transport)->net;
    const unsigned index = (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel);
    assert(peer >= 0 && peer < net->options.size && channel < TRANSPORT_CHANNEL_COUNT);
    struct end *end = find_end(net, transport->rank, peer);
    struct sim_rx *rx = end->rx[index];
    if (rx == NULL) {
        rx = end->rx[index] = allocate(sizeof *rx);
        TRY(tcp_rx_create(&net->shape, &transport->signatures[slot], &rx->link));
        rx->base = (struct link_rx){
            .ops = &rx_ops,
            .peer = peer,
            .capabilities = net->options.expects ? LINK_ADVERTISES | LINK_PLACES_DIRECTLY : 0};
        rx->end = end;
        rx->link->index = index;
        link_set_add(&end->due, index);
        send_all(end);
    }
    *link = &rx->base;
    return TUTTI_OK;
}

static const struct transport_ops ops = {.limits = sim_limits,
                                         .open_tx = sim_open_tx,
                                         .open_rx = sim_open_rx,
                                         .progress = transport_no_progress,
                                         .flush = transport_no_flush,
                                         .is_awaited = transport_not_awaited,
                                         .is_settled = transport_owes_nothing,
                                         .stop = transport_stops_nothing,
                                         .sleep_begin = transport_no_sleeper,
                                         .sleep_cancel = transport_no_sleeper,
                                         .sleep = transport_no_sleep,
                                         .wake = transport_no_sleeper,
                                         .wake_all = transport_no_sleeper,
                                         .descriptor = transport_no_descriptor,
                                         .corrupt_rank = transport_no_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = transport_no_footprint};

/* ----------------------------------------------------------------------------------- life cycle */

/* TCP's, but smaller messages go by reference, too: they are what tests send. */
static void set_paths(struct sim_net *net)
{
    net->paths = *tcp_paths();
    assert(net->paths.rule_count <= RULES_MAX);
    for (unsigned i = 0; i < net->paths.rule_count; i++) {
        net->rules[i] = net->paths.rules[i];
        if (net->rules[i].path == PATH_READ) net->rules[i].bytes_min = REFERENCE_BYTES_MIN;
    }
    net->paths.rules = net->rules;
    if (!net->options.expects) net->paths.lacks = path_bit(PATH_WRITE) | path_bit(PATH_DIRECT);
}

struct sim_net *sim_net_create(struct sim *sim, const struct sim_net_options *options)
{
    assert(options->size >= 1 && options->size <= SIM_NODES_MAX && options->frame_count >= 2);
    assert(options->streams >= 1 && options->streams <= SIM_STREAMS_MAX);
    assert(options->piece_bytes > TCP_SMALL_BYTES && options->piece_bytes % 64 == 0);
    assert(options->piece_count >= 1 && 2 * options->piece_count <= TCP_PLACES_MAX);
    assert(options->wire == NULL || (options->streams == 2 && options->wire->latency_ns > 0));
    struct sim_net *net = allocate(sizeof *net);
    net->sim = sim;
    net->options = *options;
    net->options.nodes = NULL;
    if (options->wire != NULL) net->wire = *options->wire;
    set_paths(net);
    net->shape = (struct tcp_shape){.piece_bytes = options->piece_bytes,
                                    .place_count = 2 * options->piece_count,
                                    .spare = (options->piece_count + 1) / 2};
    for (int rank = 0; rank < options->size; rank++) {
        struct endpoint *endpoint = &net->endpoints[rank];
        endpoint->base = (struct transport){.ops = &ops,
                                            .sharing = &transport_shares_nothing,
                                            .rank = rank,
                                            .size = options->size,
                                            .paths.tables = {&net->paths}};
        transport_own_slots(&endpoint->base);
        endpoint->net = net;
        endpoint->node = options->nodes[rank];
    }
    return net;
}

static void free_end(struct end *end)
{
    for (unsigned s = 0; s < SIM_STREAMS_MAX; s++)
        while (end->streams[s].first != NULL) drop_first(&end->streams[s]);
    for (unsigned index = 0; index < TRANSPORT_LINK_COUNT; index++) {
        if (end->tx[index] != NULL) tcp_tx_free(end->tx[index]->link);
        if (end->rx[index] != NULL) tcp_rx_free(end->rx[index]->link);
        free(end->tx[index]);
        free(end->rx[index]);
    }
    free(end);
}

void sim_net_free(struct sim_net *net)
{
    for (int rank = 0; rank < net->options.size; rank++)
        for (int peer = 0; peer < net->options.size; peer++)
            if (net->endpoints[rank].ends[peer] != NULL) free_end(net->endpoints[rank].ends[peer]);
    free(net);
}

struct transport *sim_net_transport(struct sim_net *net, int rank)
{
    return &net->endpoints[rank].base;
}

void sim_net_stop(struct sim_net *net, int rank)
{
    net->endpoints[rank].is_stopped = true;
}

const char *sim_net_wrong(const struct sim_net *net)
{
    return net->wrong;
}

static bool end_is_settled(const struct end *end)
{
    for (unsigned index = 0; index < TRANSPORT_LINK_COUNT; index++) {
        const struct sim_tx *tx = end->tx[index];
        const struct sim_rx *rx = end->rx[index];
        if (tx != NULL && tx->link->consumed < tx->link->sequence) return false;
        if (rx != NULL && (rx->link->told < rx->link->consumed || rx->link->places_used != 0 ||
                           rx->link->received != 0 || rx->link->coming != 0))
            return false;
    }
    return true;
}

bool sim_net_is_settled(const struct sim_net *net)
{
    for (int rank = 0; rank < net->options.size; rank++)
        for (int peer = 0; peer < net->options.size; peer++)
            if (net->endpoints[rank].ends[peer] != NULL &&
                !end_is_settled(net->endpoints[rank].ends[peer]))
                return false;
    return true;
}

void sim_net_count(const struct sim_net *net, struct sim_net_counts *counts)
{
    *counts = net->counts;
}
