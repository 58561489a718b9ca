#include "transport/ofi/device.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "os/clock.h"
#include "os/close_on_exec.h"
#include "transport/ofi/provider.h"
#include "transport/ofi/regions.h"
#include "transport/ofi/shortage.h"

enum {
    ALIGNMENT = 64,
    MESSAGE_BYTES_MIN =
        4160, /* with the pair's head; even if the provider does not send as much at once */
    COPIED_BYTES =
        1024, /* up to so many are copied beside their head: dearer for a card to fetch from two places */
    OPERATIONS_MAX = 256, /* given to libfabric at a time */
    WRITES_MAX = 256,
    COMPLETIONS_A_LOOK = 64,
    SHORT_SLEEP_NS = 200000, /* where a provider has nothing to wait for */
    LOOKS_A_SWEEP = 4096
};

/* Before each message. */
struct prefix {
    uint64_t nonce; /* that the receiving device has told the sender alone */
    uint32_t rank;  /* of the sender */
    uint32_t magic;
};

static const uint32_t MAGIC = 0x49544654; /* TFTI */

enum { PREFIX_BYTES = sizeof(struct prefix), HEAD_ROOM = 64 };

static_assert(PREFIX_BYTES <= HEAD_ROOM, "a prefix goes before a receive");

/* libfabric has a pointer to it while something is under way. */
struct context {
    struct fi_context2 own; /* libfabric's */
    enum kind { IS_SEND, IS_PART, IS_RECEIVE } kind;
};

/* A message or a part of a write. */
struct operation {
    struct context context;
    struct operation *next; /* free */
    int peer;
    uint64_t id;    /* of a message */
    unsigned write; /* which one it is a part of */
    size_t bytes;
    unsigned char *bounce; /* for a prefix, a head and the bytes copied behind it */
};

struct write {
    bool is_used;
    int peer;
    uint64_t id, key, address;
    struct card_memory memory;
    void *descriptor;
    size_t given, landed;
    bool has_failed;
};

struct receive {
    struct context context;
    struct receive *next;   /* to be posted; or spare */
    unsigned char *address; /* of the message, behind its prefix */
    uint64_t key;
};

struct peer {
    enum card_peer_state state;
    bool is_prepared, is_connected, is_greeted, owes_greeting;
    bool was_given;            /* libfabric was asked to take something for it */
    uint64_t nonce, own_nonce; /* in messages to it, and from it */
    fi_addr_t address;
    uint64_t heard_ns;
    uint64_t ids[CARD_RECEIVES_MAX]; /* of receives that were posted for it */
    unsigned id_count;
    unsigned ungiven;   /* writes of which libfabric has not all parts yet */
    unsigned under_way; /* messages and parts that libfabric has */
    bool is_refused;    /* it took none when it was last asked to */
    uint64_t steps;     /* operations taken, and operations finished, so far */
    uint64_t trouble_ns;
    char trouble[OFI_TROUBLE_MAX];
};

struct ofi_device {
    struct card_device base;
    struct ofi_device_options options;
    struct ofi_provider provider;
    bool is_stopped;
    size_t part_bytes; /* of a write, at most */
    int bell, both;
    _Atomic bool is_rung;
    bool is_restless, any_owed; /* greetings */
    bool may_have_opened;       /* libfabric may have a connection that it had not before */
    enum tutti_status shortage; /* OK: none */
    int short_for;              /* the peer that was to be reached */
    struct peer **peers;
    unsigned strays;
    /* operations */
    struct operation *operations, *free_operations;
    unsigned operation_count;
    unsigned char *bounces;
    size_t bounce_bytes; /* of each */
    uint64_t bounce_key; /* 0: they need not be registered */
    struct write *writes;
    unsigned write_count; /* used */
    /* receives */
    struct receive **receive_blocks;
    unsigned receive_block_count;
    struct receive *unposted, *spare_receives;
    unsigned posted, posted_max;
    /* regions */
    struct ofi_regions *regions;
    unsigned looks; /* of progress */
    /* completions that are there already */
    struct card_completion *done;
    unsigned done_first, done_count, done_room; /* a ring; the room is a power of two */
    unsigned done_sends;                        /* of these */
};

static struct ofi_device *ofi_of(struct card_device *device)
{
    return (struct ofi_device *)device;
}

static const struct ofi_device *const_ofi_of(const struct card_device *device)
{
    return (const struct ofi_device *)device;
}

static enum tutti_status out_of_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
}

static bool is_over(const struct peer *peer)
{
    return peer->state == CARD_PEER_LOST || peer->state == CARD_PEER_BROKEN;
}

/* ------------------------------------------------------------------------------------- completions */

static void complete(struct ofi_device *device, const struct card_completion *completion)
{
    assert(device->done_count < device->done_room);
    device->done[(device->done_first + device->done_count++) & (device->done_room - 1)] =
        *completion;
    device->done_sends += completion->work == CARD_SENT;
}

