#include "engine_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "call.h"
#include "engine/program_links.h"
#include "transport/paths.h"

enum {
    DEPTH_MAX = 8,
    PATIENCE = 8,
    LOOKS_MAX = 4000000,
    CUTS_MAX = 200,           /* segments of a buffer */
    NEAR_BYTES_MAX = 5000 * 4 /* that one fetch brings */
};

static const int32_t UNTOUCHED = -1, SCRIBBLED = -2;

/* ------------------------------------------------------------------------------------------- links */

struct message {
    char *copy; /* of what was committed, in memory that a sanitizer can watch; NULL: posted */
    const char *data;
    size_t bytes;
    unsigned readers_left;
    bool written;          /* its data is where its reader expected it */
    struct parcel *parcel; /* in which its data is; or NULL */
};

/* A shared slot on its way; freed when the last reader is done, so that a sanitizer sees who comes later. */
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
    struct path_table paths[2];           /* within a host, and between hosts */
    struct path_row rows[PATH_WAY_COUNT]; /* where links reach other memory */
    int size;
    uint64_t random, written, handed_on, shared, multicast;
    struct transport *const *transports; /* of somebody else, or NULL */
    void (*step)(void *context);
    void *context;
    int hosts[ENGINE_RANKS_MAX][ENGINE_RANKS_MAX]; /* [rank]: the ranks of its host */
    /* last: multicast */
    struct wire *wires[ENGINE_RANKS_MAX][TRANSPORT_CHANNEL_COUNT][ENGINE_RANKS_MAX + 1];
    /* [rank][channel][peer][multicast] */
    struct reader *readers[ENGINE_RANKS_MAX][TRANSPORT_CHANNEL_COUNT][ENGINE_RANKS_MAX][2];
    struct endpoint endpoints[ENGINE_RANKS_MAX];
};

static uint64_t next_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 33;
}

uint64_t engine_net_draw(struct engine_net *net)
{
    return next_random(&net->random);
}

/* ------------------------------------------------------------------------------------------ memory */

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

static void *take_memory(const struct memory_kind *kind, size_t bytes)
{
    void *memory =
        kind != NULL ? kind->allocate(kind, bytes + 1) : aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(memory);
    return memory;
}

static void give_memory(const struct memory_kind *kind, void *memory, size_t bytes)
{
    if (kind == NULL)
        free(memory);
    else if (memory != NULL)
        kind->release(kind, memory, bytes + 1);
}

static void begin_touching(const struct engine_dummy *dummy)
{
    if (dummy != NULL && dummy->begin_touching != NULL) dummy->begin_touching();
}

static void end_touching(const struct engine_dummy *dummy)
{
    if (dummy != NULL && dummy->end_touching != NULL) dummy->end_touching();
}

/* ------------------------------------------------------------------------------------------ sending */

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

/* A message that goes another way: who still writes to the place is found out. */
static void drop_reserved(struct wire *wire)
{
    give_memory(engine_net_kind(wire->net, wire->writer), wire->reserved, wire->reserved_bytes);
    wire->reserved = NULL;
}

static void *net_reserve(struct link_tx *link, size_t bytes)
{
    struct wire *wire = (struct wire *)link;
    assert_true(bytes <= wire->net->mood.piece_bytes);
    const struct memory_kind *kind = engine_net_kind(wire->net, wire->writer);
    if (wire->reserved != NULL && wire->reserved_bytes == bytes) return wire->reserved;
    if (wire->reserved == NULL && is_full(wire)) return NULL;
    give_memory(kind, wire->reserved, wire->reserved_bytes);
    wire->reserved = take_memory(kind, bytes);
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
    return ((struct wire *)link)->net->mood.reach;
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

/* ------------------------------------------------------------------------------------- shared slots */

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
        give_memory(transport->shared_memory, parcel->data, parcel->bytes);
        parcel->data = take_memory(transport->shared_memory, bytes);
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
    give_memory(engine_net_kind(net, parcel->owner), parcel->data, parcel->bytes);
    free(parcel);
}

