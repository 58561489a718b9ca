#include "tests/worlds/toy_links.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "os/clock.h"
#include "transport/path_rules.h"

enum { PIECE_BYTES = 8192, WINDOW = 4, ADDRESS_BYTES = 6, DATAGRAMS_A_PASS = 64 };

enum kind { DATA = 1, CONSUMED };

struct head {
    uint32_t kind;
    int32_t from;
    uint32_t index;               /* of the link: slot * TRANSPORT_CHANNEL_COUNT + channel */
    uint32_t bytes;               /* behind it */
    uint64_t signature, consumed; /* of the operation; messages of the link */
};

/* A message on its way, or one that has come. */
struct message {
    struct message *next;
    struct head head;
    _Alignas(64) char data[];
};

struct queue {
    struct message *first, *last;
};

struct toy_tx {
    struct link_tx base;
    struct toy *toy;
    unsigned index;
    uint64_t sent, consumed;
    struct message *reserved;
};

struct toy_rx {
    struct link_rx base;
    struct toy *toy;
    unsigned index;
    struct queue come;
    size_t seen; /* bytes of the first that were consumed */
    uint64_t consumed;
};

struct toy_peer {
    struct toy_tx *tx[TRANSPORT_LINK_COUNT];
    struct toy_rx *rx[TRANSPORT_LINK_COUNT];
    struct queue out;
    uint64_t sent, taken;
    char address[ADDRESS_BYTES]; /* without the two bytes of the family */
    bool is_wanted, is_greeted, has_greeted, is_broken;
    uint64_t heard_ns;
};

struct toy {
    struct transport base;
    struct data_order *order;
    int socket;
    bool is_stopped;
    struct toy_peer *peers;
};

struct greeting {
    uint32_t kind;
    char address[ADDRESS_BYTES];
};

static struct toy *toy_of(const struct transport *transport)
{
    return (struct toy *)(uintptr_t)transport;
}

static void put(struct queue *queue, struct message *message)
{
    message->next = NULL;
    if (queue->first == NULL)
        queue->first = message;
    else
        queue->last->next = message;
    queue->last = message;
}

static void drop(struct queue *queue)
{
    struct message *const first = queue->first;
    queue->first = first->next;
    free(first);
}

static void send_all(struct toy *toy, struct toy_peer *peer)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, peer->address, ADDRESS_BYTES);
    while (peer->has_greeted && peer->out.first != NULL) {
        const struct message *const message = peer->out.first;
        struct iovec parts[] = {{(void *)(uintptr_t)&message->head, sizeof message->head},
                                {(void *)(uintptr_t)message->data, message->head.bytes}};
        const struct msghdr all = {.msg_name = &to,
                                   .msg_namelen = sizeof(sa_family_t) + ADDRESS_BYTES,
                                   .msg_iov = parts,
                                   .msg_iovlen = 2};
        if (sendmsg(toy->socket, &all, MSG_DONTWAIT) < 0)
            return; /* it is full, or its rank is gone */
        drop(&peer->out);
    }
}

static void give(struct toy *toy, int rank, struct message *message)
{
    struct toy_peer *const peer = &toy->peers[rank];
    message->head.from = toy->base.rank;
    peer->sent++;
    put(&peer->out, message);
    send_all(toy, peer);
}

/* ---------------------------------------------------------------------------------------- links */

static void *toy_reserve(struct link_tx *link, size_t bytes)
{
    struct toy_tx *const tx = (struct toy_tx *)link;
    if (tx->toy->is_stopped || tx->sent - tx->consumed == WINDOW) return NULL;
    if (tx->reserved == NULL)
        tx->reserved = aligned_alloc(64, sizeof(struct message) + PIECE_BYTES);
    if (tx->reserved == NULL) return NULL;
    tx->reserved->head = (struct head){.kind = DATA, .index = tx->index, .bytes = (uint32_t)bytes};
    return tx->reserved->data;
}

static void toy_commit(struct link_tx *link, size_t bytes)
{
    struct toy_tx *const tx = (struct toy_tx *)link;
    struct message *const message = aligned_alloc(64, sizeof *message + (bytes + 63) / 64 * 64);
    assert(message != NULL && tx->reserved != NULL && bytes == tx->reserved->head.bytes);
    memcpy(message, tx->reserved, sizeof *message + bytes);
    memset(tx->reserved->data, 0xa5, bytes); /* from now on a receiver may change the place */
    message->head.signature = tx->toy->base.signatures[tx->index / TRANSPORT_CHANNEL_COUNT];
    tx->sent++;
    give(tx->toy, tx->base.peer, message);
}