static bool ofi_poll(struct card_device *base, struct card_completion *completion)
{
    struct ofi_device *device = ofi_of(base);
    if (device->done_count == 0) return false;
    *completion = device->done[device->done_first];
    device->done_first = (device->done_first + 1) & (device->done_room - 1);
    device->done_count--;
    device->done_sends -= completion->work == CARD_SENT;
    return true;
}

/* Makes room for all that can be under way with one more peer. */
static enum tutti_status make_room_for_completions(struct ofi_device *device)
{
    unsigned room = device->done_room;
    unsigned needed = OPERATIONS_MAX + WRITES_MAX;
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL && device->peers[r]->is_prepared)
            needed += CARD_OPERATIONS_MAX + CARD_RECEIVES_MAX;
    while (room < needed) room = room == 0 ? 1024 : 2 * room;
    if (room == device->done_room) return TUTTI_OK;
    struct card_completion *done = malloc(room * sizeof *done);
    if (done == NULL) return out_of_memory();
    for (unsigned i = 0; i < device->done_count; i++)
        done[i] = device->done[(device->done_first + i) & (device->done_room - 1)];
    free(device->done);
    device->done = done;
    device->done_first = 0;
    device->done_room = room;
    return TUTTI_OK;
}

/* -------------------------------------------------------------------------------------------- regions */

static enum tutti_status ofi_make_room(struct card_device *base, unsigned regions)
{
    return ofi_regions_make_room(ofi_of(base)->regions, regions);
}

static uint64_t ofi_enroll(struct card_device *base, void *address, size_t bytes,
                           enum card_access access)
{
    struct ofi_device *device = ofi_of(base);
    return device->is_stopped ? 0 : ofi_regions_add(device->regions, address, bytes, access);
}

static void ofi_deregister(struct card_device *base, uint64_t key)
{
    ofi_regions_remove(ofi_of(base)->regions, key);
}

static struct card_target ofi_target(const struct card_device *base, uint64_t key)
{
    return ofi_regions_target(const_ofi_of(base)->regions, key);
}

static unsigned ofi_count_regions(const struct card_device *base)
{
    const struct ofi_device *device = const_ofi_of(base);
    return ofi_regions_count(device->regions) - (device->bounce_key != 0);
}

/* ---------------------------------------------------------------------------------------------- peers */

static enum tutti_status draw(uint64_t *number)
{
    while (*number == 0)
        if (getrandom(number, sizeof *number, 0) != (ssize_t)sizeof *number)
            return error_system("a network card: getrandom");
    return TUTTI_OK;
}

static struct peer *find_peer(struct ofi_device *device, int rank)
{
    if (device->peers[rank] != NULL) return device->peers[rank];
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL || draw(&peer->own_nonce) != TUTTI_OK) {
        free(peer);
        return NULL;
    }
    peer->state = CARD_PEER_WANTED;
    return device->peers[rank] = peer;
}

static enum tutti_status add_receives(struct ofi_device *device, unsigned count);

static enum tutti_status ofi_prepare(struct card_device *base, int rank)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = find_peer(device, rank);
    if (peer == NULL) return out_of_memory();
    assert(!peer->is_prepared);
    if (!device->options.is_further) TRY(add_receives(device, CARD_RECEIVES_MAX));
    peer->is_prepared = true;
    const enum tutti_status status = make_room_for_completions(device);
    if (status != TUTTI_OK) peer->is_prepared = false;
    return status;
}

static void greet(struct ofi_device *device, int rank)
{
    struct peer *peer = device->peers[rank];
    struct ofi_greeting greeting = {.nonce = peer->own_nonce,
                                    .address_format = device->provider.info->addr_format};
    size_t bytes = sizeof greeting.address;
    const bool has_name = fi_getname(&device->provider.endpoint->fid, greeting.address, &bytes) == 0;
    greeting.address_bytes = (uint32_t)bytes;
    peer->owes_greeting =
        !has_name || !device->options.greets(device->options.context, rank, &greeting);
    device->any_owed |= peer->owes_greeting;
}

static void greet_again(struct ofi_device *device)
{
    device->any_owed = false;
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL && device->peers[r]->owes_greeting) greet(device, r);
}

static void become_up(struct peer *peer)
{
    if (peer->state == CARD_PEER_WANTED && peer->is_connected && peer->is_greeted)
        peer->state = CARD_PEER_UP;
}

static void ofi_connect(struct card_device *base, int rank)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = device->peers[rank];
    assert(peer != NULL && peer->is_prepared);
    if (is_over(peer) || device->is_stopped) return;
    peer->is_connected = peer->owes_greeting = true;
    greet(device, rank);
    become_up(peer);
}

static void be_in_trouble(struct ofi_device *device, int rank, const char *what, int error,
                          const char *reason);

/* A provider that cannot accept a connection says nothing of it to either end. */
static void look_why_not_reached(struct ofi_device *device, int rank)
{
    if (ofi_descriptors_are_at_an_end())
        be_in_trouble(device, rank, "does not accept connections", EMFILE, strerror(EMFILE));
}

/* If an address is text, libfabric reads it up to its terminating zero. */
static bool address_ends(const struct ofi_greeting *greeting)
{
    return greeting->address_format != FI_ADDR_STR ||
           memchr(greeting->address, '\0', greeting->address_bytes) != NULL;
}

