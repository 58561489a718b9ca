#include "sparse_index.h"

#include <assert.h>
#include <string.h>

/* Bytes of an entry of a list. */
static size_t entry_bytes(uint64_t range)
{
    return range <= UINT64_C(1) << 16 ? 2 : range <= UINT64_C(1) << 32 ? 4 : 8;
}

static bool is_empty(size_t count, uint64_t range)
{
    return count == 0 || count == range;
}

static uint64_t bitmap_bytes(uint64_t range)
{
    return range / 8 + (range % 8 != 0);
}

/* Whether the code is a bitmap. */
static bool is_bitmap(size_t count, uint64_t range)
{
    return bitmap_bytes(range) / entry_bytes(range) < count;
}

size_t sparse_index_bytes(size_t count, uint64_t range)
{
    if (is_empty(count, range)) return 0;
    return is_bitmap(count, range) ? (size_t)bitmap_bytes(range) : count * entry_bytes(range);
}

#define LISTS(bits)                                                                                \
    static void encode_##bits(const int64_t *indices, size_t count, int64_t first,                 \
                              unsigned char *code)                                                 \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            const uint##bits##_t entry = (uint##bits##_t)((uint64_t)indices[i] - (uint64_t)first); \
            memcpy(code + i * sizeof entry, &entry, sizeof entry);                                 \
        }                                                                                          \
    }                                                                                              \
    static bool decode_##bits(const unsigned char *code, size_t count, int64_t first,              \
                              uint64_t range, int64_t *indices)                                    \
    {                                                                                              \
        uint64_t least = 0;                                                                        \
        bool is_good = true;                                                                       \
        for (size_t i = 0; i < count; i++) {                                                       \
            uint##bits##_t entry;                                                                  \
            memcpy(&entry, code + i * sizeof entry, sizeof entry);                                 \
            is_good &= entry >= least && entry < range;                                            \
            indices[i] = (int64_t)((uint64_t)first + entry);                                       \
            least = (uint64_t)entry + 1;                                                           \
        }                                                                                          \
        return is_good;                                                                            \
    }
LISTS(16)
LISTS(32)
LISTS(64)
#undef LISTS

static void encode_bitmap(const int64_t *indices, size_t count, int64_t first, uint64_t range,
                          unsigned char *code)
{
    memset(code, 0, (size_t)bitmap_bytes(range));
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = (uint64_t)(indices[i] - first);
        code[at / 8] |= (unsigned char)(1u << at % 8);
    }
}

/* Up to 8 bytes, of which the first has the low bits. */
static uint64_t word_at(const unsigned char *code, uint64_t bytes)
{
    unsigned char whole[8] = {0};
    uint64_t word = 0;
    memcpy(whole, code, bytes < sizeof whole ? (size_t)bytes : sizeof whole);
    for (unsigned i = sizeof whole; i-- > 0;) word = word << 8 | whole[i];
    return word;
}

static bool decode_bitmap(const unsigned char *code, size_t count, int64_t first, uint64_t range,
                          int64_t *indices)
{
    const uint64_t bytes = bitmap_bytes(range);
    size_t found = 0;
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        for (uint64_t word = word_at(code + at, bytes - at); word != 0; word &= word - 1) {
            const uint64_t row = at * 8 + (unsigned)__builtin_ctzll(word);
            if (found == count || row >= range) return false;
            indices[found++] = (int64_t)((uint64_t)first + row);
        }
    }
    return found == count;
}

void sparse_index_encode(const int64_t *indices, size_t count, int64_t first, uint64_t range,
                         unsigned char *code)
{
    assert(count <= range);
    if (is_empty(count, range)) return;
    if (is_bitmap(count, range))
        encode_bitmap(indices, count, first, range, code);
    else if (entry_bytes(range) == 2)
        encode_16(indices, count, first, code);
    else if (entry_bytes(range) == 4)
        encode_32(indices, count, first, code);
    else
        encode_64(indices, count, first, code);
}

bool sparse_index_decode(const unsigned char *code, size_t count, int64_t first, uint64_t range,
                         int64_t *indices)
{
    if (count > range) return false;
    if (is_empty(count, range)) {
        for (size_t i = 0; i < count; i++) indices[i] = (int64_t)((uint64_t)first + i);
        return true;
    }
    if (is_bitmap(count, range)) return decode_bitmap(code, count, first, range, indices);
    if (entry_bytes(range) == 2) return decode_16(code, count, first, range, indices);
    if (entry_bytes(range) == 4) return decode_32(code, count, first, range, indices);
    return decode_64(code, count, first, range, indices);
}
