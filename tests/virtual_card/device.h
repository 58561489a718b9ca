/* device.h - a simulated network card (transport/card/card_device.h), for tests of the modules
 * above such a device. It is a strict one.
 *
 *   rank a                                                              rank b
 *   send ──► operation ─┐                 ┌─ wire ─┐                 ┌─► posted receive ──► RECEIVED
 *   write ─► operation ─┴─ packets, ──────┤        ├── packets come ─┴─► registered region
 *            SENT, WRITTEN ◄── ack ───────┘        └─ acks
 *
 * Invariants
 *   1. No rank stores into another rank's memory: the target's own device does, in its progress.
 *   2. A remote write lands inside a region that is registered at that moment, or is refused: a
 *      fault that both sides count. After card_device_deregister has returned, nothing is stored to
 *      or read from the region.
 *   3. Bytes that are sent or written are read from registered memory when their packet goes: as
 *      late as allowed.
 *   4. Packets are taken, stored and acknowledged in any order, and completions are shown late and
 *      in any order, as the seed draws. A SENT or WRITTEN completion says that all of its bytes lie
 *      at the target. Nothing else is ordered.
 *   5. A message that finds no posted receive is an overrun, which breaks the pair of ranks: the
 *      receiver drops all that comes from the sender, and the sender hears no more.
 *   6. All queues are bounded: CARD_OPERATIONS_MAX operations, CARD_RECEIVES_MAX receives and
 *      CARD_PACKETS_MAX packets under way to each peer. Packets that the wire does not take wait in
 *      their operation.
 *   7. A peer from which nothing comes is sent a packet now and then, so that a device which is
 *      gone is found.
 *   8. Packets that come from a wire are foreign and checked. A packet that makes no sense breaks
 *      the pair; as long as the peer is not known, it is dropped.
 *
 * Threads: one at a time. Nothing waits. Only create, make_room and prepare allocate memory.
 */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_DEVICE_H
#define TUTTI_TESTS_VIRTUAL_CARD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/virtual_card/wire.h"
#include "transport/card/card_device.h"
#include "tutti/tutti.h"

enum {
    VIRTUAL_CARD_MESSAGE_BYTES = 4096,
    CARD_PACKETS_MAX = 16 /* to one peer, not acknowledged */
};

struct virtual_card_options {
    int rank, size;
    uint64_t nonce; /* of this device: a new one each time; 0: at random */
    uint64_t seed;  /* of all that is drawn */
};

/* Takes the wire, also on failure. NO_MEMORY, SYSTEM. */
enum tutti_status virtual_card_create(const struct virtual_card_options *options,
                                      struct card_wire *wire, struct card_device **device);

struct virtual_card_counts {
    unsigned overruns;
    unsigned refused;          /* writes from peers, by this device */
    unsigned refused_by_peers; /* its own */
    unsigned unread;        /* sends and writes whose memory was deregistered before it was read */
    unsigned strays;        /* packets that no peer would send, dropped */
    unsigned writes, sends; /* packets that were stored here */
    unsigned turned;        /* packets stored, and completions shown, before earlier ones */
};

void virtual_card_count(const struct card_device *device, struct virtual_card_counts *counts);

#endif
