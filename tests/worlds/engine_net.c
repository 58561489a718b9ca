#include "tests/worlds/engine_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "tests/kit/chance.h"
#include "tests/worlds/engine_memory.h"
#include "transport/paths.h"

enum { DEPTH_MAX = 16, FETCH_BYTES = 5000 * 4 };

enum { REFERENCE = 1 }; /* to memory, by its address */

struct message {
    char *copy; /* of what was committed, in memory that a sanitizer can watch; NULL: posted */
    const char *data;
    size_t bytes;
    unsigned readers_left;
    bool written;          /* its data is where its reader expected it */
    struct parcel *parcel; /* in which its data is; or NULL */
};

/* A shared slot on its way; freed when the last reader is done, so that a sanitizer sees who comes
 * later. */
struct parcel {
    char *data;
    size_t bytes;
    unsigned readers;
    int owner;
};

/* Where the reader of a link to one rank expects a message. */
struct offer {
    uint64_t number; /* of the message + 1 */
    char *destination;
    size_t bytes;
};

/* One link with all its readers; a writer's and a reader's ends point to it. */
struct wire {
    struct link_tx tx;
    struct engine_net *net;
    struct message messages[DEPTH_MAX];
    uint64_t sent, read[ENGINE_RANKS_MAX];
    int writer, reader_count;
    void *reserved;
    size_t reserved_bytes;
    struct offer offer;
};

struct reader {
    struct link_rx rx;
    struct wire *wire;
    int rank;
    size_t done; /* bytes of the message */
    bool seen;
    char *near; /* what was fetched of a message that lies elsewhere */
    size_t near_bytes, near_done;
};

struct endpoint {
    struct transport base;
    struct engine_net *net;
    struct parcel *offered; /* reserved and not sent yet */
    unsigned shared_count;
    uint8_t tables[ENGINE_RANKS_MAX]; /* of paths: 0 to the ranks of its host, 1 to others */
};

struct engine_net {
    struct engine_mood mood;
    struct path_table paths[2];            /* within a host, and between hosts */
    struct path_row rows[PATH_KIND_COUNT]; /* where links reach other memory */
    int size, links_left;                  /* see engine_net_bound_links */
    uint64_t random, written, handed_on, shared, multicast;
    struct huge_pages_known pages; /* for links whose memory lies in small ones */
    struct link_world other;       /* whose transports these are; without ranks: none */
    int hosts[ENGINE_RANKS_MAX][ENGINE_RANKS_MAX]; /* [rank]: the ranks of its host */
    /* last: multicast */
    struct wire *wires[ENGINE_RANKS_MAX][TRANSPORT_CHANNEL_COUNT][ENGINE_RANKS_MAX + 1];
    /* [rank][channel][peer][multicast] */
    struct reader *readers[ENGINE_RANKS_MAX][TRANSPORT_CHANNEL_COUNT][ENGINE_RANKS_MAX][2];
    struct endpoint endpoints[ENGINE_RANKS_MAX];
};

uint64_t engine_net_draw(struct engine_net *net)
{
    return chance_next(&net->random);
}

/* --------------------------------------------------------------------------------------- memory */

const struct memory_kind *engine_net_kind(const struct engine_net *net, int rank)
{
    const bool is_far = net->mood.dummy != NULL && (net->mood.far >> rank & 1) != 0;
    return is_far ? net->mood.dummy->memory : NULL;
}

/* Whether what one rank has in its buffers may be reached from outside of its kernels. */
static bool may_reach(const struct engine_net *net, int rank)
{
    return net->mood.reaches_far || engine_net_kind(net, rank) == NULL;
}

/* -------------------------------------------------------------------------------------- sending */

static bool is_moody(struct engine_net *net)
{
    return engine_net_draw(net) % net->mood.delay != 0;
}

static uint64_t least_read(const struct wire *wire)
{
    uint64_t least = wire->sent;
    for (int r = 0; r < wire->net->size; r++)
        if (wire->read[r] < least) least = wire->read[r];
    return least;
}

static bool is_full(struct wire *wire)
{
    return wire->sent - least_read(wire) >= wire->net->mood.pieces || is_moody(wire->net);
}

