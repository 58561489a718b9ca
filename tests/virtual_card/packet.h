/* packet.h - the packets between two simulated network cards: a head of 64 bytes, and up to 4 KiB
 * behind it.
 *
 *   CONNECT  this device has receives posted for you. to_nonce 0: it does not know your device yet
 *   SEND     bytes for one of the receives that are posted for this sender
 *   WRITE    bytes for `offset` of the region `key`
 *   ACK      one record or more behind the head: the fates of packets that the receiver had sent
 *
 * Both devices are on one host: numbers are in its order of bytes. Every field is checked where it
 * is used.
 */
#ifndef TUTTI_TESTS_VIRTUAL_CARD_PACKET_H
#define TUTTI_TESTS_VIRTUAL_CARD_PACKET_H

#include <assert.h>
#include <stdint.h>

#include "tests/virtual_card/wire.h"

enum card_packet_kind {
    CARD_PACKET_CONNECT = 1,
    CARD_PACKET_SEND,
    CARD_PACKET_WRITE,
    CARD_PACKET_ACK
};

enum {
    CARD_PACKET_MAGIC = 0x74634131,
    CARD_PACKET_DATA_MAX = CARD_PACKET_BYTES_MAX - CARD_PACKET_HEAD_BYTES
};

struct card_packet {
    uint32_t magic;
    uint32_t kind;
    uint32_t from;  /* rank */
    uint32_t bytes; /* behind the head */
    uint64_t from_nonce,
        to_nonce; /* each device draws one: what is meant for an earlier device of a rank is dropped */
    uint32_t op, generation; /* the sender's, for its acknowledgement */
    uint64_t key, offset;
    uint64_t reserved;
};

struct card_ack {
    uint32_t op, generation;
    uint32_t is_refused, reserved;
};

static_assert(sizeof(struct card_packet) == CARD_PACKET_HEAD_BYTES, "a head");

#endif
