#include "transport/tcp/pair.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/tcp_path.h"

enum {
    WRITE_BYTES_A_PASS = 1 << 20,
    ROOM_FOR_URGENT = TCP_BATCH_FRAMES / 2, /* which overtakes what has not begun */
    BATCH_BYTES = 256 << 10, /* that one system call takes, about: urgent frames wait for it */
    SHORT_BYTES = 4 << 10,
    REPORTS_APART_S = 60, /* of changed frames, in the log */
    UNANSWERED_S =
        10, /* until a connection that dies unsaid is given up; the time of stream.c, which its kernel does not keep */
    /* Time until a full connection is tried again, if epoll does not say before that it can go on:
     * it can when 64 KiB are gone. */
    TRIES_APART_NS = 10000
};

enum tutti_status tcp_pair_create(struct tcp_shared *shared, int rank, struct tcp_pair **created)
{
    struct tcp_pair *pair = calloc(1, sizeof *pair);
    *created = NULL;
    if (pair != NULL) pair->streams = calloc(shared->stream_count, sizeof *pair->streams);
    if (pair == NULL || pair->streams == NULL || control_queue_init(&pair->control) != TUTTI_OK) {
        if (pair != NULL) free(pair->streams);
        free(pair);
        return error_set(TUTTI_NO_MEMORY, "connections to a peer: out of memory");
    }
    pair->shared = shared;
    pair->rank = rank;
    pair->is_stopped = shared->is_stopped;
    pair->since_ns = clock_now_ns();
    pair->short_stream = -1;
    for (unsigned s = 0; s < shared->stream_count; s++)
        tcp_stream_init(&pair->streams[s].stream, s);
    *created = pair;
    return TUTTI_OK;
}

static void close_all(struct tcp_pair *pair);

void tcp_pair_free(struct tcp_pair *pair)
{
    if (pair == NULL) return;
    close_all(pair);
    control_queue_release(&pair->control);
    for (int i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        tcp_tx_free(pair->tx[i]);
        tcp_rx_free(pair->rx[i]);
    }
    free(pair->streams);
    free(pair);
}

/* --------------------------------------------------------------------------------------- states */

static void set_state(struct tcp_pair *pair, enum peer_state state)
{
    if (pair->state == state) return;
    pair->state = state;
    pair->since_ns = clock_now_ns();
}

static void ask_for(const struct tcp_pair *pair, unsigned stream)
{
    const struct tcp_shared *shared = pair->shared;
    if (shared->wants != NULL) shared->wants(shared->wants_context, pair->rank, stream);
}

static void mark_busy(struct tcp_pair *pair)
{
    if (pair->is_busy || pair->state == PEER_BROKEN) return;
    pair->is_busy = true;
    pair->shared->busy[pair->shared->busy_count++] = pair;
}

void tcp_pair_want(struct tcp_pair *pair)
{
    if (pair->state != PEER_UNUSED) return;
    set_state(pair, PEER_WANTED);
    for (unsigned s = 0; s < pair->shared->stream_count; s++)
        if (pair->streams[s].stream.socket.fd < 0) ask_for(pair, s);
}

/* Forgets the frames under way; the next connection shows which of them the peer lacks. */
static void close_stream(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    const struct tcp_stream *stream = &own->stream;
    if (stream->in_payload && stream->frame.kind == TCP_FRAME_DATA && !pair->is_stopped) {
        const unsigned index =
            stream->frame.slot * TRANSPORT_CHANNEL_COUNT + (unsigned)stream->frame.channel;
        tcp_rx_abandon(pair->rx[index], stream->frame.sequence);
    }
    tcp_stream_close(&own->stream);
    own->is_up = own->has_greeted = own->watches_output = own->is_cut = false;
    own->resume_next = 0;
    own->resumed = (struct link_set){0};
    own->control_next = 0;
    control_queue_lost(&pair->control, stream->number);
    pair->control.owes_heard |= pair->control.heard > 0; /* that may have been lost, too */
}

static unsigned count_up(const struct tcp_pair *pair)
{
    unsigned count = 0;
    for (unsigned s = 0; s < pair->shared->stream_count; s++) count += pair->streams[s].is_up;
    return count;
}

static void lose_stream(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    log_write(LOG_INFO, "peer %d: connection %u is lost (%s)", pair->rank, own->stream.number,
              errno != 0 ? strerror(errno) : "closed by the peer");
    close_stream(pair, own);
    if (pair->state == PEER_UP && count_up(pair) == 0) set_state(pair, PEER_LOST);
    ask_for(pair, own->stream.number);
    mark_busy(pair);
}

