#include "tests/virtual_card/device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/status.h"
#include "tests/virtual_card/packet.h"
#include "tests/virtual_card/regions.h"

enum {
    PACKETS_A_LOOK = 64,  /* taken from the wire */
    LATE_PERMILLE = 300,  /* an event that could happen now happens at a later look */
    SILENT_PERMILLE = 20, /* no completion is shown for some looks */
    SILENT_LOOKS_MAX = 40,
    UNANSWERED_NS = 2000000, /* until a peer that should say something is asked whether it is there */
    SILENT_NS = 100000000    /* and one that need not */
};

static_assert(CARD_PACKETS_MAX * sizeof(struct card_ack) <= CARD_PACKET_DATA_MAX,
              "all acknowledgements to a peer fit in one packet");

struct operation {
    bool is_used, is_complete, is_refused;
    enum card_work work;
    uint32_t generation; /* an acknowledgement of an earlier operation is none of this one */
    uint64_t id, key, offset;
    struct card_memory memory;
    unsigned char head[CARD_INLINE_BYTES_MAX];
    size_t head_bytes, gone; /* given to the wire */
    bool has_more;           /* to give */
    unsigned unacked;        /* packets */
};

struct receive {
    char *address;
    uint64_t key, id;
};

/* A packet that came, and is not stored yet. A message has its receive from the moment it comes. */
struct arrival {
    struct receive receive;
    size_t bytes;
    unsigned char packet[CARD_PACKET_BYTES_MAX];
};

/* The state of a device for one peer. */
struct pair {
    enum card_peer_state state;
    bool is_prepared, is_connected; /* this side is */
    bool owes_connect;
    uint64_t heard_ns; /* when something came from the peer, or it was asked for that, last */
    uint64_t nonce;    /* of the peer's device; 0: not known */
    struct operation operations[CARD_OPERATIONS_MAX];
    unsigned used, unsent; /* operations; those of them that have more to send */
    unsigned unacked;      /* packets to the peer */
    struct receive receives[CARD_RECEIVES_MAX];
    unsigned receive_first, receive_count;
    unsigned receives_out;    /* posted, and not shown as RECEIVED yet */
    struct arrival *arrivals; /* of CARD_PACKETS_MAX */
    unsigned arrival_count;
    struct card_ack acks[CARD_PACKETS_MAX];
    unsigned ack_count;
};

struct shown {
    struct card_completion completion;
    struct operation *operation; /* free when it was shown; or NULL */
};

struct virtual_card {
    struct card_device base;
    struct virtual_card_options options;
    struct card_wire *wire;
    struct card_regions regions;
    struct pair **pairs;
    struct shown *completions;
    unsigned completion_count, completion_room;
    unsigned silent_looks; /* until the next completion is shown */
    uint64_t random;
    struct virtual_card_counts counts;
    unsigned char packet[CARD_PACKET_BYTES_MAX];
};

static struct virtual_card *virtual_of(struct card_device *device)
{
    return (struct virtual_card *)device;
}

static const struct virtual_card *const_virtual_of(const struct card_device *device)
{
    return (const struct virtual_card *)device;
}

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014). */
static unsigned draw_below(struct virtual_card *device, unsigned bound)
{
    uint64_t x = device->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((x ^ x >> 31) >> 32) % bound;
}

static bool is_late(struct virtual_card *device)
{
    return draw_below(device, 1000) < LATE_PERMILLE;
}

/* ---------------------------------------------------------------------------------- completions */

static void complete(struct virtual_card *device, const struct card_completion *completion,
                     struct operation *operation)
{
    assert(device->completion_count < device->completion_room);
    device->completions[device->completion_count++] = (struct shown){*completion, operation};
}

static void end_sending(struct pair *pair, struct operation *operation)
{
    pair->unsent -= operation->has_more;
    operation->has_more = false;
}

