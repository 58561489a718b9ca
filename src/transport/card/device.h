/* device.h - a simulated network card with remote memory access, for tests of what is built over one. The verbs are those of real
 * cards: memory is registered, receives are posted, sends and writes complete some time later.
 *
 *   rank a                                                              rank b
 *   send ──► operation ─┐                 ┌─ wire ─┐                 ┌─► posted receive ──► RECEIVED
 *   write ─► operation ─┴─ packets, ──────┤        ├── packets come ─┴─► registered region
 *            SENT, WRITTEN ◄── ack ───────┘        └─ acks
 *
 * Invariants
 *   1. Nobody stores into another rank's memory: the target's own device does, in its progress.
 *   2. A remote write lands inside a region that is registered at that moment, or is refused: a fault that both sides count.
 *      After card_device_deregister has returned nothing is stored there, and nothing read from there.
 *   3. What is sent or written is read from registered memory, when its packet goes: as late as may be.
 *   4. Packets are taken, stored and acknowledged in any order, and completions are shown late and in any order, as the seed
 *      draws. A SENT or WRITTEN completion says that all of its bytes lie at the target. Nothing else is ordered.
 *   5. A message that finds no posted receive is an overrun, which breaks the pair of ranks: its receiver drops all that
 *      comes from there, and the sender hears no more.
 *   6. All queues are bounded: CARD_OPERATIONS_MAX operations, CARD_RECEIVES_MAX receives and CARD_PACKETS_MAX packets under way
 *      to each peer. What the wire does not take waits in its operation.
 *   7. A peer from which nothing comes is sent a packet now and then, so that a device which is gone is found.
 *   8. What comes from a wire is foreign and checked. What makes no sense breaks the pair, and is dropped before a peer is known.
 *
 * Threads: one at a time. Nothing waits. Only create, make_room and prepare allocate.
 */
#ifndef TUTTI_TRANSPORT_CARD_DEVICE_H
#define TUTTI_TRANSPORT_CARD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/card/wire.h"
#include "tutti/tutti.h"

enum {
    CARD_RECEIVES_MAX = 64,
    CARD_OPERATIONS_MAX = 64,
    CARD_PACKETS_MAX = 16, /* to one peer, not acknowledged */
    CARD_MESSAGE_BYTES_MAX = 4096,
    CARD_INLINE_BYTES_MAX = 64
};

struct card_device_options {
    int rank, size;
    uint64_t nonce; /* of this device: not 0, and another one each time */
    uint64_t seed;  /* of all that is drawn */
};

struct card_device; /* opaque */

/* Takes the wire, also on failure. NO_MEMORY. */
enum tutti_status card_device_create(const struct card_device_options *options,
                                     struct card_wire *wire, struct card_device **device);
void card_device_free(struct card_device *device);

/* ------------------------------------------------------------------------------------------- memory */

/* So many regions more can be registered at a time. NO_MEMORY. */
enum tutti_status card_device_make_room(struct card_device *device, unsigned regions);
/* Other devices may write there once they know the key, and this one may read. Keys are never used again. 0: too many regions. */
uint64_t card_device_register(struct card_device *device, void *address, size_t bytes);
/* Operations that have still to read from there complete as FLUSHED, posted receives there are gone, and writes are refused. */
void card_device_deregister(struct card_device *device, uint64_t key);
unsigned card_device_regions(const struct card_device *device);

/* -------------------------------------------------------------------------------------------- peers */

enum card_peer_state {
    CARD_PEER_UNUSED,
    CARD_PEER_WANTED, /* one side has connected, or none yet */
    CARD_PEER_UP,
    CARD_PEER_LOST,  /* its device is gone */
    CARD_PEER_BROKEN /* it sent what makes no sense, or there was an overrun */
};

/* Memory for what a pair of ranks needs; post receives then, and connect. NO_MEMORY. */
enum tutti_status card_device_prepare(struct card_device *device, int peer);
/* Says to the peer that it may send: as many messages as receives are posted for it. */
void card_device_connect(struct card_device *device, int peer);
enum card_peer_state card_device_state(const struct card_device *device, int peer);
/* When the wire last found a device of that peer in its place, whether it is looked at or not; 0: never. */
uint64_t card_device_found_ns(const struct card_device *device, int peer);
/* A peer that has connected and for which nothing is prepared here; -1: none. */
int card_device_caller(const struct card_device *device);
/* Nothing more is done to reach a peer that has not connected yet. */
void card_device_forget(struct card_device *device, int peer);
/* Breaks the pair: what is under way is flushed, and what comes from there dropped. */
void card_device_break(struct card_device *device, int peer);

/* ------------------------------------------------------------------------------------------- moving */

/* Registered memory of this rank. */
struct card_memory {
    uint64_t key;
    const void *address;
    size_t bytes;
};

/* These return false when a queue is full: not now. `id` comes back with the completion. */
bool card_device_post_receive(struct card_device *device, int peer, uint64_t key, void *address,
                              uint64_t id); /* of CARD_MESSAGE_BYTES_MAX */
/* A message of bytes that are copied now, up to CARD_INLINE_BYTES_MAX, and of memory, which may have 0 bytes. */
bool card_device_send(struct card_device *device, int peer, const void *head, size_t head_bytes,
                      const struct card_memory *memory, uint64_t id);
/* Any number of bytes but 0. */
bool card_device_write(struct card_device *device, int peer, uint64_t key, uint64_t offset,
                       const struct card_memory *memory, uint64_t id);

enum card_work { CARD_SENT, CARD_WRITTEN, CARD_RECEIVED };
/* REFUSED: by the peer's device, see invariant 2. FLUSHED: its memory was deregistered, or its peer is gone or broken. */
enum card_result { CARD_DONE, CARD_REFUSED, CARD_FLUSHED };

struct card_completion {
    enum card_work work;
    enum card_result result;
    int peer;
    uint64_t id;
    size_t bytes;
};

/* Moves packets; true when something moved. */
bool card_device_progress(struct card_device *device);
/* False: none is shown now. */
bool card_device_poll(struct card_device *device, struct card_completion *completion);
/* Whether something is left that moves without anything coming from outside. */
bool card_device_is_busy(const struct card_device *device);

struct card_device_counts {
    unsigned overruns;
    unsigned refused;          /* writes from peers, by this device */
    unsigned refused_by_peers; /* its own */
    unsigned strays;           /* packets that no peer would send, dropped */
    unsigned writes, sends;    /* packets that were stored here */
    unsigned turned;           /* packets stored, and completions shown, before earlier ones */
};

/* Memory that it has. */
size_t card_device_bytes(const struct card_device *device);
void card_device_count(const struct card_device *device, struct card_device_counts *counts);

#endif