static void stop_links(struct tcp_pair *pair)
{
    pair->is_stopped = true;
    pair->small = pair->large = pair->unsent = pair->due = pair->untold = (struct link_set){0};
}

void tcp_pair_stop(struct tcp_pair *pair)
{
    if (pair->is_stopped) return;
    stop_links(pair);
    for (unsigned s = 0; s < pair->shared->stream_count; s++) {
        struct tcp_pair_stream *own = &pair->streams[s];
        if (own->stream.in_payload && own->stream.frame.kind == TCP_FRAME_DATA)
            own->stream.target = pair->shared->discard;
        errno = ENOMEM;
        if (!tcp_stream_take_over(&own->stream)) lose_stream(pair, own);
    }
    mark_busy(pair);
}

void tcp_pair_give_up_silent(struct tcp_pair *pair, unsigned first)
{
    for (unsigned s = first; s < pair->shared->stream_count; s++) {
        struct tcp_pair_stream *own = &pair->streams[s];
        if (own->stream.socket.fd < 0 || !tcp_path_is_silent(own->stream.socket.fd)) continue;
        errno = ETIMEDOUT;
        lose_stream(pair, own);
    }
}

void tcp_pair_give_up_dead(struct tcp_pair *pair)
{
    for (unsigned s = 0; s < pair->shared->stream_count; s++) {
        struct tcp_pair_stream *own = &pair->streams[s];
        if (own->stream.socket.fd < 0 || !own->dies_unsaid ||
            !tcp_path_is_dead(own->stream.socket.fd, UNANSWERED_S * UINT64_C(1000000000)))
            continue;
        errno = ETIMEDOUT;
        lose_stream(pair, own);
    }
}

uint64_t tcp_pair_answered_ns(const struct tcp_pair *pair, uint64_t now_ns)
{
    uint64_t latest_ns = 0, ago_ns;
    for (unsigned s = 0; s < pair->shared->stream_count; s++)
        if (pair->streams[s].is_up && tcp_path_answered(pair->streams[s].stream.socket.fd, &ago_ns) &&
            ago_ns < now_ns && now_ns - ago_ns > latest_ns)
            latest_ns = now_ns - ago_ns;
    return latest_ns;
}

static void close_all(struct tcp_pair *pair)
{
    stop_links(pair);
    for (unsigned s = 0; s < pair->shared->stream_count; s++) close_stream(pair, &pair->streams[s]);
}

static void break_peer(struct tcp_pair *pair, const char *wrong)
{
    log_write(LOG_WARN, "peer %d: what it sends over TCP makes no sense: %s", pair->rank, wrong);
    set_state(pair, PEER_BROKEN);
    pair->is_at_fault = true;
    close_all(pair);
}

enum tutti_status tcp_pair_attach(struct tcp_pair *pair, unsigned stream, struct byte_stream socket)
{
    struct tcp_pair_stream *own = &pair->streams[stream];
    if (pair->state == PEER_BROKEN) {
        byte_stream_close(&socket);
        return TUTTI_OK;
    }
    close_stream(pair, own);
    if (pair->state == PEER_UNUSED) set_state(pair, PEER_WANTED);
    if (pair->state == PEER_UP && count_up(pair) == 0) set_state(pair, PEER_LOST);
    const bool is_urgent = stream == 0 && pair->shared->stream_count > 1;
    own->window = (struct tcp_window){0};
    own->dies_unsaid = tcp_path_dies_unsaid(socket.fd);
    own->bounds_queues =
        stream > 0 && !tcp_path_is_local(socket.fd) && tcp_path_can_limit(socket.fd);
    if (!is_urgent) tcp_path_make_room(socket.fd);
    TRY(tcp_stream_open(&own->stream, socket, is_urgent, own->bounds_queues));
    struct epoll_event event = {.events = EPOLLIN,
                                .data.u64 = (uint64_t)pair->rank * TCP_STREAMS_MAX + stream};
    if (epoll_ctl(pair->shared->epoll_fd, EPOLL_CTL_ADD, socket.fd, &event) != 0) {
        const enum tutti_status status = error_system("a connection cannot be watched");
        close_stream(pair, own);
        return status;
    }
    mark_busy(pair);
    return TUTTI_OK;
}

/* ---------------------------------------------------------------------------------------- links */