/* A message that goes by another path: who still writes to the place is found out. */
static void drop_reserved(struct wire *wire)
{
    engine_memory_give(engine_net_kind(wire->net, wire->writer), wire->reserved,
                       wire->reserved_bytes);
    wire->reserved = NULL;
}

static void *net_reserve(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(bytes <= wire->net->mood.piece_bytes);
    const struct memory_kind *kind = engine_net_kind(wire->net, wire->writer);
    if (wire->reserved != NULL && wire->reserved_bytes == bytes) return wire->reserved;
    if (wire->reserved == NULL && is_full(wire)) return NULL;
    engine_memory_give(kind, wire->reserved, wire->reserved_bytes);
    wire->reserved = engine_memory_take(kind, bytes);
    wire->reserved_bytes = bytes;
    link->memory = kind;
    return wire->reserved;
}

static void send_message(struct wire *wire, char *copy, const void *data, size_t bytes)
{
    wire->messages[wire->sent % DEPTH_MAX] =
        (struct message){copy, data, bytes, (unsigned)wire->reader_count, false, NULL};
    wire->sent++;
    wire->net->multicast += wire->tx.peer == LINK_TO_GROUP;
}

static void net_commit(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_non_null(wire->reserved);
    assert_int_equal(wire->reserved_bytes, bytes);
    char *copy = wire->reserved;
    wire->reserved = NULL;
    send_message(wire, copy, copy, bytes);
}

static enum link_reach net_reach(struct link_tx *link, const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    struct engine_net *net = ((struct wire *)link)->net;
    net->pages = (struct huge_pages_known){.misses = 1}; /* so that nobody asks the kernel */
    return net->mood.reach;
}

static bool net_post(struct link_tx *link, const void *address, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(wire->net->mood.reach != REACH_NONE && may_reach(wire->net, wire->writer));
    drop_reserved(wire);
    if (is_full(wire)) return false;
    send_message(wire, NULL, address, bytes);
    return true;
}

static bool net_consumed(struct link_tx *link)
{
    struct wire *wire = (struct wire *)link;
    return least_read(wire) == wire->sent;
}

/* As long as it does not change, so is what it says. */
static bool net_has_room(struct link_tx *link)
{
    struct wire *wire = (struct wire *)link;
    return wire->sent - least_read(wire) < wire->net->mood.pieces;
}

static void *net_advertised_at(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true((link->capabilities & LINK_ADVERTISES) != 0);
    const struct offer *offer = &wire->offer;
    link->memory = engine_net_kind(wire->net, link->peer);
    return offer->number == wire->sent + 1 && offer->bytes == bytes ? offer->destination : NULL;
}

static void net_written(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    drop_reserved(wire);
    assert_true(net_has_room(link));
    char *const destination = net_advertised_at(link, bytes);
    assert_non_null(destination);
    send_message(wire, NULL, destination, bytes);
    wire->messages[(wire->sent - 1) % DEPTH_MAX].written = true;
    wire->net->written++;
}

/* Not always, so that some is sent by another path. */
static bool net_refer(struct link_tx *link, const void *address, size_t bytes,
                      struct link_reference *reference)
{
    (void)bytes;
    struct engine_net *const net = ((struct wire *)link)->net;
    *reference = (struct link_reference){REFERENCE, (uint64_t)(uintptr_t)address};
    return net->mood.for_messages && net->mood.reach != REACH_NONE && engine_net_draw(net) % 2 == 0;
}

/* --------------------------------------------------------------------------------- shared slots */

static enum tutti_status net_open_shared_slots(struct transport *transport, int slot)
{
    (void)transport;
    assert_int_equal(slot, 0);
    return TUTTI_OK;
}

