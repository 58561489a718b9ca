/* kernel_vector_x86.h - the operations that kernel_vector.h needs, for vectors of 32 bytes (AVX2,
 * F16C) and of 64 bytes (AVX-512 F, BW, VL, DQ).
 *
 * Mnemonics are the same for both widths: the operands' type decides.
 */
#ifndef TUTTI_KERNEL_KERNEL_VECTOR_X86_H
#define TUTTI_KERNEL_KERNEL_VECTOR_X86_H

#include <immintrin.h>

/* A store past the caches; `to` is aligned to the vector's size. */
#define STREAM(to, vector) \
    __asm__("vmovntdq %1, %0" : "=m"(*(unsigned char(*)[sizeof(vector)])(to)) : "v"(vector))

#define ORDERED(name, vector, instruction)                                  \
    KERNEL_INLINE vector name(vector a, vector b)                           \
    {                                                                       \
        vector result;                                                      \
        __asm__(instruction " %2, %1, %0" : "=v"(result) : "v"(a), "v"(b)); \
        return result;                                                      \
    }
/* min and max give their second operand for NaN and for two zeros: exactly a < b ? a : b. */
#define ORDERED_FLOAT(dtype, suffix)                          \
    ORDERED(add_##dtype, vector_##dtype, "vadd" suffix)       \
    ORDERED(multiply_##dtype, vector_##dtype, "vmul" suffix)  \
    ORDERED(divide_by_##dtype, vector_##dtype, "vdiv" suffix) \
    ORDERED(min_##dtype, vector_##dtype, "vmin" suffix)       \
    ORDERED(max_##dtype, vector_##dtype, "vmax" suffix)
ORDERED_FLOAT(float32, "ps")
ORDERED_FLOAT(float64, "pd")
#undef ORDERED_FLOAT

#define ORDERED_INTEGER(bits, suffix)                           \
    ORDERED(min_int##bits, vector_int##bits, "vpmins" suffix)   \
    ORDERED(max_int##bits, vector_int##bits, "vpmaxs" suffix)   \
    ORDERED(min_uint##bits, vector_uint##bits, "vpminu" suffix) \
    ORDERED(max_uint##bits, vector_uint##bits, "vpmaxu" suffix)
ORDERED_INTEGER(8, "b")
ORDERED_INTEGER(16, "w")
ORDERED_INTEGER(32, "d")
#if VECTOR_BYTES == 64
ORDERED_INTEGER(64, "q")
#else
KERNEL_INLINE vector_int64 min_int64(vector_int64 a, vector_int64 b)
{
    return SELECT((vector_int64)((vector_signed64)a < (vector_signed64)b), a, b);
}
KERNEL_INLINE vector_int64 max_int64(vector_int64 a, vector_int64 b)
{
    return SELECT((vector_int64)((vector_signed64)a > (vector_signed64)b), a, b);
}
KERNEL_INLINE vector_uint64 min_uint64(vector_uint64 a, vector_uint64 b)
{
    return SELECT((vector_uint64)(a < b), a, b);
}
KERNEL_INLINE vector_uint64 max_uint64(vector_uint64 a, vector_uint64 b)
{
    return SELECT((vector_uint64)(a > b), a, b);
}
#endif
#undef ORDERED_INTEGER
#undef ORDERED

KERNEL_INLINE vector_float32 widen_float16(half_int16 a)
{
    vector_float32 result;
    __asm__("vcvtph2ps %1, %0" : "=v"(result) : "vm"(a));
    return result;
}
KERNEL_INLINE half_int16 narrow_float16(vector_float32 a)
{
    half_int16 result;
    __asm__("vcvtps2ph $0, %1, %0"
            : "=v"(result)
            : "v"(a)); /* 0: to nearest even, whatever the mode */
    return result;
}

#if VECTOR_BYTES == 64
KERNEL_INLINE vector_int16 join(half_int16 low, half_int16 high)
{
    return (vector_int16)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1);
}
KERNEL_INLINE half_int16 low_half(vector_int16 a)
{
    return (half_int16)_mm512_castsi512_si256((__m512i)a);
}
KERNEL_INLINE half_int16 high_half(vector_int16 a)
{
    return (half_int16)_mm512_extracti64x4_epi64((__m512i)a, 1);
}
KERNEL_INLINE vector_int16 widen_bytes(half_int8 a)
{
    return (vector_int16)_mm512_cvtepu8_epi16((__m256i)a);
}
KERNEL_INLINE half_int8 narrow_bytes(vector_int16 a)
{
    return (half_int8)_mm512_cvtepi16_epi8((__m512i)a);
}
KERNEL_INLINE bool any_nan(vector_float32 a, vector_float32 b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_UNORD_Q) != 0;
}
/* Out of line: the address sanitizer takes every lane for an access of its own. */
static __attribute__((noinline, unused)) void part_read(void *vector, const unsigned char *from,
                                                        size_t bytes, size_t size)
{
    const __m512i part = _mm512_maskz_loadu_epi8((1ull << bytes) - 1, from);
    if (size == 64)
        _mm512_storeu_si512(vector, part);
    else
        _mm256_storeu_si256(vector, _mm512_castsi512_si256(part));
}
static __attribute__((noinline, unused)) void part_write(unsigned char *to, const void *vector,
                                                         size_t bytes, size_t size)
{
    const __m512i part = size == 64 ? _mm512_loadu_si512(vector)
                                    : _mm512_castsi256_si512(_mm256_loadu_si256(vector));
    _mm512_mask_storeu_epi8(to, (1ull << bytes) - 1, part);
}
#else
KERNEL_INLINE vector_int16 join(half_int16 low, half_int16 high)
{
    return (vector_int16)_mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)low),
                                                 (__m128i)high, 1);
}
KERNEL_INLINE half_int16 low_half(vector_int16 a)
{
    return (half_int16)_mm256_castsi256_si128((__m256i)a);
}
KERNEL_INLINE half_int16 high_half(vector_int16 a)
{
    return (half_int16)_mm256_extracti128_si256((__m256i)a, 1);
}
KERNEL_INLINE vector_int16 widen_bytes(half_int8 a)
{
    return (vector_int16)_mm256_cvtepu8_epi16((__m128i)a);
}
KERNEL_INLINE half_int8 narrow_bytes(vector_int16 a)
{
    return (half_int8)_mm_packus_epi16((__m128i)low_half(a), (__m128i)high_half(a));
}
KERNEL_INLINE bool any_nan(vector_float32 a, vector_float32 b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q)) != 0;
}
static __attribute__((noinline, unused)) void part_read(void *vector, const unsigned char *from,
                                                        size_t bytes, size_t size)
{
    memset(vector, 0, size);
    memcpy(vector, from, bytes);
}
static __attribute__((noinline, unused)) void part_write(unsigned char *to, const void *vector,
                                                         size_t bytes, size_t size)
{
    (void)size;
    memcpy(to, vector, bytes);
}
#endif

KERNEL_INLINE void copy_block(unsigned char *to, const unsigned char *from, int vectors)
{
    vector_int64 a[16];
#pragma GCC unroll 16
    for (int k = 0; k < vectors; k++) memcpy(&a[k], from + k * VECTOR_BYTES, VECTOR_BYTES);
#pragma GCC unroll 16
    for (int k = 0; k < vectors; k++) STREAM(to + k * VECTOR_BYTES, a[k]);
}

/* Copies with stores past the caches, whole cache lines at a time; the caller fences. */
static __attribute__((unused)) void copy_past_caches(void *destination, const void *source,
                                                     size_t bytes)
{
    enum { ROW = 256, BLOCK = 512, LINE = 64 };
    unsigned char *to = destination;
    const unsigned char *from = source;
    const size_t head = -(uintptr_t)to % LINE;
    if (bytes < head + BLOCK) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    to += head, from += head, bytes -= head;
    const size_t paged = kernel_streams_by_pages() ? bytes / PAGES_BYTES * PAGES_BYTES : 0;
    for (size_t done = 0; done < paged; done += PAGES * ROW) {
        const size_t row = row_of_pages(done);
        for (size_t offset = row; offset < row + PAGES_BYTES; offset += PAGE_BYTES)
            copy_block(to + offset, from + offset, ROW / VECTOR_BYTES);
    }
    to += paged, from += paged, bytes -= paged;
    for (; bytes >= BLOCK; to += BLOCK, from += BLOCK, bytes -= BLOCK)
        copy_block(to, from, BLOCK / VECTOR_BYTES);
    for (; bytes >= LINE; to += LINE, from += LINE, bytes -= LINE)
        copy_block(to, from, LINE / VECTOR_BYTES);
    memcpy(to, from, bytes);
}

#endif