/* After anything that changes what a link can send. */
static void look_at_tx(struct tcp_pair *pair, struct tcp_tx *tx)
{
    struct tcp_piece piece;
    link_set_remove(&pair->small, tx->index);
    link_set_remove(&pair->large, tx->index);
    if (pair->is_stopped) return;
    if (tcp_tx_is_all_sent(tx))
        link_set_remove(&pair->unsent, tx->index);
    else
        link_set_add(&pair->unsent, tx->index);
    if (!tcp_tx_next(tx, &piece)) return;
    link_set_add(piece.bytes <= TCP_SMALL_BYTES ? &pair->small : &pair->large, tx->index);
    mark_busy(pair);
}

enum tutti_status tcp_pair_open_tx(struct tcp_pair *pair, unsigned index, struct tcp_tx **opened)
{
    if (pair->tx[index] == NULL) {
        const uint64_t *signature = &(*pair->shared->signatures)[index / TRANSPORT_CHANNEL_COUNT];
        struct tcp_tx *tx;
        TRY(tcp_tx_create(&pair->shared->shape, signature, &tx));
        tx->pair = pair;
        tx->index = index;
        tx->is_granted = link_set_has(&pair->granted, index);
        pair->tx[index] = tx;
    }
    *opened = pair->tx[index];
    return TUTTI_OK;
}