bool ofi_device_greeted(struct card_device *base, int rank, const struct ofi_greeting *greeting)
{
    struct ofi_device *device = ofi_of(base);
    if (device->is_stopped) return true;
    struct peer *peer = find_peer(device, rank);
    if (peer != NULL && peer->is_greeted) look_why_not_reached(device, rank);
    if (peer == NULL || peer->is_greeted || is_over(peer)) return peer != NULL;
    if (greeting->address_format != device->provider.info->addr_format ||
        greeting->address_bytes == 0 || greeting->address_bytes > OFI_ADDRESS_MAX ||
        !address_ends(greeting))
        return false;
    if (fi_av_insert(device->provider.addresses, greeting->address, 1, &peer->address, 0, NULL) != 1)
        return false;
    peer->nonce = greeting->nonce;
    peer->is_greeted = true;
    become_up(peer);
    return true;
}

static enum card_peer_state ofi_state(const struct card_device *base, int rank)
{
    const struct peer *peer = const_ofi_of(base)->peers[rank];
    return peer == NULL ? CARD_PEER_UNUSED : peer->state;
}

static int ofi_caller(const struct card_device *base)
{
    const struct ofi_device *device = const_ofi_of(base);
    if (device->is_stopped) return -1;
    for (int r = 0; r < device->options.size; r++) {
        const struct peer *peer = device->peers[r];
        if (peer != NULL && peer->is_greeted && !peer->is_prepared && !is_over(peer)) return r;
    }
    return -1;
}

/* The peer's operations that libfabric has still complete, and are then dropped. */
static void end_peer(struct ofi_device *device, int rank, enum card_peer_state state)
{
    struct peer *peer = device->peers[rank];
    if (peer == NULL || is_over(peer)) return;
    peer->state = state;
    peer->owes_greeting = false;
    for (unsigned w = 0; w < WRITES_MAX; w++) {
        struct write *write = &device->writes[w];
        if (write->is_used && write->peer == rank) write->has_failed = true;
    }
}

static void ofi_break_pair(struct card_device *base, int rank)
{
    end_peer(ofi_of(base), rank, CARD_PEER_BROKEN);
}

static void ofi_forget(struct card_device *base, int rank)
{
    end_peer(ofi_of(base), rank, CARD_PEER_LOST);
}

/* error: libfabric's; 0: it has said none. The greeting that comes again tells the peer that it is not reached. */
static void be_in_trouble(struct ofi_device *device, int rank, const char *what, int error,
                          const char *reason)
{
    struct peer *peer = device->peers[rank];
    if (is_over(peer) || peer->trouble_ns != 0) return;
    peer->trouble_ns = clock_now_ns();
    peer->owes_greeting = device->any_owed = true;
    if (device->shortage == TUTTI_OK && ofi_is_shortage(ofi_status_of(error))) {
        device->shortage = ofi_status_of(error);
        device->short_for = rank;
    }
    const struct ofi_device_options *const options = &device->options;
    const char *const card = options->choice->cards[options->card].domain;
    snprintf(peer->trouble, sizeof peer->trouble, "%s%s%.15s %s: %s", options->choice->provider,
             options->is_of_several ? " " : "", options->is_of_several ? card : "", what, reason);
    log_write(LOG_WARN, "peer %d: over the network card: %s", rank, peer->trouble);
}

void ofi_device_fail(struct card_device *base, int rank, const char *what, uint64_t since_ns)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = device->peers[rank];
    if (peer == NULL || is_over(peer) || peer->trouble_ns != 0) return;
    be_in_trouble(device, rank, "failed", 0, what);
    peer->trouble_ns = since_ns;
}

uint64_t ofi_device_trouble(const struct card_device *base, int rank, char text[OFI_TROUBLE_MAX])
{
    const struct peer *peer = const_ofi_of(base)->peers[rank];
    text[0] = '\0';
    if (peer == NULL || peer->trouble_ns == 0) return 0;
    memcpy(text, peer->trouble, OFI_TROUBLE_MAX);
    return peer->trouble_ns;
}

enum tutti_status ofi_device_check(const struct card_device *base)
{
    const struct ofi_device *device = const_ofi_of(base);
    if (device->shortage == TUTTI_OK) return TUTTI_OK;
    return error_set(device->shortage, "rank %d has no %s left for its network card: %s",
                     device->options.rank,
                     device->shortage == TUTTI_NO_DESCRIPTORS ? "descriptor" : "memory",
                     device->peers[device->short_for]->trouble);
}

bool ofi_device_owes(const struct card_device *base, int rank, uint64_t *steps)
{
    const struct peer *peer = const_ofi_of(base)->peers[rank];
    *steps = peer == NULL ? 0 : peer->steps;
    return peer != NULL && !is_over(peer) && (peer->under_way > 0 || peer->is_refused);
}

unsigned ofi_device_strays(const struct card_device *base)
{
    return const_ofi_of(base)->strays;
}

