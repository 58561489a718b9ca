#include "transport/tcp/tcp.h"

#include <assert.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/held.h"
#include "base/rank_map.h"
#include "base/status.h"
#include "os/clock.h"
#include "transport/tcp/pair.h"
#include "transport/tcp/paths.h"

enum {
    PIECE_COUNT_MAX = TCP_PLACES_MAX / 2,
    PIECE_BYTES_MIN = 1024,
    EVENTS_A_PASS = 32,
    POLL_APART_NS = 500, /* between looks in vain */
    GUESSES = 4,         /* where something is, one after the other */
    IDLE_PASSES = 16,    /* until peers are told what they may be told later */
    BUSY_ROOM_MIN = 8
};
static const uint64_t EVENT_WAKE = UINT64_MAX;

struct tcp {
    struct transport base;
    struct tcp_shared shared;
    unsigned piece_count;
    struct rank_map pairs; /* pairs that were used */
    int pair_count, busy_room;
    int wake_fd;
    _Atomic uint32_t asleep;
    uint64_t polled_ns; /* in vain */
    unsigned idle_passes;
    unsigned guesses_left; /* until all connections are looked at */
};

static struct tcp *tcp_of(struct transport *transport)
{
    return (struct tcp *)transport;
}

static struct tcp_pair *pair_of(const struct tcp *tcp, int peer)
{
    return rank_map_find(&tcp->pairs, peer);
}

static struct tcp_pair *next_pair(const struct tcp *tcp, int *at)
{
    return rank_map_next(&tcp->pairs, at);
}

/* -------------------------------------------------------------------------------------- sending */

static void *tcp_reserve(struct link_tx *link, size_t bytes)
{
    return tcp_tx_reserve((struct tcp_tx *)link, bytes);
}

static void tcp_commit(struct link_tx *link, size_t bytes)
{
    struct tcp_tx *tx = (struct tcp_tx *)link;
    tcp_tx_commit(tx, bytes);
    tcp_pair_send(tx->pair, tx);
}

static enum link_reach tcp_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)link, (void)address, (void)bytes;
    return REACH_READ;
}

static bool tcp_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct tcp_tx *tx = (struct tcp_tx *)link;
    if (!tcp_tx_post(tx, address, bytes)) return false;
    tcp_pair_send(tx->pair, tx);
    return true;
}

static bool tcp_consumed(struct link_tx *link)
{
    const struct tcp_tx *tx = (const struct tcp_tx *)link;
    return tx->consumed == tx->sequence;
}

static bool tcp_has_room(struct link_tx *link)
{
    return tcp_tx_has_room((const struct tcp_tx *)link);
}

static const struct link_tx_ops tx_ops = {.reserve = tcp_reserve,
                                          .commit = tcp_commit,
                                          .reach = tcp_reach,
                                          .post = tcp_post,
                                          .consumed = tcp_consumed,
                                          .has_room = tcp_has_room,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = link_no_refer};

/* ------------------------------------------------------------------------------------ receiving */

static enum link_state tcp_peek(struct link_rx *link, struct link_view *view)
{
    const struct tcp_rx *rx = (const struct tcp_rx *)link;
    if (rx->pair->is_at_fault) return LINK_FAULT;
    const enum link_state state = tcp_rx_peek(rx, view);
    if (state == LINK_EMPTY) rx->pair->shared->awaited = rx->pair;
    return state;
}

static void tcp_consume(struct link_rx *link, size_t bytes)
{
    struct tcp_rx *rx = (struct tcp_rx *)link;
    tcp_rx_consume(rx, bytes);
    tcp_pair_consumed(rx->pair, rx);
}

static void tcp_advertise(struct link_rx *link, void *destination, size_t bytes)
{
    struct tcp_rx *rx = (struct tcp_rx *)link;
    tcp_rx_advertise(rx, destination, bytes);
    tcp_pair_consumed(rx->pair, rx);
}

static const struct link_rx_ops rx_ops = {.peek = tcp_peek,
                                          .take = link_no_take,
                                          .fetch = link_no_fetch,
                                          .consume = tcp_consume,
                                          .forward = link_no_forward,
                                          .advertise = tcp_advertise,
                                          .place_directly = tcp_advertise,
                                          .copy = link_no_copy};

/* --------------------------------------------------------------------------------------- moving */