enum tutti_status tcp_pair_open_rx(struct tcp_pair *pair, unsigned index, struct tcp_rx **opened)
{
    if (pair->rx[index] == NULL) {
        const uint64_t *signature = &(*pair->shared->signatures)[index / TRANSPORT_CHANNEL_COUNT];
        struct tcp_rx *rx;
        TRY(tcp_rx_create(&pair->shared->shape, signature, &rx));
        rx->pair = pair;
        rx->index = index;
        pair->rx[index] = rx;
        if (!pair->is_stopped) link_set_add(&pair->due, index);
        mark_busy(pair);
    }
    *opened = pair->rx[index];
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------- control */

enum tutti_status tcp_pair_tell(struct tcp_pair *pair, const void *data, size_t bytes, bool is_final)
{
    struct tcp_control_queue *const control = &pair->control;
    if (pair->state == PEER_BROKEN) return TUTTI_OK;
    /* The place of a control message that was sent again, and had come before, may still be read
     * here: the peer will ignore those bytes. */
    if (!control_queue_has_room(control, is_final))
        return error_set(TUTTI_NO_MEMORY, "peer %d: %d control messages to it are under way",
                         pair->rank, (int)(control->told - control->acked));
    control_queue_tell(control, data, bytes);
    tcp_pair_want(pair);
    mark_busy(pair);
    return TUTTI_OK;
}

bool tcp_pair_has_told_all(const struct tcp_pair *pair)
{
    return pair->state == PEER_BROKEN || pair->control.given == pair->control.told;
}

static bool is_control_settled(const struct tcp_pair *pair)
{
    return pair->control.acked == pair->control.told && !pair->control.owes_heard;
}

static void add_heard(struct tcp_pair *pair, struct tcp_stream *stream)
{
    const struct tcp_frame frame = {
        .kind = TCP_FRAME_HEARD, .consumed = pair->control.heard, .place = TCP_FRAME_NO_PLACE};
    tcp_stream_add(stream, &frame, NULL, NULL);
    control_queue_heard_told(&pair->control);
}

/* Adds all control messages that go over this connection and fit. */
static void add_control(struct tcp_pair *pair, struct tcp_stream *stream)
{
    struct tcp_control_queue *const control = &pair->control;
    const struct tcp_control *message;
    if (control->owes_heard && tcp_stream_room(stream) > 0) add_heard(pair, stream);
    while (tcp_stream_room(stream) > 0 &&
           (message = control_queue_next(control, stream->number)) != NULL) {
        const struct tcp_frame frame = {.kind = TCP_FRAME_CONTROL,
                                        .bytes = (uint32_t)message->bytes,
                                        .sequence = control->sent,
                                        .place = TCP_FRAME_NO_PLACE};
        tcp_stream_add(stream, &frame, message->data, control);
        control_queue_sent(control, stream->number);
    }
}

/* -------------------------------------------------------------------------------------- writing */

static void told(struct tcp_pair *pair, unsigned index)
{
    link_set_remove(&pair->due, index);
    link_set_remove(&pair->untold, index);
    tcp_rx_told(pair->rx[index]);
}

static void add_credit(struct tcp_pair *pair, struct tcp_stream *stream, unsigned index,
                       bool resumes)
{
    const struct tcp_rx *rx = pair->rx[index];
    const struct tcp_frame frame = {.kind = TCP_FRAME_CREDIT,
                                    .flags = resumes ? TCP_FRAME_RESUME : 0,
                                    .slot = (uint8_t)(index / TRANSPORT_CHANNEL_COUNT),
                                    .channel = (uint8_t)(index % TRANSPORT_CHANNEL_COUNT),
                                    .sequence = resumes ? tcp_rx_received(rx) : 0,
                                    .offset = tcp_rx_expected_until(rx),
                                    .signature = *rx->signature,
                                    .consumed = rx->consumed,
                                    .place = TCP_FRAME_NO_PLACE};
    tcp_stream_add(stream, &frame, NULL, NULL);
    told(pair, index);
}

static void add_piece(struct tcp_pair *pair, struct tcp_stream *stream, unsigned index)
{
    struct tcp_tx *tx = pair->tx[index];
    const struct tcp_rx *back = pair->rx[index];
    struct tcp_piece piece;
    const bool is_there = tcp_tx_next(tx, &piece);
    assert(is_there);
    if (!is_there) return;
    const struct tcp_frame frame = {.kind = TCP_FRAME_DATA,
                                    .flags = piece.wants_answer ? TCP_FRAME_ANSWER : 0,
                                    .slot = (uint8_t)(index / TRANSPORT_CHANNEL_COUNT),
                                    .channel = (uint8_t)(index % TRANSPORT_CHANNEL_COUNT),
                                    .bytes = (uint32_t)piece.bytes,
                                    .sequence = piece.sequence,
                                    .offset = piece.offset,
                                    .signature = piece.signature,
                                    .consumed = back != NULL ? back->consumed : 0,
                                    .place = piece.place};
    tcp_stream_add(stream, &frame, piece.data, tx);
    tcp_tx_sent(tx, &piece, stream->number);
    /* To say that a link is open, or that bytes are expected, takes a separate CREDIT. */
    if (back != NULL && back->consumed > 0 && !back->owes_expected) told(pair, index);
    look_at_tx(pair, tx);
}

/* Adds the frames with which a new connection starts. False: not all of them fit now. */
static bool greet(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    struct tcp_stream *stream = &own->stream;
    for (; !pair->is_stopped && own->resume_next < TRANSPORT_LINK_COUNT; own->resume_next++) {
        if (pair->rx[own->resume_next] == NULL) continue;
        if (tcp_stream_room(stream) == 0) return false;
        add_credit(pair, stream, own->resume_next, true);
    }
    if (tcp_stream_room(stream) == 0) return false;
    const struct tcp_shape *shape = &pair->shared->shape;
    const struct tcp_frame ready = {.kind = TCP_FRAME_READY,
                                    .flags = pair->shared->checks ? TCP_FRAME_CHECKED : 0,
                                    .sequence = (uint64_t)pair->shared->rank,
                                    .offset = shape->piece_bytes,
                                    .signature = TCP_FRAME_VERSION,
                                    .consumed = pair->control.heard,
                                    .place = shape->place_count};
    tcp_stream_add(stream, &ready, NULL, NULL);
    control_queue_heard_told(&pair->control);
    own->has_greeted = true;
    return true;
}

/* The first connection is for urgent frames, as long as there is another one: there they do not
 * wait for large pieces that the kernel holds. (Beside 2 MiB messages at 1 Gbit/s a round trip took
 * 9 ms over shared connections, mostly behind bytes that were unsent here, and 1 to 5 ms over a
 * connection of its own, behind bytes in the queues of hosts.) */
static bool carries_large(const struct tcp_pair *pair, const struct tcp_pair_stream *own)
{
    return own->stream.number > 0 || count_up(pair) == 1;
}

static void fill_batch(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    struct tcp_stream *stream = &own->stream;
    if (!own->has_greeted && !greet(pair, own)) return;
    int index = 0;
    if (own->is_up) add_control(pair, stream);
    while (tcp_stream_room(stream) > 0 && (index = link_set_next(&pair->due, (unsigned)index)) >= 0)
        add_credit(pair, stream, (unsigned)index, false);
    if (!own->is_up) return;
    while (tcp_stream_room(stream) > 0 &&
           (index = link_set_turn(&pair->small, pair->small_turn)) >= 0) {
        pair->small_turn = (unsigned)(index + 1) % TRANSPORT_LINK_COUNT;
        add_piece(pair, stream, (unsigned)index);
    }
    if (!carries_large(pair, own)) return;
    while (tcp_stream_room(stream) > ROOM_FOR_URGENT && stream->unsent_bytes < BATCH_BYTES &&
           (index = link_set_turn(&pair->large, pair->large_turn)) >= 0) {
        pair->large_turn = (unsigned)(index + 1) % TRANSPORT_LINK_COUNT;
        add_piece(pair, stream, (unsigned)index);
    }
}

/* The peer's final messages may lie there unread, above all the message that it leaves; behind them
 * the reader now finds the end. */
static void cut_stream(const struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    log_write(LOG_DEBUG, "peer %d: connection %u takes no more (%s)", pair->rank,
              own->stream.number, strerror(errno));
    own->is_cut = true;
    (void)shutdown(own->stream.socket.fd, SHUT_RDWR);
}

/* Writes one batch; true when something was written. */
static bool write_batch(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    if (own->stream.socket.fd < 0 || own->stream.is_blocked || own->is_cut) return false;
    fill_batch(pair, own);
    errno = 0;
    const enum tcp_stream_result result = tcp_stream_flush(&own->stream);
    if (result == TCP_STREAM_LOST) cut_stream(pair, own);
    return result == TCP_STREAM_MOVED;
}

/* Writes batches on all connections in turn, as long as the kernel takes them; small pieces prefer
 * the first connection. */
static bool write_all(struct tcp_pair *pair)
{
    const unsigned count = pair->shared->stream_count;
    bool moved = false, again = true;
    for (size_t passes = 0; again && passes < WRITE_BYTES_A_PASS / TCP_FRAME_BYTES_MAX; passes++) {
        again = false;
        for (unsigned s = 0; s < count; s++) again |= write_batch(pair, &pair->streams[s]);
        moved |= again;
    }
    return moved;
}

bool tcp_pair_write_again(struct tcp_pair *pair, uint64_t now_ns)
{
    if (now_ns - pair->tried_ns < TRIES_APART_NS) return write_all(pair);
    pair->tried_ns = now_ns;
    return tcp_pair_write(pair);
}

bool tcp_pair_write(struct tcp_pair *pair)
{
    for (unsigned s = 0; s < pair->shared->stream_count; s++)
        pair->streams[s].stream.is_blocked = false;
    return write_all(pair);
}

void tcp_pair_send(struct tcp_pair *pair, struct tcp_tx *tx)
{
    look_at_tx(pair, tx);
    if (link_set_has(&pair->small, tx->index) || link_set_has(&pair->large, tx->index))
        write_all(pair);
}

void tcp_pair_consumed(struct tcp_pair *pair, struct tcp_rx *rx)
{
    if (pair->is_stopped || (rx->consumed == rx->told && !rx->owes_expected)) return;
    link_set_add(&pair->untold, rx->index);
    mark_busy(pair);
    if (!tcp_rx_should_tell(rx)) return;
    link_set_add(&pair->due, rx->index);
    write_all(pair);
}

void tcp_pair_tell_all(struct tcp_pair *pair)
{
    link_set_join(&pair->due, &pair->untold);
}

bool tcp_pair_has_output(const struct tcp_pair *pair)
{
    return !link_set_is_empty(&pair->untold) || tcp_pair_has_awaited_output(pair);
}

bool tcp_pair_has_awaited_output(const struct tcp_pair *pair)
{
    if (!link_set_is_empty(&pair->small) || !link_set_is_empty(&pair->large) ||
        !link_set_is_empty(&pair->due))
        return true;
    const bool has_control = pair->control.owes_heard || !control_queue_are_sent(&pair->control);
    for (unsigned s = 0; s < pair->shared->stream_count; s++) {
        const struct tcp_pair_stream *own = &pair->streams[s];
        if (own->stream.socket.fd >= 0 && (tcp_stream_has_output(&own->stream) || !own->has_greeted))
            return true;
        if (own->is_up && has_control) return true;
    }
    return false;
}

static bool owes_nothing(const struct tcp_pair *pair)
{
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        const struct tcp_rx *rx = pair->rx[i];
        if (pair->tx[i] != NULL && pair->tx[i]->consumed < pair->tx[i]->sequence) return false;
        if (rx != NULL && rx->told < rx->consumed) return false;
    }
    return true;
}