static void *net_reserve_shared(struct transport *transport, int slot, size_t bytes)
{
    struct endpoint *endpoint = (struct endpoint *)transport;
    assert_int_equal(slot, 0);
    assert_true(bytes <= endpoint->net->mood.piece_bytes);
    if (endpoint->offered == NULL) {
        if (endpoint->shared_count == endpoint->net->mood.shares || is_moody(endpoint->net))
            return NULL;
        endpoint->offered = calloc(1, sizeof *endpoint->offered);
        assert_non_null(endpoint->offered);
        endpoint->offered->owner = transport->rank;
        endpoint->shared_count++;
    }
    struct parcel *parcel = endpoint->offered;
    if (parcel->data == NULL || parcel->bytes != bytes) {
        engine_memory_give(transport->shared_memory, parcel->data, parcel->bytes);
        parcel->data = engine_memory_take(transport->shared_memory, bytes);
        parcel->bytes = bytes;
    }
    return parcel->data;
}

static void send_parcel(struct parcel *parcel, struct link_tx *const *links, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct wire *wire = (struct wire *)links[i];
        assert_true((links[i]->capabilities & LINK_SHARES) != 0);
        assert_true(wire->sent - least_read(wire) < wire->net->mood.pieces);
        drop_reserved(wire);
        send_message(wire, NULL, parcel->data, parcel->bytes);
        wire->messages[(wire->sent - 1) % DEPTH_MAX].parcel = parcel;
        parcel->readers += (unsigned)wire->reader_count;
    }
}

static void net_send_shared(struct transport *transport, int slot, struct link_tx *const *links,
                            unsigned count, size_t bytes)
{
    struct endpoint *endpoint = (struct endpoint *)transport;
    struct parcel *parcel = endpoint->offered;
    assert_int_equal(slot, 0);
    assert_true(count > 0 && parcel != NULL && parcel->bytes == bytes);
    endpoint->offered = NULL;
    endpoint->net->shared++;
    send_parcel(parcel, links, count);
}

static void parcel_was_read(struct engine_net *net, struct parcel *parcel)
{
    if (--parcel->readers > 0) return;
    net->endpoints[parcel->owner].shared_count--;
    engine_memory_give(engine_net_kind(net, parcel->owner), parcel->data, parcel->bytes);
    free(parcel);
}

/* ------------------------------------------------------------------------------------ receiving */

static struct message *message_of(const struct reader *reader)
{
    return &reader->wire->messages[reader->wire->read[reader->rank] % DEPTH_MAX];
}

static const struct memory_kind *memory_of_view(const struct reader *reader,
                                                const struct message *message)
{
    if (reader->near != NULL) return NULL;
    const int owner = message->parcel != NULL ? message->parcel->owner
                      : message->written      ? reader->rank
                                              : reader->wire->writer;
    return engine_net_kind(reader->wire->net, owner);
}

static enum link_state net_peek(struct link_rx *link, struct link_view *view)
{
    struct reader *reader = (struct reader *)link;
    struct wire *wire = reader->wire;
    if (wire->read[reader->rank] == wire->sent) return LINK_EMPTY;
    if (!reader->seen && is_moody(wire->net)) return LINK_EMPTY;
    reader->seen = true;
    const struct message *message = message_of(reader);
    if (reader->near != NULL)
        *view = (struct link_view){.data = reader->near + reader->near_done,
                                   .bytes = reader->near_bytes - reader->near_done};
    else if (message->copy == NULL && !message->written && message->parcel == NULL &&
             wire->net->mood.reach == REACH_COPY)
        *view = (struct link_view){.data = NULL, .bytes = message->bytes - reader->done};
    else
        *view = (struct link_view){.data = message->data + reader->done,
                                   .bytes = message->bytes - reader->done};
    link->memory = memory_of_view(reader, message);
    if (message->parcel != NULL && message->parcel->readers == 1 && reader->done == 0)
        view->place = message->parcel->data;
    return LINK_READY;
}

static void finish_message(struct reader *reader)
{
    struct message *message = message_of(reader);
    reader->done = 0;
    reader->seen = false;
    reader->wire->read[reader->rank]++;
    if (--message->readers_left > 0) return;
    /* who still reads it is found out */
    engine_memory_give(engine_net_kind(reader->wire->net, reader->wire->writer), message->copy,
                       message->bytes);
    *message = (struct message){0};
}

