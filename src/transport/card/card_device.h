/* card_device.h - the contract of a network card with remote memory access, as the transport over
 * it (card.h) needs it: memory is registered, receives are posted, sends and writes complete some
 * time later. Cards driven by libfabric are in ofi/, a simulated one for tests is in virtual_card/.
 * card_rails.h makes one device of several.
 *
 *   rank a                                                              rank b
 *   send ──► operation ─┐                                           ┌─► posted receive ──► RECEIVED
 *   write ─► operation ─┴─────────────── whatever carries it ───────┴─► registered region
 *            SENT, WRITTEN
 *
 * Invariants
 *   1. A remote write lands inside a region that is registered for it at that moment, or is
 *      refused. After deregister has returned, no operation that begins later stores or reads
 *      there. But a device may keep memory registered; then it relies on peers to keep to the
 *      protocol and not write there. After `stop` no peer can, unless it returned false.
 *   2. The memory of a send or write is read at any time until the operation completes.
 *   3. Messages and writes overtake each other, and completions come in any order. A WRITTEN
 *      completion says that all of the bytes lie at the target. A SENT completion says only that
 *      the device has no more to do with the message. A device with `keeps_order` promises that a
 *      message comes after all bytes that were written to its peer before it; there, WRITTEN only
 *      says that the bytes are not read any more.
 *   4. A message that finds no posted receive may break the pair of ranks.
 *   5. All queues are bounded: CARD_OPERATIONS_MAX operations and CARD_RECEIVES_MAX receives for
 *      each peer; a device may take fewer.
 *
 * Threads: one at a time, but for wake, which comes from any thread. Only sleep waits. Only create,
 * make_room, enroll and prepare allocate.
 */
#ifndef TUTTI_TRANSPORT_CARD_CARD_DEVICE_H
#define TUTTI_TRANSPORT_CARD_CARD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    CARD_RECEIVES_MAX = 64,
    CARD_OPERATIONS_MAX = 64,
    CARD_MESSAGE_BYTES_MAX = 65536,   /* that a device may take at most */
    CARD_MESSAGE_BYTES_USUAL = 16320, /* and what one takes unless its maker wants less at once */
    CARD_INLINE_BYTES_MAX = 128,
    CARD_FURTHER_MAX = 3 /* cards of a rank beside its first */
};

enum card_peer_state {
    CARD_PEER_UNUSED,
    CARD_PEER_WANTED, /* one side has connected, or none yet */
    CARD_PEER_UP,
    CARD_PEER_LOST,  /* its device is gone */
    CARD_PEER_BROKEN /* it sent what makes no sense, or there was an overrun */
};

/* OWN: this device sends messages from there, and receives there. SOURCE: it also writes from there
 * to memory of peers. WRITTEN: other devices write there. */
enum card_access { CARD_ACCESS_OWN, CARD_ACCESS_SOURCE, CARD_ACCESS_WRITTEN };

/* Memory of this rank. */
struct card_memory {
    uint64_t key; /* 0: it is not registered, and a message copies it; nothing else can read it */
    const void *address;
    size_t bytes;
};

/* How a peer names a region on one card: its first byte is `base` in the region `key`. */
struct card_place {
    uint64_t key, base;
};

/* The same on all cards of a rank. */
struct card_target {
    uint64_t key, base;                          /* on the first card */
    struct card_place further[CARD_FURTHER_MAX]; /* key 0: it is not registered there */
};

enum card_work { CARD_SENT, CARD_WRITTEN, CARD_RECEIVED };
/* REFUSED: by the peer's device, see invariant 1. FLUSHED: the operation's memory was deregistered,
 * or its peer is gone or broken. */
enum card_result { CARD_DONE, CARD_REFUSED, CARD_FLUSHED };

struct card_completion {
    enum card_work work;
    enum card_result result;
    int peer;
    uint64_t id;
    size_t bytes;
    /* RECEIVED: where the message lies. It is memory of some posted receive, maybe one for another
     * peer; the receive of `id` stays posted in its place. */
    void *data;
    uint64_t key;
};