bool tcp_pair_is_owed_data(const struct tcp_pair *pair)
{
    return pair->state != PEER_BROKEN && !pair->is_stopped && !owes_nothing(pair);
}

bool tcp_pair_is_settled(const struct tcp_pair *pair)
{
    return pair->state == PEER_BROKEN || (!tcp_pair_is_owed_data(pair) && is_control_settled(pair) &&
                                          (pair->state != PEER_UP || !tcp_pair_has_output(pair)));
}

void tcp_pair_watch(struct tcp_pair *pair)
{
    for (unsigned s = 0; s < pair->shared->stream_count; s++) {
        struct tcp_pair_stream *own = &pair->streams[s];
        const bool watches = own->stream.socket.fd >= 0 && own->stream.is_blocked;
        if (own->stream.socket.fd < 0 || watches == own->watches_output) continue;
        struct epoll_event event = {.events = watches ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                    .data.u64 = (uint64_t)pair->rank * TCP_STREAMS_MAX + s};
        if (epoll_ctl(pair->shared->epoll_fd, EPOLL_CTL_MOD, own->stream.socket.fd, &event) == 0)
            own->watches_output = watches;
    }
}

/* -------------------------------------------------------------------------------------- reading */

/* The pair and stream that read, for the sink. */
struct reader {
    struct tcp_pair *pair;
    struct tcp_pair_stream *own;
};

