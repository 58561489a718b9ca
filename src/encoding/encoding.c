#include "encoding/encoding.h"

#include <assert.h>

#include "encoding/codec.h"

/* The dtypes that can be encoded. */
#define FOR_DTYPES(X, ...)         \
    X(TUTTI_FLOAT32, __VA_ARGS__)  \
    X(TUTTI_BFLOAT16, __VA_ARGS__) \
    X(TUTTI_FLOAT16, __VA_ARGS__)

struct entry {
    struct kernel_encoding format; /* first: encoding_of hands out its address */
    enum tutti_encoding encoding;
    enum tutti_dtype dtype;
};

/* Ids are "encoding" in ASCII with the last two bytes replaced. */
#define ID(encoding, dtype) (0x656e636f64690000u | (uint64_t)(encoding) << 8 | (uint64_t)(dtype))
#define ENTRY(dtype, enumerator, name, elements, bytes) \
    [enumerator][dtype] = {{#name, ID(enumerator, dtype), elements, bytes}, enumerator, dtype},
#define X(enumerator, name, elements, bytes, ...) \
    FOR_DTYPES(ENTRY, enumerator, name, elements, bytes)
static const struct entry entries[ENCODING_COUNT][DTYPE_COUNT] = {ENCODING_LIST(X)};
#undef X

const struct kernel_encoding *encoding_of(enum tutti_encoding encoding, enum tutti_dtype dtype)
{
    assert(encoding_is_valid(encoding) && dtype_is_valid(dtype));
    return encoding_takes(encoding, dtype) ? &entries[encoding][dtype].format : NULL;
}

static const struct entry *entry_of(const struct kernel_encoding *encoding)
{
    return (const struct entry *)encoding;
}

enum tutti_encoding encoding_named(const struct kernel_encoding *encoding)
{
    return entry_of(encoding)->encoding;
}

const struct codec_table *codec_table_of(enum kernel_level level)
{
    switch (level) {
#if defined(__x86_64__)
    case KERNEL_AVX2: return &codec_table_avx2;
    case KERNEL_AVX512: return &codec_table_avx512;
#elif defined(__aarch64__)
    case KERNEL_NEON: return &codec_table_neon;
#endif
    default: return &codec_table_scalar;
    }
}

/* ----------------------------------------------------------------------------- 16-bit elements
 *
 * Codecs know float32. 16-bit elements become float32 and back in blocks that stay in the first
 * cache. */

enum { BLOCK_ELEMENTS = 1024 }; /* whole units of every encoding */

static size_t block_of(size_t count)
{
    return count < BLOCK_ELEMENTS ? count : BLOCK_ELEMENTS;
}

static const struct encoding_codec *widening(const struct encoding_codec *codecs,
                                             enum tutti_dtype dtype)
{
    return &codecs[dtype == TUTTI_BFLOAT16 ? TUTTI_ENCODING_BFLOAT16 : TUTTI_ENCODING_FLOAT16];
}

void encoding_encode(enum kernel_level level, const struct kernel_encoding *encoding,
                     const void *elements, size_t count, void *encoded)
{
    const struct entry *const entry = entry_of(encoding);
    const struct encoding_codec *const codecs = codec_table_of(level)->codecs;
    if (entry->dtype == TUTTI_FLOAT32) {
        codecs[entry->encoding].encode(encoded, elements, count);
        return;
    }
    _Alignas(64) unsigned char wide[BLOCK_ELEMENTS * SIZE_float32];
    const unsigned char *from = elements;
    unsigned char *to = encoded;
    for (size_t block; count > 0; count -= block) {
        block = block_of(count);
        widening(codecs, entry->dtype)->decode(wide, from, block);
        codecs[entry->encoding].encode(to, wide, block);
        from += block * dtype_size(entry->dtype);
        to += kernel_encoded_bytes(encoding, block);
    }
}

void encoding_decode(enum kernel_level level, const struct kernel_encoding *encoding,
                     const void *encoded, size_t count, void *elements)
{
    const struct entry *const entry = entry_of(encoding);
    const struct encoding_codec *const codecs = codec_table_of(level)->codecs;
    if (entry->dtype == TUTTI_FLOAT32) {
        codecs[entry->encoding].decode(elements, encoded, count);
        return;
    }
    _Alignas(64) unsigned char wide[BLOCK_ELEMENTS * SIZE_float32];
    const unsigned char *from = encoded;
    unsigned char *to = elements;
    for (size_t block; count > 0; count -= block) {
        block = block_of(count);
        codecs[entry->encoding].decode(wide, from, block);
        widening(codecs, entry->dtype)->encode(to, wide, block);
        from += kernel_encoded_bytes(encoding, block);
        to += block * dtype_size(entry->dtype);
    }
}

void encoding_encode_residual(enum kernel_level level, const struct kernel_encoding *encoding,
                              const void *elements, size_t count, void *encoded, void *residual)
{
    const struct entry *const entry = entry_of(encoding);
    const struct codec_table *const table = codec_table_of(level);
    const struct encoding_codec *const codec = &table->codecs[entry->encoding];
    const bool is_wide = entry->dtype == TUTTI_FLOAT32;
    _Alignas(64) unsigned char wide[BLOCK_ELEMENTS * SIZE_float32],
        decoded[BLOCK_ELEMENTS * SIZE_float32];
    const unsigned char *from = elements;
    unsigned char *to = encoded, *rest = residual;
    for (size_t block; count > 0; count -= block) {
        block = block_of(count);
        const size_t bytes = block * dtype_size(entry->dtype);
        if (!is_wide) widening(table->codecs, entry->dtype)->decode(wide, from, block);
        const unsigned char *const numbers = is_wide ? from : wide;
        codec->encode(to, numbers, block);
        codec->decode(decoded, to, block);
        table->subtract(is_wide ? rest : decoded, numbers, decoded, block);
        if (!is_wide) widening(table->codecs, entry->dtype)->encode(rest, decoded, block);
        from += bytes, rest += bytes;
        to += kernel_encoded_bytes(encoding, block);
    }
}