static void net_forward(struct link_rx *link, struct link_tx *const *targets, unsigned count)
{
    struct reader *reader = (struct reader *)link;
    struct parcel *parcel = message_of(reader)->parcel;
    assert_true(reader->seen && reader->done == 0 && count > 0);
    assert_true(parcel != NULL && parcel->readers == 1);
    parcel->readers = 0;
    send_parcel(parcel, targets, count);
    reader->wire->net->handed_on++;
    finish_message(reader);
}

static void net_consume(struct link_rx *link, size_t bytes)
{
    struct reader *reader = (struct reader *)link;
    struct wire *wire = reader->wire;
    struct message *message = message_of(reader);
    assert_true(reader->seen && bytes <= message->bytes - reader->done);
    reader->done += bytes;
    if (reader->near != NULL) {
        reader->near_done += bytes;
        assert_true(reader->near_done <= reader->near_bytes);
        if (reader->near_done == reader->near_bytes) {
            free(reader->near);
            reader->near = NULL;
        }
    }
    if (reader->done < message->bytes) return;
    assert_null(reader->near);
    if (message->parcel != NULL) parcel_was_read(wire->net, message->parcel);
    finish_message(reader);
}

/* Of a message that lies elsewhere. */
static const char *elsewhere(const struct reader *reader, size_t bytes)
{
    const struct message *message = message_of(reader);
    assert_true(reader->seen && reader->near == NULL && message->copy == NULL);
    assert_true(bytes <= message->bytes - reader->done);
    return message->data + reader->done;
}

static bool net_take(struct link_rx *link, void *destination, size_t bytes)
{
    const struct reader *reader = (const struct reader *)link;
    const struct engine_dummy *dummy = reader->wire->net->mood.dummy;
    assert_true(may_reach(reader->wire->net, reader->rank));
    if (is_moody(reader->wire->net)) return false;
    engine_memory_begin(dummy);
    memcpy(destination, elsewhere(reader, bytes), bytes);
    engine_memory_end(dummy);
    return true;
}

static bool net_fetch(struct link_rx *link)
{
    struct reader *reader = (struct reader *)link;
    const size_t left = message_of(reader)->bytes - reader->done,
                 wish = reader->wire->net->mood.fetch_bytes, most = wish > 0 ? wish : FETCH_BYTES,
                 bytes = left < most ? left : most;
    const char *data = elsewhere(reader, bytes);
    if (is_moody(reader->wire->net)) return false;
    reader->near = malloc(bytes);
    assert_non_null(reader->near);
    engine_memory_begin(reader->wire->net->mood.dummy);
    memcpy(reader->near, data, bytes);
    engine_memory_end(reader->wire->net->mood.dummy);
    reader->near_bytes = bytes;
    reader->near_done = 0;
    return true;
}

/* Not all memory can be written by others. */
static void net_advertise(struct link_rx *link, void *destination, size_t bytes)
{
    struct wire *wire = ((struct reader *)link)->wire;
    assert_true((link->capabilities & LINK_ADVERTISES) != 0 && bytes > 0);
    if (engine_net_draw(wire->net) % 8 == 0) return;
    const int reader = wire->tx.peer;
    assert_true(may_reach(wire->net, reader));
    wire->offer = (struct offer){wire->read[reader] + 1, destination, bytes};
}

static enum link_state net_copy(struct link_rx *link, const struct link_reference *reference,
                                size_t offset, void *destination, size_t bytes)
{
    if (reference->kind != REFERENCE) return LINK_FAULT;
    if (is_moody(((struct reader *)link)->wire->net)) return LINK_EMPTY;
    memcpy(destination, (const char *)(uintptr_t)reference->where + offset, bytes);
    return LINK_READY;
}

static const struct link_tx_ops tx_ops = {.reserve = net_reserve,
                                          .commit = net_commit,
                                          .reach = net_reach,
                                          .post = net_post,
                                          .consumed = net_consumed,
                                          .has_room = net_has_room,
                                          .advertised_at = net_advertised_at,
                                          .written = net_written,
                                          .refer = net_refer};
static const struct link_rx_ops rx_ops = {.peek = net_peek,
                                          .take = net_take,
                                          .fetch = net_fetch,
                                          .consume = net_consume,
                                          .forward = net_forward,
                                          .advertise = net_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = net_copy};