/* Heads come intact again, since the work that they belong to goes on. */
static void heads_are_right(struct tcp_pair *pair)
{
    pair->mended += pair->has_changed_head;
    pair->has_changed_head = false;
}

/* Pieces of a link that are still being written cannot have been consumed; to believe it would free
 * their memory. */
static const char *take_credit(struct tcp_pair *pair, struct tcp_pair_stream *own,
                               const struct tcp_frame *frame, unsigned index)
{
    struct tcp_tx *tx = pair->tx[index];
    if (tx == NULL) return frame->consumed > 0 ? "it consumed what was not sent" : NULL;
    for (unsigned s = 0; s < pair->shared->stream_count && frame->consumed > tx->consumed; s++)
        if (tcp_stream_is_writing(&pair->streams[s].stream, tx, frame->consumed))
            return "it consumed what is still being sent";
    const uint64_t consumed = tx->consumed;
    const bool resumes = frame->kind == TCP_FRAME_CREDIT && (frame->flags & TCP_FRAME_RESUME) != 0;
    if (resumes && own->is_up) return "it starts again in the middle";
    const bool can_be =
        resumes ? tcp_tx_resume(tx, own->stream.number, frame->consumed, frame->sequence)
                : tcp_tx_credit(tx, frame->consumed);
    if (!can_be) return "it consumed what was not sent";
    if (tx->consumed > consumed) heads_are_right(pair);
    if (frame->kind == TCP_FRAME_CREDIT) tcp_tx_expected(tx, frame->offset, frame->signature);
    look_at_tx(pair, tx);
    return NULL;
}

static const char *begin_piece(struct reader *reader, const struct tcp_frame *frame, unsigned index,
                               char **target)
{
    struct tcp_pair *pair = reader->pair;
    if (!reader->own->is_up) return "a piece came before its connection was ready";
    if (pair->is_stopped) {
        *target = pair->shared->discard;
        return NULL;
    }
    if (pair->rx[index] == NULL) return "a piece came on a link that is not open";
    if (frame->consumed > 0) {
        const char *const wrong = take_credit(pair, reader->own, frame, index);
        if (wrong != NULL) return wrong;
    }
    return tcp_rx_begin(pair->rx[index], frame, target);
}

static const char *take_grant(struct reader *reader, const struct tcp_frame *frame, unsigned index)
{
    struct tcp_pair *pair = reader->pair;
    if (pair->is_stopped) return NULL;
    link_set_add(&pair->granted, index);
    if (pair->tx[index] != NULL) pair->tx[index]->is_granted = true;
    if ((frame->flags & TCP_FRAME_RESUME) != 0) link_set_add(&reader->own->resumed, index);
    return take_credit(pair, reader->own, frame, index);
}

/* The receiving ends of these links were opened after the peer had lost the former connection, so
 * nothing of them came over it. */
static void resume_others(struct tcp_pair *pair, const struct tcp_pair_stream *own)
{
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
        struct tcp_tx *tx = pair->tx[i];
        if (tx == NULL || link_set_has(&own->resumed, i)) continue;
        (void)tcp_tx_resume(tx, own->stream.number, tx->consumed, 0);
        look_at_tx(pair, tx);
    }
}

