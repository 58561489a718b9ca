/* device_state.h - the state that the parts of a device share. Each of them uses only those below
 * it:
 *
 *     ofi_device.c           opens the card, looks for completions, sleeps, and closes the card
 *     device_receives.c      receives that are posted, and the messages that come in them
 *     device_operations.c    messages and writes that were given to libfabric
 *     device_peers.c         greetings, states and troubles of peers
 *     device_completions.c   completions that the card's user has yet to see
 */
#ifndef TUTTI_TRANSPORT_OFI_DEVICE_STATE_H
#define TUTTI_TRANSPORT_OFI_DEVICE_STATE_H

#include <assert.h>
#include <stdatomic.h>

#include "base/status.h"
#include "transport/ofi/ofi_device.h"
#include "transport/ofi/provider.h"
#include "transport/ofi/regions.h"

enum {
    OFI_ALIGNMENT = 64,
    OFI_OPERATIONS_MAX = 256, /* given to libfabric at a time */
    OFI_WRITES_MAX = 256
};

/* Before each message. */
struct ofi_prefix {
    uint64_t nonce; /* that the receiving device has told the sender alone */
    uint32_t rank;  /* of the sender */
    uint32_t magic;
};

static const uint32_t OFI_PREFIX_MAGIC = 0x49544654; /* TFTI */

enum { OFI_PREFIX_BYTES = sizeof(struct ofi_prefix), OFI_HEAD_ROOM = 64 };

static_assert(OFI_PREFIX_BYTES <= OFI_HEAD_ROOM, "a prefix goes before a receive");

/* libfabric has a pointer to it while something is under way. */
struct ofi_context {
    struct fi_context2 own; /* libfabric's */
    enum ofi_work { OFI_SENDS, OFI_WRITES_PART, OFI_RECEIVES } work;
};

/* A message or a part of a write. */
struct ofi_operation {
    struct ofi_context context;
    struct ofi_operation *next; /* free */
    int peer;
    uint64_t id;    /* of a message */
    unsigned write; /* which one it is a part of */
    size_t bytes;
    unsigned char *bounce; /* for a prefix, a head and the bytes copied behind it */
};

struct ofi_write {
    bool is_used;
    int peer;
    uint64_t id, key, address;
    struct card_memory memory;
    void *descriptor;
    size_t given, landed;
    bool has_failed;
};

struct ofi_receive {
    struct ofi_context context;
    struct ofi_receive *next; /* to be posted; or spare */
    unsigned char *address;   /* of the message, behind its prefix */
    uint64_t key;
};

struct ofi_peer {
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
    bool is_stopped, has_let_go; /* let go: libfabric touches no memory any more */
    size_t part_bytes;           /* of a write, at most */
    int bell, both;
    _Atomic bool is_rung;
    bool is_restless, any_owed; /* greetings */
    bool may_have_opened;       /* libfabric may have a connection that it had not before */
    enum tutti_status shortage; /* OK: none */
    int short_for;              /* the peer that was to be reached */
    struct ofi_peer **peers;
    unsigned prepared_count;
    unsigned caller_count; /* that have greeted this rank, which has prepared nothing for them */
    unsigned strays;
    /* operations */
    struct ofi_operation *operations, *free_operations;
    unsigned operation_count;
    unsigned char *bounces;
    size_t bounce_bytes; /* of each */
    uint64_t bounce_key; /* 0: they need not be registered */
    struct ofi_write *writes;
    unsigned write_count; /* used */
    /* receives */
    struct ofi_receive **receive_blocks;
    unsigned receive_block_count;
    struct ofi_receive *unposted, *spare_receives;
    unsigned posted, posted_max;
    /* regions */
    struct ofi_regions *regions;
    unsigned looks; /* of progress */
    /* completions that are there already */
    struct card_completion *done;
    unsigned done_first, done_count, done_room; /* a ring; the room is a power of two */
    unsigned done_sends;                        /* of these */
};

static inline struct ofi_device *ofi_device_of(struct card_device *device)
{
    return (struct ofi_device *)device;
}

static inline const struct ofi_device *ofi_const_device_of(const struct card_device *device)
{
    return (const struct ofi_device *)device;
}

static inline enum tutti_status ofi_device_no_memory(void)
{
    return error_set(TUTTI_NO_MEMORY, "a network card: out of memory");
}

static inline bool ofi_peer_is_over(const struct ofi_peer *peer)
{
    return peer->state == CARD_PEER_LOST || peer->state == CARD_PEER_BROKEN;
}

#endif