static bool are_near(const struct engine_net *net, int a, int b)
{
    return net->mood.host_of == NULL || net->mood.host_of[a] == net->mood.host_of[b];
}

/* Of a link between two ranks, or to a group of which one is a member; peer: the one at the other
 * end, or LINK_TO_GROUP. */
static unsigned capabilities_of(const struct engine_net *net, int rank, int peer)
{
    if (peer != LINK_TO_GROUP && !are_near(net, rank, peer)) return 0;
    return (net->mood.shares > 0 ? LINK_SHARES : 0) |
           (net->mood.for_messages && peer != LINK_TO_GROUP ? LINK_REFERS : 0) |
           (net->mood.expects && peer != LINK_TO_GROUP ? LINK_ADVERTISES : 0);
}

static struct wire *wire_of(struct engine_net *net, int channel, int writer, int reader)
{
    struct wire **place =
        &net->wires[writer][channel][reader == LINK_TO_GROUP ? ENGINE_RANKS_MAX : reader];
    if (*place != NULL) return *place;
    struct wire *wire = *place = calloc(1, sizeof *wire);
    assert_non_null(wire);
    wire->tx = (struct link_tx){
        .ops = &tx_ops, .peer = reader, .capabilities = capabilities_of(net, writer, reader)};
    if (net->mood.in_small_pages) wire->tx.huge_pages = &net->pages;
    wire->net = net;
    wire->writer = writer;
    for (int r = 0; r < net->size; r++) {
        const bool reads =
            r != writer && (reader == LINK_TO_GROUP ? are_near(net, writer, r) : r == reader);
        wire->reader_count += reads;
        if (!reads) wire->read[r] = UINT64_MAX; /* holds up nobody */
    }
    return wire;
}

static void net_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    const struct engine_mood *mood = &((struct endpoint *)transport)->net->mood;
    *piece_bytes_max = mood->piece_bytes;
    *piece_count_max = mood->pieces;
}

static enum tutti_status count_link(struct engine_net *net, const struct transport *transport,
                                    int slot, int peer)
{
    assert_int_equal(slot, net->mood.for_messages ? TRANSPORT_SLOT_MESSAGES : 0);
    assert_true(peer >= 0 && peer < net->size && peer != transport->rank);
    if (net->links_left == 0) return error_set(TUTTI_NO_SPACE, "no more links");
    if (net->links_left > 0) net->links_left--;
    return TUTTI_OK;
}

static enum tutti_status net_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct engine_net *const net = ((struct endpoint *)transport)->net;
    assert_true(bytes <= net->mood.piece_bytes || !net->mood.for_messages);
    TRY(count_link(net, transport, slot, peer));
    *link = &wire_of(net, channel, transport->rank, peer)->tx;
    return TUTTI_OK;
}

static enum tutti_status net_open_multicast_tx(struct transport *transport, int slot, int channel,
                                               int group, size_t bytes, struct link_tx **link)
{
    (void)bytes;
    assert_true(slot == 0 && group == 0 && transport->group_count == 1);
    *link =
        &wire_of(((struct endpoint *)transport)->net, channel, transport->rank, LINK_TO_GROUP)->tx;
    return TUTTI_OK;
}

static struct reader *reader_of(struct transport *transport, int channel, int peer, bool multicast)
{
    struct engine_net *net = ((struct endpoint *)transport)->net;
    const int rank = transport->rank;
    struct reader **place = &net->readers[rank][channel][peer][multicast];
    if (*place != NULL) return *place;
    *place = calloc(1, sizeof **place);
    assert_non_null(*place);
    **place = (struct reader){
        .rx = {.ops = &rx_ops,
               .peer = peer,
               .capabilities = capabilities_of(net, rank, multicast ? LINK_TO_GROUP : peer)},
        .wire = wire_of(net, channel, peer, multicast ? LINK_TO_GROUP : rank),
        .rank = rank};
    return *place;
}

static enum tutti_status net_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    TRY(count_link(((struct endpoint *)transport)->net, transport, slot, peer));
    *link = &reader_of(transport, channel, peer, false)->rx;
    return TUTTI_OK;
}