static const char *take_ready(struct reader *reader, const struct tcp_frame *frame)
{
    struct tcp_pair *pair = reader->pair;
    const struct tcp_shape *shape = &pair->shared->shape;
    if (reader->own->is_up) return "it starts again in the middle";
    if (frame->signature != TCP_FRAME_VERSION) return "it speaks another version";
    if (frame->sequence != (uint64_t)pair->rank) return "it is another rank";
    if (frame->offset != shape->piece_bytes || frame->place != shape->place_count)
        return "its pieces have other limits";
    if (!control_queue_acked(&pair->control, frame->consumed)) return "it heard what was not told";
    if (!pair->is_stopped) resume_others(pair, reader->own);
    reader->own->is_up = true;
    set_state(pair, PEER_UP);
    mark_busy(pair);
    return NULL;
}

static const char *begin_control(struct reader *reader, const struct tcp_frame *frame, char **target)
{
    struct tcp_pair_stream *own = reader->own;
    if (!own->is_up) return "a control message came before its connection was ready";
    if (frame->sequence < own->control_next) return "a control message came twice";
    const char *const wrong = control_queue_begin(&reader->pair->control, frame->sequence);
    if (wrong != NULL) return wrong;
    own->control_next = frame->sequence + 1;
    *target = own->message;
    return NULL;
}

static const char *take_heard(struct reader *reader, const struct tcp_frame *frame)
{
    if (!reader->own->is_up) return "a control message was heard before its connection was ready";
    const uint64_t acked = reader->pair->control.acked;
    if (!control_queue_acked(&reader->pair->control, frame->consumed))
        return "it heard what was not told";
    if (reader->pair->control.acked > acked) heads_are_right(reader->pair);
    return NULL;
}

static const char *begin_frame(void *context, const struct tcp_frame *frame, char **target)
{
    struct reader *reader = context;
    const unsigned index = frame->slot * TRANSPORT_CHANNEL_COUNT + (unsigned)frame->channel;
    switch ((enum tcp_frame_kind)frame->kind) {
    case TCP_FRAME_DATA: return begin_piece(reader, frame, index, target);
    case TCP_FRAME_CREDIT: return take_grant(reader, frame, index);
    case TCP_FRAME_READY: return take_ready(reader, frame);
    case TCP_FRAME_CONTROL: return begin_control(reader, frame, target);
    case TCP_FRAME_HEARD: return take_heard(reader, frame);
    }
    return "a frame of no known kind";
}

static void end_piece(struct tcp_pair *pair, const struct tcp_frame *frame)
{
    const unsigned index = frame->slot * TRANSPORT_CHANNEL_COUNT + (unsigned)frame->channel;
    if (pair->is_stopped) return;
    pair->mended += tcp_rx_end(pair->rx[index], frame->sequence);
    heads_are_right(pair);
}

static void end_control(struct reader *reader, const struct tcp_frame *frame, bool is_intact)
{
    struct tcp_pair *pair = reader->pair;
    const struct tcp_shared *shared = pair->shared;
    heads_are_right(pair);
    pair->mended += is_intact && control_queue_is_mended(&pair->control, frame->sequence);
    if (!control_queue_end(&pair->control, frame->sequence)) return;
    mark_busy(pair);
    if (shared->hears != NULL && is_intact)
        shared->hears(shared->hears_context, pair->rank, reader->own->message, frame->bytes);
}

/* A changed frame that is of no use any more is treated as intact: pieces of a stopped pair, and
 * control messages of a corrupt one, which would otherwise come again and again. */
static bool matters(const struct tcp_pair *pair, const struct tcp_frame *frame)
{
    return frame->kind == TCP_FRAME_DATA ? !pair->is_stopped : !pair->is_corrupt;
}

static bool end_frame(void *context, const struct tcp_frame *frame, bool is_intact)
{
    struct reader *reader = context;
    if (!is_intact && matters(reader->pair, frame)) return false;
    if (frame->kind == TCP_FRAME_DATA) end_piece(reader->pair, frame);
    if (frame->kind == TCP_FRAME_CONTROL) end_control(reader, frame, is_intact);
    return true;
}