struct card_device {
    const struct card_device_ops *ops;
    size_t message_bytes; /* of a message: a multiple of 64, up to CARD_MESSAGE_BYTES_MAX */
    bool keeps_order;     /* see invariant 3 */
    unsigned further;     /* cards beside the first (card_rails.h) */
    size_t head_room; /* before each posted receive so many bytes of its region are the device's: a multiple of 64 */
};

struct card_device_ops {
    /* Makes room for so many more regions at a time. NO_MEMORY. */
    enum tutti_status (*make_room)(struct card_device *device, unsigned regions);
    /* Registers memory and returns its key. Keys are this device's own, and none is used twice. 0:
     * too many regions, or the device cannot. */
    uint64_t (*enroll)(struct card_device *device, void *address, size_t bytes,
                       enum card_access access);
    /* Operations that have yet to read from there complete as FLUSHED, posted receives there are
     * gone, and writes are refused. */
    void (*deregister)(struct card_device *device, uint64_t key);
    /* How peers name a region that is registered to be written. */
    struct card_target (*target)(const struct card_device *device, uint64_t key);
    unsigned (*regions)(const struct card_device *device);

    /* Makes the memory that a pair of ranks needs; after that the caller posts receives, and
     * connects. NO_MEMORY. */
    enum tutti_status (*prepare)(struct card_device *device, int peer);
    /* Tells the peer that it may send as many messages as receives are posted for it. */
    void (*connect)(struct card_device *device, int peer);
    enum card_peer_state (*state)(const struct card_device *device, int peer);
    /* A peer that has connected and for which nothing is prepared here; -1: none. */
    int (*caller)(const struct card_device *device);
    /* Nothing more is done to reach a peer that has not connected yet. */
    void (*forget)(struct card_device *device, int peer);
    /* Breaks the pair: operations under way are flushed, and whatever comes from the peer is
     * dropped. */
    void (*break_pair)(struct card_device *device, int peer);

    /* These return false when a queue is full: not now. `id` comes back with the completion. */
    bool (*post_receive)(struct card_device *device, int peer, uint64_t key, void *address,
                         uint64_t id); /* of message_bytes */
    /* Sends a message: a head of up to CARD_INLINE_BYTES_MAX bytes, which are copied now, and
     * memory, which may have 0 bytes. */
    bool (*send)(struct card_device *device, int peer, const void *head, size_t head_bytes,
                 const struct card_memory *memory, uint64_t id);
    /* Writes any number of bytes but 0, from `offset` of the target on. */
    bool (*write)(struct card_device *device, int peer, const struct card_target *target,
                  uint64_t offset, const struct card_memory *memory, uint64_t id);
    /* Moves whatever can move; true if something moved. */
    bool (*progress)(struct card_device *device);
    /* Shows the next completion. False: there is none now. */
    bool (*poll)(struct card_device *device, struct card_completion *completion);
    /* Whether there is work left that goes on without anything coming from outside. */
    bool (*is_busy)(const struct card_device *device);

    /* The user has work left, and is to be woken soon even if nothing comes. */
    void (*look_again)(struct card_device *device);
    /* Sleeps until something comes, or look_again was called, or a thread calls wake; at most
     * timeout_ns. */
    void (*sleep)(struct card_device *device, uint64_t timeout_ns);
    void (*wake)(struct card_device *device);
    /* A descriptor that is readable when sleep would end early; asked for again before each sleep.
     * -1: there is none. It stays the device's. */
    int (*descriptor)(struct card_device *device);

    /* From now on nothing is sent, received or written. True: no memory but the device's own is
     * touched any more. False: the card does not let go. What it has been given for receives, or
     * for peers to write to, must not be used for anything else then, also after `free`. Asked
     * again, it tries again. */
    bool (*stop)(struct card_device *device);
    /* The memory that it holds. */
    size_t (*bytes)(const struct card_device *device);
    void (*free)(struct card_device *device);
};

#endif
