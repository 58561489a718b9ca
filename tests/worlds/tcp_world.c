#include "tests/worlds/tcp_world.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/kit/chance.h"
#include "transport/paths.h"

enum { ALIGNMENT = 64, WIRE_BYTES = 32 << 10, SETTLE_STEPS_MAX = 2000000 };

/* A link to all: what is reserved lies in `place` until it is copied to each link. */
struct fan_tx {
    struct link_tx base;
    struct link_tx *links[TCP_WORLD_RANKS_MAX];
    int count;
    _Alignas(64) char place[64 << 10];
};

struct fan {
    struct transport base;
    struct transport *inner;
    struct fan_tx links[TRANSPORT_CHANNEL_COUNT];
};

enum { FAN_SLOT = 1 };

/* One direction. */
struct flow {
    int from, to;
    size_t *until_flip; /* bytes, of all wires that way */
    char bytes[WIRE_BYTES];
    size_t begin, end;
};

struct wire {
    bool is_wanted[2], is_made; /* by the lower rank, by the higher */
    unsigned silence;           /* steps until it is made */
    int fds[2];                 /* the wire's own ends; -1: plain or none */
    struct flow flows[2];
};

struct tcp_world {
    void *memory; /* in which it lies */
    struct tcp_mood mood;
    int size;
    uint64_t seed, random;
    unsigned broken, flipped;
    size_t until_flip[TCP_WORLD_RANKS_MAX][TCP_WORLD_RANKS_MAX]; /* by sender and receiver */
    struct transport *ranks[TCP_WORLD_RANKS_MAX];
    struct fan fans[TCP_WORLD_RANKS_MAX];
    struct transport *fan_transports[TCP_WORLD_RANKS_MAX];
    struct rank_context {
        struct tcp_world *world;
        int rank;
    } rank_contexts[TCP_WORLD_RANKS_MAX];
    struct wire wires[TCP_WORLD_RANKS_MAX][TCP_WORLD_RANKS_MAX][TCP_STREAMS_MAX]; /* lower, higher */
};

uint64_t tcp_world_draw(struct tcp_world *world)
{
    return chance_next(&world->random);
}

static struct wire *wire_of(struct tcp_world *world, int a, int b, unsigned stream)
{
    return &world->wires[a < b ? a : b][a < b ? b : a][stream];
}

static void wants(void *context, int peer, unsigned stream)
{
    struct rank_context *own = context;
    struct tcp_world *world = own->world;
    assert_true(peer != own->rank && stream < world->mood.streams);
    struct wire *wire = wire_of(world, own->rank, peer, stream);
    assert_false(wire->is_wanted[own->rank > peer]); /* once */
    wire->is_wanted[own->rank > peer] = true;
    if (world->mood.silence > 0)
        wire->silence = (unsigned)tcp_world_draw(world) % world->mood.silence;
}

static void hears(void *context, int peer, const void *note, size_t bytes)
{
    const struct rank_context *own = context;
    const struct tcp_mood *mood = &own->world->mood;
    if (mood->hears != NULL) mood->hears(mood->hears_context, own->rank, peer, note, bytes);
}

struct tcp_world *tcp_world_create(int size, struct tcp_mood mood, uint64_t seed)
{
    char *memory = calloc(1, sizeof(struct tcp_world) + ALIGNMENT); /* zero without a touch */
    assert_non_null(memory);
    struct tcp_world *world =
        (struct tcp_world *)(memory + ALIGNMENT - (uintptr_t)memory % ALIGNMENT);
    world->memory = memory;
    world->mood = mood;
    world->size = size;
    world->seed = world->random = seed;
    for (int r = 0; r < size; r++) {
        world->rank_contexts[r] = (struct rank_context){world, r};
        const struct tcp_options options = {.rank = r,
                                            .size = size,
                                            .streams = mood.streams,
                                            .piece_bytes = mood.piece_bytes,
                                            .piece_count = mood.piece_count,
                                            .checks = mood.checks,
                                            .wants = wants,
                                            .wants_context = &world->rank_contexts[r],
                                            .hears = hears,
                                            .hears_context = &world->rank_contexts[r]};
        assert_int_equal(tcp_create(&options, &world->ranks[r]), TUTTI_OK);
    }
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            for (unsigned s = 0; s < TCP_STREAMS_MAX; s++)
                world->wires[a][b][s].fds[0] = world->wires[a][b][s].fds[1] = -1;
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++) world->until_flip[a][b] = mood.flips;
    return world;
}

