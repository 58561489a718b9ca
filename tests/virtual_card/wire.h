/* wire.h - the contract of a wire, which carries packets from one simulated network card to
 * another.
 *
 * A wire belongs to one device. It loses nothing between two devices that live, may deliver in any
 * order, and takes as much as it has room for: the rest waits in the device. The packets that it
 * delivers are foreign: a wire says which rank has sent a packet as far as it can know, and the
 * device checks the rest.
 *
 * Threads: one at a time, but for wake, which comes from any thread. Only sleep waits.
 */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_WIRE_H
#define TUTTI_TESTS_VIRTUAL_CARD_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { CARD_PACKET_HEAD_BYTES = 64, CARD_PACKET_BYTES_MAX = CARD_PACKET_HEAD_BYTES + 4096 };

/* FULL: not now. NOBODY: there is no device of that rank, not yet or not any more. */
enum card_wire_result { CARD_WIRE_TOOK, CARD_WIRE_FULL, CARD_WIRE_NOBODY };

struct card_wire {
    const struct card_wire_ops *ops;
};

struct card_wire_ops {
    /* Sends a packet of up to CARD_PACKET_BYTES_MAX bytes, which are copied. */
    enum card_wire_result (*send)(struct card_wire *wire, int to, const void *packet, size_t bytes);
    /* Copies the next packet that has come to CARD_PACKET_BYTES_MAX bytes; returns its bytes, and 0
     * when there is none. *from: the rank that has sent it; packets from outside of the job have
     * been dropped before. */
    size_t (*receive)(struct card_wire *wire, void *packet, int *from);
    /* Nanoseconds of a clock that only goes forward. */
    uint64_t (*now_ns)(const struct card_wire *wire);
    /* The device has work left, and is to be looked at soon even if nothing comes. */
    void (*look_again)(struct card_wire *wire);
    /* Sleeps until something comes, or look_again was called, or a thread calls wake; at most
     * timeout_ns. */
    void (*sleep)(struct card_wire *wire, uint64_t timeout_ns);
    void (*wake)(struct card_wire *wire);
    /* Readable when sleep would end early; -1: there is none. It stays the wire's. */
    int (*descriptor)(struct card_wire *wire);
    void (*close)(struct card_wire *wire);
};

#endif