/* Reads where bytes are awaited, without first asking whether some are there: mostly they are. */
static bool read_awaited(struct tcp *tcp)
{
    struct tcp_pair *pair = tcp->shared.awaited;
    tcp->shared.awaited = NULL;
    if (pair == NULL || pair->short_stream < 0 || tcp->guesses_left == 0) return false;
    tcp->guesses_left--;
    return tcp_pair_read(pair, (unsigned)pair->short_stream);
}

/* Takes frames and events from outside; true if there were any. */
static bool poll_events(struct tcp *tcp)
{
    tcp->shared.looks++;
    if (read_awaited(tcp)) return true;
    tcp->guesses_left = GUESSES;
    const uint64_t now = clock_now_ns();
    if (now - tcp->polled_ns < POLL_APART_NS) return false;
    struct epoll_event events[EVENTS_A_PASS];
    const int count = epoll_wait(tcp->shared.epoll_fd, events, EVENTS_A_PASS, 0);
    bool moved = false;
    for (int e = 0; e < count; e++) {
        if (events[e].data.u64 == EVENT_WAKE) {
            uint64_t rings;
            (void)!read(tcp->wake_fd, &rings, sizeof rings);
            continue;
        }
        struct tcp_pair *pair = pair_of(tcp, (int)(events[e].data.u64 / TCP_STREAMS_MAX));
        if ((events[e].events & ~(uint32_t)EPOLLOUT) != 0)
            moved |= tcp_pair_read(pair, events[e].data.u64 % TCP_STREAMS_MAX);
        if ((events[e].events & EPOLLOUT) != 0) {
            moved |= tcp_pair_write(pair);
            tcp_pair_watch(pair);
        }
    }
    tcp->polled_ns = moved ? 0 : now;
    return moved;
}

static bool write_busy(struct tcp *tcp)
{
    struct tcp_shared *shared = &tcp->shared;
    const uint64_t now_ns = shared->busy_count > 0 ? clock_now_ns() : 0;
    bool moved = false;
    for (int i = shared->busy_count - 1; i >= 0; i--) {
        struct tcp_pair *pair = shared->busy[i];
        moved |= tcp_pair_write_again(pair, now_ns);
        if (tcp_pair_has_output(pair)) continue;
        pair->is_busy = false;
        shared->busy[i] = shared->busy[--shared->busy_count];
    }
    return moved;
}

static void tell_all(struct tcp *tcp)
{
    for (int i = 0; i < tcp->shared.busy_count; i++) tcp_pair_tell_all(tcp->shared.busy[i]);
}

static bool tcp_progress(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    bool moved = poll_events(tcp);
    if (moved)
        tcp->idle_passes = 0;
    else if (++tcp->idle_passes % IDLE_PASSES == 0)
        tell_all(tcp);
    moved |= write_busy(tcp);
    return moved;
}

static void tcp_flush(struct transport *transport)
{
    tell_all(tcp_of(transport));
    (void)tcp_progress(transport);
}

static bool tcp_is_awaited(const struct transport *transport)
{
    const struct tcp *tcp = (const struct tcp *)transport;
    const struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;)
        if (!link_set_is_empty(&pair->unsent) ||
            (pair->state == PEER_UP && tcp_pair_has_awaited_output(pair)))
            return true;
    return false;
}

/* Of data alone: control messages are control's. */
static bool links_are_settled(const struct transport *transport, int peer)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    return pair == NULL || !tcp_pair_is_owed_data(pair);
}

static bool tcp_stop(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    tcp->shared.is_stopped = true;
    struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) tcp_pair_stop(pair);
    return true;
}

/* ------------------------------------------------------------------------------------- sleeping */

static void watch_all(struct tcp *tcp)
{
    for (int i = 0; i < tcp->shared.busy_count; i++) tcp_pair_watch(tcp->shared.busy[i]);
}

static void tcp_sleep_begin(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    atomic_store_explicit(&tcp->asleep, 1, memory_order_seq_cst); /* pairs with tcp_wake */
    tell_all(tcp);
    write_busy(tcp);
    watch_all(tcp);
    tcp->polled_ns = 0; /* the last look is a real one */
}

static void tcp_sleep_cancel(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    tcp->polled_ns =
        0; /* so is the next one: the descriptor slept on may have become readable just now */
    atomic_store_explicit(&tcp->asleep, 0, memory_order_relaxed);
}

static int tcp_descriptor(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    watch_all(tcp); /* connections that the last look left */
    return tcp->shared.epoll_fd;
}