static void break_wire(struct wire *wire)
{
    for (int e = 0; e < 2; e++) {
        if (wire->fds[e] >= 0) close(wire->fds[e]);
        wire->fds[e] = -1;
        wire->flows[e].begin = wire->flows[e].end = 0;
    }
    wire->is_made = false;
}

void tcp_world_free(struct tcp_world *world)
{
    for (int r = 0; r < world->size; r++) tcp_close(world->ranks[r]);
    for (int a = 0; a < world->size; a++)
        for (int b = a + 1; b < world->size; b++)
            for (unsigned s = 0; s < world->mood.streams; s++) break_wire(&world->wires[a][b][s]);
    free(world->memory);
}

struct transport *const *tcp_world_transports(const struct tcp_world *world)
{
    return world->ranks;
}

struct link_world tcp_world_links(struct tcp_world *world)
{
    return (struct link_world){.size = world->size,
                               .ranks = world->ranks,
                               .step = tcp_world_step,
                               .world = world,
                               .random = &world->random,
                               .seed = world->seed};
}

/* ----------------------------------------------------------------------------------------- fans */

static bool fan_has_room(struct link_tx *link)
{
    const struct fan_tx *fan = (const struct fan_tx *)link;
    for (int i = 0; i < fan->count; i++)
        if (!fan->links[i]->ops->has_room(fan->links[i])) return false;
    return true;
}

static void *fan_reserve(struct link_tx *link, size_t bytes)
{
    struct fan_tx *fan = (struct fan_tx *)link;
    for (int i = 0; i < fan->count; i++)
        if (fan->links[i]->ops->reserve(fan->links[i], bytes) == NULL) return NULL;
    return fan->place;
}

static void fan_commit(struct link_tx *link, size_t bytes)
{
    struct fan_tx *fan = (struct fan_tx *)link;
    for (int i = 0; i < fan->count; i++) {
        memcpy(fan->links[i]->ops->reserve(fan->links[i], bytes), fan->place, bytes);
        fan->links[i]->ops->commit(fan->links[i], bytes);
    }
}

static enum link_reach fan_reach(struct link_tx *link, const void *address, size_t bytes)
{
    const struct fan_tx *fan = (const struct fan_tx *)link;
    return fan->links[0]->ops->reach(fan->links[0], address, bytes);
}

static bool fan_post(struct link_tx *link, const void *address, size_t bytes)
{
    const struct fan_tx *fan = (const struct fan_tx *)link;
    if (!fan_has_room(link)) return false;
    for (int i = 0; i < fan->count; i++)
        assert_true(fan->links[i]->ops->post(fan->links[i], address, bytes));
    return true;
}

static bool fan_consumed(struct link_tx *link)
{
    const struct fan_tx *fan = (const struct fan_tx *)link;
    for (int i = 0; i < fan->count; i++)
        if (!fan->links[i]->ops->consumed(fan->links[i])) return false;
    return true;
}

static const struct link_tx_ops fan_tx_ops = {.reserve = fan_reserve,
                                              .commit = fan_commit,
                                              .reach = fan_reach,
                                              .post = fan_post,
                                              .consumed = fan_consumed,
                                              .has_room = fan_has_room,
                                              .advertised_at = link_no_advertised_at,
                                              .written = link_no_written,
                                              .refer = link_no_refer};

static void fan_limits(struct transport *transport, size_t *piece_bytes_max,
                       unsigned *piece_count_max)
{
    struct transport *inner = ((struct fan *)transport)->inner;
    inner->ops->limits(inner, piece_bytes_max, piece_count_max);
}

static enum tutti_status fan_open_tx(struct transport *transport, int slot, int channel, int peer,
                                     size_t bytes, struct link_tx **link)
{
    struct transport *inner = ((struct fan *)transport)->inner;
    assert_int_equal(slot, 0);
    return inner->ops->open_tx(inner, slot, channel, peer, bytes, link);
}

static enum tutti_status fan_open_multicast_tx(struct transport *transport, int slot, int channel,
                                               int group, size_t bytes, struct link_tx **link)
{
    struct fan *fan = (struct fan *)transport;
    struct transport *inner = fan->inner;
    assert_int_equal(slot, 0);
    assert_int_equal(group, 0);
    struct fan_tx *tx = &fan->links[channel];
    tx->base = (struct link_tx){.ops = &fan_tx_ops, .peer = LINK_TO_GROUP};
    tx->count = 0;
    for (int r = 0; r < transport->size; r++) {
        if (r == transport->rank) continue;
        const enum tutti_status status =
            inner->ops->open_tx(inner, FAN_SLOT, channel, r, bytes, &tx->links[tx->count++]);
        assert_int_equal(status, TUTTI_OK);
    }
    *link = &tx->base;
    return TUTTI_OK;
}

