#include "transport/card/device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transport/card/packet.h"
#include "transport/card/regions.h"

enum {
    PACKETS_A_LOOK = 64,  /* taken from the wire */
    LATE_PERMILLE = 300,  /* what could happen now happens at a later look */
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

/* Came, and is not stored yet. A message has its receive from when it comes. */
struct arrival {
    struct receive receive;
    size_t bytes;
    unsigned char packet[CARD_PACKET_BYTES_MAX];
};

/* What a device has for one peer. */
struct pair {
    enum card_peer_state state;
    bool is_prepared, is_connected; /* this side is */
    bool owes_connect;
    uint64_t found_ns; /* when the wire found the peer's device in its place */
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

struct card_device {
    struct card_device_options options;
    struct card_wire *wire;
    struct card_regions regions;
    struct pair **pairs;
    struct shown *completions;
    unsigned completion_count, completion_room;
    unsigned silent_looks; /* until the next completion is shown */
    uint64_t random;
    struct card_device_counts counts;
    unsigned char packet[CARD_PACKET_BYTES_MAX];
};

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014). */
static unsigned draw_below(struct card_device *device, unsigned bound)
{
    uint64_t x = device->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((x ^ x >> 31) >> 32) % bound;
}

static bool is_late(struct card_device *device)
{
    return draw_below(device, 1000) < LATE_PERMILLE;
}

/* ------------------------------------------------------------------------------------- completions */

static void complete(struct card_device *device, const struct card_completion *completion,
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

static void complete_operation(struct card_device *device, int peer, struct operation *operation,
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

/* Now and then for a while. */
static bool is_silent(struct card_device *device)
{
    if (device->silent_looks == 0 && draw_below(device, 1000) < SILENT_PERMILLE)
        device->silent_looks = draw_below(device, SILENT_LOOKS_MAX);
    if (device->silent_looks == 0) return false;
    device->silent_looks--;
    return true;
}

bool card_device_poll(struct card_device *device, struct card_completion *completion)
{
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

/* ------------------------------------------------------------------------------------------- peers */

static void flush_pair(struct card_device *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    for (int o = 0; o < CARD_OPERATIONS_MAX; o++)
        if (pair->operations[o].is_used && !pair->operations[o].is_complete)
            complete_operation(device, peer, &pair->operations[o], CARD_FLUSHED);
    pair->receive_count = pair->arrival_count = pair->ack_count = 0;
    pair->owes_connect = false;
}

static void end_pair(struct card_device *device, int peer, enum card_peer_state state)
{
    struct pair *pair = device->pairs[peer];
    if (pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN) return;
    pair->state = state;
    flush_pair(device, peer);
}

void card_device_break(struct card_device *device, int peer)
{
    if (device->pairs[peer] != NULL) end_pair(device, peer, CARD_PEER_BROKEN);
}

void card_device_forget(struct card_device *device, int peer)
{
    const struct pair *pair = device->pairs[peer];
    if (pair != NULL && pair->state == CARD_PEER_WANTED) end_pair(device, peer, CARD_PEER_LOST);
}

static bool is_over(const struct pair *pair)
{
    return pair->state == CARD_PEER_LOST || pair->state == CARD_PEER_BROKEN;
}

/* Its part that a packet of a stranger can bring about; NULL: no memory. */
static struct pair *find_pair(struct card_device *device, int peer)
{
    if (device->pairs[peer] != NULL) return device->pairs[peer];
    struct pair *pair = device->pairs[peer] = calloc(1, sizeof *pair);
    if (pair != NULL) pair->state = CARD_PEER_WANTED;
    return pair;
}

enum tutti_status card_device_prepare(struct card_device *device, int peer)
{
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

void card_device_connect(struct card_device *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    assert(pair != NULL && pair->is_prepared);
    if (is_over(pair)) return;
    pair->is_connected = pair->owes_connect = true;
    if (pair->nonce != 0) pair->state = CARD_PEER_UP;
    device->wire->ops->look_again(device->wire);
}

enum card_peer_state card_device_state(const struct card_device *device, int peer)
{
    const struct pair *pair = device->pairs[peer];
    return pair == NULL ? CARD_PEER_UNUSED : pair->state;
}

uint64_t card_device_found_ns(const struct card_device *device, int peer)
{
    return device->pairs[peer] != NULL ? device->pairs[peer]->found_ns : 0;
}

int card_device_caller(const struct card_device *device)
{
    for (int peer = 0; peer < device->options.size; peer++) {
        const struct pair *pair = device->pairs[peer];
        if (pair != NULL && pair->nonce != 0 && !pair->is_prepared && !is_over(pair)) return peer;
    }
    return -1;
}

/* ------------------------------------------------------------------------------------------ memory */

enum tutti_status card_device_make_room(struct card_device *device, unsigned regions)
{
    if (card_regions_make_room(&device->regions, regions)) return TUTTI_OK;
    return error_set(TUTTI_NO_MEMORY, "regions of a simulated network card: out of memory");
}

uint64_t card_device_register(struct card_device *device, void *address, size_t bytes)
{
    return card_regions_add(&device->regions, address, bytes);
}

static void flush_region(struct card_device *device, int peer, uint64_t key)
{
    struct pair *pair = device->pairs[peer];
    for (int o = 0; o < CARD_OPERATIONS_MAX; o++) {
        struct operation *operation = &pair->operations[o];
        if (operation->has_more && operation->memory.bytes > 0 && operation->memory.key == key)
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

void card_device_deregister(struct card_device *device, uint64_t key)
{
    card_regions_remove(&device->regions, key);
    for (int peer = 0; peer < device->options.size; peer++)
        if (device->pairs[peer] != NULL) flush_region(device, peer, key);
}

unsigned card_device_regions(const struct card_device *device)
{
    return device->regions.count;
}

/* ------------------------------------------------------------------------------------------- verbs */

bool card_device_post_receive(struct card_device *device, int peer, uint64_t key, void *address,
                              uint64_t id)
{
    struct pair *pair = device->pairs[peer];
    assert(card_regions_hold(&device->regions, key, address, CARD_MESSAGE_BYTES_MAX));
    if (pair->receives_out == CARD_RECEIVES_MAX || is_over(pair)) return false;
    pair->receives_out++;
    const unsigned last = pair->receive_first + pair->receive_count++;
    pair->receives[last % CARD_RECEIVES_MAX] = (struct receive){address, key, id};
    return true;
}

static bool add_operation(struct card_device *device, int peer, const struct operation *made)
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

bool card_device_send(struct card_device *device, int peer, const void *head, size_t head_bytes,
                      const struct card_memory *memory, uint64_t id)
{
    struct operation operation = {
        .work = CARD_SENT, .id = id, .memory = *memory, .head_bytes = head_bytes};
    assert(head_bytes <= CARD_INLINE_BYTES_MAX);
    assert(head_bytes + memory->bytes <= CARD_MESSAGE_BYTES_MAX);
    memcpy(operation.head, head, head_bytes);
    return add_operation(device, peer, &operation);
}

bool card_device_write(struct card_device *device, int peer, uint64_t key, uint64_t offset,
                       const struct card_memory *memory, uint64_t id)
{
    assert(memory->bytes > 0);
    const struct operation operation = {
        .work = CARD_WRITTEN, .id = id, .memory = *memory, .key = key, .offset = offset};
    return add_operation(device, peer, &operation);
}

/* ----------------------------------------------------------------------------------------- sending */

/* True: the wire took it. */
static bool give(struct card_device *device, int peer, struct card_packet *packet)
{
    struct pair *pair = device->pairs[peer];
    packet->magic = CARD_PACKET_MAGIC;
    packet->from = (uint32_t)device->options.rank;
    packet->from_nonce = device->options.nonce;
    packet->to_nonce = pair->nonce;
    memcpy(device->packet, packet, sizeof *packet);
    const enum card_wire_result result =
        device->wire->ops->send(device->wire, peer, device->packet, sizeof *packet + packet->bytes);
    if (result != CARD_WIRE_NOBODY) pair->found_ns = device->wire->ops->now_ns(device->wire);
    if (result == CARD_WIRE_NOBODY && pair->nonce != 0) end_pair(device, peer, CARD_PEER_LOST);
    return result == CARD_WIRE_TOOK;
}

static bool send_connect(struct card_device *device, int peer)
{
    struct card_packet packet = {.kind = CARD_PACKET_CONNECT};
    if (!give(device, peer, &packet)) return false;
    device->pairs[peer]->owes_connect = false;
    return true;
}

static bool send_acks(struct card_device *device, int peer)
{
    struct pair *pair = device->pairs[peer];
    struct card_packet packet = {.kind = CARD_PACKET_ACK,
                                 .bytes = pair->ack_count * (uint32_t)sizeof *pair->acks};
    memcpy(device->packet + sizeof packet, pair->acks, packet.bytes);
    if (!give(device, peer, &packet)) return false;
    pair->ack_count = 0;
    return true;
}

/* One packet of an operation, read from its memory now. */
static bool send_part(struct card_device *device, int peer, unsigned number)
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

/* Any operation of those that have something to send; -1: none has. */
static int draw_operation(struct card_device *device, const struct pair *pair)
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

static bool send_to(struct card_device *device, int peer)
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

/* --------------------------------------------------------------------------------------- receiving */

static void add_ack(struct pair *pair, const struct card_packet *packet, bool is_refused)
{
    pair->acks[pair->ack_count++] = (struct card_ack){
        .op = packet->op, .generation = packet->generation, .is_refused = is_refused};
}

/* False: it is refused. */
static bool store_write(struct card_device *device, const struct arrival *arrival)
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

static void store_message(struct card_device *device, int peer, const struct arrival *arrival)
{
    const size_t bytes = arrival->bytes - sizeof(struct card_packet);
    if (!card_regions_hold(&device->regions, arrival->receive.key, arrival->receive.address, bytes)) {
        device->pairs[peer]->receives_out--; /* it was deregistered, with the receive */
        return;
    }
    memcpy(arrival->receive.address, arrival->packet + sizeof(struct card_packet), bytes);
    device->counts.sends++;
    const struct card_completion completion = {
        .work = CARD_RECEIVED, .peer = peer, .id = arrival->receive.id, .bytes = bytes};
    complete(device, &completion, NULL);
}

static void store(struct card_device *device, int peer, struct pair *pair, unsigned which)
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

static bool store_some(struct card_device *device, int peer)
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
static bool take_ack(struct card_device *device, int peer, const struct card_ack *ack)
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

static bool take_acks(struct card_device *device, int peer, const struct card_packet *packet,
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

/* Keeps it until it is stored; false: it makes no sense. */
static bool keep(struct card_device *device, struct pair *pair, const struct card_packet *packet,
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

/* Whether it is from that rank's present device, for this one. A device that knows this one's nonce has connected, even
 * if its CONNECT is still on its way. */
static bool is_of_pair(const struct card_device *device, const struct pair *pair,
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

static void take_packet(struct card_device *device, int peer, const unsigned char *bytes,
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

static bool take_packets(struct card_device *device)
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

/* ----------------------------------------------------------------------------------------- looking */

static bool has_work(const struct pair *pair)
{
    if (is_over(pair)) return false;
    return pair->owes_connect || pair->arrival_count > 0 || pair->ack_count > 0 ||
           (pair->unacked < CARD_PACKETS_MAX && pair->unsent > 0);
}

bool card_device_is_busy(const struct card_device *device)
{
    if (device->completion_count > 0) return true;
    for (int peer = 0; peer < device->options.size; peer++)
        if (device->pairs[peer] != NULL && has_work(device->pairs[peer])) return true;
    return false;
}

bool card_device_progress(struct card_device *device)
{
    bool moved = take_packets(device);
    for (int peer = 0; peer < device->options.size; peer++) {
        if (device->pairs[peer] == NULL) continue;
        if (device->pairs[peer]->is_connected) moved |= store_some(device, peer);
        moved |= send_to(device, peer);
    }
    if (card_device_is_busy(device)) device->wire->ops->look_again(device->wire);
    return moved;
}

void card_device_count(const struct card_device *device, struct card_device_counts *counts)
{
    *counts = device->counts;
}

size_t card_device_bytes(const struct card_device *device)
{
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

/* -------------------------------------------------------------------------------------- life cycle */

enum tutti_status card_device_create(const struct card_device_options *options,
                                     struct card_wire *wire, struct card_device **created)
{
    assert(options->nonce != 0 && options->rank >= 0 && options->rank < options->size);
    struct card_device *device = calloc(1, sizeof *device);
    struct pair **pairs = calloc((size_t)options->size, sizeof(struct pair *));
    *created = NULL;
    if (device == NULL || pairs == NULL) {
        free(device);
        free(pairs);
        wire->ops->close(wire);
        return error_set(TUTTI_NO_MEMORY, "a simulated network card: out of memory");
    }
    device->options = *options;
    device->wire = wire;
    device->pairs = pairs;
    device->random = options->seed;
    *created = device;
    return TUTTI_OK;
}

void card_device_free(struct card_device *device)
{
    if (device == NULL) return;
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