/* Whether the same frame had come changed before. */
static bool came_changed_before(struct tcp_pair *pair, const struct tcp_stream *stream)
{
    const struct tcp_frame *frame = &stream->frame;
    const bool had_changed_head = pair->has_changed_head;
    if (!stream->in_payload) {
        pair->has_changed_head = true;
        return had_changed_head;
    }
    if (frame->kind == TCP_FRAME_CONTROL)
        return control_queue_came_changed(&pair->control, frame->sequence);
    const unsigned index = frame->slot * TRANSPORT_CHANNEL_COUNT + (unsigned)frame->channel;
    return tcp_rx_came_changed(pair->rx[index], frame->sequence);
}

static void report_change(const struct tcp_pair *pair, unsigned stream)
{
    struct tcp_shared *shared = pair->shared;
    const uint64_t now_ns = clock_now_ns();
    if (shared->change_reported_ns != 0 &&
        now_ns - shared->change_reported_ns < REPORTS_APART_S * UINT64_C(1000000000))
        return;
    shared->change_reported_ns = now_ns;
    log_write(
        LOG_WARN,
        "peer %d: what came from it had changed on its way (connection %u); it is sent again, "
        "as were %llu before it",
        pair->rank, stream, (unsigned long long)pair->mended);
}

static void take_changed(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    const bool did_before = came_changed_before(pair, &own->stream);
    report_change(pair, own->stream.number);
    errno = EBADMSG;
    lose_stream(pair, own);
    if (!did_before || pair->is_corrupt) return;
    log_write(LOG_WARN, "peer %d: what it sent came changed again", pair->rank);
    pair->is_corrupt = pair->is_at_fault = true;
    if (pair->shared->corrupt_peer < 0) pair->shared->corrupt_peer = pair->rank;
    tcp_pair_stop(pair);
}

static void note_round_trip(struct tcp_pair *pair, const struct tcp_path *path)
{
    if (pair->min_rtt_ns == 0 || path->min_rtt_ns < pair->min_rtt_ns)
        pair->min_rtt_ns = path->min_rtt_ns;
}

/* The shortest round trip is the pair's: a connection that was made while queues were full has
 * never seen them empty, and a connection that only receives hardly measures any round trips.
 * Answers go over the first connection all the time. */
static void bound_queues(struct tcp_pair *pair, struct tcp_pair_stream *own, uint64_t now_ns)
{
    struct tcp_path path, first;
    if (!tcp_path_read(own->stream.socket.fd, &path)) return;
    note_round_trip(pair, &path);
    const int first_fd = pair->streams[0].stream.socket.fd;
    if (first_fd >= 0 && tcp_path_read(first_fd, &first)) note_round_trip(pair, &first);
    const struct tcp_window_sample sample = {.now_ns = now_ns,
                                             .received_bytes = path.received_bytes,
                                             .min_rtt_ns = pair->min_rtt_ns,
                                             .segment_bytes = path.segment_bytes,
                                             .looks = pair->shared->looks - own->looks};
    own->looks = pair->shared->looks;
    const size_t limit = tcp_window_update(&own->window, &sample);
    if (limit > 0) tcp_path_limit(own->stream.socket.fd, limit);
}

static void note_arrival(struct tcp_pair *pair, struct tcp_pair_stream *own)
{
    pair->heard_ns = clock_now_ns();
    const bool is_short = !own->stream.in_payload && own->stream.frame.bytes <= SHORT_BYTES;
    pair->short_stream = is_short ? (int)own->stream.number : -1;
    if (own->bounds_queues && tcp_window_is_due(&own->window, pair->heard_ns))
        bound_queues(pair, own, pair->heard_ns);
}

bool tcp_pair_read(struct tcp_pair *pair, unsigned stream)
{
    struct tcp_pair_stream *own = &pair->streams[stream];
    if (own->stream.socket.fd < 0) return false;
    struct reader reader = {pair, own};
    const struct tcp_stream_sink sink = {begin_frame, end_frame, &reader};
    const char *wrong = NULL;
    errno = 0;
    const enum tcp_stream_result result = tcp_stream_read(&own->stream, &sink, &wrong);
    const int error = errno;
    switch (result) {
    case TCP_STREAM_BLOCKED: return false;
    case TCP_STREAM_MOVED: note_arrival(pair, own); break;
    case TCP_STREAM_LOST:
        if (error == EBADMSG) report_change(pair, stream);
        errno = error;
        lose_stream(pair, own);
        break;
    case TCP_STREAM_CHANGED: take_changed(pair, own); break;
    case TCP_STREAM_NONSENSE: break_peer(pair, wrong); break;
    }
    return true;
}
