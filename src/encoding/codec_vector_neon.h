/* codec_vector_neon.h - the operations that codec_vector.inc needs, for the vectors of 16 bytes that
 * every 64-bit Arm has. */
#ifndef TUTTI_ENCODING_CODEC_VECTOR_NEON_H
#define TUTTI_ENCODING_CODEC_VECTOR_NEON_H

#include <arm_neon.h>

KERNEL_INLINE uint32_t largest_lane(vector_int32 a)
{
    return (uint32_t)vmaxvq_s32((int32x4_t)a);
}

KERNEL_INLINE codes narrow_codes(const vector_int32 *lanes)
{
    int8x16_t parts[2];
    for (int part = 0; part < 2; part++, lanes += 4) {
        const int16x8_t low =
            vcombine_s16(vmovn_s32((int32x4_t)lanes[0]), vmovn_s32((int32x4_t)lanes[1]));
        const int16x8_t high =
            vcombine_s16(vmovn_s32((int32x4_t)lanes[2]), vmovn_s32((int32x4_t)lanes[3]));
        parts[part] = vcombine_s8(vmovn_s16(low), vmovn_s16(high));
    }
    codes group;
    memcpy(&group, parts, sizeof(group));
    return group;
}

KERNEL_INLINE void widen_codes(vector_int32 *lanes, codes group)
{
    for (int part = 0; part < 2; part++, lanes += 4) {
        int8x16_t bytes;
        memcpy(&bytes, (const unsigned char *)&group + part * sizeof(bytes), sizeof(bytes));
        const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
        lanes[0] = (vector_int32)vmovl_s16(vget_low_s16(low));
        lanes[1] = (vector_int32)vmovl_s16(vget_high_s16(low));
        lanes[2] = (vector_int32)vmovl_s16(vget_low_s16(high));
        lanes[3] = (vector_int32)vmovl_s16(vget_high_s16(high));
    }
}

KERNEL_INLINE void store_nibbles(unsigned char *to, codes group)
{
    const uint8x16x2_t parts = vld2q_u8((const unsigned char *)&group); /* even codes, odd codes */
    vst1q_u8(to, vorrq_u8(parts.val[0], vshlq_n_u8(parts.val[1], 4)));
}

KERNEL_INLINE codes load_nibbles(const unsigned char *from)
{
    const uint8x16_t bytes = vld1q_u8(from);
    const uint8x16_t first = vandq_u8(bytes, vdupq_n_u8(0xf)), second = vshrq_n_u8(bytes, 4);
    const uint8x16x2_t parts = {{vzip1q_u8(first, second), vzip2q_u8(first, second)}};
    codes group;
    memcpy(&group, &parts, sizeof(group));
    return group;
}

KERNEL_INLINE vector_int16 upper_halves(vector_int32 a, vector_int32 b)
{
    return (vector_int16)vuzp2q_u16((uint16x8_t)a, (uint16x8_t)b);
}

KERNEL_INLINE vector_int32 widen_words(half_int16 a)
{
    return (vector_int32)vmovl_u16((uint16x4_t)a);
}

#endif