static bool toy_consumed(struct link_tx *link)
{
    const struct toy_tx *const tx = (const struct toy_tx *)link;
    return tx->toy->is_stopped || tx->consumed == tx->sent;
}

static bool toy_has_room(struct link_tx *link)
{
    const struct toy_tx *const tx = (const struct toy_tx *)link;
    return !tx->toy->is_stopped && tx->sent - tx->consumed < WINDOW;
}

static const struct link_tx_ops tx_ops = {.reserve = toy_reserve,
                                          .commit = toy_commit,
                                          .reach = link_no_reach,
                                          .post = link_no_post,
                                          .consumed = toy_consumed,
                                          .has_room = toy_has_room,
                                          .advertised_at = link_no_advertised_at,
                                          .written = link_no_written,
                                          .refer = link_no_refer};

static enum link_state toy_peek(struct link_rx *link, struct link_view *view)
{
    struct toy_rx *const rx = (struct toy_rx *)link;
    const struct message *const message = rx->come.first;
    if (rx->toy->peers[rx->base.peer].is_broken) return LINK_FAULT;
    if (message == NULL) return LINK_EMPTY;
    if (message->head.signature != rx->toy->base.signatures[rx->index / TRANSPORT_CHANNEL_COUNT])
        return LINK_FAULT;
    *view = (struct link_view){.data = message->data + rx->seen,
                               .bytes = message->head.bytes - rx->seen};
    return LINK_READY;
}

/* Whoever lacks the memory to say that a message was consumed says so with the next one. */
static void toy_consume(struct link_rx *link, size_t bytes)
{
    struct toy_rx *const rx = (struct toy_rx *)link;
    rx->seen += bytes;
    if (rx->seen < rx->come.first->head.bytes) return;
    drop(&rx->come);
    rx->seen = 0;
    rx->consumed++;
    struct message *const message = calloc(1, sizeof *message);
    if (message == NULL) return;
    message->head = (struct head){.kind = CONSUMED, .index = rx->index, .consumed = rx->consumed};
    give(rx->toy, rx->base.peer, message);
}

static const struct link_rx_ops rx_ops = {.peek = toy_peek,
                                          .take = link_no_take,
                                          .fetch = link_no_fetch,
                                          .consume = toy_consume,
                                          .forward = link_no_forward,
                                          .advertise = link_no_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = link_no_copy};

/* ------------------------------------------------------------------------------------ transport */

static void toy_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    (void)transport;
    *piece_bytes_max = PIECE_BYTES;
    *piece_count_max = WINDOW;
}

static struct toy_rx *find_rx(struct toy *toy, int peer, unsigned index)
{
    struct toy_rx **const rx = &toy->peers[peer].rx[index];
    if (*rx == NULL) *rx = calloc(1, sizeof **rx);
    if (*rx == NULL) return NULL;
    (*rx)->base.ops = &rx_ops;
    (*rx)->base.peer = peer;
    (*rx)->toy = toy;
    (*rx)->index = index;
    return *rx;
}

static enum tutti_status toy_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct toy *const toy = toy_of(transport);
    struct toy_rx *const rx =
        find_rx(toy, peer, (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel));
    if (rx == NULL) return error_set(TUTTI_NO_MEMORY, "a toy: out of memory");
    toy->peers[peer].is_wanted = true;
    *link = &rx->base;
    return TUTTI_OK;
}

static enum tutti_status toy_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct toy *const toy = toy_of(transport);
    const unsigned index = (unsigned)(slot * TRANSPORT_CHANNEL_COUNT + channel);
    struct toy_tx **const tx = &toy->peers[peer].tx[index];
    (void)bytes;
    if (*tx == NULL) *tx = calloc(1, sizeof **tx);
    if (*tx == NULL) return error_set(TUTTI_NO_MEMORY, "a toy: out of memory");
    (*tx)->base.ops = &tx_ops;
    (*tx)->base.peer = peer;
    (*tx)->toy = toy;
    (*tx)->index = index;
    toy->peers[peer].is_wanted = true;
    *link = &(*tx)->base;
    return TUTTI_OK;
}

/* What comes is foreign. False: it makes no sense. */
static bool take(struct toy *toy, struct message *message, size_t bytes)
{
    const struct head *const head = &message->head;
    struct toy_peer *const peer = &toy->peers[head->from];
    if (head->index >= TRANSPORT_LINK_COUNT || bytes != sizeof *head + head->bytes) return false;
    peer->heard_ns = clock_now_ns();
    peer->taken++;
    if (head->kind == CONSUMED) {
        struct toy_tx *const tx = peer->tx[head->index];
        if (tx == NULL || head->consumed < tx->consumed || head->consumed > tx->sent) return false;
        tx->consumed = head->consumed;
        free(message);
        return true;
    }
    struct toy_rx *const rx = head->kind == DATA ? find_rx(toy, head->from, head->index) : NULL;
    if (rx != NULL) put(&rx->come, message);
    return rx != NULL;
}

