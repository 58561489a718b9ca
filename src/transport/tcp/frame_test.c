/* Frames are read as they were written, and changes on the way are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "transport/tcp/frame.h"
#include "transport/transport.h"

static const struct tcp_frame sample = {.kind = TCP_FRAME_DATA,
                                        .flags = TCP_FRAME_ANSWER,
                                        .slot = 17,
                                        .channel = 3,
                                        .bytes = 65536,
                                        .sequence = 0x0102030405060708,
                                        .offset = UINT64_MAX,
                                        .signature = 0xfedcba9876543210,
                                        .consumed = 77,
                                        .place = 9};

static void what_is_written_is_read(void **state)
{
    (void)state;
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    struct tcp_frame read;
    tcp_frame_write(&sample, head);
    assert_null(tcp_frame_read(head, &read));
    assert_int_equal(read.kind, sample.kind);
    assert_int_equal(read.flags, sample.flags);
    assert_int_equal(read.slot, sample.slot);
    assert_int_equal(read.channel, sample.channel);
    assert_int_equal(read.bytes, sample.bytes);
    assert_true(read.sequence == sample.sequence && read.offset == sample.offset);
    assert_true(read.signature == sample.signature && read.consumed == sample.consumed);
    assert_int_equal(read.place, sample.place);
}

static void the_form_is_the_one_that_is_written_down(void **state)
{
    (void)state;
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    tcp_frame_write(&sample, head);
    static const unsigned char begin[] = {1, 1, 17, 3, 0, 0, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1};
    assert_memory_equal(head, begin, sizeof begin);
    assert_int_equal(head[24], 0x10);
    assert_int_equal(head[32], 77);
    assert_int_equal(head[40], 9);
}

static void any_changed_bit_is_found(void **state)
{
    (void)state;
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    struct tcp_frame read;
    tcp_frame_write(&sample, head);
    for (unsigned bit = 0; bit < 8 * TCP_FRAME_HEAD_BYTES; bit++) {
        head[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_non_null(tcp_frame_read(head, &read));
        head[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

static void expect_refused(struct tcp_frame frame)
{
    unsigned char head[TCP_FRAME_HEAD_BYTES];
    struct tcp_frame read;
    tcp_frame_write(&frame, head);
    assert_non_null(tcp_frame_read(head, &read));
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct tcp_frame frame = sample;
    frame.kind = 0;
    expect_refused(frame);
    frame.kind = TCP_FRAME_HEARD + 1;
    expect_refused(frame);
    frame = sample;
    frame.slot = TRANSPORT_SLOT_COUNT;
    expect_refused(frame);
    frame = sample;
    frame.channel = TRANSPORT_CHANNEL_COUNT;
    expect_refused(frame);
    frame = sample;
    frame.bytes = 65537;
    expect_refused(frame);
    frame.kind = TCP_FRAME_CREDIT;
    frame.bytes = 1;
    expect_refused(frame);
    frame.kind = TCP_FRAME_HEARD;
    expect_refused(frame);
    frame.kind = TCP_FRAME_CONTROL;
    frame.bytes = 0;
    expect_refused(frame);
    frame.bytes = TCP_FRAME_CONTROL_BYTES_MAX + 1;
    expect_refused(frame);
    unsigned char zeros[TCP_FRAME_HEAD_BYTES] = {0};
    assert_non_null(tcp_frame_read(zeros, &frame));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_form_is_the_one_that_is_written_down),
        cmocka_unit_test(any_changed_bit_is_found),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