/* ------------------------------------------------------------------------------------------- receives */

/* Each receive that may be posted has its context; blocks of them stay where they are. */
static enum tutti_status add_receives(struct ofi_device *device, unsigned count)
{
    struct receive **blocks = realloc(device->receive_blocks,
                                      (device->receive_block_count + 1) * sizeof(struct receive *));
    if (blocks != NULL) device->receive_blocks = blocks;
    struct receive *block = calloc(count, sizeof *block);
    if (blocks == NULL || block == NULL) {
        free(block);
        return out_of_memory();
    }
    device->receive_blocks[device->receive_block_count++] = block;
    for (unsigned i = 0; i < count; i++) {
        block[i].context.kind = IS_RECEIVE;
        block[i].next = device->spare_receives;
        device->spare_receives = &block[i];
    }
    return TUTTI_OK;
}

static void post_receives(struct ofi_device *device)
{
    struct receive *receive;
    while ((receive = device->unposted) != NULL && device->posted < device->posted_max &&
           !device->is_stopped) {
        const ssize_t result = device->provider.verbs->receive(
            device->provider.endpoint, receive->address - PREFIX_BYTES,
            PREFIX_BYTES + device->base.message_bytes,
            ofi_regions_descriptor(device->regions, receive->key), &receive->context);
        if (result != 0) return; /* later */
        device->unposted = receive->next;
        device->posted++;
    }
}

static bool ofi_post_receive(struct card_device *base, int rank, uint64_t key, void *address,
                             uint64_t id)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = device->peers[rank];
    if (is_over(peer) || device->is_stopped || peer->id_count == CARD_RECEIVES_MAX) return false;
    struct receive *receive = device->spare_receives;
    assert(receive != NULL); /* each peer has brought as many as it may have */
    device->spare_receives = receive->next;
    receive->address = address;
    receive->key = key;
    receive->next = device->unposted;
    device->unposted = receive;
    peer->ids[peer->id_count++] = id;
    post_receives(device);
    return true;
}

/* The peer that sent the message; NULL: no peer did. */
static struct peer *sender_of(struct ofi_device *device, const struct receive *receive,
                              size_t bytes, int *rank)
{
    struct prefix prefix;
    if (bytes < PREFIX_BYTES) return NULL;
    memcpy(&prefix, receive->address - PREFIX_BYTES, sizeof prefix);
    if (prefix.magic != MAGIC || prefix.rank >= (uint32_t)device->options.size) return NULL;
    *rank = (int)prefix.rank;
    struct peer *peer = device->peers[*rank];
    return peer == NULL || prefix.nonce != peer->own_nonce || is_over(peer) || !peer->is_connected
               ? NULL
               : peer;
}

static void post_again(struct ofi_device *device, struct receive *receive)
{
    receive->next = device->unposted;
    device->unposted = receive;
}

static void take_message(struct ofi_device *device, struct receive *receive, size_t bytes)
{
    int rank = -1;
    struct peer *peer = sender_of(device, receive, bytes, &rank);
    device->posted--;
    if (peer == NULL) {
        device->strays++;
        post_again(device, receive);
        return;
    }
    if (peer->id_count == 0) { /* it sends more than it may */
        end_peer(device, rank, CARD_PEER_BROKEN);
        post_again(device, receive);
        return;
    }
    device->may_have_opened |= peer->heard_ns == 0;
    peer->heard_ns = clock_now_ns();
    const struct card_completion completion = {.work = CARD_RECEIVED,
                                               .peer = rank,
                                               .id = peer->ids[--peer->id_count],
                                               .bytes = bytes - PREFIX_BYTES,
                                               .data = receive->address,
                                               .key = receive->key};
    receive->next = device->spare_receives;
    device->spare_receives = receive;
    complete(device, &completion);
}

/* --------------------------------------------------------------------------------------------- sending */

static struct operation *take_operation(struct ofi_device *device, enum kind kind, int rank)
{
    struct operation *operation = device->free_operations;
    if (operation == NULL) return NULL;
    device->free_operations = operation->next;
    operation->context.kind = kind;
    operation->peer = rank;
    return operation;
}

static void give_operation_back(struct ofi_device *device, struct operation *operation)
{
    operation->next = device->free_operations;
    device->free_operations = operation;
}

/* Libfabric was given something for that peer. result: 0, and then it is under way unless it was
 * copied; or libfabric's error. */
static void note_given(struct ofi_device *device, struct peer *peer, ssize_t result, bool is_copied)
{
    device->may_have_opened |= !peer->was_given;
    peer->was_given = true;
    peer->is_refused = result == -FI_EAGAIN;
    if (result != 0) return;
    peer->under_way += !is_copied;
    peer->steps++;
}

static void note_done(struct peer *peer)
{
    peer->under_way--;
    peer->steps++;
}

static void complete_send(struct ofi_device *device, int rank, uint64_t id, size_t bytes)
{
    complete(device,
             &(struct card_completion){.work = CARD_SENT, .peer = rank, .id = id, .bytes = bytes});
}