static void tcp_sleep(struct transport *transport, uint64_t timeout_ns)
{
    struct pollfd descriptor = {.fd = tcp_descriptor(transport), .events = POLLIN};
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    (void)ppoll(&descriptor, 1, &timeout, NULL);
    tcp_sleep_cancel(transport);
}

static void tcp_wake(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    /* Either the caller's publishing comes before this load, or the sleeper's last look sees it. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&tcp->asleep, memory_order_relaxed) == 0) return;
    const uint64_t one = 1;
    (void)!write(tcp->wake_fd, &one, sizeof one);
}

/* -------------------------------------------------------------------------------------- opening */

static void tcp_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    *piece_bytes_max = tcp_of(transport)->shared.shape.piece_bytes;
    *piece_count_max = tcp_of(transport)->piece_count;
}

/* Makes room for all pairs and one more, since all may be busy at once. */
static bool make_room_for_busy(struct tcp *tcp)
{
    if (tcp->pair_count < tcp->busy_room) return true;
    const int room = 2 * tcp->busy_room + BUSY_ROOM_MIN;
    struct tcp_pair **const grown =
        realloc(tcp->shared.busy, (size_t)room * sizeof(struct tcp_pair *));
    if (grown == NULL) return false;
    tcp->shared.busy = grown;
    tcp->busy_room = room;
    return true;
}

static enum tutti_status find_pair(struct tcp *tcp, int peer, struct tcp_pair **pair)
{
    *pair = pair_of(tcp, peer);
    if (*pair != NULL) return TUTTI_OK;
    void **const place = rank_map_place(&tcp->pairs, peer);
    if (place == NULL || !make_room_for_busy(tcp))
        return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    TRY(tcp_pair_create(&tcp->shared, peer, pair));
    *place = *pair;
    tcp->pair_count++;
    return TUTTI_OK;
}

static unsigned index_of(int slot, int channel)
{
    assert(channel < TRANSPORT_CHANNEL_COUNT);
    return (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel);
}

static enum tutti_status tcp_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct tcp_pair *pair;
    struct tcp_tx *tx;
    TRY(find_pair(tcp_of(transport), peer, &pair));
    TRY(tcp_pair_open_tx(pair, index_of(slot, channel), &tx));
    if (bytes > TCP_SMALL_BYTES) TRY(tcp_tx_make_slots(tx));
    tx->base = (struct link_tx){.ops = &tx_ops, .peer = peer};
    tcp_pair_want(pair);
    *link = &tx->base;
    return TUTTI_OK;
}

static enum tutti_status tcp_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct tcp_pair *pair;
    struct tcp_rx *rx;
    TRY(find_pair(tcp_of(transport), peer, &pair));
    TRY(tcp_pair_open_rx(pair, index_of(slot, channel), &rx));
    rx->base = (struct link_rx){
        .ops = &rx_ops, .peer = peer, .capabilities = LINK_ADVERTISES | LINK_PLACES_DIRECTLY};
    tcp_pair_want(pair);
    *link = &rx->base;
    return TUTTI_OK;
}

static int tcp_corrupt_rank(const struct transport *transport)
{
    return ((const struct tcp *)transport)->shared.corrupt_peer;
}

static void add_pair(const struct tcp_pair *pair, struct transport_footprint *footprint)
{
    const struct tcp_shape *shape = &pair->shared->shape;
    const size_t small_bytes = TCP_WINDOW * TCP_SMALL_BYTES,
                 slot_bytes = shape->place_count * shape->piece_bytes;
    footprint->private_bytes += sizeof *pair + pair->shared->stream_count * sizeof *pair->streams;
    if (pair->control.queue != NULL)
        footprint->private_bytes += CONTROL_MESSAGES_MAX * sizeof *pair->control.queue;
    for (unsigned s = 0; s < pair->shared->stream_count; s++) {
        footprint->descriptor_count += pair->streams[s].stream.socket.fd >= 0;
        footprint->private_bytes += byte_stream_bytes(&pair->streams[s].stream.socket);
    }
    for (int i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        const struct tcp_tx *tx = pair->tx[i];
        footprint->link_count += (tx != NULL) + (pair->rx[i] != NULL);
        if (tx != NULL)
            footprint->private_bytes +=
                sizeof *tx + small_bytes + (tx->slots != NULL ? slot_bytes : 0);
        if (pair->rx[i] != NULL)
            footprint->private_bytes += sizeof *pair->rx[i] + small_bytes + slot_bytes;
    }
}