static bool receive(struct toy *toy)
{
    struct message *const message = aligned_alloc(64, sizeof *message + PIECE_BYTES);
    if (message == NULL) return false;
    struct iovec parts[] = {{&message->head, sizeof message->head}, {message->data, PIECE_BYTES}};
    struct msghdr all = {.msg_iov = parts, .msg_iovlen = 2};
    const ssize_t bytes = recvmsg(toy->socket, &all, MSG_DONTWAIT);
    const int from = message->head.from;
    const bool is_known = bytes >= (ssize_t)sizeof message->head && from >= 0 &&
                          from < toy->base.size && from != toy->base.rank;
    if (is_known && !toy->is_stopped && take(toy, message, (size_t)bytes)) return true;
    if (is_known && !toy->is_stopped) toy->peers[from].is_broken = true;
    free(message);
    return bytes >= 0;
}

static void greet(struct toy *toy, int rank)
{
    struct sockaddr_un own = {0};
    socklen_t bytes = sizeof own;
    struct greeting greeting = {.kind = CONTROL_KIND_GREETING};
    if (getsockname(toy->socket, (struct sockaddr *)&own, &bytes) != 0) return;
    memcpy(greeting.address, own.sun_path, ADDRESS_BYTES);
    toy->peers[rank].is_greeted = data_order_greet(toy->order, rank, &greeting, sizeof greeting);
}

static bool toy_progress(struct transport *transport)
{
    struct toy *const toy = toy_of(transport);
    int count = 0;
    while (count < DATAGRAMS_A_PASS && receive(toy)) count++;
    for (int r = 0; r < transport->size && !toy->is_stopped; r++) {
        struct toy_peer *const peer = &toy->peers[r];
        if ((peer->is_wanted || peer->has_greeted) && !peer->is_greeted) greet(toy, r);
        send_all(toy, peer);
    }
    return count > 0;
}

static void toy_flush(struct transport *transport)
{
    (void)toy_progress(transport);
}

static bool toy_is_awaited(const struct transport *transport)
{
    const struct toy *const toy = toy_of(transport);
    for (int r = 0; r < transport->size; r++)
        if (toy->peers[r].out.first != NULL) return true;
    return false;
}

static bool toy_is_settled(const struct transport *transport, int rank)
{
    const struct toy *const toy = toy_of(transport);
    const struct toy_peer *const peer = &toy->peers[rank];
    bool is_settled = peer->out.first == NULL;
    for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++)
        is_settled &= peer->tx[i] == NULL || peer->tx[i]->consumed == peer->tx[i]->sent;
    return toy->is_stopped || peer->is_broken || is_settled;
}

static bool toy_stop(struct transport *transport)
{
    struct toy *const toy = toy_of(transport);
    toy->is_stopped = true;
    for (int r = 0; r < transport->size; r++) {
        while (toy->peers[r].out.first != NULL) drop(&toy->peers[r].out);
        for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
            struct toy_rx *const rx = toy->peers[r].rx[i];
            while (rx != NULL && rx->come.first != NULL) drop(&rx->come);
        }
    }
    return true;
}

static const struct transport_ops ops = {.limits = toy_limits,
                                         .open_tx = toy_open_tx,
                                         .open_rx = toy_open_rx,
                                         .progress = toy_progress,
                                         .flush = toy_flush,
                                         .is_awaited = toy_is_awaited,
                                         .is_settled = toy_is_settled,
                                         .stop = toy_stop,
                                         .sleep_begin = transport_no_sleeper,
                                         .sleep_cancel = transport_no_sleeper,
                                         .sleep = transport_no_sleep,
                                         .descriptor = transport_no_descriptor,
                                         .wake = transport_no_sleeper,
                                         .wake_all = transport_no_sleeper,
                                         .corrupt_rank = transport_no_corrupt_rank,
                                         .shortage = transport_no_shortage,
                                         .add_footprint = transport_no_footprint};

/* ------------------------------------------------------------------------------- beside control */

static uint64_t toy_sent(const struct transport *transport, int peer)
{
    return toy_of(transport)->peers[peer].sent;
}

static uint64_t toy_taken(const struct transport *transport, int peer)
{
    return toy_of(transport)->peers[peer].taken;
}