static size_t write_prefix(const struct peer *peer, const struct ofi_device *device,
                           unsigned char *to, const void *head, size_t head_bytes)
{
    const struct prefix prefix = {
        .nonce = peer->nonce, .rank = (uint32_t)device->options.rank, .magic = MAGIC};
    memcpy(to, &prefix, sizeof prefix);
    memcpy(to + sizeof prefix, head, head_bytes);
    return sizeof prefix + head_bytes;
}

/* Returns 0, or libfabric's error. */
static ssize_t give_message(struct ofi_device *device, struct operation *operation,
                            size_t head_bytes, const struct card_memory *memory)
{
    const struct peer *peer = device->peers[operation->peer];
    const bool is_copied = memory->bytes <= COPIED_BYTES || memory->key == 0 ||
                           device->provider.facts->tx_attr->iov_limit < 2;
    if (is_copied && memory->bytes > 0)
        memcpy(operation->bounce + head_bytes, memory->address, memory->bytes);
    const struct iovec parts[] = {{operation->bounce, head_bytes + (is_copied ? memory->bytes : 0)},
                                  {(void *)(uintptr_t)memory->address, memory->bytes}};
    void *descriptors[] = {ofi_regions_descriptor(device->regions, device->bounce_key),
                           is_copied ? NULL : ofi_regions_descriptor(device->regions, memory->key)};
    const struct fi_msg message = {.msg_iov = parts,
                                   .desc = descriptors,
                                   .iov_count = is_copied ? 1 : 2,
                                   .addr = peer->address,
                                   .context = &operation->context};
    return device->provider.verbs->send(device->provider.endpoint, &message, FI_COMPLETION);
}

static bool ofi_send(struct card_device *base, int rank, const void *head, size_t head_bytes,
                     const struct card_memory *memory, uint64_t id)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = device->peers[rank];
    assert(head_bytes + memory->bytes <= base->message_bytes && !device->options.is_further);
    if (device->is_stopped || peer->state != CARD_PEER_UP || peer->trouble_ns != 0 ||
        (base->keeps_order && peer->ungiven > 0) ||
        device->done_count + device->operation_count + WRITES_MAX >= device->done_room)
        return false;
    struct operation *operation = take_operation(device, IS_SEND, rank);
    if (operation == NULL) return false;
    const size_t at = write_prefix(peer, device, operation->bounce, head, head_bytes),
                 all = at + memory->bytes;
    operation->id = id;
    operation->bytes = memory->bytes;
    ssize_t result;
    const bool is_injected =
        all <= device->provider.facts->tx_attr->inject_size && all <= COPIED_BYTES;
    if (is_injected) {
        if (memory->bytes > 0) memcpy(operation->bounce + at, memory->address, memory->bytes);
        result = device->provider.verbs->inject(device->provider.endpoint, operation->bounce, all,
                                                peer->address);
    } else {
        result = give_message(device, operation, at, memory);
    }
    note_given(device, peer, result, is_injected);
    if (result != 0 || is_injected) give_operation_back(device, operation);
    if (result == 0 && is_injected) complete_send(device, rank, id, memory->bytes);
    if (result != 0 && result != -FI_EAGAIN)
        be_in_trouble(device, rank, "does not send", (int)-result,
                      ofi_provider_why(&device->provider, result));
    return result == 0;
}

static void complete_write(struct ofi_device *device, struct write *write, enum card_result result)
{
    const struct card_completion completion = {.work = CARD_WRITTEN,
                                               .result = result,
                                               .peer = write->peer,
                                               .id = write->id,
                                               .bytes = write->memory.bytes};
    if (write->given < write->memory.bytes) device->peers[write->peer]->ungiven--;
    write->is_used = false;
    device->write_count--;
    complete(device, &completion);
}

/* Gives libfabric parts of a write, as many as it takes. */
static bool give_parts(struct ofi_device *device, unsigned number)
{
    struct write *write = &device->writes[number];
    struct peer *peer = device->peers[write->peer];
    bool moved = false;
    while (write->given < write->memory.bytes && !write->has_failed && peer->trouble_ns == 0) {
        const size_t left = write->memory.bytes - write->given,
                     bytes = left < device->part_bytes ? left : device->part_bytes;
        struct operation *operation = take_operation(device, IS_PART, write->peer);
        if (operation == NULL) break;
        operation->write = number;
        operation->bytes = bytes;
        const struct iovec from = {(char *)(uintptr_t)write->memory.address + write->given, bytes};
        const struct fi_rma_iov to = {write->address + write->given, bytes, write->key};
        const struct fi_msg_rma message = {.msg_iov = &from,
                                           .desc = &write->descriptor,
                                           .iov_count = 1,
                                           .addr = peer->address,
                                           .rma_iov = &to,
                                           .rma_iov_count = 1,
                                           .context = &operation->context};
        const uint64_t flags = FI_COMPLETION | (device->base.keeps_order ? 0 : FI_DELIVERY_COMPLETE);
        const ssize_t result =
            device->provider.verbs->write(device->provider.endpoint, &message, flags);
        note_given(device, peer, result, false);
        if (result != 0) give_operation_back(device, operation);
        if (result != 0 && result != -FI_EAGAIN)
            be_in_trouble(device, write->peer, "does not write", (int)-result,
                          ofi_provider_why(&device->provider, result));
        if (result != 0) break;
        write->given += bytes;
        peer->ungiven -= write->given == write->memory.bytes;
        moved = true;
    }
    return moved;
}