/* ---------------------------------------------------------------------------------------- receiving */

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
    give_memory(engine_net_kind(reader->wire->net, reader->wire->writer), message->copy,
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
    begin_touching(dummy);
    memcpy(destination, elsewhere(reader, bytes), bytes);
    end_touching(dummy);
    return true;
}

static bool net_fetch(struct link_rx *link)
{
    struct reader *reader = (struct reader *)link;
    size_t bytes = message_of(reader)->bytes - reader->done;
    if (bytes > NEAR_BYTES_MAX) bytes = NEAR_BYTES_MAX;
    const char *data = elsewhere(reader, bytes);
    reader->near = malloc(bytes);
    assert_non_null(reader->near);
    begin_touching(reader->wire->net->mood.dummy);
    memcpy(reader->near, data, bytes);
    end_touching(reader->wire->net->mood.dummy);
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

static const struct link_tx_ops tx_ops = {.reserve = net_reserve,
                                          .commit = net_commit,
                                          .reach = net_reach,
                                          .post = net_post,
                                          .consumed = net_consumed,
                                          .has_room = net_has_room,
                                          .advertised_at = net_advertised_at,
                                          .written = net_written,
                                          .refer = link_no_refer};
static const struct link_rx_ops rx_ops = {.peek = net_peek,
                                          .take = net_take,
                                          .fetch = net_fetch,
                                          .consume = net_consume,
                                          .forward = net_forward,
                                          .advertise = net_advertise,
                                          .place_directly = link_no_place_directly,
                                          .copy = link_no_copy};

static bool are_near(const struct engine_net *net, int a, int b)
{
    return net->mood.host_of == NULL || net->mood.host_of[a] == net->mood.host_of[b];
}

/* Of a link between two ranks, or to a group of which one is a member; peer: the one at the other end, or LINK_TO_GROUP. */
static unsigned capabilities_of(const struct engine_net *net, int rank, int peer)
{
    const unsigned of_all =
        net->mood.dummy != NULL && net->mood.dummy->memory != NULL ? LINK_OTHER_MEMORY : 0;
    if (peer != LINK_TO_GROUP && !are_near(net, rank, peer)) return of_all;
    return (net->mood.shares > 0 ? LINK_SHARES : 0) |
           (net->mood.expects && peer != LINK_TO_GROUP ? LINK_ADVERTISES : 0) |
           (net->mood.dummy != NULL && net->mood.dummy->memory != NULL ? LINK_OTHER_MEMORY : 0);
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

static enum tutti_status net_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    (void)bytes;
    assert_int_equal(slot, 0);
    assert_true(peer >= 0 && peer != transport->rank);
    *link = &wire_of(((struct endpoint *)transport)->net, channel, transport->rank, peer)->tx;
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
    assert_int_equal(slot, 0);
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

static const struct transport_ops net_ops = {.limits = net_limits,
                                             .open_tx = net_open_tx,
                                             .open_rx = net_open_rx,
                                             .open_multicast_tx = net_open_multicast_tx,
                                             .open_multicast_rx = net_open_multicast_rx,
                                             .open_shared_slots = net_open_shared_slots,
                                             .reserve_shared = net_reserve_shared,
                                             .send_shared = net_send_shared,
                                             .sleep_begin = never_sleeps,
                                             .sleep_cancel = never_sleeps,
                                             .sleep = never_sleeps_long,
                                             .wake = never_sleeps,
                                             .wake_all = never_sleeps,
                                             .progress = transport_no_progress,
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
    *endpoint =
        (struct endpoint){.base = {.ops = &net_ops, .rank = rank, .size = net->size}, .net = net};
    for (int t = 0; t < 2; t++) endpoint->base.paths.tables[t] = &net->paths[t];
    for (int r = 0; r < net->size; r++) endpoint->tables[r] = !are_near(net, rank, r);
    endpoint->base.paths.by_rank = endpoint->tables;
    if (count > 1)
        endpoint->base.groups[endpoint->base.group_count++] =
            (struct transport_group){net->hosts[rank], count};
    endpoint->base.signatures = endpoint->base.own_signatures;
    endpoint->base.shared_memory = engine_net_kind(net, rank);
}

/* Every way takes memory of every kind. */
static void reach_far(struct engine_net *net)
{
    assert_true(net->paths[0].row_count <= PATH_WAY_COUNT);
    for (unsigned i = 0; i < net->paths[0].row_count; i++) {
        net->rows[i] = net->paths[0].rows[i];
        net->rows[i].sender_memory |= PATH_OTHER_MEMORY;
        net->rows[i].receiver_memory |= PATH_OTHER_MEMORY;
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
    net->random = seed;
    for (int t = 0; t < 2; t++) {
        net->paths[t] = mood.paths != NULL ? *mood.paths : *transport_paths("local");
        if (mood.shares == 0 || t == 1)
            net->paths[t].lacks |= path_bit(PATH_SHARED_SLOT) | path_bit(PATH_FORWARD);
        if (!mood.expects || t == 1) net->paths[t].lacks |= path_bit(PATH_WRITE);
    }
    if (mood.reaches_far) reach_far(net);
    for (int r = 0; r < size; r++) open_endpoint(net, r);
    return net;
}

struct engine_net *engine_net_over(int size, struct transport *const *transports,
                                   void (*step)(void *context), void *context, uint64_t seed)
{
    struct engine_net *net = calloc(1, sizeof *net);
    assert_non_null(net);
    net->size = size;
    net->random = seed;
    net->transports = transports;
    net->step = step;
    net->context = context;
    return net;
}

struct transport *engine_net_transport(struct engine_net *net, int rank)
{
    if (net->transports != NULL) return net->transports[rank];
    return &net->endpoints[rank].base;
}

/* What nobody has read: of operations that were given up. */
static void free_message(struct engine_net *net, int writer, struct message *message)
{
    for (unsigned r = 0; message->parcel != NULL && r < message->readers_left; r++)
        parcel_was_read(net, message->parcel);
    give_memory(engine_net_kind(net, writer), message->copy, message->bytes);
}

void engine_net_free(struct engine_net *net)
{
    for (int r = 0; r < net->size; r++) {
        struct parcel *parcel = net->endpoints[r].offered;
        if (parcel == NULL) continue;
        give_memory(engine_net_kind(net, r), parcel->data, parcel->bytes);
        free(parcel);
    }
    struct wire **wires = &net->wires[0][0][0];
    for (size_t i = 0; i < sizeof net->wires / sizeof(struct wire *); i++) {
        for (int m = 0; wires[i] != NULL && m < DEPTH_MAX; m++)
            free_message(net, wires[i]->writer, &wires[i]->messages[m]);
        if (wires[i] != NULL)
            give_memory(engine_net_kind(net, wires[i]->writer), wires[i]->reserved,
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
    char *copy = take_memory(NULL, bytes);
    memcpy(copy, data, bytes);
    send_message(only, copy, copy, bytes);
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

/* ------------------------------------------------------------------------------------ counts, values */

void engine_job_vary(struct engine_job *job, size_t count_max, uint64_t seed)
{
    uint64_t random = seed;
    next_random(&random);
    job->varies = true;
    for (int s = 0; s < job->size; s++) {
        for (int d = 0; d < job->size; d++) {
            const uint64_t kind = next_random(&random) % 5;
            const size_t many = next_random(&random) % (count_max + 1);
            job->counts[s][d] = kind < 2 ? kind : kind == 2 ? many % 9 : many;
        }
    }
    /* In place, what goes to a rank leaves the room for what comes from it. */
    for (int s = 0; s < job->size && job->in_place != 0; s++)
        for (int d = 0; d < s; d++) job->counts[s][d] = job->counts[d][s];
}

static size_t input_count(const struct engine_job *job, int rank, size_t block)
{
    if (!job->varies) return job->count;
    switch (job->algorithm->collective) {
    case COLLECTIVE_ALLTOALL: return job->counts[rank][block];
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return job->counts[0][block];
    default: return job->counts[0][rank];
    }
}

static size_t output_count(const struct engine_job *job, int rank, size_t block)
{
    if (!job->varies) return job->count;
    switch (job->algorithm->collective) {
    case COLLECTIVE_ALLTOALL: return job->counts[block][rank];
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_REDUCE_SCATTER: return job->counts[0][rank];
    default: return job->counts[0][block];
    }
}

/* Where links encode, so small that all ranks' together are, too. */
static int32_t value_of(const struct engine_job *job, int rank, size_t block, size_t i)
{
    enum { SMALL = 0xfff };
    const unsigned value = 1 + (unsigned)rank * 1000003 + (unsigned)block * 50021 + (unsigned)i * 7;
    return (int32_t)(job->dummy != NULL && job->dummy->encoding != NULL ? value & SMALL : value);
}

static int32_t sum_of(const struct engine_job *job, size_t block, size_t i)
{
    uint32_t sum = 0;
    for (int r = 0; r < job->size; r++) sum += (uint32_t)value_of(job, r, block, i);
    return (int32_t)sum;
}

static int32_t expected(const struct engine_job *job, int rank, size_t block, size_t i)
{
    switch (job->algorithm->collective) {
    case COLLECTIVE_BROADCAST: return value_of(job, job->root, 0, i);
    case COLLECTIVE_GATHER:
    case COLLECTIVE_ALLGATHER: return value_of(job, (int)block, 0, i);
    case COLLECTIVE_SCATTER: return value_of(job, job->root, (size_t)rank, i);
    case COLLECTIVE_ALLTOALL: return value_of(job, (int)block, (size_t)rank, i);
    case COLLECTIVE_REDUCE_SCATTER: return sum_of(job, (size_t)rank, i);
    default: return sum_of(job, 0, i);
    }
}

/* ------------------------------------------------------------------------------------------ buffers */

static int32_t *element(const struct engine_buffer *buffer, size_t i)
{
    return buffer->elements != NULL ? buffer->elements[i] : (int32_t *)buffer->buffer.base + i;
}

static void make_whole(struct engine_buffer *buffer, size_t count)
{
    buffer->memory_count = count;
    buffer->memory = take_memory(buffer->kind, count * sizeof(int32_t));
    buffer->buffer = (struct buffer){.base = (char *)buffer->memory};
}

/* Segments from what is said where every element lies. */
static void find_segments(struct engine_buffer *buffer)
{
    buffer->segments = calloc(buffer->count + 1, sizeof *buffer->segments);
    assert_non_null(buffer->segments);
    struct buffer *found = &buffer->buffer;
    *found = (struct buffer){.segments = buffer->segments};
    for (size_t i = 0; i < buffer->count; i++) {
        if (i == 0 || buffer->elements[i] != buffer->elements[i - 1] + 1) {
            buffer->segments[found->segment_count].begin = i * sizeof(int32_t);
            buffer->segments[found->segment_count++].address = (char *)buffer->elements[i];
        }
        buffer->segments[found->segment_count - 1].end = (i + 1) * sizeof(int32_t);
    }
}

/* Where segments end, the first at 0: anywhere, and many are of one element; or as it is said. */
static size_t cut(size_t count, const size_t *segments, struct engine_net *net, size_t *cuts)
{
    static const size_t lengths[] = {1, 2, 40, 3000, 40000};
    size_t pieces = 0;
    cuts[0] = 0;
    while (cuts[pieces] < count) {
        const size_t most = lengths[engine_net_draw(net) % 5];
        const size_t length =
            segments != NULL ? segments[pieces % 4] : 1 + engine_net_draw(net) % most;
        const bool is_last = length >= count - cuts[pieces] || pieces + 1 == CUTS_MAX;
        cuts[pieces + 1] = is_last ? count : cuts[pieces] + length;
        pieces++;
    }
    return pieces;
}

/* With gaps, in any order. */
static void make_cut(struct engine_buffer *buffer, size_t count, const size_t *segments,
                     struct engine_net *net)
{
    enum { GAP = 3 };
    size_t cuts[CUTS_MAX + 1], order[CUTS_MAX];
    const size_t pieces = cut(count, segments, net, cuts);
    for (size_t p = 0; p < pieces; p++) {
        const size_t at = engine_net_draw(net) % (p + 1);
        order[p] = order[at];
        order[at] = p;
    }
    buffer->memory_count = count + (pieces + 1) * GAP;
    buffer->memory = take_memory(buffer->kind, buffer->memory_count * sizeof(int32_t));
    buffer->elements = malloc((count + 1) * sizeof(int32_t *));
    assert_non_null(buffer->elements);
    size_t place = GAP;
    for (size_t p = 0; p < pieces; p++) {
        for (size_t i = cuts[order[p]]; i < cuts[order[p] + 1]; i++)
            buffer->elements[i] = &buffer->memory[place++];
        place += engine_net_draw(net) % (GAP + 1);
    }
    find_segments(buffer);
}

static void make_buffer(const struct engine_job *job, struct engine_net *net, size_t count,
                        struct engine_buffer *buffer)
{
    buffer->count = count;
    if (job->is_cut)
        make_cut(buffer, count, job->segments, net);
    else
        make_whole(buffer, count);
}

/* In place: the smaller buffer is a part of the larger one. */
static void make_part(const struct engine_buffer *whole, size_t first, size_t count,
                      struct engine_buffer *part)
{
    part->count = count;
    if (whole->elements == NULL) {
        part->buffer = (struct buffer){.base = whole->buffer.base + first * sizeof(int32_t)};
        return;
    }
    part->elements = malloc((count + 1) * sizeof(int32_t *));
    assert_non_null(part->elements);
    memcpy(part->elements, whole->elements + first, count * sizeof(int32_t *));
    find_segments(part);
}

static void free_buffer(struct engine_buffer *buffer)
{
    give_memory(buffer->kind, buffer->memory, buffer->memory_count * sizeof(int32_t));
    free(buffer->elements);
    free(buffer->segments);
    *buffer = (struct engine_buffer){0};
}

/* --------------------------------------------------------------------------------------------- jobs */

static size_t block_counts(const struct engine_job *job, int rank, bool is_input, size_t *counts)
{
    const enum collective collective = job->algorithm->collective;
    const size_t blocks = is_input ? test_send_blocks(collective, rank, job->size, job->root)
                                   : test_recv_blocks(collective, rank, job->size, job->root);
    size_t sum = 0;
    for (size_t b = 0; b < blocks; b++) {
        const size_t count = is_input ? input_count(job, rank, b) : output_count(job, rank, b);
        if (counts != NULL) counts[b] = count;
        sum += count;
    }
    return sum;
}

static void make_buffers(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const size_t sends = block_counts(job, rank, true, NULL);
    const size_t send_blocks = test_send_blocks(collective, rank, job->size, job->root);
    const size_t recvs = block_counts(job, rank, false, NULL);
    const size_t recv_blocks = test_recv_blocks(collective, rank, job->size, job->root);
    own->input = own->output = (struct engine_buffer){.kind = engine_net_kind(net, rank)};
    if ((job->in_place >> rank & 1) == 0 || send_blocks == 0 || recv_blocks == 0) {
        make_buffer(job, net, sends, &own->input);
        make_buffer(job, net, recvs, &own->output);
    } else {
        size_t begin = 0; /* of the smaller buffer in the larger one */
        for (size_t b = 0; b < test_in_place_block(collective, rank); b++)
            begin +=
                send_blocks > recv_blocks ? input_count(job, rank, b) : output_count(job, rank, b);
        if (send_blocks > recv_blocks) {
            make_buffer(job, net, sends, &own->input);
            make_part(&own->input, begin, recvs, &own->output);
        } else {
            make_buffer(job, net, recvs, &own->output);
            make_part(&own->output, begin, sends, &own->input);
        }
    }
}

static void fill_memory(struct engine_rank *own, int32_t value)
{
    begin_touching(own->dummy);
    for (size_t i = 0; i < own->input.memory_count; i++) own->input.memory[i] = value;
    for (size_t i = 0; i < own->output.memory_count; i++) own->output.memory[i] = value;
    end_touching(own->dummy);
}

void engine_rank_fill(const struct engine_job *job, int rank, struct engine_rank *own)
{
    size_t counts[ENGINE_RANKS_MAX];
    const size_t blocks = test_send_blocks(job->algorithm->collective, rank, job->size, job->root);
    block_counts(job, rank, true, counts);
    fill_memory(own, UNTOUCHED);
    begin_touching(job->dummy);
    for (size_t b = 0, at = 0; b < blocks; b++)
        for (size_t i = 0; i < counts[b]; i++)
            *element(&own->input, at++) = value_of(job, rank, b, i);
    end_touching(job->dummy);
}

void engine_rank_scribble(struct engine_rank *own)
{
    fill_memory(own, SCRIBBLED);
}

static void bind(const struct engine_job *job, struct engine_net *net, int rank,
                 struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const struct algo_params params = {.collective = collective,
                                       .rank_count = job->size,
                                       .root = job->root,
                                       .in_place = (job->in_place >> rank & 1) != 0,
                                       .levels = job->levels};
    struct rank_plan *plan;
    const char *message = "";
    if (algo_rank_plan(job->algorithm, &params, rank, &plan, &message) != TUTTI_OK)
        fail_msg("%s", message);
    size_t input_counts[ENGINE_RANKS_MAX], output_counts[ENGINE_RANKS_MAX];
    const size_t sends = block_counts(job, rank, true, input_counts),
                 recvs = block_counts(job, rank, false, output_counts);
    struct bind_options options = {.count = job->count,
                                   .dtype = TUTTI_INT32,
                                   .op = op_builtin(OP_SUM),
                                   .level = KERNEL_SCALAR,
                                   .in_place = params.in_place,
                                   .shares_cores = rank % 2 != 0};
    if (job->varies) { /* as a v form is called */
        const bool has_inputs = test_send_blocks(collective, rank, job->size, job->root) > 1,
                   has_outputs = test_recv_blocks(collective, rank, job->size, job->root) > 1;
        options.input_counts = has_inputs ? input_counts : NULL;
        options.output_counts = has_outputs ? output_counts : NULL;
        options.count = collective == COLLECTIVE_SCATTER || collective == COLLECTIVE_REDUCE_SCATTER
                            ? recvs
                            : sends;
    }
    own->dummy = job->dummy;
    own->executor = NULL;
    own->gate = NULL;
    own->job = job;
    own->rank = rank;
    if (own->dummy != NULL && own->dummy->make_executor != NULL)
        options.executor = own->executor = own->dummy->make_executor(engine_net_draw(net));
    if (own->dummy != NULL) {
        options.encoding = own->dummy->encoding;
        options.kernels = own->dummy->kernels;
    }
    for (int b = 0; b < PLAN_BUFFER_COUNT; b++) options.kinds[b] = engine_net_kind(net, rank);
    struct transport *transport = engine_net_transport(net, rank);
    bind_to_transport(&options, transport);
    if (bind_program(plan, &options, &own->program) != TUTTI_OK)
        fail_msg("%s by %s: %s", collective_name(collective), job->algorithm->name,
                 tutti_error_message());
    plan_rank_free(plan);
    assert_int_equal(program_open_links(own->program, transport, 0), TUTTI_OK);
}

/* Until then it has shown nothing. */
static void gate_opens(void *context)
{
    struct engine_rank *own = context;
    assert_false(own->operation.any_advertised || own->operation.sends_active > 0);
    engine_rank_fill(own->job, own->rank, own);
}

void engine_rank_prepare_again(struct engine_net *net, int rank, struct engine_rank *own)
{
    own->done = false;
    assert_int_equal(operation_prepare(&own->operation, own->program, engine_net_transport(net, rank),
                                       0, &own->input.buffer, &own->output.buffer),
                     TUTTI_OK);
    if (own->dummy == NULL || own->dummy->make_gate == NULL) {
        operation_open(&own->operation, own->program->signature);
        return;
    }
    if (own->gate != NULL) own->dummy->free_gate(own->gate);
    own->gate = own->dummy->make_gate(engine_net_draw(net), gate_opens, own);
    engine_rank_scribble(own);
    operation_open_at(&own->operation, own->gate, own->program->signature);
}

void engine_rank_prepare(const struct engine_job *job, struct engine_net *net, int rank,
                         struct engine_rank *own)
{
    operation_init(&own->operation, PATIENCE);
    bind(job, net, rank, own);
    make_buffers(job, net, rank, own);
    engine_rank_fill(job, rank, own);
    engine_rank_prepare_again(net, rank, own);
}

static _Noreturn void fail_job(const struct engine_job *job, const char *what)
{
    fail_msg("%s%s by %s on %d ranks, count %zu, root %d, in place %x%s: %s",
             collective_name(job->algorithm->collective), job->varies ? "v" : "",
             job->algorithm->name, job->size, job->count, job->root, job->in_place,
             job->is_cut ? ", cut" : "", what);
    abort();
}

void engine_run(const struct engine_job *job, struct engine_net *net, struct engine_rank *ranks)
{
    int left = job->size;
    for (int looks = 0; left > 0; looks++) {
        if (looks == LOOKS_MAX) fail_job(job, "stuck");
        struct engine_rank *own = &ranks[engine_net_draw(net) % (uint64_t)job->size];
        if (net->step != NULL) net->step(net->context);
        if (own->done) continue;
        own->operation.must_not_spin = engine_net_draw(net) % 8 == 0;
        const enum run_result result = operation_run(&own->operation);
        if (result == RUN_FAULT) fail_job(job, "a message made no sense");
        if (result != RUN_DONE) continue;
        own->done = true;
        left--;
    }
}

/* Gaps between segments are as they were. */
static void expect_gaps_untouched(const struct engine_job *job, const struct engine_buffer *buffer)
{
    if (buffer->memory == NULL || buffer->elements == NULL) return;
    bool *used = calloc(buffer->memory_count, sizeof *used);
    assert_non_null(used);
    for (size_t i = 0; i < buffer->count; i++) used[buffer->elements[i] - buffer->memory] = true;
    for (size_t i = 0; i < buffer->memory_count; i++)
        if (!used[i] && buffer->memory[i] != UNTOUCHED) fail_job(job, "written between segments");
    free(used);
}

void engine_expect_right(const struct engine_job *job, int rank, const struct engine_rank *own)
{
    const enum collective collective = job->algorithm->collective;
    const size_t blocks = test_recv_blocks(collective, rank, job->size, job->root);
    begin_touching(job->dummy);
    for (size_t b = 0, at = 0; b < blocks; b++) {
        for (size_t i = 0; i < output_count(job, rank, b); i++, at++) {
            const int32_t right = expected(job, rank, b, i), is = *element(&own->output, at);
            if (is == right) continue;
            char text[96];
            snprintf(text, sizeof text, "rank %d, block %zu, element %zu is %d and not %d", rank, b,
                     i, is, right);
            fail_job(job, text);
        }
    }
    expect_gaps_untouched(job, &own->input);
    expect_gaps_untouched(job, &own->output);
    end_touching(job->dummy);
}

void engine_rank_release(struct engine_rank *own)
{
    operation_release(&own->operation);
    program_free(own->program);
    if (own->executor != NULL) own->dummy->free_executor(own->executor);
    if (own->gate != NULL) own->dummy->free_gate(own->gate);
    free_buffer(&own->input);
    free_buffer(&own->output);
}

void engine_run_job_over(const struct engine_job *job, struct engine_net *net)
{
    struct engine_rank ranks[ENGINE_RANKS_MAX];
    for (int r = 0; r < job->size; r++) engine_rank_prepare(job, net, r, &ranks[r]);
    engine_run(job, net, ranks);
    engine_net_expect_empty(net);
    for (int r = 0; r < job->size; r++) {
        engine_expect_right(job, r, &ranks[r]);
        engine_rank_release(&ranks[r]);
    }
}

void engine_run_job(const struct engine_job *job, struct engine_mood mood, uint64_t seed)
{
    struct engine_net *net = engine_net_create(job->size, mood, seed);
    engine_run_job_over(job, net);
    engine_net_free(net);
}