static void tcp_add_footprint(const struct transport *transport,
                              struct transport_footprint *footprint)
{
    const struct tcp *tcp = (const struct tcp *)transport;
    footprint->private_bytes +=
        sizeof *tcp + rank_map_bytes(&tcp->pairs) + held(tcp->shared.busy) + TCP_FRAME_BYTES_MAX;
    footprint->descriptor_count += 2;
    const struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) add_pair(pair, footprint);
}

static const struct transport_ops ops = {.limits = tcp_limits,
                                         .open_tx = tcp_open_tx,
                                         .open_rx = tcp_open_rx,
                                         .progress = tcp_progress,
                                         .flush = tcp_flush,
                                         .is_awaited = tcp_is_awaited,
                                         .is_settled = links_are_settled,
                                         .stop = tcp_stop,
                                         .sleep_begin = tcp_sleep_begin,
                                         .sleep_cancel = tcp_sleep_cancel,
                                         .sleep = tcp_sleep,
                                         .descriptor = tcp_descriptor,
                                         .wake = tcp_wake,
                                         .wake_all = tcp_wake,
                                         .corrupt_rank = tcp_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = tcp_add_footprint};

static enum tutti_status check_options(const struct tcp_options *options)
{
    if (options->size < 1 || options->rank < 0 || options->rank >= options->size)
        return error_set(TUTTI_INVALID_OPTIONS, "TCP: rank %d of %d", options->rank, options->size);
    if (options->streams > TCP_STREAMS_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "TCP: %u connections to a peer, at most %d",
                         options->streams, TCP_STREAMS_MAX);
    const size_t bytes = options->piece_bytes;
    if (bytes != 0 && (bytes % 64 != 0 || bytes < PIECE_BYTES_MIN || bytes > TCP_FRAME_BYTES_MAX))
        return error_set(TUTTI_INVALID_OPTIONS,
                         "TCP: pieces of %zu bytes are not a multiple of 64 from %d to %d", bytes,
                         PIECE_BYTES_MIN, TCP_FRAME_BYTES_MAX);
    if (options->piece_count > PIECE_COUNT_MAX)
        return error_set(TUTTI_INVALID_OPTIONS, "TCP: %u pieces of a link under way, at most %d",
                         options->piece_count, PIECE_COUNT_MAX);
    return TUTTI_OK;
}

static enum tutti_status open_descriptors(struct tcp *tcp)
{
    tcp->shared.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (tcp->shared.epoll_fd < 0) return error_system("TCP: epoll");
    tcp->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = EVENT_WAKE};
    if (tcp->wake_fd < 0 ||
        epoll_ctl(tcp->shared.epoll_fd, EPOLL_CTL_ADD, tcp->wake_fd, &event) != 0)
        return error_system("TCP: eventfd");
    return TUTTI_OK;
}

enum tutti_status tcp_create(const struct tcp_options *options, struct transport **transport)
{
    *transport = NULL;
    TRY(check_options(options));
    struct tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) return error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    tcp->base = (struct transport){.ops = &ops,
                                   .sharing = &transport_shares_nothing,
                                   .rank = options->rank,
                                   .size = options->size};
    tcp->base.paths.tables[0] = tcp_paths();
    transport_own_slots(&tcp->base);
    tcp->piece_count = options->piece_count != 0 ? options->piece_count : TCP_PIECE_COUNT_DEFAULT;
    tcp->shared = (struct tcp_shared){
        .rank = options->rank,
        .epoll_fd = -1,
        .stream_count = options->streams != 0 ? options->streams : TCP_STREAMS_DEFAULT,
        .shape = {.piece_bytes =
                      options->piece_bytes != 0 ? options->piece_bytes : TCP_FRAME_BYTES_MAX,
                  .place_count = 2 * tcp->piece_count,
                  .spare = (tcp->piece_count + 1) / 2},
        .signatures = &tcp->base.signatures,
        .checks = options->checks,
        .corrupt_peer = -1,
        .wants = options->wants,
        .wants_context = options->wants_context,
        .hears = options->hears,
        .hears_context = options->hears_context};
    tcp->wake_fd = -1;
    tcp->shared.discard = malloc(TCP_FRAME_BYTES_MAX);
    enum tutti_status status = TUTTI_OK;
    if (!rank_map_init(&tcp->pairs, options->size) || tcp->shared.discard == NULL)
        status = error_set(TUTTI_NO_MEMORY, "TCP: out of memory");
    if (status == TUTTI_OK) status = open_descriptors(tcp);
    if (status != TUTTI_OK) {
        tcp_close(&tcp->base);
        return status;
    }
    *transport = &tcp->base;
    return TUTTI_OK;
}