static bool ofi_write(struct card_device *base, int rank, const struct card_target *target,
                      uint64_t offset, const struct card_memory *memory, uint64_t id)
{
    struct ofi_device *device = ofi_of(base);
    struct peer *peer = device->peers[rank];
    assert(memory->bytes > 0 && memory->key != 0);
    if (device->is_stopped || peer->state != CARD_PEER_UP || peer->trouble_ns != 0 ||
        device->write_count == WRITES_MAX)
        return false;
    unsigned number = 0;
    while (device->writes[number].is_used) number++;
    device->writes[number] =
        (struct write){.is_used = true,
                       .peer = rank,
                       .id = id,
                       .key = target->key,
                       .address = target->base + offset,
                       .memory = *memory,
                       .descriptor = ofi_regions_descriptor(device->regions, memory->key)};
    device->write_count++;
    peer->ungiven++;
    (void)give_parts(device, number);
    return true;
}

static bool give_all_parts(struct ofi_device *device)
{
    unsigned left = device->write_count;
    bool moved = false;
    for (unsigned w = 0; left > 0 && w < WRITES_MAX; w++) {
        if (!device->writes[w].is_used) continue;
        left--;
        if (device->writes[w].given < device->writes[w].memory.bytes)
            moved |= give_parts(device, w);
    }
    return moved;
}

/* ------------------------------------------------------------------------------------------- looking */

static void take_part(struct ofi_device *device, struct operation *operation, bool has_failed)
{
    struct write *write = &device->writes[operation->write];
    write->landed += operation->bytes;
    write->has_failed |= has_failed;
    const bool is_all = write->landed == write->memory.bytes,
               is_enough = write->has_failed && write->landed == write->given;
    give_operation_back(device, operation);
    if (is_all || is_enough)
        complete_write(device, write, write->has_failed ? CARD_FLUSHED : CARD_DONE);
}

static void take_entry(struct ofi_device *device, const struct fi_cq_msg_entry *entry)
{
    struct context *const context = entry->op_context;
    if (context->kind == IS_RECEIVE) {
        take_message(device, (struct receive *)context, entry->len);
        return;
    }
    struct operation *const operation = (struct operation *)context;
    note_done(device->peers[operation->peer]);
    if (context->kind == IS_PART) {
        take_part(device, operation, false);
        return;
    }
    const int rank = operation->peer;
    give_operation_back(device, operation);
    complete_send(device, rank, operation->id, operation->bytes);
}

static void take_error(struct ofi_device *device)
{
    struct fi_cq_err_entry error = {0};
    if (device->provider.verbs->read_error(device->provider.queue, &error) != 1 ||
        error.op_context == NULL)
        return;
    struct context *const context = error.op_context;
    const char *const reason = device->options.choice->library->strerror(error.err);
    if (context->kind == IS_RECEIVE) { /* too long, from a stranger, say */
        device->posted--;
        device->strays++;
        post_again(device, (struct receive *)context);
        return;
    }
    struct operation *const operation = (struct operation *)context;
    const int rank = operation->peer;
    note_done(device->peers[rank]);
    be_in_trouble(device, rank, context->kind == IS_PART ? "could not write" : "could not send",
                  error.err, reason);
    if (context->kind == IS_PART) {
        take_part(device, operation, true);
        return;
    }
    give_operation_back(device, operation);
    complete_send(device, rank, operation->id, operation->bytes); /* the peer is in trouble anyway */
}

static bool read_queue(struct ofi_device *device)
{
    struct fi_cq_msg_entry entries[COMPLETIONS_A_LOOK];
    bool moved = false;
    for (;;) {
        const unsigned room = device->done_room - device->done_count;
        if (room < COMPLETIONS_A_LOOK) return moved;
        const ssize_t count =
            device->provider.verbs->read_queue(device->provider.queue, entries, COMPLETIONS_A_LOOK);
        if (count == -FI_EAVAIL) {
            take_error(device);
            moved = true;
            continue;
        }
        if (count <= 0) return moved;
        for (ssize_t i = 0; i < count; i++) take_entry(device, &entries[i]);
        moved = true;
        if (count < COMPLETIONS_A_LOOK) return moved;
    }
}

static void stop_ringing(struct ofi_device *device)
{
    uint64_t count;
    if (!atomic_exchange_explicit(&device->is_rung, false, memory_order_acq_rel)) return;
    (void)!read(device->bell, &count, sizeof count);
}

