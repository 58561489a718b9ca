/* codec_vector_x86.h - the operations that codec_vector.inc needs, for vectors of 32 bytes (AVX2) and
 * of 64 bytes (AVX-512 F, BW, VL, DQ). */
#ifndef TUTTI_ENCODING_CODEC_VECTOR_X86_H
#define TUTTI_ENCODING_CODEC_VECTOR_X86_H

#include <immintrin.h>

/* Two codes lie in 16 bits: the first one, and 16 times the second one. */
KERNEL_INLINE void store_nibbles(unsigned char *to, codes group)
{
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)group, _mm256_set1_epi16(0x1001));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128((__m128i *)to, bytes);
}

KERNEL_INLINE codes load_nibbles(const unsigned char *from)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)from);
    const __m256i wide = _mm256_cvtepu8_epi16(bytes);
    const __m256i both = _mm256_or_si256(wide, _mm256_slli_epi16(wide, 4));
    return (codes)_mm256_and_si256(both, _mm256_set1_epi8(0xf));
}

#if VECTOR_BYTES == 64
KERNEL_INLINE uint32_t largest_lane(vector_int32 a)
{
    return (uint32_t)_mm512_reduce_max_epi32((__m512i)a);
}

KERNEL_INLINE codes narrow_codes(const vector_int32 *lanes)
{
    const __m128i low = _mm512_cvtepi32_epi8((__m512i)lanes[0]),
                  high = _mm512_cvtepi32_epi8((__m512i)lanes[1]);
    return (codes)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

KERNEL_INLINE void widen_codes(vector_int32 *lanes, codes group)
{
    lanes[0] = (vector_int32)_mm512_cvtepi8_epi32(_mm256_castsi256_si128((__m256i)group));
    lanes[1] = (vector_int32)_mm512_cvtepi8_epi32(_mm256_extracti128_si256((__m256i)group, 1));
}

KERNEL_INLINE vector_int16 upper_halves(vector_int32 a, vector_int32 b)
{
    const __m256i low = _mm512_cvtepi32_epi16((__m512i)(a >> 16)),
                  high = _mm512_cvtepi32_epi16((__m512i)(b >> 16));
    return join((half_int16)low, (half_int16)high);
}

KERNEL_INLINE vector_int32 widen_words(half_int16 a)
{
    return (vector_int32)_mm512_cvtepu16_epi32((__m256i)a);
}
#else
KERNEL_INLINE uint32_t largest_lane(vector_int32 a)
{
    __m128i most =
        _mm_max_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(most);
}

/* Packing goes within halves of vectors, so quarters have to be put in order again. */
KERNEL_INLINE codes narrow_codes(const vector_int32 *lanes)
{
    const __m256i low = _mm256_packs_epi32((__m256i)lanes[0], (__m256i)lanes[1]),
                  high = _mm256_packs_epi32((__m256i)lanes[2], (__m256i)lanes[3]);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return (codes)_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

KERNEL_INLINE void widen_codes(vector_int32 *lanes, codes group)
{
    const __m128i low = _mm256_castsi256_si128((__m256i)group),
                  high = _mm256_extracti128_si256((__m256i)group, 1);
    lanes[0] = (vector_int32)_mm256_cvtepi8_epi32(low);
    lanes[1] = (vector_int32)_mm256_cvtepi8_epi32(_mm_srli_si128(low, 8));
    lanes[2] = (vector_int32)_mm256_cvtepi8_epi32(high);
    lanes[3] = (vector_int32)_mm256_cvtepi8_epi32(_mm_srli_si128(high, 8));
}

KERNEL_INLINE vector_int16 upper_halves(vector_int32 a, vector_int32 b)
{
    const __m256i both = _mm256_packus_epi32((__m256i)(a >> 16), (__m256i)(b >> 16));
    return (vector_int16)_mm256_permute4x64_epi64(both, 0xd8);
}

KERNEL_INLINE vector_int32 widen_words(half_int16 a)
{
    return (vector_int32)_mm256_cvtepu16_epi32((__m128i)a);
}
#endif

#endif
