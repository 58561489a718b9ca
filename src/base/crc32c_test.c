/* CRC-32C: published vectors, and each way to compute it against the definition, bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "tests/kit/chance.h"

typedef uint32_t checksum(uint32_t so_far, const void *data, size_t bytes);

/* Long division by the polynomial x^32 + x^28 + x^27 + x^26 + x^25 + x^23 + x^22 + x^20 + x^19 +
 * x^18 + x^14 + x^13 + x^11 + x^10 + x^9 + x^8 + x^6 + 1: 0x1edc6f41, here with its bits
 * reversed. */
static uint32_t by_definition(uint32_t so_far, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint32_t crc = ~so_far;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= next[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static unsigned char *make_bytes(size_t bytes, uint64_t seed)
{
    unsigned char *made = malloc(bytes);
    assert_non_null(made);
    for (size_t i = 0; i < bytes; i++) made[i] = (unsigned char)(chance_next(&seed) >> 23);
    return made;
}

static void expect_published(checksum *compute)
{
    unsigned char zeros[32] = {0}, ones[32], rising[32], falling[32];
    /* A SCSI read command, as RFC 3720 has it. */
    static const unsigned char command[48] = {
        0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 4, 0,
        0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 2,    0, 0, 0, 0, 0, 0, 0};
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        rising[i] = (unsigned char)i;
        falling[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(compute(0, zeros, sizeof zeros), 0x8a9136aa);
    assert_int_equal(compute(0, ones, sizeof ones), 0x62a8ab43);
    assert_int_equal(compute(0, rising, sizeof rising), 0x46dd794e);
    assert_int_equal(compute(0, falling, sizeof falling), 0x113fdb5c);
    assert_int_equal(compute(0, command, sizeof command), 0xd9963a56);
    assert_int_equal(compute(0, "123456789", 9), 0xe3069283); /* the usual one of catalogues */
    assert_int_equal(compute(0, NULL, 0), 0);
}

static void vectors_of_rfc_3720_come_out(void **state)
{
    (void)state;
    expect_published(by_definition);
    expect_published(crc32c);
    expect_published(crc32c_by_tables);
    if (crc32c_has_instructions()) expect_published(crc32c_by_instructions);
}

static void expect_definition(checksum *compute)
{
    enum { LENGTHS = 300, OFFSETS = 9, ROUNDS = 9 };
    unsigned char *data = make_bytes(64 << 10, 7);
    for (size_t offset = 0; offset < OFFSETS; offset++)
        for (size_t bytes = 0; bytes <= LENGTHS; bytes++)
            assert_int_equal(compute((uint32_t)bytes, data + offset, bytes),
                             by_definition((uint32_t)bytes, data + offset, bytes));
    /* Around what is checked in blocks. */
    for (size_t bytes = 300; bytes < (64 << 10) - OFFSETS; bytes += 1 + bytes / 50)
        assert_int_equal(compute(5, data + bytes % OFFSETS, bytes),
                         by_definition(5, data + bytes % OFFSETS, bytes));
    assert_int_equal(compute(0, data, 64 << 10), by_definition(0, data, 64 << 10));
    free(data);
}

static void any_length_at_any_offset_comes_out(void **state)
{
    (void)state;
    expect_definition(crc32c);
    expect_definition(crc32c_by_tables);
    if (crc32c_has_instructions()) expect_definition(crc32c_by_instructions);
}

static void parts_come_out_as_the_whole(void **state)
{
    (void)state;
    enum { BYTES = 20000 };
    unsigned char *data = make_bytes(BYTES, 9);
    const uint32_t whole = by_definition(0, data, BYTES);
    for (size_t step = 1; step < BYTES; step = step * 3 + 1) {
        uint32_t crc = 0;
        for (size_t at = 0; at < BYTES; at += step)
            crc = crc32c(crc, data + at, at + step < BYTES ? step : BYTES - at);
        assert_int_equal(crc, whole);
    }
    free(data);
}

static void every_flipped_bit_shows(void **state)
{
    (void)state;
    enum { BYTES = 4000 };
    unsigned char *data = make_bytes(BYTES, 11);
    const uint32_t right = crc32c(0, data, BYTES);
    for (size_t bit = 0; bit < 8 * BYTES; bit += 7) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(crc32c(0, data, BYTES) != right);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_rfc_3720_come_out),
        cmocka_unit_test(any_length_at_any_offset_comes_out),
        cmocka_unit_test(parts_come_out_as_the_whole),
        cmocka_unit_test(every_flipped_bit_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