static bool ofi_progress(struct card_device *base)
{
    struct ofi_device *device = ofi_of(base);
    stop_ringing(device);
    device->is_restless = false;
    if (device->is_stopped) return false;
    bool moved = read_queue(device);
    if (device->write_count > 0) moved |= give_all_parts(device);
    post_receives(device);
    if (++device->looks % LOOKS_A_SWEEP == 0) {
        ofi_regions_sweep(device->regions);
        device->may_have_opened = true; /* one in place of a connection that ended */
    }
    if (device->may_have_opened) close_on_exec_watched(device->provider.queue_fd);
    device->may_have_opened = false;
    if (device->any_owed) greet_again(device);
    return moved || device->done_count > 0;
}

/* Operations that libfabric has do not count, since they end by themselves. Nor do completions of
 * messages: no caller waits to hear that a message has left. */
static bool ofi_is_busy(const struct card_device *base)
{
    const struct ofi_device *device = const_ofi_of(base);
    return device->done_count > device->done_sends;
}

static void ofi_look_again(struct card_device *base)
{
    ofi_of(base)->is_restless = true;
}

static void ofi_wake(struct card_device *base)
{
    struct ofi_device *device = ofi_of(base);
    const uint64_t one = 1;
    if (atomic_exchange_explicit(&device->is_rung, true, memory_order_acq_rel)) return;
    (void)!write(device->bell, &one, sizeof one);
}

static int ofi_descriptor(struct card_device *base)
{
    struct ofi_device *device = ofi_of(base);
    if (device->both < 0) return -1;
    if (device->is_stopped) return device->both;
    if (device->is_restless || device->done_count > 0 || device->unposted != NULL ||
        device->provider.verbs->try_to_wait(device->provider.fabric, device->provider.queue) != 0)
        ofi_wake(base);
    return device->both;
}

static void ofi_sleep(struct card_device *base, uint64_t timeout_ns)
{
    const int descriptor = ofi_descriptor(base);
    if (descriptor < 0 && timeout_ns > SHORT_SLEEP_NS) timeout_ns = SHORT_SLEEP_NS;
    const struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                                     (long)(timeout_ns % 1000000000u)};
    struct pollfd entry = {.fd = descriptor >= 0 ? descriptor : ofi_of(base)->bell,
                           .events = POLLIN};
    (void)ppoll(&entry, 1, &timeout, NULL);
}

/* -------------------------------------------------------------------------------------- life cycle */

static void ofi_stop(struct card_device *base)
{
    struct ofi_device *device = ofi_of(base);
    if (device->is_stopped) return;
    device->is_stopped = true;
    ofi_provider_stop(&device->provider);
}

static size_t ofi_bytes(const struct card_device *base)
{
    const struct ofi_device *device = const_ofi_of(base);
    size_t bytes = sizeof *device + device->options.choice->endpoint_bytes +
                   (size_t)device->options.size * sizeof(struct peer *) +
                   device->operation_count * (sizeof *device->operations + device->bounce_bytes) +
                   WRITES_MAX * sizeof *device->writes +
                   (device->regions != NULL ? ofi_regions_bytes(device->regions) : 0) +
                   device->done_room * sizeof *device->done +
                   device->receive_block_count * CARD_RECEIVES_MAX * sizeof(struct receive);
    for (int r = 0; r < device->options.size; r++)
        if (device->peers[r] != NULL) bytes += sizeof(struct peer);
    return bytes;
}

static void ofi_free(struct card_device *base)
{
    struct ofi_device *device = ofi_of(base);
    ofi_stop(base);
    ofi_regions_free(device->regions);
    ofi_provider_close(&device->provider);
    if (device->both >= 0) close(device->both);
    if (device->bell >= 0) close(device->bell);
    for (int r = 0; device->peers != NULL && r < device->options.size; r++) {
        free(device->peers[r]);
    }
    for (unsigned b = 0; b < device->receive_block_count; b++) free(device->receive_blocks[b]);
    free(device->receive_blocks);
    free(device->peers);
    free(device->operations);
    free(device->bounces);
    free(device->writes);
    free(device->done);
    free(device);
}

static const struct card_device_ops ops = {.make_room = ofi_make_room,
                                           .enroll = ofi_enroll,
                                           .deregister = ofi_deregister,
                                           .target = ofi_target,
                                           .regions = ofi_count_regions,
                                           .prepare = ofi_prepare,
                                           .connect = ofi_connect,
                                           .state = ofi_state,
                                           .caller = ofi_caller,
                                           .forget = ofi_forget,
                                           .break_pair = ofi_break_pair,
                                           .post_receive = ofi_post_receive,
                                           .send = ofi_send,
                                           .write = ofi_write,
                                           .progress = ofi_progress,
                                           .poll = ofi_poll,
                                           .is_busy = ofi_is_busy,
                                           .look_again = ofi_look_again,
                                           .sleep = ofi_sleep,
                                           .wake = ofi_wake,
                                           .descriptor = ofi_descriptor,
                                           .stop = ofi_stop,
                                           .bytes = ofi_bytes,
                                           .free = ofi_free};