static enum tutti_status fan_open_rx(struct transport *transport, int slot, int channel, int peer,
                                     struct link_rx **link)
{
    struct transport *inner = ((struct fan *)transport)->inner;
    assert_int_equal(slot, 0);
    return inner->ops->open_rx(inner, slot, channel, peer, link);
}

static enum tutti_status fan_open_multicast_rx(struct transport *transport, int slot, int channel,
                                               int group, int peer, struct link_rx **link)
{
    struct transport *inner = ((struct fan *)transport)->inner;
    assert_int_equal(slot, 0);
    assert_int_equal(group, 0);
    return inner->ops->open_rx(inner, FAN_SLOT, channel, peer, link);
}

static const struct sharing_ops fan_sharing = {.open_multicast_tx = fan_open_multicast_tx,
                                               .open_multicast_rx = fan_open_multicast_rx,
                                               .open_shared_slots = transport_no_shared_slots,
                                               .reserve_shared = transport_no_reserve_shared,
                                               .send_shared = transport_no_send_shared};

static const struct transport_ops fan_ops = {.limits = fan_limits,
                                             .open_tx = fan_open_tx,
                                             .open_rx = fan_open_rx,
                                             .progress = transport_no_progress,
                                             .flush = transport_no_flush,
                                             .is_awaited = transport_not_awaited,
                                             .is_settled = transport_owes_nothing,
                                             .stop = transport_stops_nothing,
                                             .descriptor = transport_no_descriptor,
                                             .corrupt_rank = transport_no_corrupt_rank,
                                             .shortage = transport_no_shortage,
                                             .add_footprint = transport_no_footprint};

struct transport *const *tcp_world_fans(struct tcp_world *world)
{
    static const int everybody[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static_assert(sizeof everybody / sizeof *everybody >= TCP_WORLD_RANKS_MAX, "one for each rank");
    for (int r = 0; r < world->size; r++) {
        struct fan *fan = &world->fans[r];
        fan->base = (struct transport){.ops = &fan_ops,
                                       .sharing = &fan_sharing,
                                       .rank = r,
                                       .size = world->size,
                                       .paths.tables = {transport_paths("tcp")},
                                       .groups = {{everybody, world->size}},
                                       .group_count = 1};
        fan->inner = world->ranks[r];
        transport_share_slots(&fan->base, fan->inner);
        world->fan_transports[r] = &fan->base;
    }
    return world->fan_transports;
}

/* ---------------------------------------------------------------------------------------- wires */

void tcp_world_set_breaks(struct tcp_world *world, unsigned breaks)
{
    world->mood.breaks = breaks;
}

unsigned tcp_world_broken(const struct tcp_world *world)
{
    return world->broken;
}

unsigned tcp_world_flipped(const struct tcp_world *world)
{
    return world->flipped;
}

uint64_t tcp_world_mended(const struct tcp_world *world)
{
    uint64_t mended = 0;
    for (int a = 0; a < world->size; a++) {
        for (int b = 0; b < world->size; b++) {
            struct peer_report report;
            if (a == b) continue;
            tcp_report(world->ranks[a], b, &report);
            assert_false(report.is_corrupt);
            mended += report.mended;
        }
    }
    return mended;
}

void tcp_world_break_all(struct tcp_world *world, int a, int b)
{
    for (unsigned s = 0; s < world->mood.streams; s++) break_wire(wire_of(world, a, b, s));
    world->broken += world->mood.streams;
}

static void connect_plain(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&address, sizeof address), 0);
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(ends[1] >= 0);
    close(listener);
}

