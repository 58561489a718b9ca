/* frame.h - the frames that go over a connection: heads of a fixed size, some with bytes of a link
 * behind them.
 *
 *   byte  0     kind          8-15   sequence           40-43  place
 *         1     flags        16-23   offset             44-47  check: of all before it
 *         2     slot         24-31   signature
 *         3     channel      32-39   consumed           all little-endian
 *         4-7   bytes behind the head
 *
 *   DATA    one piece of a link. sequence: its number; offset: bytes that the link carried before
 *           it; signature: of its operation; place: of the receiver's, for pieces that are not
 *           small, or EXPECTED; consumed: pieces that this side has consumed of the link back (same
 *           slot and channel). Flag ANSWER: the sender waits to know that it is consumed.
 *   CREDIT  the receiver of a link says that it is open, and that `consumed` pieces of it are
 *           consumed; and that pieces of the operation `signature` that end at `offset` bytes of
 *           the link or before need no place, as they are expected. Flag RESUME, before READY only:
 *           sequence has a bit for each piece from `consumed` on that has come.
 *   READY   ends the frames with which a new connection starts. sequence: the rank; offset:
 *           piece_bytes; place: piece_count; signature: the version of all this; consumed: control
 *           messages that this side has heard. Flag CHECKED: payloads that this side sends from now
 *           on are checked.
 *   CONTROL what a rank tells the other besides data. sequence: its number.
 *   HEARD   consumed: control messages that this side has heard.
 *
 * The check finds accidental changes, not malice; so every field is also checked where it is used.
 * The check of a head does not cover the bytes behind it. If these are checked, too, their CRC-32C
 * (base/crc32c.h), 4 bytes, lies between the two, unless there are 0 bytes behind the head.
 */
#ifndef TUTTI_TRANSPORT_TCP_FRAME_H
#define TUTTI_TRANSPORT_TCP_FRAME_H

#include <stdint.h>

enum tcp_frame_kind {
    TCP_FRAME_DATA = 1,
    TCP_FRAME_CREDIT,
    TCP_FRAME_READY,
    TCP_FRAME_CONTROL,
    TCP_FRAME_HEARD
};

enum {
    TCP_FRAME_HEAD_BYTES = 48,
    TCP_FRAME_BYTES_MAX = 64 << 10, /* behind the head */
    TCP_FRAME_CONTROL_BYTES_MAX = 512,
    TCP_FRAME_ANSWER = 1, /* flags */
    TCP_FRAME_RESUME = 2,
    TCP_FRAME_CHECKED = 4,
    TCP_FRAME_CHECK_BYTES = 4,
    TCP_FRAME_VERSION = 3
};

#define TCP_FRAME_NO_PLACE UINT32_MAX
#define TCP_FRAME_EXPECTED (UINT32_MAX - 1)

struct tcp_frame {
    uint8_t kind, flags, slot, channel;
    uint32_t bytes;
    uint64_t sequence, offset, signature, consumed;
    uint32_t place;
};

void tcp_frame_write(const struct tcp_frame *frame, unsigned char head[TCP_FRAME_HEAD_BYTES]);
/* Checks a head. Returns a text that says what is wrong with it, or NULL: then kind, slot, channel
 * and bytes are within their bounds. */
const char *tcp_frame_read(const unsigned char head[TCP_FRAME_HEAD_BYTES], struct tcp_frame *frame);
/* The text that tcp_frame_read returns if the head is not as it was written. */
extern const char tcp_frame_changed[];
/* The check of the bytes behind a head. */
void tcp_frame_write_check(uint32_t check, unsigned char at[TCP_FRAME_CHECK_BYTES]);
uint32_t tcp_frame_read_check(const unsigned char at[TCP_FRAME_CHECK_BYTES]);

#endif