static enum tutti_status open_bell(struct ofi_device *device)
{
    struct epoll_event event = {.events = EPOLLIN};
    device->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (device->bell < 0) return error_system("a network card: eventfd");
    if (device->provider.queue_fd < 0) return TUTTI_OK;
    device->both = epoll_create1(EPOLL_CLOEXEC);
    if (device->both < 0 || epoll_ctl(device->both, EPOLL_CTL_ADD, device->bell, &event) != 0 ||
        epoll_ctl(device->both, EPOLL_CTL_ADD, device->provider.queue_fd, &event) != 0)
        return error_system("a network card: epoll");
    return TUTTI_OK;
}

static enum tutti_status add_operations(struct ofi_device *device)
{
    /* Whole messages are copied if they cannot be gathered, or if memory may not be registered. */
    const bool copies_all = device->provider.facts->tx_attr->iov_limit < 2 ||
                            ofi_provider_needs(&device->provider, FI_MR_LOCAL);
    const size_t copied = device->options.is_further ? 0
                          : copies_all               ? device->base.message_bytes
                                                     : CARD_INLINE_BYTES_MAX + COPIED_BYTES,
                 stride = (PREFIX_BYTES + copied + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    device->bounce_bytes = stride;
    const size_t count = device->provider.facts->tx_attr->size;
    device->operation_count = count > 0 && count < OPERATIONS_MAX ? (unsigned)count : OPERATIONS_MAX;
    device->operations = calloc(device->operation_count, sizeof *device->operations);
    device->bounces = aligned_alloc(ALIGNMENT, device->operation_count * stride);
    device->writes = calloc(WRITES_MAX, sizeof *device->writes);
    device->peers = calloc((size_t)device->options.size, sizeof(struct peer *));
    if (device->operations == NULL || device->bounces == NULL || device->writes == NULL ||
        device->peers == NULL)
        return out_of_memory();
    for (unsigned i = 0; i < device->operation_count; i++) {
        device->operations[i].bounce = device->bounces + i * stride;
        device->operations[i].next = device->free_operations;
        device->free_operations = &device->operations[i];
    }
    if (!ofi_provider_needs(&device->provider, FI_MR_LOCAL)) return TUTTI_OK;
    TRY(ofi_regions_make_room(device->regions, 1));
    device->bounce_key = ofi_regions_add(device->regions, device->bounces,
                                         device->operation_count * stride, CARD_ACCESS_OWN);
    return device->bounce_key != 0
               ? TUTTI_OK
               : ofi_provider_refused(&device->provider, "does not register memory", -FI_ENOMEM);
}

static void find_limits(struct ofi_device *device)
{
    const struct fi_info *info = device->provider.facts;
    const size_t most = info->ep_attr->max_msg_size, at_once = device->options.choice->message_bytes;
    size_t bytes = CARD_MESSAGE_BYTES_USUAL;
    if (at_once != 0 && at_once < bytes + PREFIX_BYTES)
        bytes =
            at_once < MESSAGE_BYTES_MIN + PREFIX_BYTES ? MESSAGE_BYTES_MIN : at_once - PREFIX_BYTES;
    if (bytes + PREFIX_BYTES > most) bytes = most > PREFIX_BYTES ? most - PREFIX_BYTES : 0;
    device->base.message_bytes = bytes / ALIGNMENT * ALIGNMENT;
    device->base.head_room = HEAD_ROOM;
    device->part_bytes = most < SIZE_MAX / 2 ? most : SIZE_MAX / 2;
    /* When a connection ends and the provider makes another one, writes may be lost although the
     * message behind them comes. */
    const struct ofi_choice *const choice = device->options.choice;
    const bool has_connections = strstr(choice->provider, "ofi_rxm") != NULL || choice->is_software;
    device->base.keeps_order =
        !device->options.is_of_several &&
        (info->tx_attr->msg_order & info->rx_attr->msg_order & FI_ORDER_SAW) != 0 &&
        !has_connections;
    device->posted_max = ofi_provider_receives_max(&device->provider);
}

static enum tutti_status open_device(struct ofi_device *device)
{
    const struct ofi_choice *choice = device->options.choice;
    TRY(ofi_provider_open(&device->provider, choice, device->options.card, device->options.size,
                          OPERATIONS_MAX));
    find_limits(device);
    if (device->base.message_bytes < 1024)
        return error_set(TUTTI_UNSUPPORTED, "provider %s of libfabric: messages of %zu bytes",
                         choice->provider, device->provider.facts->ep_attr->max_msg_size);
    TRY(ofi_regions_create(device->provider.verbs, device->provider.facts, device->provider.space,
                           device->provider.endpoint, &device->regions));
    TRY(open_bell(device));
    TRY(add_operations(device));
    return make_room_for_completions(device);
}

enum tutti_status ofi_device_create(const struct ofi_device_options *options,
                                    struct card_device **created)
{
    struct ofi_device *device = calloc(1, sizeof *device);
    *created = NULL;
    if (device == NULL) return out_of_memory();
    device->base.ops = &ops;
    device->options = *options;
    device->bell = device->both = -1;
    const enum tutti_status status = open_device(device);
    if (status != TUTTI_OK) {
        ofi_free(&device->base);
        return status;
    }
    *created = &device->base;
    return TUTTI_OK;
}