static void make_wire(struct tcp_world *world, int a, int b, unsigned stream)
{
    struct wire *wire = wire_of(world, a, b, stream);
    int first[2], second[2];
    break_wire(wire);
    wire->is_wanted[0] = wire->is_wanted[1] = false;
    wire->is_made = true;
    if (world->mood.is_plain) {
        connect_plain(first);
        assert_int_equal(tcp_attach(world->ranks[a], b, stream, byte_stream_plain(first[0])),
                         TUTTI_OK);
        assert_int_equal(tcp_attach(world->ranks[b], a, stream, byte_stream_plain(first[1])),
                         TUTTI_OK);
        return;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
    wire->fds[0] = first[1];
    wire->fds[1] = second[1];
    for (int e = 0; e < 2; e++) {
        assert_int_equal(fcntl(wire->fds[e], F_SETFL, O_NONBLOCK), 0);
        wire->flows[e].from = wire->fds[e];
        wire->flows[e].to = wire->fds[1 - e];
    }
    wire->flows[0].until_flip = &world->until_flip[a][b];
    wire->flows[1].until_flip = &world->until_flip[b][a];
    assert_int_equal(tcp_attach(world->ranks[a], b, stream, byte_stream_plain(first[0])), TUTTI_OK);
    assert_int_equal(tcp_attach(world->ranks[b], a, stream, byte_stream_plain(second[0])), TUTTI_OK);
}

/* Some bytes have come from a rank. */
static void flip_sometimes(struct tcp_world *world, const struct flow *flow, char *bytes,
                           size_t count)
{
    if (world->mood.flips == 0) return;
    if (*flow->until_flip > count) {
        *flow->until_flip -= count;
        return;
    }
    bytes[tcp_world_draw(world) % count] ^= (char)(1 << tcp_world_draw(world) % 7);
    world->flipped++;
    *flow->until_flip = world->mood.flips + tcp_world_draw(world) % world->mood.flips;
}

/* False: one of the ranks has closed its end. */
static bool carry(struct tcp_world *world, struct flow *flow)
{
    const size_t gulp = 1 + tcp_world_draw(world) % world->mood.gulp;
    if (flow->begin == flow->end) flow->begin = flow->end = 0;
    const size_t room = sizeof flow->bytes - flow->end;
    if (room > 0) {
        const ssize_t got =
            recv(flow->from, flow->bytes + flow->end, room < gulp ? room : gulp, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
        if (got > 0) {
            flip_sometimes(world, flow, flow->bytes + flow->end, (size_t)got);
            flow->end += (size_t)got;
        }
    }
    const size_t waiting = flow->end - flow->begin;
    if (waiting == 0) return true;
    const ssize_t sent = send(flow->to, flow->bytes + flow->begin, waiting < gulp ? waiting : gulp,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent > 0) flow->begin += (size_t)sent;
    return true;
}

static void step_wire(struct tcp_world *world, int a, int b, unsigned stream)
{
    struct wire *wire = wire_of(world, a, b, stream);
    if (wire->is_wanted[0] || wire->is_wanted[1]) { /* the other side may not know yet */
        if (wire->silence > 0) {
            wire->silence--;
            return;
        }
        make_wire(world, a, b, stream);
        return;
    }
    if (!wire->is_made || wire->fds[0] < 0) return;
    const bool breaks = world->mood.breaks > 0 && tcp_world_draw(world) % world->mood.breaks == 0;
    world->broken += breaks;
    if (breaks || !carry(world, &wire->flows[0]) || !carry(world, &wire->flows[1]))
        break_wire(wire);
}

void tcp_world_step(void *context)
{
    struct tcp_world *world = context;
    const int rank = (int)(tcp_world_draw(world) % (uint64_t)world->size);
    struct transport *transport = world->ranks[rank];
    transport->ops->progress(transport);
    const int a = (int)(tcp_world_draw(world) % (uint64_t)world->size);
    for (int b = 0; b < world->size; b++)
        for (unsigned s = 0; s < world->mood.streams && b != a; s++)
            step_wire(world, a < b ? a : b, a < b ? b : a, s);
}

void tcp_world_settle(struct tcp_world *world)
{
    for (int steps = 0; steps < SETTLE_STEPS_MAX; steps++) {
        bool is_idle = true;
        for (int r = 0; r < world->size; r++) is_idle &= tcp_is_idle(world->ranks[r]);
        if (is_idle) return;
        tcp_world_step(world);
    }
    fail_msg("ranks have something to send for ever");
}

bool tcp_world_finish(struct transport *tcp)
{
    bool is_finished = true;
    tcp->ops->flush(tcp);
    for (int r = 0; r < tcp->size; r++) {
        struct peer_report report;
        if (r == tcp->rank) continue;
        tcp_report(tcp, r, &report);
        is_finished &= report.state == PEER_LOST || tcp_is_settled(tcp, r);
    }
    return is_finished;
}