static enum tutti_status net_open_multicast_rx(struct transport *transport, int slot, int channel,
                                               int group, int peer, struct link_rx **link)
{
    assert_true(slot == 0 && group == 0 && transport->group_count == 1);
    assert_true(are_near(((struct endpoint *)transport)->net, transport->rank, peer));
    *link = &reader_of(transport, channel, peer, true)->rx;
    return TUTTI_OK;
}

static void never_sleeps(struct transport *transport)
{
    fail_msg("rank %d sleeps while it runs", transport->rank);
}

static void never_sleeps_long(struct transport *transport, uint64_t timeout_ns)
{
    (void)timeout_ns;
    never_sleeps(transport);
}

static const struct sharing_ops net_sharing = {.open_multicast_tx = net_open_multicast_tx,
                                               .open_multicast_rx = net_open_multicast_rx,
                                               .open_shared_slots = net_open_shared_slots,
                                               .reserve_shared = net_reserve_shared,
                                               .send_shared = net_send_shared};

static const struct transport_ops net_ops = {.limits = net_limits,
                                             .open_tx = net_open_tx,
                                             .open_rx = net_open_rx,
                                             .sleep_begin = never_sleeps,
                                             .sleep_cancel = never_sleeps,
                                             .sleep = never_sleeps_long,
                                             .wake = never_sleeps,
                                             .wake_all = never_sleeps,
                                             .progress = transport_no_progress,
                                             .flush = transport_no_flush,
                                             .is_awaited = transport_not_awaited,
                                             .is_settled = transport_owes_nothing,
                                             .stop = transport_stops_nothing,
                                             .descriptor = transport_no_descriptor,
                                             .corrupt_rank = transport_no_corrupt_rank,
                                             .shortage = transport_no_shortage,
                                             .add_footprint = transport_no_footprint};

static void open_endpoint(struct engine_net *net, int rank)
{
    struct endpoint *const endpoint = &net->endpoints[rank];
    int count = 0;
    for (int r = 0; r < net->size; r++)
        if (are_near(net, rank, r)) net->hosts[rank][count++] = r;
    *endpoint = (struct endpoint){
        .base = {.ops = &net_ops, .sharing = &net_sharing, .rank = rank, .size = net->size},
        .net = net};
    for (int t = 0; t < 2; t++) endpoint->base.paths.tables[t] = &net->paths[t];
    for (int r = 0; r < net->size; r++) endpoint->tables[r] = !are_near(net, rank, r);
    endpoint->base.paths.by_rank = endpoint->tables;
    if (count > 1)
        endpoint->base.groups[endpoint->base.group_count++] =
            (struct transport_group){net->hosts[rank], count};
    transport_own_slots(&endpoint->base);
    endpoint->base.shared_memory = engine_net_kind(net, rank);
}

/* Whether every path takes memory of every kind, or each only the host's. */
static void set_reach(struct engine_net *net, bool reaches_far)
{
    assert_true(net->paths[0].row_count <= PATH_KIND_COUNT);
    for (unsigned i = 0; i < net->paths[0].row_count; i++) {
        struct path_row *const row = &net->rows[i];
        *row = net->paths[0].rows[i];
        row->sender_memory &= PATH_HOST_MEMORY;
        row->receiver_memory &= PATH_HOST_MEMORY;
        if (!reaches_far) continue;
        row->sender_memory |= PATH_OTHER_MEMORY;
        row->receiver_memory |= PATH_OTHER_MEMORY;
    }
    for (int t = 0; t < 2; t++) net->paths[t].rows = net->rows;
}

struct engine_net *engine_net_create(int size, struct engine_mood mood, uint64_t seed)
{
    struct engine_net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    assert_true(mood.pieces <= DEPTH_MAX);
    net->mood = mood;
    net->size = size;
    net->links_left = -1;
    net->random = seed;
    for (int t = 0; t < 2; t++) {
        net->paths[t] = mood.paths != NULL ? *mood.paths : *transport_paths("local");
        if (mood.shares == 0 || t == 1)
            net->paths[t].lacks |= path_bit(PATH_SHARED_SLOT) | path_bit(PATH_FORWARD);
        if (!mood.expects || t == 1) net->paths[t].lacks |= path_bit(PATH_WRITE);
    }
    set_reach(net, mood.reaches_far);
    for (int r = 0; r < size; r++) open_endpoint(net, r);
    return net;
}