/* Of each link at most WINDOW messages of data, and as many answers. */
static bool toy_told(struct transport *transport, int rank, uint64_t sent)
{
    struct toy_peer *const peer = &toy_of(transport)->peers[rank];
    const bool is_possible = sent <= peer->taken + UINT64_C(2) * TRANSPORT_LINK_COUNT * WINDOW;
    peer->is_broken |= !is_possible;
    return is_possible;
}

static bool toy_greeted(struct transport *transport, int rank, const void *message, size_t bytes)
{
    struct toy_peer *const peer = &toy_of(transport)->peers[rank];
    struct greeting greeting;
    if (bytes != sizeof greeting) return false;
    memcpy(&greeting, message, sizeof greeting);
    memcpy(peer->address, greeting.address, ADDRESS_BYTES);
    peer->has_greeted = true;
    return true;
}

static void toy_report(const struct transport *transport, int rank, struct link_report *report)
{
    const struct toy_peer *const peer = &toy_of(transport)->peers[rank];
    *report = (struct link_report){.is_up = peer->is_greeted && peer->has_greeted,
                                   .is_broken = peer->is_broken,
                                   .heard_ns = peer->heard_ns};
}

static void toy_forget(struct transport *transport, int rank)
{
    struct toy_peer *const peer = &toy_of(transport)->peers[rank];
    while (peer->out.first != NULL) drop(&peer->out);
    peer->has_greeted = false;
}

static const struct data_order_ops ordered = {.sent = toy_sent,
                                              .taken = toy_taken,
                                              .told = toy_told,
                                              .greeted = toy_greeted,
                                              .examine = ordered_not_examined,
                                              .report = toy_report,
                                              .check = ordered_is_sound,
                                              .forget = toy_forget};

/* ----------------------------------------------------------------------------------- life cycle */

#define EVERY_ROW                                                                           \
    .sender_memory = PATH_HOST_MEMORY, .receiver_memory = PATH_HOST_MEMORY, .alignment = 1, \
    .is_ordered = true, .completion = PATH_AT_ONCE, .in_flight = WINDOW,                    \
    .cost = {6000000, 6000000, 200, 200}, .measured = "assumed: a system call at each end"

static const struct path_row rows[] = {{EVERY_ROW, .path = PATH_SLOT, .work = {1, 1, 1, 0, 0, 1}},
                                       {EVERY_ROW, .path = PATH_STAGE, .work = {2, 2, 1, 0, 0, 1}}};
static const struct path_rule rules[] = {
    RULE(PATH_SLOT, 0, ANY_SIZE, PATH_ANY_TRAFFIC, PATH_ANY_SENDER, "the only way"), RULE_TO_STAGE};
static const struct path_table paths = {.name = "toy",
                                        .rows = rows,
                                        .row_count = COUNT_OF(rows),
                                        .rules = rules,
                                        .rule_count = COUNT_OF(rules),
                                        .sizes = PATH_SIZES,
                                        .budgets = {.for_slot = 1, .for_shared_slot = 1}};

static void toy_close(struct transport *transport)
{
    struct toy *const toy = toy_of(transport);
    if (toy == NULL) return;
    (void)toy_stop(transport);
    for (int r = 0; r < transport->size; r++)
        for (unsigned i = 0; i < TRANSPORT_LINK_COUNT; i++) {
            if (toy->peers[r].tx[i] != NULL) free(toy->peers[r].tx[i]->reserved);
            free(toy->peers[r].tx[i]);
            free(toy->peers[r].rx[i]);
        }
    close(toy->socket);
    free(toy->peers);
    free(toy);
}

static enum tutti_status toy_open(const struct remote_options *options, struct data_order *order,
                                  struct transport **transport)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX}; /* the kernel draws an address */
    struct toy *const toy = calloc(1, sizeof *toy);
    struct toy_peer *const peers = calloc((size_t)options->size, sizeof *peers);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *transport = NULL;
    if (toy == NULL || peers == NULL || fd < 0 ||
        bind(fd, (const struct sockaddr *)&any, sizeof(sa_family_t)) != 0) {
        if (fd >= 0) close(fd);
        free(toy);
        free(peers);
        return error_set(TUTTI_NO_MEMORY, "a toy: there is no socket or memory");
    }
    *toy = (struct toy){.base = {.ops = &ops,
                                 .sharing = &transport_shares_nothing,
                                 .ordered = &ordered,
                                 .rank = options->rank,
                                 .size = options->size,
                                 .paths.tables = {&paths}},
                        .order = order,
                        .socket = fd,
                        .peers = peers};
    transport_own_slots(&toy->base);
    *transport = &toy->base;
    return TUTTI_OK;
}

const struct remote_kind toy_remote_kind = {.open = toy_open, .close = toy_close};
