#include "base/crc32c.h"

/* Eight bytes a step, by eight tables: Kounavis and Berry, "A Systematic Approach to Building High
 * Performance Software-Based CRC Generators", ISCC 2005. Table t has the checksum of each byte with
 * t zeros behind it. A checksum is linear, so an entry is the sum of those of its bits; so the
 * compiler makes the tables from 64 numbers: x^n for n from 32 to 95, modulo the polynomial, with
 * the highest power in the lowest bit. */
#define ENTRY(byte, b0, b1, b2, b3, b4, b5, b6, b7)                                              \
    (((byte)&1 ? b0 : 0u) ^ ((byte)&2 ? b1 : 0u) ^ ((byte)&4 ? b2 : 0u) ^ ((byte)&8 ? b3 : 0u) ^ \
     ((byte)&16 ? b4 : 0u) ^ ((byte)&32 ? b5 : 0u) ^ ((byte)&64 ? b6 : 0u) ^                     \
     ((byte)&128 ? b7 : 0u))
#define ENTRIES_4(byte, ...)                                                                  \
    ENTRY(byte, __VA_ARGS__), ENTRY((byte) + 1, __VA_ARGS__), ENTRY((byte) + 2, __VA_ARGS__), \
        ENTRY((byte) + 3, __VA_ARGS__)
#define ENTRIES_16(byte, ...)                                         \
    ENTRIES_4(byte, __VA_ARGS__), ENTRIES_4((byte) + 4, __VA_ARGS__), \
        ENTRIES_4((byte) + 8, __VA_ARGS__), ENTRIES_4((byte) + 12, __VA_ARGS__)
#define ENTRIES_64(byte, ...)                                            \
    ENTRIES_16(byte, __VA_ARGS__), ENTRIES_16((byte) + 16, __VA_ARGS__), \
        ENTRIES_16((byte) + 32, __VA_ARGS__), ENTRIES_16((byte) + 48, __VA_ARGS__)
#define TABLE(...)                                                                             \
    {                                                                                          \
        ENTRIES_64(0, __VA_ARGS__), ENTRIES_64(64, __VA_ARGS__), ENTRIES_64(128, __VA_ARGS__), \
            ENTRIES_64(192, __VA_ARGS__)                                                       \
    }

static const uint32_t tables[8][256] = {
    TABLE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu, 0x417b1dbcu,
          0x82f63b78u),
    TABLE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u, 0xff17c604u,
          0xfbc3faf9u),
    TABLE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u, 0xc76580d9u,
          0x8b277743u),
    TABLE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu, 0xaba65fe7u,
          0x52a0c93fu),
    TABLE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u, 0x37516aaeu,
          0x6ea2d55cu),
    TABLE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du, 0x0e045bebu,
          0x1c08b7d6u),
    TABLE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu, 0x7ab7077au,
          0xf56e0ef4u),
    TABLE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u, 0x1a00cb32u,
          0x34019664u),
};

static uint32_t word_at(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint32_t crc32c_by_tables(uint32_t so_far, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint32_t crc = ~so_far;
    for (; bytes >= 8; bytes -= 8, next += 8) {
        const uint32_t low = crc ^ word_at(next), high = word_at(next + 4);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
              tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
    }
    for (; bytes > 0; bytes--) crc = crc >> 8 ^ tables[0][(crc ^ *next++) & 255];
    return ~crc;
}

uint32_t crc32c(uint32_t so_far, const void *data, size_t bytes)
{
    return crc32c_has_instructions() ? crc32c_by_instructions(so_far, data, bytes)
                                     : crc32c_by_tables(so_far, data, bytes);
}