struct engine_net *engine_net_over(const struct link_world *world, uint64_t seed)
{
    struct engine_net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->size = world->size;
    net->random = seed;
    net->other = *world;
    return net;
}

struct transport *engine_net_transport(struct engine_net *net, int rank)
{
    if (net->other.ranks != NULL) return net->other.ranks[rank];
    return &net->endpoints[rank].base;
}

/* What nobody has read: of operations that were given up. */
static void free_message(struct engine_net *net, int writer, struct message *message)
{
    for (unsigned r = 0; message->parcel != NULL && r < message->readers_left; r++)
        parcel_was_read(net, message->parcel);
    engine_memory_give(engine_net_kind(net, writer), message->copy, message->bytes);
}

void engine_net_free(struct engine_net *net)
{
    for (int r = 0; r < net->size; r++) {
        struct parcel *parcel = net->endpoints[r].offered;
        if (parcel == NULL) continue;
        engine_memory_give(engine_net_kind(net, r), parcel->data, parcel->bytes);
        free(parcel);
    }
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof(struct wire *); i++) {
        for (int m = 0; wires[i] != NULL && m < DEPTH_MAX; m++)
            free_message(net, wires[i]->writer, &wires[i]->messages[m]);
        if (wires[i] != NULL)
            engine_memory_give(engine_net_kind(net, wires[i]->writer), wires[i]->reserved,
                               wires[i]->reserved_bytes);
        free(wires[i]);
    }
    struct reader **readers = &net->readers[0][0][0][0];
    for (size_t i = 0; i < sizeof net->readers / sizeof(struct reader *); i++) {
        if (readers[i] != NULL) free(readers[i]->near);
        free(readers[i]);
    }
    free(net);
}

void engine_net_put(struct engine_net *net, int rank, const void *data, size_t bytes)
{
    struct wire *only = NULL;
    for (int c = 0; c < TRANSPORT_CHANNEL_COUNT; c++) {
        for (int to = 0; to <= ENGINE_RANKS_MAX; to++) {
            if (net->wires[rank][c][to] == NULL) continue;
            assert_null(only);
            only = net->wires[rank][c][to];
        }
    }
    assert_non_null(only);
    char *copy = engine_memory_take(NULL, bytes);
    memcpy(copy, data, bytes);
    send_message(only, copy, copy, bytes);
}

void engine_net_bound_links(struct engine_net *net, int links)
{
    net->links_left = links;
}

uint64_t engine_net_sent(const struct engine_net *net, int writer, int reader, int channel)
{
    const struct wire *const wire = net->wires[writer][channel][reader];
    return wire != NULL ? wire->sent : 0;
}

size_t engine_net_last_bytes(const struct engine_net *net, int writer, int reader, int channel)
{
    const struct wire *const wire = net->wires[writer][channel][reader];
    assert_true(wire != NULL && wire->sent > 0);
    return wire->messages[(wire->sent - 1) % DEPTH_MAX].bytes;
}

uint64_t engine_net_handed_on(const struct engine_net *net)
{
    return net->handed_on;
}

uint64_t engine_net_shared(const struct engine_net *net)
{
    return net->shared;
}

uint64_t engine_net_multicast(const struct engine_net *net)
{
    return net->multicast;
}

uint64_t engine_net_written(const struct engine_net *net)
{
    return net->written;
}

void engine_net_expect_empty(struct engine_net *net)
{
    for (int r = 0; r < net->size; r++)
        assert_int_equal(net->endpoints[r].shared_count, net->endpoints[r].offered != NULL);
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof(struct wire *); i++)
        if (wires[i] != NULL && least_read(wires[i]) != wires[i]->sent)
            fail_msg("rank %d sent to %d what nobody read", wires[i]->writer, wires[i]->tx.peer);
}

void engine_net_step(struct engine_net *net)
{
    if (net->other.step != NULL) net->other.step(net->other.world);
}