static void complete_operation(struct virtual_card *device, int peer, struct operation *operation,
                               enum card_result result)
{
    const struct card_completion completion = {.work = operation->work,
                                               .result = result,
                                               .peer = peer,
                                               .id = operation->id,
                                               .bytes = operation->memory.bytes};
    end_sending(device->pairs[peer], operation);
    operation->is_complete = true;
    operation->generation++;
    complete(device, &completion, operation);
}

/* Now and then nothing is shown for a while. */
static bool is_silent(struct virtual_card *device)
{
    if (device->silent_looks == 0 && draw_below(device, 1000) < SILENT_PERMILLE)
        device->silent_looks = draw_below(device, SILENT_LOOKS_MAX);
    if (device->silent_looks == 0) return false;
    device->silent_looks--;
    return true;
}

static bool virtual_poll(struct card_device *base, struct card_completion *completion)
{
    struct virtual_card *device = virtual_of(base);
    if (device->completion_count == 0) return false;
    if (is_silent(device) || is_late(device)) {
        device->wire->ops->look_again(device->wire);
        return false;
    }
    const unsigned which = draw_below(device, device->completion_count);
    const struct shown shown = device->completions[which];
    device->counts.turned += which > 0;
    device->completions[which] = device->completions[--device->completion_count];
    *completion = shown.completion;
    struct pair *pair = device->pairs[completion->peer];
    if (shown.operation != NULL) {
        shown.operation->is_used = false;
        pair->used--;
    } else {
        pair->receives_out--;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- peers */

static void flush_pair(struct virtual_card *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    for (int o = 0; o < CARD_OPERATIONS_MAX; o++)
        if (pair->operations[o].is_used && !pair->operations[o].is_complete)
            complete_operation(device, peer, &pair->operations[o], CARD_FLUSHED);
    pair->receive_count = pair->arrival_count = pair->ack_count = 0;
    pair->owes_connect = false;
}

static void end_pair(struct virtual_card *device, int peer, enum card_peer_state state)
{
    struct pair *pair = device->pairs[peer];
    if (pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN) return;
    pair->state = state;
    flush_pair(device, peer);
}

static void virtual_break_pair(struct card_device *base, int peer)
{
    struct virtual_card *device = virtual_of(base);
    if (device->pairs[peer] != NULL) end_pair(device, peer, CARD_PEER_BROKEN);
}

static void virtual_forget(struct card_device *base, int peer)
{
    struct virtual_card *device = virtual_of(base);
    const struct pair *pair = device->pairs[peer];
    if (pair != NULL && pair->state == CARD_PEER_WANTED) end_pair(device, peer, CARD_PEER_LOST);
}

static bool is_over(const struct pair *pair)
{
    return pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN;
}

/* The part of a pair that a packet of a stranger can create; NULL: no memory. */
static struct pair *find_pair(struct virtual_card *device, int peer)
{
    if (device->pairs[peer] != NULL) return device->pairs[peer];
    struct pair *pair = device->pairs[peer] = calloc(1, sizeof *pair);
    if (pair != NULL) pair->state = CARD_PEER_WANTED;
    return pair;
}

static enum tutti_status virtual_prepare(struct card_device *base, int peer)
{
    struct virtual_card *device = virtual_of(base);
    struct pair *pair = find_pair(device, peer);
    const unsigned room = device->completion_room + CARD_OPERATIONS_MAX + CARD_RECEIVES_MAX;
    struct shown *completions = realloc(device->completions, room * sizeof *completions);
    if (completions != NULL) device->completions = completions;
    if (pair == NULL || completions == NULL) goto out_of_memory;
    assert(!pair->is_prepared);
    pair->arrivals = malloc(CARD_PACKETS_MAX * sizeof *pair->arrivals);
    if (pair->arrivals == NULL) goto out_of_memory;
    device->completion_room = room;
    pair->is_prepared = true;
    return TUTTI_OK;
out_of_memory:
    return error_set(TUTTI_NO_MEMORY, "a simulated network card: out of memory");
}

static void virtual_connect(struct card_device *base, int peer)
{
    struct virtual_card *device = virtual_of(base);
    struct pair *pair = device->pairs[peer];
    assert(pair != NULL && pair->is_prepared);
    if (is_over(pair)) return;
    pair->is_connected = pair->owes_connect = true;
    if (pair->nonce != 0) pair->state = CARD_PEER_UP;
    device->wire->ops->look_again(device->wire);
}

static enum card_peer_state virtual_state(const struct card_device *base, int peer)
{
    const struct virtual_card *device = const_virtual_of(base);
    const struct pair *pair = device->pairs[peer];
    return pair == NULL ? CARD_PEER_UNUSED : pair->state;
}

static int virtual_caller(const struct card_device *base)
{
    const struct virtual_card *device = const_virtual_of(base);
    for (int peer = 0; peer < device->options.size; peer++) {
        const struct pair *pair = device->pairs[peer];
        if (pair != NULL && pair->nonce != 0 && !pair->is_prepared && !is_over(pair)) return peer;
    }
    return -1;
}

/* --------------------------------------------------------------------------------------- memory */

static enum tutti_status virtual_make_room(struct card_device *base, unsigned regions)
{
    struct virtual_card *device = virtual_of(base);
    if (card_regions_make_room(&device->regions, regions)) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "regions of a simulated network card: out of memory");
}

static uint64_t virtual_enroll(struct card_device *base, void *address, size_t bytes,
                               enum card_access access)
{
    struct virtual_card *device = virtual_of(base);
    (void)access;
    return card_regions_add(&device->regions, address, bytes);
}

static void flush_region(struct virtual_card *device, int peer, uint64_t key)
{
    struct pair *pair = device->pairs[peer];
    for (int o = 0; o < CARD_OPERATIONS_MAX; o++) {
        struct operation *operation = &pair->operations[o];
        if (!operation->has_more || operation->memory.bytes == 0 || operation->memory.key != key)
            continue;
        device->counts.unread++;
        complete_operation(device, peer, operation, CARD_FLUSHED);
    }
    unsigned kept = 0;
    for (unsigned r = 0; r < pair->receive_count; r++) {
        const struct receive receive = pair->receives[(pair->receive_first + r) % CARD_RECEIVES_MAX];
        if (receive.key == key) continue;
        pair->receives[(pair->receive_first + kept++) % CARD_RECEIVES_MAX] = receive;
    }
    pair->receives_out -= pair->receive_count - kept;
    pair->receive_count = kept;
}

static void virtual_deregister(struct card_device *base, uint64_t key)
{
    struct virtual_card *device = virtual_of(base);
    card_regions_remove(&device->regions, key);
    for (int peer = 0; peer < device->options.size; peer++)
        if (device->pairs[peer] != NULL) flush_region(device, peer, key);
}

static struct card_target virtual_target(const struct card_device *base, uint64_t key)
{
    (void)base;
    return (struct card_target){.key = key};
}

static unsigned virtual_regions(const struct card_device *base)
{
    const struct virtual_card *device = const_virtual_of(base);
    return device->regions.count;
}

/* ---------------------------------------------------------------------------------------- verbs */

static bool virtual_post_receive(struct card_device *base, int peer, uint64_t key, void *address,
                                 uint64_t id)
{
    struct virtual_card *device = virtual_of(base);
    struct pair *pair = device->pairs[peer];
    assert(card_regions_hold(&device->regions, key, address, VIRTUAL_CARD_MESSAGE_BYTES));
    if (pair->receives_out == CARD_RECEIVES_MAX || is_over(pair)) return false;
    pair->receives_out++;
    const unsigned last = pair->receive_first + pair->receive_count++;
    pair->receives[last % CARD_RECEIVES_MAX] = (struct receive){address, key, id};
    return true;
}

static bool add_operation(struct virtual_card *device, int peer, const struct operation *made)
{
    struct pair *pair = device->pairs[peer];
    assert(made->memory.bytes == 0 || card_regions_hold(&device->regions, made->memory.key,
                                                        made->memory.address, made->memory.bytes));
    if (pair->used == CARD_OPERATIONS_MAX || pair->state != CARD_PEER_UP) return false;
    struct operation *operation = pair->operations;
    while (operation->is_used) operation++;
    const uint32_t generation = operation->generation;
    *operation = *made;
    operation->generation = generation;
    operation->is_used = operation->has_more = true;
    pair->used++;
    pair->unsent++;
    device->wire->ops->look_again(device->wire);
    return true;
}

static bool virtual_send(struct card_device *base, int peer, const void *head, size_t head_bytes,
                         const struct card_memory *memory, uint64_t id)
{
    struct virtual_card *device = virtual_of(base);
    struct operation operation = {
        .work = CARD_SENT, .id = id, .memory = *memory, .head_bytes = head_bytes};
    assert(head_bytes <= CARD_INLINE_BYTES_MAX);
    assert(head_bytes + memory->bytes <= VIRTUAL_CARD_MESSAGE_BYTES);
    memcpy(operation.head, head, head_bytes);
    return add_operation(device, peer, &operation);
}

static bool virtual_write(struct card_device *base, int peer, const struct card_target *target,
                          uint64_t offset, const struct card_memory *memory, uint64_t id)
{
    struct virtual_card *device = virtual_of(base);
    assert(memory->bytes > 0);
    const struct operation operation = {.work = CARD_WRITTEN,
                                        .id = id,
                                        .memory = *memory,
                                        .key = target->key,
                                        .offset = target->base + offset};
    return add_operation(device, peer, &operation);
}

/* -------------------------------------------------------------------------------------- sending */

/* True: the wire took it. */
static bool give(struct virtual_card *device, int peer, struct card_packet *packet)
{
    struct pair *pair = device->pairs[peer];
    packet->magic = CARD_PACKET_MAGIC;
    packet->from = (uint32_t)device->options.rank;
    packet->from_nonce = device->options.nonce;
    packet->to_nonce = pair->nonce;
    memcpy(device->packet, packet, sizeof *packet);
    const enum card_wire_result result =
        device->wire->ops->send(device->wire, peer, device->packet, sizeof *packet + packet->bytes);
    if (result == CARD_WIRE_NOBODY && pair->nonce != 0) end_pair(device, peer, CARD_PEER_LOST);
    return result == CARD_WIRE_TOOK;
}

static bool send_connect(struct virtual_card *device, int peer)
{
    struct card_packet packet = {.kind = CARD_PACKET_CONNECT};
    if (!give(device, peer, &packet)) return false;
    device->pairs[peer]->owes_connect = false;
    return true;
}

static bool send_acks(struct virtual_card *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    struct card_packet packet = {.kind = CARD_PACKET_ACK,
                                 .bytes = pair->ack_count * (uint32_t)sizeof *pair->acks};
    memcpy(device->packet + sizeof packet, pair->acks, packet.bytes);
    if (!give(device, peer, &packet)) return false;
    pair->ack_count = 0;
    return true;
}

/* Sends one packet of an operation, read from its memory now. */
static bool send_part(struct virtual_card *device, int peer, unsigned number)
{
    struct pair *pair = device->pairs[peer];
    struct operation *operation = &pair->operations[number];
    const bool is_write = operation->work == CARD_WRITTEN;
    const size_t left = operation->memory.bytes - operation->gone,
                 bytes = left < CARD_PACKET_DATA_MAX ? left : CARD_PACKET_DATA_MAX;
    struct card_packet packet = {
        .kind = is_write ? CARD_PACKET_WRITE : CARD_PACKET_SEND,
        .bytes = (uint32_t)(operation->head_bytes + bytes),
        .op = number,
        .generation = operation->generation,
        .key = operation->key,
        .offset = operation->offset + operation->gone,
    };
    unsigned char *data = device->packet + sizeof packet;
    memcpy(data, operation->head, operation->head_bytes);
    if (bytes > 0)
        memcpy(data + operation->head_bytes,
               (const char *)operation->memory.address + operation->gone, bytes);
    if (!give(device, peer, &packet)) return false;
    operation->gone += bytes;
    if (operation->gone == operation->memory.bytes) end_sending(pair, operation);
    operation->unacked++;
    pair->unacked++;
    return true;
}

/* Draws one of the operations that have something to send; -1: none has. */
static int draw_operation(struct virtual_card *device, const struct pair *pair)
{
    const unsigned first = draw_below(device, CARD_OPERATIONS_MAX);
    for (unsigned i = 0; i < CARD_OPERATIONS_MAX && pair->unsent > 0; i++) {
        const unsigned number = (first + i) % CARD_OPERATIONS_MAX;
        if (pair->operations[number].is_used && pair->operations[number].has_more)
            return (int)number;
    }
    return -1;
}

/* A peer that is gone says nothing: whether its device is there shows when a packet is sent. */
static void ask_silent(struct pair *pair, uint64_t now_ns)
{
    if (pair->state != CARD_PEER_UP) return;
    if (now_ns - pair->heard_ns < (pair->unacked > 0 ? UNANSWERED_NS : SILENT_NS)) return;
    pair->heard_ns = now_ns;
    pair->owes_connect = true;
}

static bool send_to(struct virtual_card *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    bool moved = false;
    if (is_over(pair)) return false;
    ask_silent(pair, device->wire->ops->now_ns(device->wire));
    if (pair->owes_connect) moved |= send_connect(device, peer);
    if (pair->nonce == 0 || !pair->is_connected) return moved;
    if (pair->ack_count > 0 && !is_late(device)) moved |= send_acks(device, peer);
    while (!is_over(pair) && pair->unacked < CARD_PACKETS_MAX && !is_late(device)) {
        const int number = draw_operation(device, pair);
        if (number < 0 || !send_part(device, peer, (unsigned)number)) break;
        moved = true;
    }
    return moved;
}

/* ------------------------------------------------------------------------------------ receiving */

static void add_ack(struct pair *pair, const struct card_packet *packet, bool is_refused)
{
    pair->acks[pair->ack_count++] = (struct card_ack){
        .op = packet->op, .generation = packet->generation, .is_refused = is_refused};
}

/* False: it is refused. */
static bool store_write(struct virtual_card *device, const struct arrival *arrival)
{
    struct card_packet packet;
    memcpy(&packet, arrival->packet, sizeof packet);
    char *target = card_regions_at(&device->regions, packet.key, packet.offset, packet.bytes);
    device->counts.refused += target == NULL;
    if (target == NULL) return false;
    memcpy(target, arrival->packet + sizeof packet, packet.bytes);
    device->counts.writes++;
    return true;
}

static void store_message(struct virtual_card *device, int peer, const struct arrival *arrival)
{
    const size_t bytes = arrival->bytes - sizeof(struct card_packet);
    if (!card_regions_hold(&device->regions, arrival->receive.key, arrival->receive.address, bytes)) {
        device->pairs[peer]->receives_out--; /* it was deregistered, with the receive */
        return;
    }
    memcpy(arrival->receive.address, arrival->packet + sizeof(struct card_packet), bytes);
    device->counts.sends++;
    const struct card_completion completion = {.work = CARD_RECEIVED,
                                               .peer = peer,
                                               .id = arrival->receive.id,
                                               .bytes = bytes,
                                               .data = arrival->receive.address,
                                               .key = arrival->receive.key};
    complete(device, &completion, NULL);
}

static void store(struct virtual_card *device, int peer, struct pair *pair, unsigned which)
{
    struct arrival *arrival = &pair->arrivals[which];
    struct card_packet packet;
    bool is_refused = false;
    memcpy(&packet, arrival->packet, sizeof packet);
    if (packet.kind == CARD_PACKET_WRITE)
        is_refused = !store_write(device, arrival);
    else
        store_message(device, peer, arrival);
    add_ack(pair, &packet, is_refused);
    device->counts.turned += which > 0;
    const struct arrival *last = &pair->arrivals[--pair->arrival_count];
    if (arrival != last) {
        arrival->receive = last->receive;
        arrival->bytes = last->bytes;
        memcpy(arrival->packet, last->packet, last->bytes);
    }
}

static bool store_some(struct virtual_card *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    bool moved = false;
    while (pair->arrival_count > 0 && !is_late(device)) {
        store(device, peer, pair, draw_below(device, pair->arrival_count));
        moved = true;
    }
    return moved;
}

/* False: it makes no sense. */
static bool take_ack(struct virtual_card *device, int peer, const struct card_ack *ack)
{
    struct pair *pair = device->pairs[peer];
    if (ack->op >= CARD_OPERATIONS_MAX || pair->unacked == 0) return false;
    struct operation *operation = &pair->operations[ack->op];
    pair->unacked--;
    device->counts.refused_by_peers += ack->is_refused != 0;
    if (!operation->is_used || operation->is_complete || operation->generation != ack->generation)
        return true; /* it was flushed */
    if (operation->unacked == 0) return false;
    operation->unacked--;
    operation->is_refused |= ack->is_refused != 0;
    if (operation->is_refused) end_sending(pair, operation);
    if (operation->unacked == 0 && !operation->has_more)
        complete_operation(device, peer, operation,
                           operation->is_refused ? CARD_REFUSED : CARD_DONE);
    return true;
}

static bool take_acks(struct virtual_card *device, int peer, const struct card_packet *packet,
                      const unsigned char *data)
{
    struct card_ack ack;
    if (packet->bytes % sizeof ack != 0) return false;
    for (size_t at = 0; at < packet->bytes; at += sizeof ack) {
        memcpy(&ack, data + at, sizeof ack);
        if (!take_ack(device, peer, &ack)) return false;
    }
    return true;
}

/* Keeps a packet until it is stored; false: it makes no sense. */
static bool keep(struct virtual_card *device, struct pair *pair, const struct card_packet *packet,
                 const unsigned char *bytes)
{
    struct receive receive = {0};
    if (packet->bytes > CARD_PACKET_DATA_MAX) return false;
    if (pair->arrival_count + pair->ack_count == CARD_PACKETS_MAX) return false;
    if (packet->kind == CARD_PACKET_SEND) {
        if (pair->receive_count == 0) {
            device->counts.overruns++;
            return false;
        }
        receive = pair->receives[pair->receive_first++ % CARD_RECEIVES_MAX];
        pair->receive_count--;
    } else if (packet->bytes == 0) {
        return false;
    }
    struct arrival *arrival = &pair->arrivals[pair->arrival_count++];
    arrival->receive = receive;
    arrival->bytes = sizeof *packet + packet->bytes;
    memcpy(arrival->packet, bytes, arrival->bytes);
    return true;
}

/* Whether a packet is from that rank's present device, and for this device. A device that knows
 * this one's nonce has connected, even if its CONNECT is still on its way. */
static bool is_of_pair(const struct virtual_card *device, const struct pair *pair,
                       const struct card_packet *packet)
{
    const bool is_connect = packet->kind == CARD_PACKET_CONNECT;
    if (packet->from_nonce == 0 || (pair->nonce != 0 && packet->from_nonce != pair->nonce))
        return false;
    return packet->to_nonce == device->options.nonce || (is_connect && packet->to_nonce == 0);
}

static void meet(struct pair *pair, const struct card_packet *packet, uint64_t now_ns)
{
    pair->nonce = packet->from_nonce;
    pair->heard_ns = now_ns;
    if (pair->is_connected) pair->state = CARD_PEER_UP;
    if (pair->is_connected && packet->to_nonce == 0) pair->owes_connect = true;
}

static void take_packet(struct virtual_card *device, int peer, const unsigned char *bytes,
                        size_t count)
{
    struct card_packet packet;
    struct pair *pair = NULL;
    bool is_right = true;
    if (count >= sizeof packet) {
        memcpy(&packet, bytes, sizeof packet);
        if (packet.magic == CARD_PACKET_MAGIC && packet.from == (uint32_t)peer &&
            peer != device->options.rank && packet.bytes == count - sizeof packet)
            pair = find_pair(device, peer);
    }
    if (pair == NULL || is_over(pair) || !is_of_pair(device, pair, &packet)) {
        device->counts.strays++;
        return;
    }
    meet(pair, &packet, device->wire->ops->now_ns(device->wire));
    switch (packet.kind) {
    case CARD_PACKET_CONNECT: break;
    case CARD_PACKET_SEND:
    case CARD_PACKET_WRITE:
        is_right = pair->is_connected && keep(device, pair, &packet, bytes);
        break;
    case CARD_PACKET_ACK:
        is_right = pair->is_connected && take_acks(device, peer, &packet, bytes + sizeof packet);
        break;
    default: is_right = false; break;
    }
    if (!is_right) end_pair(device, peer, CARD_PEER_BROKEN);
}

static bool take_packets(struct virtual_card *device)
{
    unsigned char bytes[CARD_PACKET_BYTES_MAX];
    int from, taken = 0;
    size_t count;
    while (taken < PACKETS_A_LOOK &&
           (count = device->wire->ops->receive(device->wire, bytes, &from)) > 0) {
        assert(from >= 0 && from < device->options.size);
        take_packet(device, from, bytes, count);
        taken++;
    }
    return taken > 0;
}

/* -------------------------------------------------------------------------------------- looking */

static bool has_work(const struct pair *pair)
{
    if (is_over(pair)) return false;
    return pair->owes_connect || pair->arrival_count > 0 || pair->ack_count > 0 ||
           (pair->unacked < CARD_PACKETS_MAX && pair->unsent > 0);
}

static bool is_busy(const struct virtual_card *device)
{
    if (device->completion_count > 0) return true;
    for (int peer = 0; peer < device->options.size; peer++)
        if (device->pairs[peer] != NULL && has_work(device->pairs[peer])) return true;
    return false;
}

static bool virtual_progress(struct card_device *base)
{
    struct virtual_card *device = virtual_of(base);
    bool moved = take_packets(device);
    for (int peer = 0; peer < device->options.size; peer++) {
        if (device->pairs[peer] == NULL) continue;
        if (device->pairs[peer]->is_connected) moved |= store_some(device, peer);
        moved |= send_to(device, peer);
    }
    if (is_busy(device)) device->wire->ops->look_again(device->wire);
    return moved;
}

void virtual_card_count(const struct card_device *device, struct virtual_card_counts *counts)
{
    *counts = const_virtual_of(device)->counts;
}

static size_t virtual_bytes(const struct card_device *base)
{
    const struct virtual_card *device = const_virtual_of(base);
    size_t bytes = sizeof *device + (size_t)device->options.size * sizeof(struct pair *) +
                   device->completion_room * sizeof *device->completions +
                   device->regions.capacity * sizeof *device->regions.table;
    for (int peer = 0; peer < device->options.size; peer++) {
        const struct pair *pair = device->pairs[peer];
        if (pair == NULL) continue;
        bytes += sizeof *pair;
        if (pair->is_prepared) bytes += CARD_PACKETS_MAX * sizeof *pair->arrivals;
    }
    return bytes;
}

/* -------------------------------------------------------------------------------------- waiting */

static bool virtual_is_busy(const struct card_device *base)
{
    return is_busy(const_virtual_of(base));
}

static void virtual_look_again(struct card_device *base)
{
    struct card_wire *wire = virtual_of(base)->wire;
    wire->ops->look_again(wire);
}

static void virtual_sleep(struct card_device *base, uint64_t timeout_ns)
{
    struct card_wire *wire = virtual_of(base)->wire;
    wire->ops->sleep(wire, timeout_ns);
}

static void virtual_wake(struct card_device *base)
{
    struct card_wire *wire = virtual_of(base)->wire;
    wire->ops->wake(wire);
}

static int virtual_descriptor(struct card_device *base)
{
    struct card_wire *wire = virtual_of(base)->wire;
    return wire->ops->descriptor(wire);
}

/* ----------------------------------------------------------------------------------- life cycle */

/* Control messages still go over it. */
static bool virtual_stop(struct card_device *base)
{
    (void)base;
    return true;
}

static void virtual_free(struct card_device *base)
{
    struct virtual_card *device = virtual_of(base);
    for (int peer = 0; peer < device->options.size; peer++) {
        if (device->pairs[peer] != NULL) free(device->pairs[peer]->arrivals);
        free(device->pairs[peer]);
    }
    device->wire->ops->close(device->wire);
    card_regions_release(&device->regions);
    free(device->completions);
    free(device->pairs);
    free(device);
}

static const struct card_device_ops ops = {.make_room = virtual_make_room,
                                           .enroll = virtual_enroll,
                                           .deregister = virtual_deregister,
                                           .target = virtual_target,
                                           .regions = virtual_regions,
                                           .prepare = virtual_prepare,
                                           .connect = virtual_connect,
                                           .state = virtual_state,
                                           .caller = virtual_caller,
                                           .forget = virtual_forget,
                                           .break_pair = virtual_break_pair,
                                           .post_receive = virtual_post_receive,
                                           .send = virtual_send,
                                           .write = virtual_write,
                                           .progress = virtual_progress,
                                           .poll = virtual_poll,
                                           .is_busy = virtual_is_busy,
                                           .look_again = virtual_look_again,
                                           .sleep = virtual_sleep,
                                           .wake = virtual_wake,
                                           .descriptor = virtual_descriptor,
                                           .stop = virtual_stop,
                                           .bytes = virtual_bytes,
                                           .free = virtual_free};

static enum tutti_status draw_nonce(uint64_t *nonce)
{
    while (*nonce == 0)
        if (getrandom(nonce, sizeof *nonce, 0) != (ssize_t)sizeof *nonce)
            return error_system("a simulated network card: getrandom");
    return TUTTI_OK;
}

enum tutti_status virtual_card_create(const struct virtual_card_options *options,
                                      struct card_wire *wire, struct card_device **created)
{
    assert(options->rank >= 0 && options->rank < options->size);
    struct virtual_card *device = calloc(1, sizeof *device);
    struct pair **pairs = calloc((size_t)options->size, sizeof(struct pair *));
    enum tutti_status status = TUTTI_OK;
    *created = NULL;
    if (device == NULL || pairs == NULL) {
        status = error_set(TUTTI_NO_MEMORY, "a simulated network card: out of memory");
        goto free_device;
    }
    *device =
        (struct virtual_card){.base = {.ops = &ops, .message_bytes = VIRTUAL_CARD_MESSAGE_BYTES},
                              .options = *options,
                              .wire = wire,
                              .pairs = pairs,
                              .random = options->seed};
    status = draw_nonce(&device->options.nonce);
    if (status != TUTTI_OK) goto free_device;
    *created = &device->base;
    return TUTTI_OK;
free_device:
    free(device);
    free(pairs);
    wire->ops->close(wire);
    return status;
}