enum tutti_status tcp_attach(struct transport *transport, int peer, unsigned stream,
                             struct byte_stream socket)
{
    struct tcp *tcp = tcp_of(transport);
    struct tcp_pair *pair = NULL;
    enum tutti_status status = TUTTI_OK;
    if (peer < 0 || peer >= transport->size || peer == transport->rank ||
        stream >= tcp->shared.stream_count)
        status = error_set(TUTTI_INVALID_OPTIONS, "TCP: a connection %u to rank %d", stream, peer);
    if (status == TUTTI_OK) status = find_pair(tcp, peer, &pair);
    if (status != TUTTI_OK) {
        byte_stream_close(&socket);
        return status;
    }
    tcp->polled_ns = 0;
    return tcp_pair_attach(pair, stream, socket);
}

static enum tutti_status tell(struct transport *transport, int peer, const void *message,
                              size_t bytes, bool is_final)
{
    struct tcp_pair *pair;
    assert(peer >= 0 && peer < transport->size && peer != transport->rank);
    assert(bytes > 0 && bytes <= TCP_FRAME_CONTROL_BYTES_MAX);
    TRY(find_pair(tcp_of(transport), peer, &pair));
    return tcp_pair_tell(pair, message, bytes, is_final);
}

enum tutti_status tcp_tell(struct transport *transport, int peer, const void *message, size_t bytes)
{
    return tell(transport, peer, message, bytes, false);
}

enum tutti_status tcp_tell_final(struct transport *transport, int peer, const void *message,
                                 size_t bytes)
{
    return tell(transport, peer, message, bytes, true);
}

void tcp_report(const struct transport *transport, int peer, struct peer_report *report)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    *report = (struct peer_report){.state = PEER_UNUSED};
    if (pair == NULL) return;
    *report = (struct peer_report){.state = pair->state,
                                   .since_ns = pair->since_ns,
                                   .heard_ns = pair->heard_ns,
                                   .mended = pair->mended,
                                   .is_corrupt = pair->is_corrupt};
    for (unsigned s = 0; s < pair->shared->stream_count; s++)
        report->streams_up += pair->streams[s].is_up;
}

uint64_t tcp_answered_ns(const struct transport *transport, int peer)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    return pair != NULL ? tcp_pair_answered_ns(pair, clock_now_ns()) : 0;
}

unsigned tcp_unheard_control(const struct transport *transport, int peer)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    return pair != NULL ? (unsigned)(pair->control.told - pair->control.acked) : 0;
}

bool tcp_is_idle(const struct transport *transport)
{
    const struct tcp *tcp = (const struct tcp *)transport;
    const struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) {
        /* A peer that is not there is owed nothing but data. */
        if (!link_set_is_empty(&pair->unsent) || !tcp_pair_has_told_all(pair) ||
            (pair->state == PEER_UP && tcp_pair_has_output(pair)))
            return false;
    }
    return true;
}

bool tcp_has_links(const struct transport *transport, int peer)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    for (unsigned i = 0; pair != NULL && i < TRANSPORT_LINK_COUNT; i++)
        if (pair->tx[i] != NULL || pair->rx[i] != NULL) return true;
    return false;
}

bool tcp_is_settled(const struct transport *transport, int peer)
{
    const struct tcp_pair *pair = pair_of((const struct tcp *)transport, peer);
    return pair == NULL || tcp_pair_is_settled(pair);
}

void tcp_give_up_silent(struct transport *transport, unsigned first)
{
    struct tcp *tcp = tcp_of(transport);
    struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) tcp_pair_give_up_silent(pair, first);
}

void tcp_give_up_dead(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) tcp_pair_give_up_dead(pair);
}

void tcp_close(struct transport *transport)
{
    struct tcp *tcp = tcp_of(transport);
    if (tcp == NULL) return;
    struct tcp_pair *pair;
    for (int at = 0; (pair = next_pair(tcp, &at)) != NULL;) tcp_pair_free(pair);
    rank_map_release(&tcp->pairs);
    free(tcp->shared.busy);
    free(tcp->shared.discard);
    if (tcp->shared.epoll_fd >= 0) close(tcp->shared.epoll_fd);
    if (tcp->wake_fd >= 0) close(tcp->wake_fd);
    free(tcp);
}
