#include "transport/tcp/frame.h"

#include <assert.h>
#include <stddef.h>

#include "transport/transport.h"

enum {
    BYTES_AT = 4,
    SEQUENCE_AT = 8,
    OFFSET_AT = 16,
    SIGNATURE_AT = 24,
    CONSUMED_AT = 32,
    PLACE_AT = 40,
    CHECK_AT = 44
};
static_assert(CHECK_AT + sizeof(uint32_t) == TCP_FRAME_HEAD_BYTES, "the check is last");
static_assert(TRANSPORT_SLOT_COUNT <= UINT8_MAX && TRANSPORT_CHANNEL_COUNT <= UINT8_MAX,
              "slot and channel are a byte each");

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get(const unsigned char *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint32_t check_of(const unsigned char *head)
{
    uint32_t check =
        0x54757474; /* a connection of something else does not start with zeros that fit */
    for (size_t i = 0; i < CHECK_AT; i += 4) {
        check = (check ^ (uint32_t)get(head + i, 4)) * 0x9e3779b1u;
        check ^= check >> 15;
    }
    return check;
}

void tcp_frame_write(const struct tcp_frame *frame, unsigned char head[TCP_FRAME_HEAD_BYTES])
{
    head[0] = frame->kind;
    head[1] = frame->flags;
    head[2] = frame->slot;
    head[3] = frame->channel;
    put(head + BYTES_AT, frame->bytes, 4);
    put(head + SEQUENCE_AT, frame->sequence, 8);
    put(head + OFFSET_AT, frame->offset, 8);
    put(head + SIGNATURE_AT, frame->signature, 8);
    put(head + CONSUMED_AT, frame->consumed, 8);
    put(head + PLACE_AT, frame->place, 4);
    put(head + CHECK_AT, check_of(head), 4);
}

const char tcp_frame_changed[] = "a frame's check is wrong";

const char *tcp_frame_read(const unsigned char head[TCP_FRAME_HEAD_BYTES], struct tcp_frame *frame)
{
    if (get(head + CHECK_AT, 4) != check_of(head)) return tcp_frame_changed;
    *frame = (struct tcp_frame){.kind = head[0],
                                .flags = head[1],
                                .slot = head[2],
                                .channel = head[3],
                                .bytes = (uint32_t)get(head + BYTES_AT, 4),
                                .sequence = get(head + SEQUENCE_AT, 8),
                                .offset = get(head + OFFSET_AT, 8),
                                .signature = get(head + SIGNATURE_AT, 8),
                                .consumed = get(head + CONSUMED_AT, 8),
                                .place = (uint32_t)get(head + PLACE_AT, 4)};
    if (frame->slot >= TRANSPORT_SLOT_COUNT || frame->channel >= TRANSPORT_CHANNEL_COUNT)
        return "a frame of a link that cannot be";
    switch (frame->kind) {
    case TCP_FRAME_DATA: return frame->bytes > TCP_FRAME_BYTES_MAX ? "a frame is too long" : NULL;
    case TCP_FRAME_CREDIT:
    case TCP_FRAME_READY:
    case TCP_FRAME_HEARD: return frame->bytes > 0 ? "a frame has bytes that it should not" : NULL;
    case TCP_FRAME_CONTROL:
        return frame->bytes == 0 || frame->bytes > TCP_FRAME_CONTROL_BYTES_MAX
                   ? "a control message has a length that it cannot have"
                   : NULL;
    default: return "a frame of no known kind";
    }
}

void tcp_frame_write_check(uint32_t check, unsigned char at[TCP_FRAME_CHECK_BYTES])
{
    put(at, check, TCP_FRAME_CHECK_BYTES);
}

uint32_t tcp_frame_read_check(const unsigned char at[TCP_FRAME_CHECK_BYTES])
{
    return (uint32_t)get(at, TCP_FRAME_CHECK_BYTES);
}
