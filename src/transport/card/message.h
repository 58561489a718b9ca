/* message.h - the messages that ranks send each other over a network card: a head of 64 bytes, some
 * with bytes behind it.
 *
 *   DATA    bytes of a link. sequence: the message's number on the link; offset: bytes that the
 *           link carried before it; signature: of its operation. Flag ANSWER: the sender waits to
 *           know that it is consumed
 *   PLACED  the same, of `length` bytes that the sender has written where the receiver offered:
 *           into its region `key`
 *   ASK     the same, of `length` bytes that the sender will write where the receiver says: the
 *           next ones, or those behind what it asked for before
 *   GRANT   the receiver of a link says that it is open, and how many messages of it are consumed.
 *           It offers its region `key`, which begins at `base`, for those `length` bytes of the
 *           link that begin at `offset` and belong to the operation `signature`; length 0: none.
 *           With a `room` the region has so many bytes, and is used again and again: byte i of the
 *           link goes to (i - offset) modulo room. key 0: there is none for these bytes, which come
 *           by messages. If the receiver has several cards, the region's places on the further ones
 *           follow (struct card_grant): as many as the length of the message says
 *   CREDIT  only the number that each message has: the receives that its sender has `posted` for
 *           the other one so far, modulo 2^32
 *
 * Messages overtake each other, and each can be understood alone. But a control message beside them
 * is heard only when all messages sent before it have come (transport/data_order.h). So each has a
 * number, which counts all messages that its sender sent to this peer, modulo 2^32.
 *
 * Every field is checked where it is used.
 */
#ifndef TUTTI_TRANSPORT_CARD_MESSAGE_H
#define TUTTI_TRANSPORT_CARD_MESSAGE_H

#include <assert.h>
#include <stdint.h>

#include "transport/card/card_device.h"

enum card_message_kind {
    CARD_MESSAGE_DATA = 1,
    CARD_MESSAGE_PLACED,
    CARD_MESSAGE_ASK,
    CARD_MESSAGE_GRANT,
    CARD_MESSAGE_CREDIT
};

/* Grows when ranks of another version would not understand these messages, or the bytes that
 * devices put before them. */
enum { CARD_PROTOCOL = 3 };

enum {
    CARD_MESSAGE_HEAD_BYTES = 64,
    CARD_PIECE_BYTES_MAX = CARD_MESSAGE_BYTES_MAX - CARD_MESSAGE_HEAD_BYTES, /* of any device */
    CARD_MESSAGE_ANSWER = 1                                                  /* flag */
};

struct card_message {
    uint8_t kind, flags;
    uint16_t index; /* of the link: slot * TRANSPORT_CHANNEL_COUNT + channel */
    uint32_t number;
    union {
        uint64_t sequence, base;
    };
    uint64_t offset, signature, consumed, key, length;
    uint32_t posted, room;
};

static_assert(sizeof(struct card_message) == CARD_MESSAGE_HEAD_BYTES, "a head");

struct card_grant {
    struct card_message message;
    struct card_place further[CARD_FURTHER_MAX];
};

static_assert(sizeof(struct card_grant) <= (size_t)CARD_INLINE_BYTES_MAX, "goes inline");

#endif
