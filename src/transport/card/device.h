/* device.h - a network card with remote memory access, as the transport over it (card.h) needs it: memory is registered, receives are posted,
 * sends and writes complete some time later. Cards by libfabric are in ofi/, a simulated one for tests in virtual_card/.
 *
 *   rank a                                                              rank b
 *   send ──► operation ─┐                                           ┌─► posted receive ──► RECEIVED
 *   write ─► operation ─┴─────────────── whatever carries it ───────┴─► registered region
 *            SENT, WRITTEN
 *
 * Invariants
 *   1. A remote write lands inside a region that is registered for it at that moment, or is refused. After deregister has returned nothing is
 *      stored there, nor read from there, that was begun later; but a device may keep memory registered, and then only a peer that
 *      keeps to the protocol does not write there. After `stop` nobody does.
 *   2. What is sent or written is read from its memory at any time until it completes.
 *   3. Messages and writes overtake each other, and completions come in any order. A WRITTEN completion says that all of the bytes lie at
 *      the target. A SENT one says only that the device has no more to do with the message. A device that `keeps_order` promises that a
 *      message comes after all that was written to its peer before it; there WRITTEN only says that the bytes are not read any more.
 *   4. A message that finds no posted receive may break the pair of ranks.
 *   5. All queues are bounded: CARD_OPERATIONS_MAX operations and CARD_RECEIVES_MAX receives of each peer; a device may take fewer.
 *
 * Threads: one at a time, but for wake, which comes from any. Nothing waits but sleep. Only create, make_room, register and prepare allocate.
 */
#ifndef TUTTI_TRANSPORT_CARD_DEVICE_H
#define TUTTI_TRANSPORT_CARD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum {
    CARD_RECEIVES_MAX = 64,
    CARD_OPERATIONS_MAX = 64,
    CARD_MESSAGE_BYTES_MAX = 65536, /* that a device may take at most */
    CARD_INLINE_BYTES_MAX = 64
};

enum card_peer_state {
    CARD_PEER_UNUSED,
    CARD_PEER_WANTED, /* one side has connected, or none yet */
    CARD_PEER_UP,
    CARD_PEER_LOST,  /* its device is gone */
    CARD_PEER_BROKEN /* it sent what makes no sense, or there was an overrun */
};

/* OWN: this device reads and receives there. WRITTEN: other devices write there. */
enum card_access { CARD_ACCESS_OWN, CARD_ACCESS_WRITTEN };

/* Memory of this rank. */
struct card_memory {
    uint64_t key; /* 0: it is not registered, and a message copies it; nothing else can read it */
    const void *address;
    size_t bytes;
};

/* How a peer names a region: its first byte is `base` in the region `key`. */
struct card_target {
    uint64_t key, base;
};

enum card_work { CARD_SENT, CARD_WRITTEN, CARD_RECEIVED };
/* REFUSED: by the peer's device, see invariant 1. FLUSHED: its memory was deregistered, or its peer is gone or broken. */
enum card_result { CARD_DONE, CARD_REFUSED, CARD_FLUSHED };

struct card_completion {
    enum card_work work;
    enum card_result result;
    int peer;
    uint64_t id;
    size_t bytes;
    /* RECEIVED: where the message lies. It is memory of some posted receive, maybe of another peer; the one of `id` is posted instead. */
    void *data;
    uint64_t key;
};

struct card_device {
    const struct card_device_ops *ops;
    size_t message_bytes; /* of a message: a multiple of 64, up to CARD_MESSAGE_BYTES_MAX */
    bool keeps_order;     /* see invariant 3 */
    size_t head_room; /* before each posted receive so many bytes of its region are the device's: a multiple of 64 */
};

struct card_device_ops {
    /* So many regions more can be registered at a time. NO_MEMORY. */
    enum tutti_status (*make_room)(struct card_device *device, unsigned regions);
    /* Keys are this device's own; one is never used again. 0: too many regions, or the device cannot. */
    uint64_t (*enroll)(struct card_device *device, void *address, size_t bytes,
                       enum card_access access);
    /* Operations that have still to read from there complete as FLUSHED, posted receives there are gone, and writes are refused. */
    void (*deregister)(struct card_device *device, uint64_t key);
    /* Of a region that is registered to be written. */
    struct card_target (*target)(const struct card_device *device, uint64_t key);
    unsigned (*regions)(const struct card_device *device);

    /* Memory for what a pair of ranks needs; post receives then, and connect. NO_MEMORY. */
    enum tutti_status (*prepare)(struct card_device *device, int peer);
    /* Says to the peer that it may send: as many messages as receives are posted for it. */
    void (*connect)(struct card_device *device, int peer);
    enum card_peer_state (*state)(const struct card_device *device, int peer);
    /* When a device of that peer was last found in its place, whether it is looked at or not; 0: never. */
    uint64_t (*found_ns)(const struct card_device *device, int peer);
    /* A peer that has connected and for which nothing is prepared here; -1: none. */
    int (*caller)(const struct card_device *device);
    /* Nothing more is done to reach a peer that has not connected yet. */
    void (*forget)(struct card_device *device, int peer);
    /* Breaks the pair: what is under way is flushed, and what comes from there dropped. */
    void (*break_pair)(struct card_device *device, int peer);

    /* These return false when a queue is full: not now. `id` comes back with the completion. */
    bool (*post_receive)(struct card_device *device, int peer, uint64_t key, void *address,
                         uint64_t id); /* of message_bytes */
    /* A message of bytes that are copied now, up to CARD_INLINE_BYTES_MAX, and of memory, which may have 0 bytes. */
    bool (*send)(struct card_device *device, int peer, const void *head, size_t head_bytes,
                 const struct card_memory *memory, uint64_t id);
    /* Any number of bytes but 0, from `offset` of the target on. */
    bool (*write)(struct card_device *device, int peer, const struct card_target *target,
                  uint64_t offset, const struct card_memory *memory, uint64_t id);
    /* Moves what there is to move; true when something moved. */
    bool (*progress)(struct card_device *device);
    /* False: none is shown now. */
    bool (*poll)(struct card_device *device, struct card_completion *completion);
    /* Whether something is left that moves without anything coming from outside. */
    bool (*is_busy)(const struct card_device *device);

    /* The user has something left to do: it wants to be looked at soon, though nothing may come. */
    void (*look_again)(struct card_device *device);
    /* Until something comes, or is to be looked at again, or somebody wakes; at most timeout_ns. */
    void (*sleep)(struct card_device *device, uint64_t timeout_ns);
    void (*wake)(struct card_device *device);
    /* Readable when sleep would end early; asked again before each sleep. -1: there is none. It stays the device's. */
    int (*descriptor)(struct card_device *device);

    /* Nothing is sent, received or written any more, nor any memory touched that is not the device's. */
    void (*stop)(struct card_device *device);
    /* Memory that it has. */
    size_t (*bytes)(const struct card_device *device);
    void (*free)(struct card_device *device);
};

#endif
